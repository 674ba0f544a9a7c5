#include "compiler/import/frame/frame.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/random_numbers.h"

namespace rvm::importing {
namespace {

constexpr int64_t kConversionsOfNode = 100;  // on average

}  // namespace

Frame::Frame(const ImportOptions& options) : options_(options), emit_(builder_) {}

void Frame::CountNode(std::string_view op) {
  budget_ += kConversionsOfNode;
  if (options_.coverage != nullptr) ++(*options_.coverage)[std::string(op)].nodes;
}

absl::StatusOr<ImportedModel> Frame::Import() {
  absl::StatusOr<ImportedModel> result = ImportModel();
  if (options_.coverage != nullptr) refusals_.AddTo(*options_.coverage);
  if (!result.ok()) return Readable(result.status());
  return result;
}

void Frame::AddParam(std::string_view name, const ir::Type* type) {
  params_.push_back({emit_.UniqueName(name), nullptr});
  param_types_.push_back(type);
}

void Frame::AddSeed() { AddParam("seed", emit_.TensorType({}, kInt64)); }

builder::Value Frame::Result(const Operands& operands) {
  std::vector<builder::Value> used;
  for (Operand operand : operands) used.push_back(emit_.Use(operand));
  return used.size() == 1 ? used[0] : builder_.TupleOf(used);
}

void Frame::DefineInitialState(absl::FunctionRef<Operands()> values) {
  builder_.Define("initial_state", {}, nullptr,
                  [&](builder::Values) { return emit_.InBlock([&] { return Result(values()); }); });
}

void Frame::DefineMain(absl::FunctionRef<Operands(const Operands& params)> body) {
  for (size_t i = 0; i < params_.size(); ++i) params_[i].type = emit_.Annotation(param_types_[i]);
  builder_.Define("main", params_, nullptr, [&](builder::Values values) {
    Operands params;
    for (size_t i = 0; i < values.size(); ++i) {
      params.push_back(emit_.Bound(values[i], param_types_[i]));
      emit_.PlaceNames(params.back());
    }
    seed_ = params.back();
    params.pop_back();
    return Result(body(params));
  });
}

absl::Status Frame::Finish(ImportedModel& result) {
  RVM_RETURN_IF_ERROR(refusals_.ToStatus());
  RVM_RETURN_IF_ERROR(emit_.TakeStatus());
  RVM_ASSIGN_OR_RETURN(result.module, std::move(builder_).Finish());
  if (key_ != nullptr) {
    result.inputs.push_back(params_.back().name);
  } else {
    result.module.FindFunction("main")->function->params.pop_back();
  }
  result.weights = std::move(emit_.weights());
  return absl::OkStatus();
}

void Frame::NameResults(ImportedModel& result) {
  ir::AttrValue::List names;
  for (const std::string& name : result.outputs) names.emplace_back(ReadableText(name));
  result.module.FindFunction("main")->function->attrs.Set("result_names", std::move(names));
}

bool Frame::Spend(absl::FunctionRef<void(const absl::Status&)> refuse, std::string_view what) {
  if (--budget_ >= 0) return true;
  if (budget_ == -1) refuse(absl::InvalidArgumentError(absl::StrCat(Abseil(what), " expand to too many nodes")));
  return false;
}

ir::Span Frame::EnterOrigin(absl::FunctionRef<std::string()> text) {
  if (options_.sources == nullptr) return origin_;
  auto [origin, is_new] = origins_.try_emplace(text());
  if (is_new) origin->second = options_.sources->AddOrigin(origin->first);
  builder_.SetOrigin(origin->second);
  return std::exchange(origin_, origin->second);
}

void Frame::LeaveOrigin(ir::Span outer) {
  builder_.SetOrigin(outer);
  origin_ = outer;
}

Operand Frame::SplitKey(Steps& steps) {
  if (key_ == nullptr) key_ = KeyOfSeed(steps, seed_);
  return NextKey(steps, key_);
}

}  // namespace rvm::importing
