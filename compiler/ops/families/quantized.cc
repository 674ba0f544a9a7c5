// Operators on quantised tensors, except contractions.
//
// Operators that are linear in their arguments compute in integers with fixed-point factors, bit by bit as deployed
// networks expect. The others dequantise, compute in floating point, and round once, halves away from 0.
#include "compiler/ops/families/quantized.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/fixed_point.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

bool IsQuantized(TypeContext& context, const Types& args, size_t data) {
  DataType dtype = args[data]->dtype.dtype;
  if (dtype.is_integral() && !dtype.is_bool()) return true;
  FailDType(context, static_cast<int>(data), dtype, "an integer dtype");
  return false;
}

bool IsOne(const Dims& dims) { return dims.empty() || (dims.size() == 1 && dims[0] == Dim(1)); }

bool AreParameters(TypeContext& context, const Types& args, size_t scale, size_t zero_point,
                   const std::optional<Dim>& channels) {
  for (size_t i : {scale, zero_point}) {
    const Dims& dims = args[i]->shape.dims;
    DataType dtype = args[i]->dtype.dtype;
    int arg = static_cast<int>(i);
    bool is_one = IsOne(dims);
    if (!is_one && dims.size() != (channels ? 1u : 0u)) {
      FailRank(context, arg, dims.size(), channels ? "a scalar or a vector" : "a scalar or a vector of one");
      return false;
    }
    if (i == scale ? !dtype.is_float() : dtype != kInt32) {
      FailDType(context, arg, dtype, i == scale ? "a floating-point dtype" : "`int32`");
      return false;
    }
    if (!is_one && !context.RequireEqual(dims[0], *channels, "elements of a scale or zero point and channels"))
      return false;
  }
  return true;
}

Expr ParameterAt(const Tensor& parameter, const Expr& channel) {
  if (parameter.rank() == 0) return parameter({});
  return parameter({IsOne(parameter.dims()) ? te::Index(0) : channel});
}

Tensor Centred(const Tensor& data, const Tensor& zero_point, size_t axis) {
  return te::ComputeTensor("centred", kInt32, data.dims(), [&](std::span<const Expr> i) {
    return te::Cast(kInt32, data(i)) - ParameterAt(zero_point, IsOne(zero_point.dims()) ? Expr() : i[axis]);
  });
}

Expr Saturated(const Expr& value, DataType dtype) {
  if (dtype == kInt64) return value;
  Expr low = te::Cast(kInt64, Lowest(dtype)), high = te::Cast(kInt64, Highest(dtype));
  if (dtype == kUInt64) high = Highest(kInt64);
  return te::Cast(dtype, te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, value, high), low));
}

