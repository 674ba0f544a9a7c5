#include "serialization/verify_recipe.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/verify_tables.h"

namespace rvm {
namespace {

absl::Status Error(const std::string& what) { return absl::InvalidArgumentError(what); }

class NestVerifier {
 public:
  NestVerifier(const KernelDesc& kernel, const KernelRecipe& recipe, const RecipeNest& nest)
      : kernel_(kernel), recipe_(recipe), nest_(nest) {}

  absl::Status Run() {
    if (nest_.axes.size() + nest_.reduce_axes.size() > kMaxRecipeAxes) return Error("too many axes");
    for (const Dims* dims : {&nest_.axes, &nest_.reduce_axes, &nest_.extents}) {
      for (const Dim& dim : *dims) RVM_RETURN_IF_ERROR(VerifyDim(dim, kernel_));
    }
    // Before the reduction, if there is one, all axes have an index.
    for (const RecipeStep& step : nest_.steps) reduces_ |= step.op == RecipeOp::kReduce;
    if (!reduces_ && !nest_.reduce_axes.empty()) return Error("axes are reduced, but nothing over them");
    for (number_ = 0; number_ < nest_.steps.size(); ++number_) {
      if (absl::Status status = Check(nest_.steps[number_]); !status.ok()) {
        return Error(absl::StrCat("step ", number_, ": ", std::string(status.message())));
      }
      depends_on_axis_.push_back(DependsOnAxis(nest_.steps[number_]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckValue(uint32_t value) const {
    if (value >= number_ || !MakesValue(nest_.steps[value].op)) {
      return Error(absl::StrCat("v", value, " is no value made before"));
    }
    if (value < first_) return Error(absl::StrCat("v", value, " is known before the reduction only"));
    return absl::OkStatus();
  }
  DataType TypeOf(uint32_t value) const { return nest_.steps[value].dtype; }
  absl::Status CheckIs(uint32_t value, DataType dtype) const {
    if (TypeOf(value) == dtype) return absl::OkStatus();
    return Error(absl::StrCat("v", value, " is ", TypeOf(value).ToString(), "; expected ", dtype.ToString()));
  }
  absl::Status CheckBuffer(const RecipeStep& step) const {
    size_t params = kernel_.params.size(), tensors = params + kernel_.results.size();
    if (step.buffer >= tensors + recipe_.workspaces.size()) return Error(absl::StrCat("no buffer ", step.buffer));
    if (!MakesValue(step.op) && step.buffer < params) return Error("a store into a parameter");
    DataType dtype = step.buffer < params    ? kernel_.params[step.buffer].dtype
                     : step.buffer < tensors ? kernel_.results[step.buffer - params].dtype
                                             : recipe_.workspaces[step.buffer - tensors].dtype;
    if (step.dtype == dtype) return absl::OkStatus();
    return Error(absl::StrCat("buffer ", step.buffer, " is ", dtype.ToString(), ", not ", step.dtype.ToString()));
  }
  absl::Status CheckUnary(const RecipeStep& step) const {
    auto op = static_cast<UnaryOp>(step.function);
    DataType from = TypeOf(step.a);
    if (IsBitwise(op) && from.is_float()) return Error(absl::StrCat("a function of integers on ", from.ToString()));
    if (step.dtype != (IsTest(op) ? kBool : from)) return Error("another dtype than its operand");
    return absl::OkStatus();
  }
  absl::Status CheckBinary(const RecipeStep& step) const {
    auto op = static_cast<BinaryOp>(step.function);
    DataType from = TypeOf(step.a);
    RVM_RETURN_IF_ERROR(CheckIs(step.b, from));
    if (IsBitwise(op) && from.is_float()) return Error(absl::StrCat("a function of integers on ", from.ToString()));
    if (step.dtype != (IsComparison(op) ? kBool : from)) return Error("another dtype than its operands");
    return absl::OkStatus();
  }
  absl::Status CheckReduce(const RecipeStep& step) {
    auto op = static_cast<ReduceOp>(step.function);
    if (first_ != 0) return Error("a second reduction");
    bool logical = op == ReduceOp::kAll || op == ReduceOp::kAny;
    if (logical) RVM_RETURN_IF_ERROR(CheckIs(step.a, kBool));
    if (step.dtype != (IsArg(op) ? kInt64 : TypeOf(step.a))) return Error("another dtype than its operand");
    first_ = static_cast<uint32_t>(number_);
    return absl::OkStatus();
  }
  absl::Status CheckNumber(const RecipeStep& step) const {
    bool all_axes = reduces_ && first_ == 0;
    size_t axes = nest_.axes.size() + (all_axes ? nest_.reduce_axes.size() : 0);
    size_t limit = step.op == RecipeOp::kIndex ? axes : nest_.extents.size();
    if (step.a >= limit) return Error(absl::StrCat("saw ", step.a, "; there are ", limit));
    return step.dtype == kInt64 ? absl::OkStatus() : Error("expected int64");
  }

  // The axis is one that is not reduced, and nothing that the limit is made from depends on a position.
  absl::Status CheckLimit(const RecipeStep& step) const {
    if (reduces_) return Error("an axis is limited beside a reduction");
    if (step.a >= nest_.axes.size()) return Error(absl::StrCat("saw ", step.a, "; there are ", nest_.axes.size()));
    RVM_RETURN_IF_ERROR(CheckIs(step.b, kInt64));
    if (depends_on_axis_[step.b]) return Error(absl::StrCat("v", step.b, " depends on an axis"));
    return step.dtype == kInt64 ? absl::OkStatus() : Error("expected int64");
  }

  // Returns whether the step is an index or has an operand that depends on one.
  bool DependsOnAxis(const RecipeStep& step) const {
    uint8_t fields = kRecipeOps[static_cast<size_t>(step.op)].fields;
    return step.op == RecipeOp::kIndex || ((fields & kAField) && depends_on_axis_[step.a]) ||
           ((fields & kBField) && depends_on_axis_[step.b]) || ((fields & kCField) && depends_on_axis_[step.c]);
  }

  absl::Status Check(const RecipeStep& step) {
    if (static_cast<size_t>(step.op) >= std::size(kRecipeOps)) return Error("no such step");
    uint8_t fields = kRecipeOps[static_cast<size_t>(step.op)].fields;
    if (!IsStorable(step.dtype)) return Error("a dtype that is not storable");
    if ((fields & kFunctionField) && step.function >= FunctionNames(step.op).size()) return Error("no such function");
    if (fields & kAField) RVM_RETURN_IF_ERROR(CheckValue(step.a));
    if (fields & kBField) RVM_RETURN_IF_ERROR(CheckValue(step.b));
    if (fields & kCField) RVM_RETURN_IF_ERROR(CheckValue(step.c));
    if (fields & kBufferField) RVM_RETURN_IF_ERROR(CheckBuffer(step));
    switch (step.op) {
      case RecipeOp::kConstant:
      case RecipeOp::kCast: return absl::OkStatus();
      case RecipeOp::kIndex:
      case RecipeOp::kExtent: return CheckNumber(step);
      case RecipeOp::kLoad: return CheckIs(step.a, kInt64);
      case RecipeOp::kUnary: return CheckUnary(step);
      case RecipeOp::kBinary: return CheckBinary(step);
      case RecipeOp::kReduce: return CheckReduce(step);
      case RecipeOp::kSelect:
        RVM_RETURN_IF_ERROR(CheckIs(step.a, kBool));
        RVM_RETURN_IF_ERROR(CheckIs(step.b, step.dtype));
        return CheckIs(step.c, step.dtype);
      case RecipeOp::kStore: RVM_RETURN_IF_ERROR(CheckIs(step.a, kInt64)); return CheckIs(step.b, step.dtype);
      case RecipeOp::kStoreIf:
        RVM_RETURN_IF_ERROR(CheckIs(step.a, kInt64));
        RVM_RETURN_IF_ERROR(CheckIs(step.c, kBool));
        return CheckIs(step.b, step.dtype);
      case RecipeOp::kLimit: return CheckLimit(step);
      case RecipeOp::kBitcast:
        if (TypeOf(step.a).bits == step.dtype.bits) return absl::OkStatus();
        return Error(absl::StrCat("the bits of ", TypeOf(step.a).ToString(), " as ", step.dtype.ToString()));
      case RecipeOp::kOrder:
        RVM_RETURN_IF_ERROR(CheckIs(step.a, kInt64));
        RVM_RETURN_IF_ERROR(CheckIs(step.b, kInt64));
        if (reduces_) return Error("keys are ordered beside a reduction");
        return step.dtype == kInt64 ? absl::OkStatus() : Error("expected int64");
    }
    return absl::OkStatus();
  }

  const KernelDesc& kernel_;
  const KernelRecipe& recipe_;
  const RecipeNest& nest_;
  size_t number_ = 0;   // of the step that is checked
  uint32_t first_ = 0;  // value that is known now: the reduction, once it is past
  bool reduces_ = false;
  std::vector<bool> depends_on_axis_;  // by step
};

}  // namespace

absl::Status VerifyRecipe(const KernelDesc& kernel, const KernelRecipe& recipe) {
  for (const RecipeWorkspace& workspace : recipe.workspaces) {
    if (!IsStorable(workspace.dtype)) return Error("a workspace of a dtype that is not storable");
    RVM_RETURN_IF_ERROR(VerifyDim(workspace.offset, kernel));
    RVM_RETURN_IF_ERROR(VerifyDim(workspace.elements, kernel));
  }
  for (size_t i = 0; i < recipe.nests.size(); ++i) {
    absl::Status status = NestVerifier(kernel, recipe, recipe.nests[i]).Run();
    if (!status.ok()) return Error(absl::StrCat("nest ", i, ": ", std::string(status.message())));
  }
  return absl::OkStatus();
}

}  // namespace rvm
