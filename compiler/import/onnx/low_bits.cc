// com.microsoft: weights of a few bits in blocks, each with a scale and a zero point.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/integer_product.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

// Codes of `bits` bits along the last axis of packed bytes, the lowest bits first.
Operand Unpacked(NodeContext& c, Operand bytes, int64_t bits) {
  return bits == 8 ? bytes : c.Op("unpack_bits", {bytes}, {{"bits", bits}});
}

// The first `count` codes of each row of a constant of packed bytes.
Literal UnpackedRows(const Literal& bytes, int64_t rows, int64_t count, int64_t bits) {
  std::vector<uint8_t> all = UnpackBits(bytes, bits, bytes.num_elements() * (8 / bits)), codes;
  const auto width = static_cast<std::ptrdiff_t>(all.size()) / std::max<int64_t>(rows, 1);
  for (int64_t row = 0; row < rows; ++row) {
    auto first = all.begin() + row * width;
    codes.insert(codes.end(), first, first + count);
  }
  return Literal::FromValues<uint8_t>(kUInt8, {rows, count}, codes);
}

// The matrix of a MatMulNBits: `columns` rows of `depth` codes, in `blocks` blocks of `block` codes each.
struct BlockMatrix {
  int64_t depth, columns, bits, block, blocks;
  int64_t bytes() const { return block * bits / 8; }  // of a block
};

std::optional<BlockMatrix> ReadBlockMatrix(NodeContext& c) {
  BlockMatrix m{c.Int("K", 0), c.Int("N", 0), c.Int("bits", 4), c.Int("block_size", 0), 0};
  if (m.bits != 2 && m.bits != 4 && m.bits != 8) {
    c.Unsupported(absl::StrCat("weights of ", m.bits, " bits; expected 2, 4 or 8"));
  } else if (m.depth < 1 || m.columns < 1) {
    c.Fail(absl::StrCat("`K` is ", m.depth, " and `N` is ", m.columns, "; expected 1 or more"));
  } else if (m.block < 16 || (m.block & (m.block - 1)) != 0) {
    c.Fail(absl::StrCat("`block_size` is ", m.block, "; expected a power of 2 of 16 or more"));
  } else if (c.Has(4)) {
    c.Unsupported("`g_idx`, an order of the rows of the weight; quantise the model without it (GPTQ: desc_act=False)");
  } else if (c.Int("weight_prepacked", 0) != 0) {
    c.Unsupported("weights packed for a kernel of another runtime (`weight_prepacked`)");
  }
  if (c.failed()) return std::nullopt;
  m.blocks = (m.depth + m.block - 1) / m.block;
  return m;
}

// An input of `count` elements in all as a matrix with a row for each column of the product.
Operand RowsOf(NodeContext& c, size_t input, const BlockMatrix& m, int64_t count, std::string_view what) {
  Operand x = c.In(input);
  if (c.failed()) return nullptr;
  std::optional<Shape> shape = StaticShape(c.DimsOf(x));
  int64_t elements = shape ? NumElements(*shape).value_or(-1) : -1;
  if (elements == 0 && what == "weight") return c.Unsupported("a weight that is left out (it has no elements)");
  if (elements != m.columns * count) {
    return c.Fail(absl::StrCat("its ", std::string(what), " has shape ", DimsToString(c.DimsOf(x)), "; expected ",
                               m.columns, "x", count, " elements"));
  }
  return c.Reshape(x, {m.columns, count});
}

// Returns a parameter of the blocks for each element of the matrix.
Operand ForElements(NodeContext& c, Operand parameter, const BlockMatrix& m) {
  return c.Op("repeat", {parameter}, {{"repeats", m.block}, {"axis", 1}});
}

// Returns the zero points in float32: one number, or one for each element.
Operand ZeroPoints(NodeContext& c, const BlockMatrix& m) {
  Operand one = c.emit().Number(static_cast<double>(int64_t{1} << (m.bits - 1)), kFloat32);
  if (!c.Has(3)) return one;
  if (c.DTypeOf(c.In(3)).is_float()) {
    Operand zeros = RowsOf(c, 3, m, m.blocks, "zero points");
    return c.failed() ? nullptr : ForElements(c, c.Cast(zeros, kFloat32), m);
  }
  Operand zeros = RowsOf(c, 3, m, (m.blocks * m.bits + 7) / 8, "zero points");
  if (c.failed()) return nullptr;
  if (c.DTypeOf(zeros) != kUInt8) {
    return c.Fail(absl::StrCat("its zero points are of ", c.DTypeOf(zeros).ToString(), "; expected uint8 or floats"));
  }
  if (!c.In(3)->constant) {
    Operand codes = c.SliceAxis(Unpacked(c, zeros, m.bits), 1, 0, m.blocks);
    return ForElements(c, c.Cast(codes, kFloat32), m);
  }
  Literal codes = UnpackedRows(*c.In(3)->constant, m.columns, m.blocks, m.bits);
  const auto values = codes.values<uint8_t>();
  bool is_one = std::all_of(values.begin(), values.end(), [&](uint8_t value) { return value == values[0]; });
  if (is_one) return c.emit().Number(values[0], kFloat32);
  return ForElements(c, c.Cast(c.emit().Constant(std::move(codes), absl::StrCat(c.In(3)->name, "_codes")), kFloat32),
                     m);
}