namespace {

constexpr Input kQuantizeInputs[] = {
    {"data", "a floating-point tensor"}, {"output_scale", "scale of the result"}, {"output_zero_point", "int32"}};
constexpr Input kDequantizeInputs[] = {
    {"data", "a quantised tensor"}, {"input_scale", "its scale"}, {"input_zero_point", "int32"}};
constexpr Input kRescaleInputs[] = {{"data", "a quantised tensor"},
                                    {"input_scale", "its scale"},
                                    {"input_zero_point", "int32"},
                                    {"output_scale", "scale of the result"},
                                    {"output_zero_point", "int32"}};
constexpr Input kBinaryInputs[] = {
    {"lhs", "a quantised tensor"},           {"rhs", "a quantised tensor of the same dtype, broadcast"},
    {"lhs_scale", "scale of lhs"},           {"lhs_zero_point", "int32"},
    {"rhs_scale", "scale of rhs"},           {"rhs_zero_point", "int32"},
    {"output_scale", "scale of the result"}, {"output_zero_point", "int32"}};
constexpr Input kConcatenateInputs[] = {{"data", "a tuple of quantised tensors", true},
                                        {"input_scales", "a tuple of their scales, scalars", true},
                                        {"input_zero_points", "a tuple of their zero points, int32", true},
                                        {"output_scale", "scale of the result"},
                                        {"output_zero_point", "int32"}};
constexpr Input kSimulatedInputs[] = {
    {"data", "a floating-point tensor"},
    {"dtype", "an int32 scalar: 0 changes nothing, 1 is int8, 2 is uint8, 3 is int32"},
    {"scale", "the scale"},
    {"zero_point", "int32"}};
constexpr AttrSpec kAxisAttrs[] = {{"axis", AttrType::kInt, "-1", "the axis that vectors of parameters are along"}};
constexpr AttrSpec kQuantizeAttrs[] = {{"out_dtype", AttrType::kDType, "", "dtype of the result, integer"},
                                       {"axis", AttrType::kInt, "-1", "the axis that vectors of parameters are along"}};
constexpr AttrSpec kDequantizeAttrs[] = {
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (float32)"},
    {"axis", AttrType::kInt, "-1", "the axis that vectors of parameters are along"}};
constexpr AttrSpec kRequantizeAttrs[] = {
    {"axis", AttrType::kInt, "-1", "the axis that vectors of parameters are along"},
    {"rounding", AttrType::kString, "\"None\"", "of halves: \"UPWARD\" (also \"None\"), \"TONEAREST\": away from 0"},
    {"compute_dtype", AttrType::kString, "\"None\"",
     "\"int64\" or \"int32\" (also \"None\"): in fixed point; \"float32\" or \"float64\""},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (int8)"}};
constexpr AttrSpec kBinaryAttrs[] = {{"lhs_axis", AttrType::kInt, "-1", "the axis of lhs that has its own scales"},
                                     {"rhs_axis", AttrType::kInt, "-1", "the axis of rhs that has its own scales"}};
constexpr AttrSpec kJoinAttrs[] = {{"axis", AttrType::kInt, "0", "the axis joined along"}};
constexpr AttrSpec kLeakyAttrs[] = {{"alpha", AttrType::kFloat, "0.25f", "the slope for negative values"}};
constexpr AttrSpec kSoftmaxAttrs[] = {{"axis", AttrType::kInt, "-1", "the axis normalised over"}};
constexpr AttrSpec kPoolAttrs[] = {
    {"pool_size", AttrType::kInts, "", "extents of the windows"},
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"padding", AttrType::kInts, "[0, 0]", "around each axis: one number, one per axis, or befores then afters"},
    {"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"out_layout", AttrType::kString, "\"\"", "must be that of data"},
    {"ceil_mode", AttrType::kBool, "False", "keep a last window that extends beyond the edge"},
    {"count_include_pad", AttrType::kBool, "False", "the mean counts padding as zeros"}};

// ---- rescaling in integers ---------------------------------------------------------------

// numerator / denominator as float64: a scalar, or a vector if either is one.
Tensor Ratio(const Tensor& numerator, const Tensor& denominator, double by = 1) {
  const Dims& dims = IsOne(denominator.dims()) ? numerator.dims() : denominator.dims();
  return te::ComputeTensor("ratio", kFloat64, dims, [&](std::span<const Expr> i) {
    Expr channel = i.empty() ? Expr() : i[0];
    Expr value = te::Binary(BinaryOp::kDivide, te::Cast(kFloat64, ParameterAt(numerator, channel)),
                            te::Cast(kFloat64, ParameterAt(denominator, channel)));
    return by == 1 ? value : value * te::FloatConst(kFloat64, by);
  });
}

Expr ChannelOf(std::span<const Expr> i, size_t axis) { return i.empty() ? Expr() : i[axis]; }

// centred * factor, rounded; int64. Factors may vary along `axis`.
Expr Rescaled(const Expr& centred, const FixedPointFactors& factors, const Expr& channel,
              FixedPointRounding rounding = FixedPointRounding::kUpward) {
  return MultiplyAndShift(te::Cast(kInt64, centred), ParameterAt(factors.significand, channel),
                          ParameterAt(factors.right_shift, channel), rounding);
}

Expr WithZeroPoint(const Expr& value, const Tensor& zero_point, const Expr& channel, DataType dtype) {
  return Saturated(value + te::Cast(kInt64, ParameterAt(zero_point, channel)), dtype);
}

struct Rescale {
  FixedPointRounding rounding;
  bool in_floats;
};
std::optional<Rescale> RescaleOf(const ir::Attrs& attrs) {
  const std::string &rounding = attrs.GetString("rounding"), &dtype = attrs.GetString("compute_dtype");
  bool in_floats = dtype == "float32" || dtype == "float64";
  if (!in_floats && dtype != "None" && dtype != "int64" && dtype != "int32") return std::nullopt;
  if (rounding == "TONEAREST") return Rescale{FixedPointRounding::kToNearest, in_floats};
  if (rounding == "UPWARD" || rounding == "None") return Rescale{FixedPointRounding::kUpward, in_floats};
  return std::nullopt;
}

// Returns the extent of `axis` of argument 0. Reports an error and returns nullopt if there is no such axis.
std::optional<Dim> Channels(TypeContext& context, const ir::TensorType& data, std::string_view attr) {
  const Dims& dims = data.shape.dims;
  // A scalar has no channels; its parameters are scalars.
  if (dims.empty()) return Dim(1);
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt(attr), static_cast<int64_t>(dims.size()), attr);
  return axis ? std::optional<Dim>(dims[static_cast<size_t>(*axis)]) : std::nullopt;
}

