// Products of integers of a few bits, and integers packed bit by bit.
//
// The lowest bits of the operands count. With `unipolar`, a weight bit that is not set stands for -1: a weight w of b
// bits has the value 2 * w - (2^b - 1).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kPackInputs[] = {{"data", "integers"}};
constexpr Input kUnpackInputs[] = {{"data", "bytes (uint8) of one axis or more"}};
constexpr Input kDenseInputs[] = {{"data", "integers (..., columns)"},
                                  {"weight", "integers (units, columns), or packed: (units, bits, packs)"}};
constexpr Input kConvInputs[] = {{"data", "a batch of images of integers"}, {"weight", "the filters, integers"}};
constexpr AttrSpec kPackAttrs[] = {
    {"bits", AttrType::kInt, "1", "the number of bits that are packed"},
    {"pack_axis", AttrType::kInt, "1", "the axis whose elements are packed, the first one as the highest bit"},
    {"bit_axis", AttrType::kInt, "2", "where the new axis of the bits stands, the lowest one first"},
    {"pack_type", AttrType::kDType, "\"uint32\"", "the dtype of the packs"},
    {"name", AttrType::kString, "\"BitPack\"", "unused, for compatibility"}};
constexpr AttrSpec kUnpackAttrs[] = {
    {"bits", AttrType::kInt, "4", "the number of bits of an integer: 1, 2 or 4"},
    {"signed", AttrType::kBool, "False", "the integers are signed (two's complement), and the result is int8"}};
#define RVM_BITS_ATTRS(data_bits)                                                             \
  {data_bits, AttrType::kInt, "1", "the number of bits of data"},                             \
      {"weight_bits", AttrType::kInt, "1", "the number of bits of weight"},                   \
      {"pack_dtype", AttrType::kDType, "\"uint32\"", "the dtype of weights that are packed"}, \
      {"out_dtype", AttrType::kDType, "\"int16\"", "dtype of the result, which wraps"},       \
      {"unipolar", AttrType::kBool, "True", "a weight bit that is not set stands for -1, else for 0"}
constexpr AttrSpec kDenseAttrs[] = {{"units", AttrType::kInt, "None", "rows of weight, checked", true},
                                    RVM_BITS_ATTRS("data_bits")};
constexpr AttrSpec kConvAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "None", "extents of the filters, checked", true},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"kernel_layout", AttrType::kString, "\"OIHW\"", "axes of weight"},
    RVM_BITS_ATTRS("activation_bits")};
#undef RVM_BITS_ATTRS
constexpr Example kPackExamples[] = {
    {"nn.bitpack([[1u8, 2u8, 3u8, 0u8, 0u8, 0u8, 0u8, 1u8]], bits=2, pack_type=\"uint8\")", "[[[161u8, 96u8]]]"}};
constexpr Example kUnpackExamples[] = {{"unpack_bits([[33u8, 243u8]])", "[[1u8, 2u8, 3u8, 15u8]]"},
                                       {"unpack_bits([27u8], bits=2, signed=True)", "[-1i8, -2i8, 1i8, 0i8]"}};
constexpr Example kDenseExamples[] = {
    {"nn.bitserial_dense([[1, 2, 3]], [[1, 0, 1], [0, 1, 1]], data_bits=2)", "[[2i16, 4i16]]"},
    {"nn.bitserial_dense([[1, 2, 3]], [[1, 0, 1], [0, 1, 1]], data_bits=2, unipolar=False)", "[[4i16, 5i16]]"}};
constexpr Example kConvExamples[] = {
    {"nn.bitserial_conv2d([[[[1, 0, 1]]]], [[[[1, 0]]]], kernel_size=[1, 2])", "[[[[1i16, -1i16]]]]"}};

// Returns the number of bits that an attribute gives, from 1 to `most`. Reports an error and returns nullopt for any
// other.
std::optional<int64_t> Bits(TypeContext& context, std::string_view name, int64_t most) {
  int64_t bits = context.attrs().GetInt(name);
  if (bits >= 1 && bits <= most) return bits;
  context.Fail(DiagnosticKind::kBadAttribute,
               absl::StrCat("`", std::string(name), "` is ", bits, "; expected 1 to ", most));
  return std::nullopt;
}

bool AreIntegers(TypeContext& context, const Types& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    DataType dtype = args[i]->dtype.dtype;
    if (IsIndexType(dtype)) continue;
    FailDType(context, static_cast<int>(i), dtype, "an integer dtype");
    return false;
  }
  return true;
}

