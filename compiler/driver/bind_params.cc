#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "compiler/driver/params.h"
#include "compiler/ir/walk.h"

namespace rvm::driver {
namespace {

using diagnostics::DiagnosticKind;

// Returns the name of a tensor as an identifier: "encoder.0.w" -> "encoder_0_w".
std::string AsIdentifier(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return result;
}

std::string Declaration(std::string_view name, const Literal& tensor) {
  return absl::StrCat("free_var %", Abseil(name), ": Tensor[", ShapeToString(tensor.shape()), ", ",
                      tensor.dtype().ToString(), "];");
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

  // Returns true if a file whose tensors are for parameters of `@main`, too, has one of the name of `var`.
  bool BindsParam(const ir::Var* var) const {
    auto found = by_identifier_.find(AsIdentifier(var->name));
    return found != by_identifier_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [](const Candidate& candidate) { return candidate.file->binds_main; });
  }

  // Returns the tensor for `var`; null after an error was reported.
  const Literal* Find(const ir::Var* var) {
    auto similar = by_identifier_.find(AsIdentifier(var->name));
    if (similar == by_identifier_.end()) {
      ReportUnbound(var);
      return nullptr;
    }
    std::vector<Candidate> found;
    for (const Candidate& candidate : similar->second) {
      if (candidate.name == var->name) found.push_back(candidate);
    }
    if (found.empty()) found = similar->second;
    if (found.size() > 1) {
      diagnostics_.Error(
          var->span, DiagnosticKind::kAmbiguousWeight,
          absl::StrCat("`%", var->name, "` may be `", Abseil(found[0].name), "` of ", found[0].file->path, " or `",
                       Abseil(found[1].name), "` of ", found[1].file->path));
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

  std::string DeclarationOf(const std::string& name) const {
    for (const ParamFile& file : files_) {
      auto found = file.tensors.find(name);
      if (found != file.tensors.end()) return Declaration(AsIdentifier(name), found->second);
    }
    return "";
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
  static std::string Where(const Candidate& candidate) {
    return absl::StrCat("tensor `", Abseil(candidate.name), "` of ", candidate.file->path);
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
      absl::StrAppend(&message, DidYouMean(var->name, names_));
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

// Named extents in the types of parameters of `@main` that the tensors bound to them determine.
class SolvedDims {
 public:
  SolvedDims(const ir::Function& function, diagnostics::Diagnostics& diagnostics)
      : function_(function), diagnostics_(diagnostics) {}

  // Binds the extents that `var` names to those of `tensor`. False after an error was reported: two tensors disagree.
  bool Add(const ir::Var& var, const Literal& tensor) {
    const auto* type = ir::DynCast<ir::TensorType>(var.annotation);
    if (type == nullptr || !type->shape.is_dims()) return true;
    for (size_t i = 0; i < type->shape.dims.size(); ++i) {
      const Dim& dim = type->shape.dims[i];
      for (const ir::TypeParam* param : function_.type_params) {
        if (dim != Dim::Var(param->id, param->name)) continue;
        auto [first, is_new] = found_.try_emplace(param, &var, tensor.shape()[i]);
        if (is_new || first->second.second == tensor.shape()[i]) continue;
        diagnostics_
            .Error(var.span, DiagnosticKind::kWeightShapeMismatch,
                   absl::StrCat("the tensor for `%", var.name, "` makes the extent `", param->name, "` ",
                                tensor.shape()[i], "; that for `%", first->second.first->name, "` makes it ",
                                first->second.second))
            .AddNote(first->second.first->span, "it is bound here");
        return false;
      }
    }
    return true;
  }

  // Replaces the names by the extents in every annotation of `function`.
  void Replace(ir::Arena& arena, ir::Function& function) const {
    if (found_.empty()) return;
    ir::TypeSubstitution substitution;
    for (const auto& [param, solved] : found_) {
      ir::TypeArg arg;
      arg.kind = ir::Kind::kShapeVar;
      arg.dim = Dim(solved.second);
      substitution.Add(param, arg);
    }
    std::erase_if(function.type_params, [&](const ir::TypeParam* param) { return found_.contains(param); });
    auto apply = [&](const ir::Type*& type) {
      if (type != nullptr) type = substitution.Apply(arena, type);
    };
    std::vector<ir::Expr*> open = {&function};
    while (!open.empty()) {
      ir::Expr* expr = open.back();
      open.pop_back();
      ForEachAnnotation(expr, apply);
      if (auto* call = ir::DynCast<ir::Call>(expr)) {
        for (ir::TypeArg& arg : call->explicit_type_args) arg = substitution.Apply(arena, arg);
      }
      ir::ForEachChild(expr, [&](ir::Expr*& child) { open.push_back(child); });
    }
  }

 private:
  template <typename F>
  static void ForEachAnnotation(ir::Expr* expr, F&& visit) {
    if (auto* function = ir::DynCast<ir::Function>(expr)) {
      for (ir::Var* param : function->params) visit(param->annotation);
      visit(function->result_annotation);
      for (ir::TypeConstraint& constraint : function->constraints) {
        for (const ir::Type*& arg : constraint.args) visit(arg);
      }
    } else if (auto* let = ir::DynCast<ir::Let>(expr)) {
      visit(let->var->annotation);
    } else if (auto* match = ir::DynCast<ir::Match>(expr)) {
      std::vector<const ir::Pattern*> open;
      for (const ir::Clause& clause : match->clauses) open.push_back(clause.pattern);
      while (!open.empty()) {
        const ir::Pattern* pattern = open.back();
        open.pop_back();
        if (pattern->var != nullptr) visit(pattern->var->annotation);
        open.insert(open.end(), pattern->fields.begin(), pattern->fields.end());
      }
    }
  }

  const ir::Function& function_;
  diagnostics::Diagnostics& diagnostics_;
  // The parameter whose tensor determined it first, and the extent.
  absl::flat_hash_map<const ir::TypeParam*, std::pair<const ir::Var*, int64_t>> found_;
};

bool MentionsMain(const ir::Module& module) {
  bool mentions = false;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::ForEachExpr(global.function->body, [&](const ir::Expr* expr) {
      const auto* callee = ir::DynCast<ir::GlobalExpr>(expr);
      mentions |= callee != nullptr && callee->name == "main";
      return !mentions;
    });
  }
  return mentions;
}

// Binds the parameters of `@main` that have a tensor of their name, and removes them.
void BindMain(ir::Module& module, Binder& binder, Bindings& bindings, diagnostics::Diagnostics& diagnostics,
              BoundWeights& weights) {
  const ir::GlobalFunction* global = module.FindFunction("main");
  if (global == nullptr) return;
  ir::Function& main = *global->function;
  auto is_named = [&](const ir::Var* param) { return binder.BindsParam(param); };
  if (std::none_of(main.params.begin(), main.params.end(), is_named)) return;
  if (weights.main_is_called = MentionsMain(module); weights.main_is_called) return;
  SolvedDims solved(main, diagnostics);
  for (ir::Var* param : main.params) {
    if (!is_named(param)) {
      weights.arguments.push_back(param->name);
      continue;
    }
    const Literal* tensor = binder.Find(param);
    if (tensor == nullptr || !solved.Add(*param, *tensor)) continue;
    bindings.emplace(param, tensor);
    weights.bound.push_back(param->name);
  }
  std::erase_if(main.params, [&](const ir::Var* param) { return bindings.contains(param); });
  solved.Replace(*module.arena, main);
}

}  // namespace

bool BindParams(ir::Module& module, std::span<const ParamFile> files, diagnostics::Diagnostics& diagnostics,
                BoundWeights* weights) {
  int errors = diagnostics.errors();
  Binder binder(files, diagnostics);
  Bindings bindings;
  BoundWeights bound;
  for (const ir::Var* var : module.free_vars) {
    const Literal* tensor = binder.Find(var);
    if (tensor != nullptr) bindings.emplace(var, tensor);
  }
  BindMain(module, binder, bindings, diagnostics, bound);
  bound.unused = binder.Unused();
  if (!bound.unused.empty()) bound.declaration = binder.DeclarationOf(bound.unused[0]);
  bound.any_used = !bindings.empty();
  if (weights != nullptr) *weights = std::move(bound);
  if (diagnostics.errors() != errors) return false;
  if (!bindings.empty()) {
    for (ir::GlobalFunction& global : module.functions) Replace(*module.arena, global.function, bindings);
  }
  module.free_vars.clear();
  return true;
}

std::string HowToDeclare(std::string_view name, std::span<const ParamFile> files) {
  std::vector<std::string_view> names;
  for (const ParamFile& file : files) {
    for (const auto& [other, tensor] : file.tensors) names.push_back(other);
  }
  std::string identifier = AsIdentifier(name);
  auto same = std::find_if(names.begin(), names.end(), [&](auto other) { return AsIdentifier(other) == identifier; });
  std::string_view near = same != names.end() ? *same : NearestName(name, names);
  if (near.empty()) return "";
  auto has = [&](const ParamFile& file) { return file.tensors.contains(near); };
  auto file = std::find_if(files.begin(), files.end(), has);
  return absl::StrCat("`",
                      Declaration(same != names.end() ? name : AsIdentifier(near), file->tensors.find(near)->second),
                      "` declares the tensor `", Abseil(near), "` of ", file->path);
}

}  // namespace rvm::driver