Solve RequantizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Dim> channels = Channels(context, *args[0], "axis");
  if (!channels || !IsQuantized(context, args, 0) || !AreParameters(context, args, 1, 2, channels) ||
      !AreParameters(context, args, 3, 4, channels))
    return Solve::kFailed;
  DataType dtype = DTypeAttr(context.attrs(), "out_dtype", kInt8);
  if (!RescaleOf(context.attrs()) || !dtype.is_integral() || dtype.is_bool()) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        "`rounding`, `compute_dtype` or `out_dtype` has an unknown value; see docs/operators.md");
  }
  return ResultTensor(context, args[0]->shape.dims, dtype);
}

std::vector<Tensor> ComputeRequantize(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  size_t axis = data.rank() == 0 ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  Rescale rescale = *RescaleOf(context.attrs());
  Tensor ratio = Ratio(context.input(1), context.input(3));
  Tensor centred = Centred(data, context.input(2), axis);
  FixedPointFactors factors = ToFixedPoint(ratio);
  return {te::ComputeTensor("requantize", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr channel = ChannelOf(i, axis), value;
    if (rescale.in_floats) {
      Expr real = te::Cast(kFloat64, centred(i)) * ParameterAt(ratio, channel);
      Expr half = te::FloatConst(kFloat64, 0.5);
      Expr rounded = te::Unary(UnaryOp::kFloor, real + half);
      if (rescale.rounding == FixedPointRounding::kToNearest) {
        rounded = te::Select(Less(real, te::Const(kFloat64, 0)), te::Unary(UnaryOp::kCeil, real - half), rounded);
      }
      value = te::Cast(kInt64, te::Cast(kInt32, rounded));
    } else {
      value = Rescaled(centred(i), factors, channel, rescale.rounding);
    }
    return WithZeroPoint(value, context.input(4), channel, out.dtype);
  })};
}

// ---- to and from real numbers --------------------------------------------------------------

// round(real / scale) + zero_point, saturated.
Expr Quantized(const Expr& real, const Expr& scale, const Expr& zero_point, DataType dtype) {
  Expr steps = RoundHalfAway(te::Binary(BinaryOp::kDivide, real, te::Cast(real.dtype(), scale)));
  return Saturated(te::Cast(kInt64, te::Cast(kInt32, steps)) + te::Cast(kInt64, zero_point), dtype);
}

Solve QuantizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Dim> channels = Channels(context, *args[0], "axis");
  if (!channels || !AreParameters(context, args, 1, 2, channels)) return Solve::kFailed;
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  DataType dtype = DTypeAttr(context.attrs(), "out_dtype", kInt8);
  if (!dtype.is_integral() || dtype.is_bool()) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`out_dtype` is \"", dtype.ToString(), "\"; expected an integer dtype"));
  }
  return ResultTensor(context, args[0]->shape.dims, dtype);
}

std::vector<Tensor> ComputeQuantize(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  size_t axis = data.rank() == 0 ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  DataType wide = Accumulator(data.dtype());
  return {te::ComputeTensor("quantize", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr channel = ChannelOf(i, axis);
    return Quantized(te::Cast(wide, data(i)), ParameterAt(context.input(1), channel),
                     ParameterAt(context.input(2), channel), out.dtype);
  })};
}

