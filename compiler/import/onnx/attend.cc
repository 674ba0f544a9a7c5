#include "compiler/import/onnx/attend.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rvm::onnx::convert {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMaskFilter = -10000;

// Either may be null.
Operand Sum(NodeContext& c, Operand a, Operand b) { return a == nullptr ? b : b == nullptr ? a : c.Add(a, b); }

}  // namespace

Operand KeyMask(NodeContext& c, size_t mask, const Dim& batch, const Dim& keys) {
  if (!c.Has(mask)) return nullptr;
  Operand x = c.Cast(c.In(mask), kInt64);
  const double filter = c.Float("mask_filter_value", kMaskFilter);
  const int64_t rank = c.RankOf(x);
  if (rank == 1 && CompareDims(c.ExtentOf(x, 0), batch) != DimEquality::kDifferent) {
    return BiasWhere(c, c.Op("less", {c.Iota(keys), c.Unsqueeze(x, {1, 2, 3})}), filter);
  }
  if (rank != 2 && rank != 3) {
    return c.Unsupported(absl::StrCat("a mask of shape ", DimsToString(c.DimsOf(x)),
                                      "; expected (batch), (batch, keys) or (batch, steps, keys)"));
  }
  Operand is_seen = c.Op("not_equal", {x, c.Number(0, x)});
  return BiasWhere(c, c.Unsqueeze(is_seen, rank == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}), filter);
}

Operand CausalMask(NodeContext& c, const Dim& steps, const Dim& keys, const Dim& past) {
  Operand last = c.Unsqueeze(c.Add(c.Iota(steps), c.emit().FromDim(past)), {1});
  return BiasWhere(c, c.Op("less_equal", {c.Iota(keys), last}), -kInfinity);
}

Operands AttendToProjection(NodeContext& c, Operand projected, size_t mask, size_t past, Operand bias) {
  if (c.failed()) return {};
  const int64_t heads = c.Int("num_heads", 0);
  const Dim width = FloorDiv(c.ExtentOf(projected, -1), 3);
  Operand parts[3];
  for (int64_t i = 0; i < 3; ++i) {
    parts[i] = HeadsOutside(c, HeadsOf(c, c.SliceAxis(projected, 2, width * i, width * (i + 1)), heads));
  }
  if (c.failed()) return {};
  auto [query, key, value] = parts;
  const Dim steps = c.ExtentOf(query, 2);
  Dim before = 0;
  if (c.Has(past)) {
    auto old = [&](int64_t i) { return c.Squeeze(c.SliceAxis(c.In(past), 0, i, i + 1), {0}); };
    before = c.ExtentOf(c.In(past), 3);
    key = c.Concatenate({old(0), key}, 2);
    value = c.Concatenate({old(1), value}, 2);
  }
  if (c.failed()) return {};
  const Dim keys = c.ExtentOf(key, 2);
  bias = Sum(c, bias, KeyMask(c, mask, c.ExtentOf(query, 0), keys));
  if (c.Int("unidirectional", 0) != 0) bias = Sum(c, bias, CausalMask(c, steps, keys, before));
  Operand y = JoinHeads(c, Attend(c, query, key, value, {.scale = c.Float("scale", 0), .bias = bias}));
  if (!c.WantsOutput(1)) return {y};
  return {y, c.Op("stack", {c.emit().Tuple({key, value})}, {{"axis", 0}})};
}

}  // namespace rvm::onnx::convert
