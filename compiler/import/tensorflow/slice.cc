// Slices with begins, ends and steps, of which only the running program may know some.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/shapes.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

constexpr size_t kMaxEntries = 32;

// An axis of the input: the part of it that a slice takes. Null ends are those of the axis.
struct Entry {
  Operand begin = nullptr, end = nullptr;  // int64 vectors of one element
  int64_t step = 1;
  bool is_dropped = false;  // one place, whose axis goes away

  bool IsWhole() const { return begin == nullptr && end == nullptr && step == 1 && !is_dropped; }
};
struct Slices {
  std::vector<Entry> axes;
  std::vector<int64_t> added;  // places of new axes in the result
};

// The masks of a StridedSlice node, a bit for each entry.
struct Masks {
  explicit Masks(NodeContext& c)
      : begin(Of(c, "begin_mask")),
        end(Of(c, "end_mask")),
        ellipsis(Of(c, "ellipsis_mask")),
        added(Of(c, "new_axis_mask")),
        dropped(Of(c, "shrink_axis_mask")) {}
  static uint64_t Of(NodeContext& c, std::string_view name) { return static_cast<uint64_t>(c.IntAttr(name, 0)); }
  uint64_t begin, end, ellipsis, added, dropped;
};

// An entry of an ellipsis takes all of the axes that the others leave; one of a new axis takes none.
std::optional<Slices> ReadSlices(NodeContext& c, int64_t rank) {
  const std::vector<int64_t> steps = c.Ints(3, "steps");
  Operand begins = c.In(1), ends = c.In(2);
  if (c.failed()) return std::nullopt;
  const Dims length = {static_cast<int64_t>(steps.size())};
  if (steps.size() > kMaxEntries || c.DimsOf(begins) != length || c.DimsOf(ends) != length) {
    c.Fail("its begin, end and steps have different lengths, or too many elements");
    return std::nullopt;
  }
  const Masks masks(c);
  auto has = [](uint64_t mask, size_t i) { return (mask >> i & 1) != 0; };
  int64_t named = 0, results = 0;
  for (size_t i = 0; i < steps.size(); ++i) named += has(masks.ellipsis | masks.added, i) ? 0 : 1;
  Slices slices;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (has(masks.ellipsis, i)) {
      for (int64_t k = named; k < rank; ++k, ++results) slices.axes.emplace_back();
      continue;
    }
    if (has(masks.added, i)) {
      slices.added.push_back(results++);
      continue;
    }
    auto element = [&](Operand vector) {
      const auto at = static_cast<int64_t>(i);
      return c.Cast(c.SliceAxis(vector, 0, at, at + 1), kInt64);
    };
    Entry& entry = slices.axes.emplace_back();
    entry.is_dropped = has(masks.dropped, i);
    if (entry.is_dropped || !has(masks.begin, i)) entry.begin = element(begins);
    if (!entry.is_dropped && !has(masks.end, i)) entry.end = element(ends);
    if (!entry.is_dropped) entry.step = steps[i];
    if (!entry.is_dropped) ++results;
  }
  if (static_cast<int64_t>(slices.axes.size()) > rank) c.Fail("it has more entries than its input has axes");
  return c.failed() ? std::nullopt : std::optional(slices);
}

bool IsKnown(Operand bound) { return bound == nullptr || bound->constant; }

// Takes the entries that are numbers, all at once.
Operand TakeKnown(NodeContext& c, Operand x, const Slices& slices) {
  std::vector<int64_t> axes, begins, ends, steps;
  for (size_t i = 0; i < slices.axes.size(); ++i) {
    const Entry& entry = slices.axes[i];
    if (entry.IsWhole() || !IsKnown(entry.begin) || !IsKnown(entry.end)) continue;
    const int64_t first = entry.step > 0 ? 0 : importing::kBeyond;
    axes.push_back(static_cast<int64_t>(i));
    begins.push_back(entry.begin == nullptr ? first : entry.begin->constant->IntAt(0));
    const int64_t behind = begins.back() == -1 ? importing::kBeyond : begins.back() + 1;
    const int64_t last = entry.step > 0 ? importing::kBeyond : -importing::kBeyond;
    ends.push_back(entry.is_dropped ? behind : entry.end == nullptr ? last : entry.end->constant->IntAt(0));
    steps.push_back(entry.step);
  }
  if (axes.empty()) return x;
  return c.Op("strided_slice", {x},
              {{"begin", ir::IntList(begins)},
               {"end", ir::IntList(ends)},
               {"strides", ir::IntList(steps)},
               {"axes", ir::IntList(axes)}});
}

// Takes the range of an axis that only the running program knows.
Operand TakeRange(NodeContext& c, Operand x, int64_t axis, const Entry& entry) {
  if (entry.step != 1) return c.Unsupported("a step other than 1 of a slice that is not known");
  const Dim extent = c.ExtentOf(x, axis);
  Operand whole = c.emit().FromDims({{extent}});
  Operand begin = entry.begin == nullptr ? c.emit().Vector({{0}}) : entry.begin;
  Operand end = entry.end == nullptr ? whole : entry.end;
  const std::optional<Dims> from = c.Symbols(begin), to = c.Symbols(end);
  std::optional<Dim> length;
  if (from && to) length = importing::SlicedExtent(extent, (*from)[0], (*to)[0], 1);
  Operand y = c.Op("dyn.strided_slice", {x, begin, end, c.emit().Vector({{1}})}, {{"axes", ir::IntList({{axis}})}});
  if (c.failed() || !length) return y;
  Dims dims = c.DimsOf(y);
  dims[static_cast<size_t>(axis)] = *length;
  return c.emit().Retyped(y, c.emit().TensorType(dims, c.DTypeOf(y)));
}

Operands StridedSlice(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const std::optional<Slices> slices = ReadSlices(c, c.RankOf(x));
  if (!slices) return {};
  x = TakeKnown(c, x, *slices);
  std::vector<int64_t> dropped;
  for (size_t i = slices->axes.size(); i-- > 0 && !c.failed();) {
    const Entry& entry = slices->axes[i];
    const auto axis = static_cast<int64_t>(i);
    if (IsKnown(entry.begin) && IsKnown(entry.end)) continue;
    if (!entry.is_dropped) {
      x = TakeRange(c, x, axis, entry);
      continue;
    }
    // One place: the axis stays with an extent of 1, as behind TakeKnown.
    Operand extent = c.emit().FromDims({{c.ExtentOf(x, axis)}});
    Operand at = c.Where(c.Op("less", {entry.begin, c.Integer(0)}), c.Add(entry.begin, extent), entry.begin);
    x = c.Op("take", {x, at}, {{"axis", axis}});
  }
  for (size_t i = 0; i < slices->axes.size(); ++i) {
    if (slices->axes[i].is_dropped) dropped.push_back(static_cast<int64_t>(i));
  }
  return {c.failed() ? nullptr : c.Unsqueeze(c.Squeeze(x, dropped), slices->added)};
}

constexpr OperatorRow kRows[] = {
    {"Slice", Shared<tensorflow_family::Slice>},
    {"StridedSlice", StridedSlice},
};

}  // namespace

std::span<const OperatorRow> SliceOperators() { return kRows; }

}  // namespace rvm::tensorflow
