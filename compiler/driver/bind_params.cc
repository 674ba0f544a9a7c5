#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "compiler/driver/params.h"
#include "compiler/ir/walk.h"

namespace rvm::driver {
namespace {

using diagnostics::DiagnosticKind;

// What a tensor's name becomes as the name of a variable: "encoder.0.w" -> "encoder_0_w".
std::string AsIdentifier(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return result;
}

struct Candidate {
  const ParamFile* file;
  std::string_view name;
  const Literal* tensor;  // null if unreadable
};

class Binder {
 public:
  Binder(std::span<const ParamFile> files, diagnostics::Diagnostics& diagnostics)
      : files_(files), diagnostics_(diagnostics) {
    for (const ParamFile& file : files) {
      for (const auto& [name, tensor] : file.tensors) Add({&file, name, &tensor});
      for (const auto& [name, why] : file.unreadable) Add({&file, name, nullptr});
    }
  }

  // The tensor for `var`; null after an error was reported.
  const Literal* Find(const ir::Var* var) {
    std::vector<Candidate> found;
    for (const Candidate& candidate : by_identifier_[AsIdentifier(var->name)]) {
      if (candidate.name == var->name) found.push_back(candidate);
    }
    if (found.empty()) found = by_identifier_[AsIdentifier(var->name)];
    if (found.empty()) {
      ReportUnbound(var);
      return nullptr;
    }
    if (found.size() > 1) {
      diagnostics_.Error(var->span, DiagnosticKind::kAmbiguousWeight,
                         absl::StrCat("`%", var->name, "` may be `", Text(found[0].name), "` of ", found[0].file->path,
                                      " or `", Text(found[1].name), "` of ", found[1].file->path));
      return nullptr;
    }
    const Candidate& candidate = found[0];
    used_.insert({candidate.file, candidate.name});
    if (candidate.tensor == nullptr) {
      diagnostics_.Error(
          var->span, DiagnosticKind::kUnreadableWeight,
          absl::StrCat(Where(candidate), " cannot be read: ", candidate.file->unreadable.find(candidate.name)->second));
      return nullptr;
    }
    return Fits(candidate, var) ? candidate.tensor : nullptr;
  }

  std::vector<std::string> Unused() const {
    std::vector<std::string> names;
    for (const ParamFile& file : files_) {
      for (const auto& [name, tensor] : file.tensors) {
        if (!used_.contains({&file, name})) names.push_back(name);
      }
    }
    return names;
  }

 private:
  static absl::string_view Text(std::string_view text) { return {text.data(), text.size()}; }
  static std::string Where(const Candidate& candidate) {
    return absl::StrCat("tensor `", Text(candidate.name), "` of ", candidate.file->path);
  }

  void Add(Candidate candidate) {
    names_.push_back(candidate.name);
    std::string identifier = AsIdentifier(candidate.name);
    by_identifier_[std::move(identifier)].push_back(candidate);
  }

  void ReportUnbound(const ir::Var* var) {
    std::string message = absl::StrCat("`%", var->name, "` has no weight");
    if (files_.empty()) {
      absl::StrAppend(&message, "; give a file that holds it with `--params`");
    } else {
      absl::StrAppend(&message, ": ", files_[0].path,
                      files_.size() == 1 ? "" : absl::StrCat(" and ", files_.size() - 1, " more"),
                      files_.size() == 1 ? " has" : " have", " no tensor of that name");
      std::string_view nearest = NearestName(var->name, names_);
      if (!nearest.empty()) absl::StrAppend(&message, "; did you mean `", Text(nearest), "`?");
    }
    diagnostics_.Error(var->span, DiagnosticKind::kMissingWeight, std::move(message));
  }

  bool Fits(const Candidate& candidate, const ir::Var* var) {
    if (var->annotation == nullptr) return true;
    const Literal& tensor = *candidate.tensor;
    std::string seen = absl::StrCat("Tensor[", ShapeToString(tensor.shape()), ", ", tensor.dtype().ToString(), "]");
    std::string expected = ir::TypeToString(var->annotation);
    const auto* type = ir::DynCast<ir::TensorType>(var->annotation);
    DiagnosticKind kind = DiagnosticKind::kWeightNotTensor;
    bool fits = type != nullptr;
    if (fits && type->dtype.is_concrete() && type->dtype.dtype != tensor.dtype()) {
      kind = DiagnosticKind::kWeightDTypeMismatch;
      fits = false;
    } else if (fits && type->shape.is_dims()) {
      kind = DiagnosticKind::kWeightShapeMismatch;
      fits = type->shape.dims.size() == tensor.shape().size();
      for (size_t i = 0; fits && i < tensor.shape().size(); ++i) {
        std::optional<int64_t> extent = type->shape.dims[i].AsConst();
        fits = !extent || *extent == tensor.shape()[i];
      }
    }
    if (fits || var->annotation->type_kind == ir::TypeKind::kHole) return true;
    diagnostics_.Error(
        var->span, kind,
        absl::StrCat(Where(candidate), " has type `", seen, "`; `%", var->name, "` expects `", expected, "`"));
    return false;
  }

  std::span<const ParamFile> files_;
  diagnostics::Diagnostics& diagnostics_;
  absl::flat_hash_map<std::string, std::vector<Candidate>> by_identifier_;
  std::vector<std::string_view> names_;
  std::set<std::pair<const ParamFile*, std::string_view>> used_;
};

using Bindings = absl::flat_hash_map<const ir::Var*, const Literal*>;

void Replace(ir::Arena& arena, ir::Function* function, const Bindings& bindings) {
  std::vector<ir::Expr**> places = {&function->body};
  while (!places.empty()) {
    ir::Expr** place = places.back();
    places.pop_back();
    if (const auto* var = ir::DynCast<ir::VarExpr>(*place)) {
      auto it = bindings.find(var->var);
      if (it == bindings.end()) continue;
      auto* constant = arena.New<ir::Constant>(*it->second, var->span);
      constant->name = var->var->name;
      *place = constant;
    } else {
      ir::ForEachChild(*place, [&](ir::Expr*& child) { places.push_back(&child); });
    }
  }
}

}  // namespace

bool BindParams(ir::Module& module, std::span<const ParamFile> files, diagnostics::Diagnostics& diagnostics,
                std::vector<std::string>* unused) {
  int errors = diagnostics.errors();
  Binder binder(files, diagnostics);
  Bindings bindings;
  for (const ir::Var* var : module.free_vars) {
    const Literal* tensor = binder.Find(var);
    if (tensor != nullptr) bindings.emplace(var, tensor);
  }
  if (unused != nullptr) *unused = binder.Unused();
  if (diagnostics.errors() != errors) return false;
  if (!bindings.empty()) {
    for (ir::GlobalFunction& global : module.functions) Replace(*module.arena, global.function, bindings);
  }
  module.free_vars.clear();
  return true;
}

}  // namespace rvm::driver