// Rounds rows of whole blocks, each block to int8 by its own greatest element. `accuracy_level` 4 allows that, so that
// kernels may multiply bytes.
Operand RoundedInBlocks(NodeContext& c, Operand a, const BlockMatrix& m) {
  constexpr double kMaxCode = 127;
  const Dims dims = c.DimsOf(a);
  Dims blocks(dims.begin(), dims.end() - 1);
  blocks.insert(blocks.end(), {Dim(m.blocks), Dim(m.block)});
  a = c.Reshape(a, blocks);
  Operand greatest = c.Op("max", {c.Op("abs", {a})}, {{"axis", ir::AttrValue::List{-1}}, {"keepdims", true}});
  Operand inverse = c.Div(c.Number(kMaxCode, a), c.Op("maximum", {greatest, c.Number(1e-30, a)}));
  Operand codes = c.Cast(c.Op("round_half_even", {c.Mul(a, inverse)}), kInt8);
  return c.Reshape(c.Mul(c.Cast(codes, kFloat32), c.Mul(greatest, c.Number(1 / kMaxCode, a))), dims);
}

// The codes stay packed in the program: a kernel expands them as it multiplies.
Operands MatMulNBits(NodeContext& c) {
  std::optional<BlockMatrix> m = ReadBlockMatrix(c);
  if (!m) return {};
  Operand a = c.In(0), bytes = RowsOf(c, 1, *m, m->blocks * m->bytes(), "weight");
  Operand scales = RowsOf(c, 2, *m, m->blocks, "scales"), zeros = ZeroPoints(c, *m);
  if (c.failed()) return {};
  const DataType dtype = c.DTypeOf(a);
  Operand weight = c.Sub(c.Cast(Unpacked(c, bytes, m->bits), kFloat32), zeros);
  weight = c.Mul(weight, ForElements(c, c.Cast(scales, kFloat32), *m));
  a = c.Cast(a, kFloat32);
  if (int64_t missing = m->blocks * m->block - m->depth; missing > 0) {
    Dims widths(static_cast<size_t>(2 * c.RankOf(a)), Dim(0));
    widths.back() = missing;
    a = importing::PadBy(c, a, 0, widths);
  }
  if (c.Int("accuracy_level", 0) == 4) a = RoundedInBlocks(c, a, *m);
  Operand y = c.Op("nn.dense", {a, weight});
  if (c.Has(5)) y = c.Add(y, c.Cast(c.In(5), kFloat32));
  return {c.Cast(y, dtype)};
}

// Rows of a table of codes, dequantised.
Operands GatherBlockQuantized(NodeContext& c) {
  Operand data = c.In(0), indices = c.In(1), scales = c.In(2);
  if (c.failed()) return {};
  int64_t rank = c.RankOf(data), axis = c.Axis(c.Int("gather_axis", 0), rank);
  int64_t blocks = c.Axis(c.Int("quantize_axis", 1), rank), block = c.Int("block_size", 128);
  // Integers of 4 bits of ONNX are unpacked already, and their zero point is 0 if there is none.
  const bool is_packed = c.DTypeOf(data) == kUInt8 && data->stored_bits == 0;
  const int64_t bits = is_packed ? c.Int("bits", 4) : 8;
  if (c.DTypeOf(data).is_float()) return {c.Unsupported("a table of floats of 8 or 4 bits")};
  if (bits != 2 && bits != 4 && bits != 8) return {c.Unsupported(absl::StrCat("codes of ", bits, " bits"))};
  if (block < 1) return {c.Fail(absl::StrCat("`block_size` is ", block, "; expected 16 or more"))};
  if (axis == blocks) return {c.Fail("`gather_axis` and `quantize_axis` are one axis")};
  if (is_packed && bits < 8 && axis == rank - 1)
    return {c.Fail("`gather_axis` is the axis along which codes are packed")};
  auto gathered = [&](Operand table) { return c.Op("take", {table, indices}, {{"axis", axis}, {"mode", "wrap"}}); };
  Operand codes = Unpacked(c, gathered(data), bits);
  int64_t along = blocks > axis ? blocks + c.RankOf(indices) - 1 : blocks;
  Operand y = c.Cast(codes, kFloat32);
  if (c.Has(3)) {
    Operand zeros = Unpacked(c, gathered(c.InBytes(3)), bits);
    if (bits < 8) zeros = c.SliceAxis(zeros, c.RankOf(zeros) - 1, 0, c.ExtentOf(scales, -1));
    y = c.Sub(y, c.Cast(Spread(c, zeros, y, along, block), kFloat32));
  } else if (is_packed) {
    y = c.Sub(y, c.Number(static_cast<double>(int64_t{1} << (bits - 1)), y));
  }
  y = c.Mul(y, c.Cast(Spread(c, gathered(scales), y, along, block), kFloat32));
  return {c.Cast(y, c.DTypeOf(scales))};
}

constexpr OperatorRow kRows[] = {
    {"com.microsoft.GatherBlockQuantized", GatherBlockQuantized},
    {"com.microsoft.MatMulNBits", MatMulNBits},
};

}  // namespace

std::span<const OperatorRow> LowBitsOperators() { return kRows; }

}  // namespace rvm::onnx::convert
