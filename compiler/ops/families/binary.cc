// Broadcasting operators of two tensors.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"

namespace rvm::ops {
namespace {

using te::BinaryOp;
using te::Expr;
using te::Tensor;

constexpr Input kInputs[] = {{"lhs", "a tensor"}, {"rhs", "a tensor that broadcasts with lhs"}};
constexpr Input kWhereInputs[] = {
    {"condition", "a bool tensor"}, {"x", "taken where true"}, {"y", "taken where false"}};
constexpr Input kBiasInputs[] = {{"data", "a tensor"}, {"bias", "a vector of the extent of `axis`"}};
constexpr AttrSpec kBiasAttrs[] = {{"axis", AttrType::kInt, "1", "the axis that bias runs along"}};

}  // namespace

std::vector<Expr> BroadcastIndices(std::span<const Expr> indices, const Dims& from, const Dims& to) {
  std::vector<Expr> result;
  size_t skip = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    result.push_back(te::BroadcastIndex(indices[skip + i], from[i], to[skip + i]));
  }
  return result;
}

namespace {

template <BinaryOp op>
std::vector<Tensor> ComputeBinary(const ComputeContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("map", out.dtype, out.dims, [&](std::span<const Expr> i) {
    return te::Binary(op, a(BroadcastIndices(i, a.dims(), out.dims)), b(BroadcastIndices(i, b.dims(), out.dims)));
  })};
}

Solve WhereRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* tensors[3];
  for (size_t i = 0; i < 3; ++i) {
    tensors[i] = TensorArg(context, i, &failed);
    if (failed) return Solve::kFailed;
    if (tensors[i] == nullptr) return Solve::kStuck;
  }
  DataType condition = tensors[0]->dtype.dtype, expected = BoolOf(tensors[1]->dtype.dtype);
  bool is_scalar_type = condition.lanes == 1 && condition.is_integral();
  if (!is_scalar_type && condition != expected) {
    return context.Fail(diagnostics::DiagnosticKind::kDTypeMismatch,
                        "the condition has dtype `" + condition.ToString() + "`; expected `" + expected.ToString() +
                            "`, or integers of which 0 is false",
                        0);
  }
  if (tensors[1]->dtype.dtype != tensors[2]->dtype.dtype) {
    return context.Fail(diagnostics::DiagnosticKind::kOperandDTypesDiffer,
                        "the branches have dtypes `" + tensors[1]->dtype.dtype.ToString() + "` and `" +
                            tensors[2]->dtype.dtype.ToString() + "`; expected equal dtypes (use `cast`)",
                        2);
  }
  Dims dims;
  for (const ir::TensorType* tensor : tensors) {
    const Dims& other = tensor->shape.dims;
    Dims wide = dims.size() >= other.size() ? dims : other;
    const Dims& narrow = dims.size() >= other.size() ? other : dims;
    for (size_t i = 0; i < narrow.size(); ++i) {
      Dim& dim = wide[wide.size() - 1 - i];
      dim = context.RequireBroadcast(dim, narrow[narrow.size() - 1 - i], "operands of `where` broadcast");
    }
    dims = wide;
  }
  return ResultTensor(context, dims, tensors[1]->dtype.dtype);
}

std::vector<Tensor> ComputeWhere(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("where", out.dtype, out.dims, [&](std::span<const Expr> i) {
    auto read = [&](size_t n) { return context.input(n)(BroadcastIndices(i, context.input(n).dims(), out.dims)); };
    Expr condition = read(0);
    if (!condition.dtype().is_bool()) {
      condition = te::Binary(BinaryOp::kNotEqual, condition, te::IntConst(condition.dtype(), 0));
    }
    return te::Select(condition, read(1), read(2));
  })};
}

Solve BiasAddRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  const ir::TensorType* bias = failed ? nullptr : TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  if (data == nullptr || bias == nullptr) return Solve::kStuck;
  int64_t rank = static_cast<int64_t>(data->shape.dims.size());
  if (bias->shape.dims.size() != 1) {
    return context.Fail(
        diagnostics::DiagnosticKind::kRankMismatch,
        "argument 2 of `nn.bias_add` has rank " + std::to_string(bias->shape.dims.size()) + "; expected rank 1", 1);
  }
  if (data->dtype.dtype != bias->dtype.dtype) {
    return context.Fail(diagnostics::DiagnosticKind::kOperandDTypesDiffer,
                        "data and bias have dtypes `" + data->dtype.dtype.ToString() + "` and `" +
                            bias->dtype.dtype.ToString() + "`; expected equal dtypes (use `cast`)",
                        1);
  }
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), rank);
  if (!axis) return Solve::kFailed;
  if (!context.RequireEqual(data->shape.dims[static_cast<size_t>(*axis)], bias->shape.dims[0],
                            "`nn.bias_add`: extent of `axis` and length of bias")) {
    return Solve::kFailed;
  }
  return ResultTensor(context, data->shape.dims, data->dtype.dtype);
}

std::vector<Tensor> ComputeBiasAdd(const ComputeContext& context) {
  const Tensor &data = context.input(0), &bias = context.input(1);
  int64_t axis = context.attrs().GetInt("axis");
  size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(data.rank()) : axis);
  return {te::ComputeTensor("bias_add", data.dtype(), data.dims(),
                            [&](std::span<const Expr> i) { return data(i) + bias({i[at]}); })};
}

template <BinaryOp op>
constexpr OpDef Broadcast(TypeRelation relation, std::string_view name, std::string_view summary,
                          const ScalarInstructions* scalar, std::string_view infix = "") {
  OpDef def = Op(name, summary, kInputs, {}, relation, FusionClass::kBroadcast, ComputeBinary<op>);
  def.scalar = scalar;
  def.infix = infix;
  return def;
}