Solve DequantizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Dim> channels = Channels(context, *args[0], "axis");
  if (!channels || !IsQuantized(context, args, 0) || !AreParameters(context, args, 1, 2, channels))
    return Solve::kFailed;
  DataType dtype = DTypeAttr(context.attrs(), "out_dtype", kFloat32);
  if (!dtype.is_float()) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`out_dtype` is \"", dtype.ToString(), "\"; expected a floating-point dtype"));
  }
  return ResultTensor(context, args[0]->shape.dims, dtype);
}

// Returns the real values of data, with dtype `wide`.
Tensor Real(const Tensor& data, const Tensor& scale, const Tensor& zero_point, size_t axis, DataType wide) {
  Tensor centred = Centred(data, zero_point, axis);
  return te::ComputeTensor("real", wide, data.dims(), [&](std::span<const Expr> i) {
    return te::Cast(wide, centred(i)) * te::Cast(wide, ParameterAt(scale, ChannelOf(i, axis)));
  });
}

std::vector<Tensor> ComputeDequantize(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  DataType dtype = context.output().dtype;
  size_t axis = data.rank() == 0 ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  return {CastTensor(Real(data, context.input(1), context.input(2), axis, Accumulator(dtype)), dtype)};
}

// ---- one argument -----------------------------------------------------------------------------

// The arguments are data, its scale and zero point, and those of the result, all scalars except data.
Solve RescaleRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!IsQuantized(context, args, 0) || !AreParameters(context, args, 1, 2) || !AreParameters(context, args, 3, 4))
    return Solve::kFailed;
  return context.Result(args[0]);
}

// Quantises `real` with the scale and zero point of the result (arguments 3 and 4).
Tensor Quantized(const ComputeContext& context, const Tensor& real) {
  const te::TensorSpec& out = context.output();
  return te::ComputeTensor("quantize", out.dtype, out.dims, [&](std::span<const Expr> i) {
    return Quantized(real(i), ParameterAt(context.input(3), Expr()), ParameterAt(context.input(4), Expr()), out.dtype);
  });
}

template <UnaryOp op>
std::vector<Tensor> ComputeUnary(const ComputeContext& context) {
  Tensor x = Real(context.input(0), context.input(1), context.input(2), 0, kFloat32);
  Tensor y =
      te::ComputeTensor("unary", kFloat32, x.dims(), [&](std::span<const Expr> i) { return te::Unary(op, x(i)); });
  return {Quantized(context, y)};
}

// x * min(max(x + 3, 0), 6) / 6
std::vector<Tensor> ComputeHardswish(const ComputeContext& context) {
  Tensor x = Real(context.input(0), context.input(1), context.input(2), 0, kFloat32);
  Tensor y = te::ComputeTensor("hardswish", kFloat32, x.dims(), [&](std::span<const Expr> i) {
    auto number = [](double value) { return te::Const(kFloat32, value); };
    Expr gate = te::Binary(BinaryOp::kMaximum, x(i) + number(3), number(0));
    return x(i) * te::Binary(BinaryOp::kMinimum, gate, number(6)) * number(1.0 / 6);
  });
  return {Quantized(context, y)};
}

std::vector<Tensor> ComputeLeakyRelu(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  Tensor centred = Centred(context.input(0), context.input(2), 0);
  FixedPointFactors above = ToFixedPoint(Ratio(context.input(1), context.input(3)));
  FixedPointFactors below = ToFixedPoint(Ratio(context.input(1), context.input(3), context.attrs().GetDouble("alpha")));
  return {te::ComputeTensor("leaky_relu", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr x = centred(i);
    Expr value = te::Select(Less(x, te::Const(kInt32, 0)), Rescaled(x, below, Expr()), Rescaled(x, above, Expr()));
    return WithZeroPoint(value, context.input(4), Expr(), out.dtype);
  })};
}

// Applies the operator `name` to the real values.
std::vector<Tensor> ComputeOnReals(const ComputeContext& context, std::string_view name) {
  Tensor inputs[] = {Real(context.input(0), context.input(1), context.input(2), 0, kFloat32)};
  te::TensorSpec outputs[] = {{kFloat32, context.output().dims}};
  Tensor result = FindOp(name)->compute(ComputeContext(inputs, context.attrs(), outputs))[0];
  return {Quantized(context, result)};
}

