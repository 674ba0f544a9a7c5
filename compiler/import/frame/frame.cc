#include "compiler/import/frame/frame.h"

#include <algorithm>
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
  std::string& unique = param_names_[Abseil(name)];
  const bool is_taken = std::ranges::any_of(params_, [&](const builder::Param& param) { return param.name == unique; });
  if (unique.empty() || is_taken) unique = emit_.UniqueName(name);
  params_.push_back({unique, nullptr});
  param_types_.push_back(type);
}

void Frame::AddSeed() { AddParam("seed", emit_.TensorType({}, kInt64)); }

builder::Value Frame::Result(const Operands& operands) {
  std::vector<builder::Value> used;
  for (Operand operand : operands) used.push_back(emit_.Use(operand));
  return used.size() == 1 ? used[0] : builder_.TupleOf(used);
}

void Frame::DefineInitialState(absl::FunctionRef<Operands()> values) {
  builder_.Define(std::string(kInitialState), {}, nullptr,
                  [&](builder::Values) { return emit_.InBlock([&] { return Result(values()); }); });
}

std::vector<std::string> Frame::NamesOfEntries(std::span<const std::string_view> signatures) {
  std::vector<std::string> names = {std::string(kMain)};
  if (signatures.size() <= 1) return names;
  // Nothing else of the program gets these names, which need not be unique in a program of one entry.
  for (std::string_view name : {kMain, kInitialState}) emit_.UniqueName(name);
  for (std::string_view name : signatures.subspan(1)) names.push_back(emit_.UniqueName(name));
  return names;
}

void Frame::DefineEntry(std::string_view name, absl::FunctionRef<Operands(const Operands& params)> body) {
  for (size_t i = 0; i < params_.size(); ++i) params_[i].type = emit_.Annotation(param_types_[i]);
  key_ = nullptr;
  builder_.Define(std::string(name), params_, nullptr, [&](builder::Values values) {
    Operands params;
    for (size_t i = 0; i < values.size(); ++i) {
      params.push_back(emit_.Bound(values[i], param_types_[i]));
      emit_.PlaceNames(params.back());
    }
    seed_ = params.back();
    params.pop_back();
    return emit_.InBlock([&] { return Result(body(params)); });
  });
  defined_.push_back({std::string(name), key_ != nullptr});
  params_.clear();
  param_types_.clear();
  for (const auto& [text, extent] : extents_) {
    if (!extent.is_const()) earlier_extents_.try_emplace(text, extent);
  }
  absl::erase_if(extents_, [](const auto& extent) { return !extent.second.is_const(); });
}

absl::Status Frame::Finish(ImportedModel& result) {
  RVM_RETURN_IF_ERROR(refusals_.ToStatus());
  RVM_RETURN_IF_ERROR(emit_.TakeStatus());
  RVM_ASSIGN_OR_RETURN(result.module, std::move(builder_).Finish());
  for (const DefinedEntry& entry : defined_) {
    std::vector<ir::Var*>& params = result.module.FindFunction(entry.name)->function->params;
    if (!entry.draws) {
      params.pop_back();
    } else if (entry.name == kMain) {
      result.inputs.push_back(params.back()->name);
    }
  }
  result.weights = std::move(emit_.weights());
  return absl::OkStatus();
}

void Frame::NameResults(ImportedModel& result, std::string_view entry, std::span<const std::string> outputs) {
  ir::AttrValue::List names;
  for (const std::string& name : outputs) names.emplace_back(ReadableText(name));
  result.module.FindFunction(entry)->function->attrs.Set("result_names", std::move(names));
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