constexpr OpDef kOps[] = {
    WithGradient(Broadcast<BinaryOp::kAdd>(BroadcastRelation, "add", "lhs + rhs", &scalar::kAdd, "+"), AddGradient),
    WithGradient(Broadcast<BinaryOp::kSubtract>(BroadcastRelation, "subtract", "lhs - rhs", &scalar::kSubtract, "-"),
                 SubtractGradient),
    WithGradient(Broadcast<BinaryOp::kMultiply>(BroadcastRelation, "multiply", "lhs * rhs", &scalar::kMultiply, "*"),
                 MultiplyGradient),
    WithGradient(Broadcast<BinaryOp::kDivide>(BroadcastRelation, "divide", "lhs / rhs; integers truncate, x / 0 is 0",
                                              &scalar::kDivide, "/"),
                 DivideGradient),
    WithGradient(Broadcast<BinaryOp::kFloorDivide>(BroadcastRelation, "floor_divide",
                                                   "floor(lhs / rhs); integer x / 0 is 0", &scalar::kFloorDivide),
                 NothingFlows),
    WithGradient(Broadcast<BinaryOp::kFloorMod>(BroadcastRelation, "floor_mod", "lhs - rhs * floor(lhs / rhs)",
                                                &scalar::kFloorMod),
                 FloorModGradient),
    WithGradient(Broadcast<BinaryOp::kTruncDivide>(BroadcastRelation, "trunc_divide",
                                                   "trunc(lhs / rhs); integer x / 0 is 0", &scalar::kTruncDivide),
                 NothingFlows),
    WithGradient(Broadcast<BinaryOp::kTruncMod>(BroadcastRelation, "trunc_mod", "lhs - rhs * trunc(lhs / rhs)",
                                                &scalar::kTruncMod),
                 TruncModGradient),
    WithGradient(
        Broadcast<BinaryOp::kTruncMod>(BroadcastRelation, "mod", "trunc_mod, for compatibility", &scalar::kTruncMod),
        TruncModGradient),
    WithGradient(Broadcast<BinaryOp::kPower>(BroadcastRelation, "power", "lhs to the power of rhs", nullptr),
                 PowerGradient),
    WithGradient(Broadcast<BinaryOp::kMaximum>(BroadcastRelation, "maximum",
                                               "the greater; NaN wins, and 0 is greater than -0", &scalar::kMaximum),
                 MaximumGradient),
    WithGradient(Broadcast<BinaryOp::kMinimum>(BroadcastRelation, "minimum",
                                               "the lesser; NaN wins, and -0 is less than 0", &scalar::kMinimum),
                 MinimumGradient),
    Broadcast<BinaryOp::kShiftLeft>(BroadcastBitsRelation, "left_shift", "lhs * 2^rhs; 0 when rhs is not in [0, bits)",
                                    nullptr),
    Broadcast<BinaryOp::kShiftRight>(BroadcastBitsRelation, "right_shift", "floor(lhs / 2^rhs)", nullptr),
    Broadcast<BinaryOp::kAnd>(BroadcastBitsRelation, "bitwise_and", "lhs and rhs, bit by bit", &scalar::kBitwiseAnd),
    Broadcast<BinaryOp::kOr>(BroadcastBitsRelation, "bitwise_or", "lhs or rhs, bit by bit", &scalar::kBitwiseOr),
    Broadcast<BinaryOp::kXor>(BroadcastBitsRelation, "bitwise_xor", "lhs xor rhs, bit by bit", &scalar::kBitwiseXor),
    Broadcast<BinaryOp::kEqual>(BroadcastCompareRelation, "equal", "lhs = rhs", &scalar::kEqual, "=="),
    Broadcast<BinaryOp::kNotEqual>(BroadcastCompareRelation, "not_equal", "lhs /= rhs", &scalar::kNotEqual, "!="),
    Broadcast<BinaryOp::kLess>(BroadcastCompareRelation, "less", "lhs < rhs", &scalar::kLess, "<"),
    Broadcast<BinaryOp::kLessEqual>(BroadcastCompareRelation, "less_equal", "lhs <= rhs", &scalar::kLessEqual, "<="),
    Broadcast<BinaryOp::kGreater>(BroadcastCompareRelation, "greater", "lhs > rhs", &scalar::kGreater, ">"),
    Broadcast<BinaryOp::kGreaterEqual>(BroadcastCompareRelation, "greater_equal", "lhs >= rhs", &scalar::kGreaterEqual,
                                       ">="),
    Broadcast<BinaryOp::kAnd>(BroadcastLogicalRelation, "logical_and", "lhs and rhs", &scalar::kLogicalAnd),
    Broadcast<BinaryOp::kOr>(BroadcastLogicalRelation, "logical_or", "lhs or rhs", &scalar::kLogicalOr),
    Broadcast<BinaryOp::kXor>(BroadcastLogicalRelation, "logical_xor", "lhs xor rhs", &scalar::kLogicalXor),
    {.name = "where",
     .summary = "x where condition is true or not 0, else y; all three broadcast",
     .inputs = kWhereInputs,
     .type_relation = WhereRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeWhere,
     .gradient = WhereGradient},
    {.name = "nn.bias_add",
     .summary = "data plus bias along `axis`",
     .inputs = kBiasInputs,
     .attrs = kBiasAttrs,
     .type_relation = BiasAddRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeBiasAdd,
     .gradient = BiasAddGradient},
};

}  // namespace

std::span<const OpDef> BinaryOps() { return kOps; }

}  // namespace rvm::ops