Solve SoftmaxRelation(TypeContext& context) {
  if (Solve solve = RescaleRelation(context); solve != Solve::kDone) return solve;
  const auto* data = ir::DynCast<ir::TensorType>(context.arg(0));
  int64_t rank = static_cast<int64_t>(data->shape.dims.size());
  return NormalAxis(context, context.attrs().GetInt("axis"), rank) ? Solve::kDone : Solve::kFailed;
}
std::vector<Tensor> ComputeSoftmax(const ComputeContext& context) { return ComputeOnReals(context, "nn.softmax"); }

Solve AvgPoolRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!IsQuantized(context, args, 0) || !AreParameters(context, args, 1, 2) || !AreParameters(context, args, 3, 4))
    return Solve::kFailed;
  return FindOp("nn.avg_pool2d")->type_relation(context);
}
std::vector<Tensor> ComputeAvgPool(const ComputeContext& context) { return ComputeOnReals(context, "nn.avg_pool2d"); }

// ---- several arguments -----------------------------------------------------------------------

template <bool by_channels>
Solve BinaryRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (size_t i = 0; i < 2; ++i) {
    std::optional<Dim> channels = Channels(context, *args[i], i == 0 ? "lhs_axis" : "rhs_axis");
    if (!channels) return Solve::kFailed;
    if (!by_channels) channels = std::nullopt;
    if (!IsQuantized(context, args, i) || !AreParameters(context, args, 2 + 2 * i, 3 + 2 * i, channels))
      return Solve::kFailed;
  }
  return AreParameters(context, args, 6, 7) ? BroadcastRelation(context) : Solve::kFailed;
}

// One operand of a sum: its elements minus the zero point (int64), and the factors that rescale them to the result.
struct Side {
  Tensor centred;
  FixedPointFactors factors;
  size_t axis;
};

Side SideOf(const ComputeContext& context, size_t i) {
  const Tensor& data = context.input(i);
  std::string_view attr = i == 0 ? "lhs_axis" : "rhs_axis";
  size_t axis = data.rank() == 0 ? 0 : Normal(context.attrs().GetInt(attr), data.rank());
  return {Centred(data, context.input(3 + 2 * i), axis),
          ToFixedPoint(Ratio(context.input(2 + 2 * i), context.input(6))), axis};
}

template <bool subtract>
std::vector<Tensor> ComputeSum(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  Side sides[] = {SideOf(context, 0), SideOf(context, 1)};
  return {te::ComputeTensor("sum", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr terms[2];
    for (size_t s = 0; s < 2; ++s) {
      const Side& side = sides[s];
      std::vector<Expr> at = BroadcastIndices(i, side.centred.dims(), out.dims);
      terms[s] = Rescaled(side.centred(at), side.factors, ChannelOf(at, side.axis));
    }
    return WithZeroPoint(subtract ? terms[0] - terms[1] : terms[0] + terms[1], context.input(7), Expr(), out.dtype);
  })};
}

std::vector<Tensor> ComputeProduct(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  Tensor lhs = Centred(context.input(0), context.input(3), 0), rhs = Centred(context.input(1), context.input(5), 0);
  Tensor scale = te::ComputeTensor("scale", kFloat64, {}, [&](std::span<const Expr>) {
    return te::Cast(kFloat64, ParameterAt(context.input(2), Expr())) *
           te::Cast(kFloat64, ParameterAt(context.input(4), Expr()));
  });
  FixedPointFactors factors = ToFixedPoint(Ratio(scale, context.input(6)));
  return {te::ComputeTensor("product", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr product = lhs(BroadcastIndices(i, lhs.dims(), out.dims)) * rhs(BroadcastIndices(i, rhs.dims(), out.dims));
    return WithZeroPoint(Rescaled(product, factors, Expr()), context.input(7), Expr(), out.dtype);
  })};
}