// Returns the `bits` lowest bits of `value`, of `dtype`.
Expr LowestBits(const Expr& value, DataType dtype, int64_t bits) {
  Expr mask = te::IntConst(dtype, static_cast<int64_t>((uint64_t{1} << bits) - 1));
  return te::Binary(BinaryOp::kAnd, te::Cast(dtype, value), mask);
}

// ---- packs --------------------------------------------------------------------------

Solve PackRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!AreIntegers(context, args)) return Solve::kFailed;
  DataType pack = DTypeAttr(context.attrs(), "pack_type", kUInt32);
  if (!IsIndexType(pack)) return context.Fail(DiagnosticKind::kBadAttribute, "`pack_type` is no integer dtype");
  std::optional<int64_t> bits = Bits(context, "bits", args[0]->dtype.dtype.bits);
  if (!bits) return Solve::kFailed;
  Dims out = args[0]->shape.dims;
  auto rank = static_cast<int64_t>(out.size());
  std::optional<int64_t> packed = NormalAxis(context, context.attrs().GetInt("pack_axis"), rank, "pack_axis");
  if (!packed) return Solve::kFailed;
  std::optional<int64_t> place = NormalAxis(context, context.attrs().GetInt("bit_axis"), rank + 1, "bit_axis");
  if (!place) return Solve::kFailed;
  Dim& extent = out[static_cast<size_t>(*packed)];
  if (!context.RequireEqual(FloorMod(extent, pack.bits), 0, "`nn.bitpack`: elements beyond the last whole pack"))
    return Solve::kFailed;
  extent = FloorDiv(extent, pack.bits);
  out.insert(out.begin() + *place, Dim(*bits));
  return ResultTensor(context, out, pack);
}

std::vector<Tensor> ComputePack(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  size_t packed = Normal(context.attrs().GetInt("pack_axis"), data.rank());
  size_t place = Normal(context.attrs().GetInt("bit_axis"), out.dims.size());
  int64_t width = out.dtype.bits;
  return {ReduceOver(ReduceOp::kSum, out.dtype, out.dims, {width}, [&](Indices o, Indices r) {
    std::vector<Expr> at(o.begin(), o.end());
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(place));
    at[packed] = at[packed] * te::Index(width) + r[0];
    Expr bits = te::Binary(BinaryOp::kShiftRight, data(at), te::Cast(data.dtype(), o[place]));
    Expr bit = te::Cast(out.dtype, te::Binary(BinaryOp::kAnd, bits, te::Const(data.dtype(), 1)));
    return te::Binary(BinaryOp::kShiftLeft, bit, te::Cast(out.dtype, te::Index(width - 1) - r[0]));
  })};
}

Solve UnpackRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (args[0]->dtype.dtype != kUInt8) return FailDType(context, 0, args[0]->dtype.dtype, "uint8");
  Dims out = args[0]->shape.dims;
  if (out.empty()) return FailRank(context, 0, 0, "1 or more");
  int64_t bits = context.attrs().GetInt("bits");
  if (bits != 1 && bits != 2 && bits != 4) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`bits` is ", bits, "; expected 1, 2 or 4"));
  }
  out.back() = out.back() * (8 / bits);
  return ResultTensor(context, out, context.attrs().GetBool("signed") ? kInt8 : kUInt8);
}

std::vector<Tensor> ComputeUnpack(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  int64_t bits = context.attrs().GetInt("bits"), sign = int64_t{1} << (bits - 1);
  Expr count = te::Index(8 / bits);
  return {te::ComputeTensor("unpacked", out.dtype, out.dims, [&](Indices i) {
    Expr byte = data(With(i, i.size() - 1, te::Binary(BinaryOp::kFloorDivide, i.back(), count)));
    Expr shift = te::Cast(kUInt8, te::Binary(BinaryOp::kFloorMod, i.back(), count) * te::Index(bits));
    Expr code = LowestBits(te::Binary(BinaryOp::kShiftRight, byte, shift), kUInt8, bits);
    if (out.dtype == kUInt8) return code;
    return te::Binary(BinaryOp::kXor, te::Cast(kInt8, code), te::IntConst(kInt8, sign)) - te::IntConst(kInt8, sign);
  })};
}

// ---- operands of products -------------------------------------------------------------

DataType ProductType(const te::TensorSpec& out) { return out.dtype.bits > 32 ? kInt64 : kInt32; }

