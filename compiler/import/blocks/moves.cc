#include "compiler/import/blocks/moves.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/shapes.h"

namespace rvm::importing {

Operand Flat(Steps& c, Operand x) { return c.Op("reshape", {x}, {{"newshape", ir::AttrValue::List{-1}}}); }

Operand SwapAxes(Steps& c, Operand x, int64_t a, int64_t b) {
  const int64_t rank = c.RankOf(x);
  if (rank == 0) return x;
  std::vector<int64_t> axes = AllAxes(rank);
  std::swap(axes[static_cast<size_t>(c.Axis(a, rank))], axes[static_cast<size_t>(c.Axis(b, rank))]);
  return c.Transpose(x, axes);
}

std::optional<Dims> TargetShape(Steps& c, const Dims& from, Dims to, bool copies_zeros) {
  std::optional<size_t> inferred;
  Dims rest = from, given = to;  // without the extents that are copied, which may be 0
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == Dim(0) && copies_zeros) {
      if (i >= from.size()) {
        c.Fail(absl::StrCat("extent ", i, " of its shape is 0, and its input has rank ", from.size()));
        return std::nullopt;
      }
      to[i] = from[i];
      rest[i] = given[i] = 1;
    } else if (to[i].is_const() && to[i].constant() < 0) {
      if (to[i] != Dim(-1) || inferred) {
        c.Fail("its shape has more than one negative extent, or one that is not -1");
        return std::nullopt;
      }
      inferred = i;
    }
  }
  if (inferred) to[*inferred] = InferExtent(rest, given, *inferred);
  return to;
}

Operands PartsOf(Steps& c, Operand x, int64_t axis, const Dims& sizes) {
  Operands parts;
  Dim begin = 0, extent = c.ExtentOf(x, axis);
  for (size_t i = 0; i < sizes.size(); ++i) {
    // Many equal parts begin at products: sums of so many sizes would be long.
    bool is_equal = i + 1 < sizes.size() && sizes[i] == sizes[0] && begin == sizes[0] * Dim(static_cast<int64_t>(i));
    Dim next = is_equal ? sizes[0] * Dim(static_cast<int64_t>(i) + 1) : begin + sizes[i];
    Dim end = i + 1 == sizes.size() && !extent.is_const() ? extent : next;
    parts.push_back(c.SliceAxis(x, axis, begin, end));
    begin = end;
  }
  return parts;
}

Operands PartsOf(Steps& c, Operand x, int64_t axis, Operand sizes, int64_t count) {
  Operands parts;
  Operand begin = c.emit().Vector({{0}}), one = c.emit().Vector({{1}});
  for (int64_t i = 0; i < count; ++i) {
    Operand end = c.Add(begin, c.SliceAxis(sizes, 0, i, i + 1));
    parts.push_back(c.Op("dyn.strided_slice", {x, begin, end, one}, {{"axes", ir::IntList({{axis}})}}));
    begin = end;
  }
  return parts;
}

ir::AttrValue::List PadWidths(std::span<const int64_t> widths) {
  ir::AttrValue::List pairs;
  for (size_t i = 0; i + 1 < widths.size(); i += 2) pairs.emplace_back(ir::IntList(widths.subspan(i, 2)));
  return pairs;
}

DataType UnsignedOf(DataType dtype) {
  return dtype.bytes() == 1 ? kUInt8 : dtype.bytes() == 2 ? kUInt16 : dtype.bytes() == 4 ? kUInt32 : kUInt64;
}

Operand BitsAs(Steps& c, Operand x, DataType dtype) {
  if (c.failed()) return x;
  const DataType from = c.DTypeOf(x);
  auto reinterpret = [&](Operand value, DataType to) {
    return c.DTypeOf(value) == to ? value : c.Op("reinterpret", {value}, {{"dtype", to.ToString()}});
  };
  if (from.bytes() == dtype.bytes()) return reinterpret(x, dtype);
  if (dtype.is_bool()) return c.Unsupported("bits of numbers as booleans");
  const bool widens = from.bytes() < dtype.bytes();
  const int64_t parts = widens ? dtype.bytes() / from.bytes() : from.bytes() / dtype.bytes();
  const DataType wide = UnsignedOf(widens ? dtype : from), narrow = UnsignedOf(widens ? from : dtype);
  if (widens && (c.RankOf(x) == 0 || CompareDims(c.ExtentOf(x, -1), Dim(parts)) == DimEquality::kDifferent)) {
    return c.Fail(absl::StrCat("its last axis has not ", parts, " elements, which are one of the result"));
  }
  std::vector<int64_t> distances;
  for (int64_t i = 0; i < parts; ++i) distances.push_back(i * narrow.bits);
  Operand shifts = c.Cast(c.emit().Vector(distances), wide);
  x = reinterpret(x, UnsignedOf(from));
  if (!widens) {
    Operand moved = c.Op("right_shift", {c.Unsqueeze(x, {c.RankOf(x)}), shifts});
    Operand lowest = c.emit().Constant(Literal::ScalarInt(wide, (int64_t{1} << narrow.bits) - 1));
    return reinterpret(c.Cast(c.Op("bitwise_and", {moved, lowest}), narrow), dtype);
  }
  // The parts have no bits in common.
  Operand moved = c.Op("left_shift", {c.Cast(x, wide), shifts});
  return reinterpret(c.Op("sum", {moved}, {{"axis", ir::IntList({{c.RankOf(x) - 1}})}}), dtype);
}

}  // namespace rvm::importing
