#include "compiler/ops/families/extent.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr std::string_view kExtent = "extent", kCheckExtent = "check_extent", kCheckAtLeast = "check_at_least";

constexpr Input kExtentInputs[] = {{"data", "a tensor"}};
constexpr Input kCheckInputs[] = {
    {"data", "a tensor"}, {.name = "extent", .doc = "the expected extent, an `int64` scalar", .decides_shape = true}};
constexpr Input kAtLeastInputs[] = {{"data", "a tensor"},
                                    {.name = "a", .doc = "an `int64` scalar", .decides_shape = true},
                                    {.name = "b", .doc = "an `int64` scalar", .decides_shape = true}};
constexpr AttrSpec kExtentAttrs[] = {{"axis", AttrType::kInt, "", "the axis measured"}};
constexpr AttrSpec kCheckAttrs[] = {
    {"axis", AttrType::kInt, "", "the axis checked"},
    {"what", AttrType::kString, "\"\"", "the beginning of the error message; \"\": the axis"}};
constexpr AttrSpec kAtLeastAttrs[] = {{"what", AttrType::kString, "", "the beginning of the error message"}};

std::optional<size_t> CheckedAxis(TypeContext& context, const ir::TensorType& data) {
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data.shape.dims.size()));
  return axis ? std::optional(static_cast<size_t>(*axis)) : std::nullopt;
}

Solve ExtentRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  if (!CheckedAxis(context, *data)) return Solve::kFailed;
  return ResultTensor(context, {}, kInt64);
}

std::vector<te::Tensor> ComputeExtent(const ComputeContext& context) {
  const Dims& dims = context.input(0).dims();
  int64_t axis = context.attrs().GetInt("axis");
  const Dim& dim = dims[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)];
  return {te::ComputeTensor("extent", kInt64, {}, [&](std::span<const te::Expr>) { return te::DimValue(dim); })};
}

Solve CheckExtentRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<size_t> axis = CheckedAxis(context, *args[0]);
  if (!axis) return Solve::kFailed;
  if (!args[1]->shape.dims.empty()) return FailRank(context, 1, args[1]->shape.dims.size(), "a scalar");
  if (args[1]->dtype.dtype != kInt64) return FailDType(context, 1, args[1]->dtype.dtype, "int64");
  Dims dims = args[0]->shape.dims;
  Dim expected = context.ValueDim(1, 0);
  std::string what = context.attrs().GetString("what");
  if (what.empty()) what = absl::StrCat("axis ", *axis);
  if (!context.RequireEqual(dims[*axis], expected, what)) return Solve::kFailed;
  bool is_unknown = dims[*axis].is_any();
  if (expected.is_const() || (is_unknown && context.KnownValue(1, 0))) dims[*axis] = expected;
  return ResultTensor(context, dims, args[0]->dtype.dtype);
}

Solve CheckAtLeastRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i = 1; i <= 2; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (!arg.shape.dims.empty()) return FailRank(context, i, arg.shape.dims.size(), "a scalar");
    if (arg.dtype.dtype != kInt64) return FailDType(context, i, arg.dtype.dtype, "int64");
  }
  if (!context.RequireAtLeast(context.ValueDim(1, 0), context.ValueDim(2, 0), context.attrs().GetString("what")))
    return Solve::kFailed;
  return ResultTensor(context, args[0]->shape.dims, args[0]->dtype.dtype);
}

constexpr OpDef kOps[] = {
    Op(kExtent, "the extent of an axis, an int64", kExtentInputs, kExtentAttrs, ExtentRelation, FusionClass::kOpaque,
       ComputeExtent),
    WithGradient(Op(kCheckExtent, "data; an error if an axis has another extent", kCheckInputs, kCheckAttrs,
                    CheckExtentRelation, FusionClass::kOpaque, ComputeReshape),
                 IdentityGradient),
    WithGradient(Op(kCheckAtLeast, "data; an error unless a >= b", kAtLeastInputs, kAtLeastAttrs, CheckAtLeastRelation,
                    FusionClass::kOpaque, ComputeReshape),
                 IdentityGradient),
};

bool Calls(const ir::Call& call, std::string_view name) {
  const OpDef* op = ir::OpCallee(&call);
  return op != nullptr && op->name == name;
}

}  // namespace

std::span<const OpDef> ExtentOps() { return kOps; }

bool IsExtent(const ir::Call& call) { return Calls(call, kExtent); }
bool IsCheckExtent(const ir::Call& call) { return Calls(call, kCheckExtent); }
bool IsCheckAtLeast(const ir::Call& call) { return Calls(call, kCheckAtLeast); }

std::string DeclaredExtentText(size_t axis, std::string_view of, const Dim& declared) {
  return absl::StrCat("axis ", axis, " of ", absl::string_view(of.data(), of.size()), ", declared `",
                      declared.ToString(), "`");
}

}  // namespace rvm::ops