// Returns the number that the bits of a weight stand for.
Expr WeightOf(const ir::Attrs& attrs, const Expr& bits, DataType dtype) {
  if (!attrs.GetBool("unipolar")) return bits;
  int64_t most = (int64_t{1} << attrs.GetInt("weight_bits")) - 1;
  return bits + bits - te::IntConst(dtype, most);
}

constexpr int64_t kMaxBits = 16;

bool CheckOperands(TypeContext& context, const Types& args, std::string_view data_bits) {
  if (!AreIntegers(context, args)) return false;
  if (!IsIndexType(DTypeAttr(context.attrs(), "out_dtype", kInt16))) {
    context.Fail(DiagnosticKind::kBadAttribute, "`out_dtype` is no integer dtype");
    return false;
  }
  return Bits(context, data_bits, kMaxBits) && Bits(context, "weight_bits", kMaxBits);
}

// ---- dense -----------------------------------------------------------------------------

Solve DenseRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!CheckOperands(context, args, "data_bits")) return Solve::kFailed;
  Dims out = args[0]->shape.dims;
  const Dims& weight = args[1]->shape.dims;
  if (out.empty()) return FailRank(context, 0, 0, "1 or more");
  if (weight.size() != 2 && weight.size() != 3) return FailRank(context, 1, weight.size(), "2, or 3 if packed");
  Dim columns = weight.back();
  if (weight.size() == 3) {
    columns = columns * static_cast<int64_t>(args[1]->dtype.dtype.bits);
    if (!context.RequireEqual(weight[1], context.attrs().GetInt("weight_bits"), "`weight_bits` and those of the packs"))
      return Solve::kFailed;
  }
  if (!context.RequireEqual(out.back(), columns, "`nn.bitserial_dense`: columns of data and weight",
                            DiagnosticKind::kReductionExtentMismatch))
    return Solve::kFailed;
  if (!context.attrs().IsNone("units") &&
      !context.RequireEqual(weight[0], context.attrs().GetInt("units"), "`units` and the rows of weight"))
    return Solve::kFailed;
  out.back() = weight[0];
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "out_dtype", kInt16));
}

// Returns the bits of the weight at (row, column) as a number, from packs (row, bit, pack).
Expr UnpackedBits(const Tensor& weight, const Expr& row, const Expr& column, int64_t bits, DataType dtype) {
  int64_t width = weight.dtype().bits;
  Expr pack = te::Binary(BinaryOp::kFloorDivide, column, te::Index(width));
  Expr shift = te::Index(width - 1) - te::Binary(BinaryOp::kFloorMod, column, te::Index(width));
  Expr number;
  for (int64_t bit = 0; bit < bits; ++bit) {
    Expr value =
        te::Binary(BinaryOp::kShiftRight, weight({row, te::Index(bit), pack}), te::Cast(weight.dtype(), shift));
    Expr one = te::Cast(dtype, te::Binary(BinaryOp::kAnd, value, te::Const(weight.dtype(), 1)));
    Expr term = one * te::IntConst(dtype, int64_t{1} << bit);
    number = number ? number + term : term;
  }
  return number;
}

std::vector<Tensor> ComputeDense(const ComputeContext& context) {
  const Tensor &data = context.input(0), &weight = context.input(1);
  const te::TensorSpec& out = context.output();
  const ir::Attrs& attrs = context.attrs();
  DataType dtype = ProductType(out);
  int64_t bits = attrs.GetInt("weight_bits");
  Tensor numbers = te::ComputeTensor("weight", dtype, {weight.dims()[0], data.dims().back()}, [&](Indices i) {
    Expr number =
        weight.rank() == 3 ? UnpackedBits(weight, i[0], i[1], bits, dtype) : LowestBits(weight(i), dtype, bits);
    return WeightOf(attrs, number, dtype);
  });
  Tensor sum = ReduceOver(ReduceOp::kSum, dtype, out.dims, {data.dims().back()}, [&](Indices o, Indices r) {
    Expr value = LowestBits(data(With(o, o.size() - 1, r[0])), dtype, attrs.GetInt("data_bits"));
    return value * numbers({o.back(), r[0]});
  });
  return {CastTensor(sum, out.dtype)};
}

// ---- convolution -------------------------------------------------------------------------