// Requires argument `arg` to be a tuple of `count` scalars that are scales, or zero points if not `scales`.
Solve ScalarFields(TypeContext& context, int arg, size_t count, bool scales) {
  const ir::Type* type = context.arg(static_cast<size_t>(arg));
  if (type->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
  const auto* tuple = ir::DynCast<ir::TupleType>(type);
  bool fits = tuple != nullptr && tuple->fields.size() == count;
  for (size_t i = 0; fits && i < count; ++i) {
    if (tuple->fields[i]->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
    const auto* field = ir::DynCast<ir::TensorType>(tuple->fields[i]);
    if (field != nullptr && (!field->shape.is_dims() || !field->dtype.is_concrete())) return Solve::kStuck;
    fits = field != nullptr && IsOne(field->shape.dims) &&
           (scales ? field->dtype.dtype.is_float() : field->dtype.dtype == kInt32);
  }
  if (fits) return Solve::kDone;
  return context.Fail(
      DiagnosticKind::kNotTensorTuple,
      absl::StrCat("argument ", arg + 1, " has type `", ir::TypeToString(type), "`; expected a tuple of ", count,
                   scales ? " floating-point scalars" : " int32 scalars"),
      arg);
}

Solve ConcatenateRelation(TypeContext& context) {
  if (context.arg(0)->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
  if (const auto* tuple = ir::DynCast<ir::TupleType>(context.arg(0)); tuple != nullptr) {
    for (int i = 1; i < 3; ++i) {
      if (Solve solve = ScalarFields(context, i, tuple->fields.size(), i == 1); solve != Solve::kDone) return solve;
    }
  }
  bool failed = false;
  Types args(5);
  for (size_t i = 3; i < 5 && !failed; ++i) args[i] = TensorArg(context, i, &failed);
  if (failed) return Solve::kFailed;
  if (args[3] == nullptr || args[4] == nullptr) return Solve::kStuck;
  return AreParameters(context, args, 3, 4) ? FindOp("concatenate")->type_relation(context) : Solve::kFailed;
}

std::vector<Tensor> ComputeConcatenate(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  size_t count = (context.num_inputs() - 2) / 3;
  const Tensor &out_scale = context.input(3 * count), &out_zero = context.input(3 * count + 1);
  std::vector<Tensor> parts;
  for (size_t k = 0; k < count; ++k) {
    Tensor centred = Centred(context.input(k), context.input(2 * count + k), 0);
    FixedPointFactors factors = ToFixedPoint(Ratio(context.input(count + k), out_scale));
    parts.push_back(te::ComputeTensor("requantize", out.dtype, centred.dims(), [&](std::span<const Expr> i) {
      return WithZeroPoint(Rescaled(centred(i), factors, Expr()), out_zero, Expr(), out.dtype);
    }));
  }
  te::TensorSpec outputs[] = {out};
  return FindOp("concatenate")->compute(ComputeContext(parts, context.attrs(), outputs));
}

// ---- simulation ---------------------------------------------------------------------------------

Solve SimulatedRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Dim> channels = Channels(context, *args[0], "axis");
  if (!channels || !AreParameters(context, args, 2, 3, channels)) return Solve::kFailed;
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  if (!args[1]->shape.dims.empty()) return FailRank(context, 1, args[1]->shape.dims.size(), "a scalar");
  if (args[1]->dtype.dtype != kInt32) return FailDType(context, 1, args[1]->dtype.dtype, "`int32`");
  return context.Result(args[0]);
}

// An unknown code leaves the data unchanged.
template <bool quantize>
std::vector<Tensor> ComputeSimulated(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = data.rank() == 0 ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  DataType wide = Accumulator(data.dtype());
  constexpr DataType kCodes[] = {kInt8, kUInt8, kInt32};
  Tensor result = te::ComputeTensor("simulated", wide, data.dims(), [&](std::span<const Expr> i) {
    Expr channel = ChannelOf(i, axis);
    Expr x = te::Cast(wide, data(i)), scale = te::Cast(wide, ParameterAt(context.input(2), channel));
    Expr zero = te::Cast(wide, ParameterAt(context.input(3), channel));
    Expr value = x;
    for (int code = 1; code <= 3; ++code) {
      Expr coded = (x - zero) * scale;
      if (quantize) {
        Expr steps = RoundHalfAway(te::Binary(BinaryOp::kDivide, x, scale)) + zero;
        Expr low = te::Cast(wide, Lowest(kCodes[code - 1])), high = te::Cast(wide, Highest(kCodes[code - 1]));
        coded = te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, steps, high), low);
      }
      value = te::Select(Equal(context.input(1)({}), te::Const(kInt32, code)), coded, value);
    }
    return value;
  });
  return {CastTensor(result, data.dtype())};
}