// Returns the attributes of `nn.conv2d` for those of `nn.bitserial_conv2d`.
ir::Attrs PlainAttrs(const ir::Attrs& attrs) {
  ir::Attrs plain;
  for (std::string_view name : {"strides", "padding", "channels", "kernel_size", "data_layout", "kernel_layout"}) {
    plain.Set(std::string(name), *attrs.Find(name));
  }
  return *WithDefaults(*FindOp("nn.conv2d"), std::move(plain));
}

Solve ConvRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!CheckOperands(context, args, "activation_bits")) return Solve::kFailed;
  const Dims &data = args[0]->shape.dims, &weight = args[1]->shape.dims;
  for (int i = 0; i < 2; ++i) {
    size_t rank = args[static_cast<size_t>(i)]->shape.dims.size();
    if (rank != 4) return FailRank(context, i, rank, "rank 4");
  }
  ir::Attrs attrs = PlainAttrs(context.attrs());
  if (!CheckLayout(context, attrs.GetString("data_layout"), "NCHW", "data_layout") ||
      !CheckLayout(context, attrs.GetString("kernel_layout"), "OIHW", "kernel_layout"))
    return Solve::kFailed;
  Layout images(attrs.GetString("data_layout")), filters(attrs.GetString("kernel_layout"));
  std::vector<int64_t> taps;
  for (size_t axis : filters.spatial) {
    if (!weight[axis].is_const()) {
      return context.Fail(
          DiagnosticKind::kShapeMismatch,
          absl::StrCat("the filters have shape ", DimsToString(weight), "; expected known spatial extents"), 1);
    }
    taps.push_back(weight[axis].constant());
  }
  std::optional<std::vector<Window>> windows = MakeWindows(attrs, taps, &context);
  if (!windows) return Solve::kFailed;
  if (!attrs.IsNone("kernel_size") && PerAxis(attrs.GetInts("kernel_size"), 2) != taps) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`kernel_size` does not fit the filters of shape ", DimsToString(weight)));
  }
  const Dim& outputs = weight[filters.axis('O')];
  if (!context.RequireEqual(data[images.axis('C')], weight[filters.axis('I')], "channels of data and filters"))
    return Solve::kFailed;
  if (!attrs.IsNone("channels") &&
      !context.RequireEqual(outputs, attrs.GetInt("channels"), "`channels` and the filters"))
    return Solve::kFailed;
  Dims out = data;
  out[images.axis('C')] = outputs;
  for (size_t s = 0; s < 2; ++s) out[images.spatial[s]] = WindowCount(data[images.spatial[s]], (*windows)[s]);
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "out_dtype", kInt16));
}

std::vector<Tensor> ComputeConv(const ComputeContext& context) {
  const Tensor &data = context.input(0), &weight = context.input(1);
  const ir::Attrs& attrs = context.attrs();
  DataType dtype = ProductType(context.output());
  Tensor inputs[] = {
      te::ComputeTensor("data", dtype, data.dims(),
                        [&](Indices i) { return LowestBits(data(i), dtype, attrs.GetInt("activation_bits")); }),
      te::ComputeTensor("weight", dtype, weight.dims(), [&](Indices i) {
        return WeightOf(attrs, LowestBits(weight(i), dtype, attrs.GetInt("weight_bits")), dtype);
      })};
  te::TensorSpec outputs[] = {{dtype, context.output().dims}};
  Tensor sum = FindOp("nn.conv2d")->compute(ComputeContext(inputs, PlainAttrs(attrs), outputs))[0];
  return {CastTensor(sum, context.output().dtype)};
}

constexpr OpDef kOps[] = {
    Op("nn.bitpack", "integers packed bit by bit: along an axis, the same bit of neighbouring elements", kPackInputs,
       kPackAttrs, PackRelation, FusionClass::kOpaque, ComputePack, kPackExamples),
    Op("unpack_bits", "integers of a few bits that bytes hold, the lowest bits first: the last axis grows",
       kUnpackInputs, kUnpackAttrs, UnpackRelation, FusionClass::kInjective, ComputeUnpack, kUnpackExamples),
    Op("nn.bitserial_dense", "the product of data and a transposed weight, both of a few bits", kDenseInputs,
       kDenseAttrs, DenseRelation, FusionClass::kContraction, ComputeDense, kDenseExamples),
    Op("nn.bitserial_conv2d", "convolution along two axes of images and filters of a few bits", kConvInputs, kConvAttrs,
       ConvRelation, FusionClass::kContraction, ComputeConv, kConvExamples),
};

}  // namespace

std::span<const OpDef> BitserialOps() { return kOps; }

}  // namespace rvm::ops