constexpr OpDef Unary(std::string_view name, std::string_view summary, Compute compute) {
  return Op(name, summary, kRescaleInputs, {}, RescaleRelation, FusionClass::kBroadcast, compute);
}

constexpr OpDef kOps[] = {
    Op("qnn.quantize", "round(data / scale) + zero_point, saturated", kQuantizeInputs, kQuantizeAttrs, QuantizeRelation,
       FusionClass::kBroadcast, ComputeQuantize),
    WithGradient(Op("qnn.dequantize", "(data - zero_point) * scale", kDequantizeInputs, kDequantizeAttrs,
                    DequantizeRelation, FusionClass::kBroadcast, ComputeDequantize),
                 DequantizeGradient),
    Op("qnn.requantize", "the same numbers with another scale and zero point", kRescaleInputs, kRequantizeAttrs,
       RequantizeRelation, FusionClass::kBroadcast, ComputeRequantize),
    Op("qnn.add", "sum", kBinaryInputs, kBinaryAttrs, BinaryRelation<true>, FusionClass::kBroadcast, ComputeSum<false>),
    Op("qnn.subtract", "difference", kBinaryInputs, kBinaryAttrs, BinaryRelation<true>, FusionClass::kBroadcast,
       ComputeSum<true>),
    Op("qnn.mul", "product; scales are scalars", kBinaryInputs, kBinaryAttrs, BinaryRelation<false>,
       FusionClass::kBroadcast, ComputeProduct),
    Op("qnn.concatenate", "tensors joined along an axis", kConcatenateInputs, kJoinAttrs, ConcatenateRelation,
       FusionClass::kInjective, ComputeConcatenate),
    Op("qnn.avg_pool2d", "mean of each window", kRescaleInputs, kPoolAttrs, AvgPoolRelation, FusionClass::kReduction,
       ComputeAvgPool),
    Op("qnn.leaky_relu", "x where x > 0, else alpha * x", kRescaleInputs, kLeakyAttrs, RescaleRelation,
       FusionClass::kBroadcast, ComputeLeakyRelu),
    Op("qnn.softmax", "exp(x) / sum(exp(x)) along `axis`", kRescaleInputs, kSoftmaxAttrs, SoftmaxRelation,
       FusionClass::kReduction, ComputeSoftmax),
    WithGradient(Op("qnn.simulated_quantize", "`qnn.quantize` whose result stays floating point", kSimulatedInputs,
                    kAxisAttrs, SimulatedRelation, FusionClass::kBroadcast, ComputeSimulated<true>),
                 SimulatedQuantizeGradient),
    WithGradient(Op("qnn.simulated_dequantize", "`qnn.dequantize` of simulated integers", kSimulatedInputs,
                    kDequantizeAttrs, SimulatedRelation, FusionClass::kBroadcast, ComputeSimulated<false>),
                 SimulatedDequantizeGradient),
    Unary("qnn.abs", "absolute value", ComputeUnary<UnaryOp::kAbs>),
    Unary("qnn.erf", "error function", ComputeUnary<UnaryOp::kErf>),
    Unary("qnn.exp", "exponential", ComputeUnary<UnaryOp::kExp>),
    Unary("qnn.hardswish", "x * min(max(x + 3, 0), 6) / 6", ComputeHardswish),
    Unary("qnn.log", "natural logarithm", ComputeUnary<UnaryOp::kLog>),
    Unary("qnn.rsqrt", "1 / square root", ComputeUnary<UnaryOp::kRsqrt>),
    Unary("qnn.sigmoid", "1 / (1 + exp(-x))", ComputeUnary<UnaryOp::kSigmoid>),
    Unary("qnn.sqrt", "square root", ComputeUnary<UnaryOp::kSqrt>),
    Unary("qnn.tanh", "hyperbolic tangent", ComputeUnary<UnaryOp::kTanh>),
};

}  // namespace

std::span<const OpDef> QuantizedOps() { return kOps; }

}  // namespace rvm::ops
