// Layers that merge several tensors.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/blocks/norms.h"
#include "compiler/import/keras/importer.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Term;

// Returns the inputs; those of lower rank get axes behind the batch.
Operands Parts(LayerContext& c) {
  Operands parts;
  int64_t rank = 0;
  for (size_t i = 0; i < c.inputs().size(); ++i) {
    parts.push_back(c.In(i));
    if (!c.failed()) rank = std::max(rank, c.RankOf(parts.back()));
  }
  if (parts.empty()) c.Fail("it has no inputs");
  for (Operand& part : parts) {
    std::vector<int64_t> axes;
    for (int64_t i = c.failed() ? rank : c.RankOf(part); i < rank; ++i) axes.push_back(i - c.RankOf(part) + 1);
    if (!axes.empty()) part = c.Unsqueeze(part, axes);
  }
  return parts;
}

// Returns where any input counts, if all have a mask.
Operand AnyMask(LayerContext& c) {
  Operand mask = c.Mask(0);
  for (size_t i = 1; i < c.inputs().size() && mask != nullptr; ++i) {
    mask = c.Mask(i) == nullptr ? nullptr : c.Op("logical_or", {mask, c.Mask(i)});
  }
  return mask;
}

Values Merge(LayerContext& c) {
  const Operands parts = Parts(c);
  if (c.failed()) return {};
  Operand merged = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) merged = c.Op(c.row().variant, {merged, parts[i]});
  return {{merged, AnyMask(c)}};
}

Values Average(LayerContext& c) {
  Values sum = Merge(c);
  if (c.failed() || sum.empty()) return {};
  sum[0].tensor = c.Div(sum[0].tensor, c.Number(static_cast<double>(c.inputs().size()), sum[0].tensor));
  return sum;
}

Values Subtract(LayerContext& c) {
  if (c.inputs().size() != 2) return {{c.Fail("it has not 2 inputs")}};
  return Merge(c);
}

// A layer of `keras.applications`, for InceptionResNet: a + scale b.
Values ScaledSum(LayerContext& c) {
  if (c.inputs().size() != 2) return {{c.Fail("it has not 2 inputs")}};
  Operand a = c.In(0), b = c.In(1);
  return {{c.failed() ? a : c.Add(a, c.Mul(b, c.Number(c.Number("scale", 1), b)))}};
}

Values Concatenate(LayerContext& c) {
  Operands parts;
  for (size_t i = 0; i < c.inputs().size(); ++i) parts.push_back(c.In(i));
  if (parts.empty()) return {{c.Fail("it has no inputs")}};
  if (c.failed()) return {};
  const int64_t rank = c.RankOf(parts[0]), axis = c.Axis(c.Int("axis", -1), rank);
  Operand joined = c.Concatenate(parts, axis);
  const bool has_mask = std::ranges::any_of(c.inputs(), [](const Value& input) { return input.mask != nullptr; });
  if (!has_mask || c.failed()) return {{joined}};
  // A step counts where any element does.
  Operands masks;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Dims& dims = c.DimsOf(parts[i]);
    Operand mask = c.Mask(i);
    if (mask == nullptr) mask = c.emit().Constant(Literal::ScalarInt(kBool, 1));
    if (c.RankOf(mask) > 0 && c.RankOf(mask) < rank) mask = c.Unsqueeze(mask, {c.RankOf(mask)});
    masks.push_back(c.BroadcastTo(mask, dims));
  }
  Operand all = c.Concatenate(masks, axis);
  return {{joined, c.Op("any", {all}, {{"axis", ir::AttrValue::List{rank - 1}}})}};
}

// Multiplies the matrices of a batch over one axis of each.
Values Dot(LayerContext& c) {
  Operand x = c.In(0), y = c.In(1);
  std::vector<int64_t> axes = c.Ints("axes");
  if (c.failed()) return {};
  if (axes.size() == 1) axes.push_back(axes[0]);
  if (axes.size() != 2) return {{c.Fail("its `axes` are not 1 or 2 numbers")}};
  const int64_t rank_x = c.RankOf(x), rank_y = c.RankOf(y);
  if (rank_x < 2 || rank_y < 2 || rank_x + rank_y > 20) return {{c.Fail("its inputs have too few axes, or too many")}};
  axes = {c.Axis(axes[0], rank_x), c.Axis(axes[1], rank_y)};
  if (c.failed() || axes[0] == 0 || axes[1] == 0) return {{c.Fail("its `axes` are those of the batch")}};
  auto normalised = [&](Operand v, int64_t axis) -> Operand {
    if (!c.Bool("normalize", false)) return v;
    Operand sum = c.Op("sum", {c.Mul(v, v)}, {{"axis", ir::AttrValue::List{axis}}, {"keepdims", true}});
    return c.Div(v, c.Op("sqrt", {c.Op("maximum", {sum, c.Number(1e-12, sum)})}));
  };
  x = normalised(x, axes[0]);
  y = normalised(y, axes[1]);
  std::string of_x = "a", of_y = "a", result = "a";
  for (int64_t i = 1; i < rank_x; ++i) {
    of_x += i == axes[0] ? 'z' : static_cast<char>('a' + i);
    if (i != axes[0]) result += of_x.back();
  }
  for (int64_t i = 1; i < rank_y; ++i) {
    of_y += i == axes[1] ? 'z' : static_cast<char>('a' + rank_x + i);
    if (i != axes[1]) result += of_y.back();
  }
  Operand dot = c.Op("einsum", {c.emit().Tuple({x, y})}, {{"equation", of_x + "," + of_y + "->" + result}});
  return {{!c.failed() && c.RankOf(dot) == 1 ? c.Unsqueeze(dot, {1}) : dot}};
}

constexpr LayerRow kRows[] = {
    {"Add", Merge, "add"},
    {"Average", Average, "add"},
    {"Concatenate", Concatenate},
    {"CustomScaleLayer", ScaledSum},
    {"Dot", Dot},
    {"Maximum", Merge, "maximum"},
    {"Minimum", Merge, "minimum"},
    {"Multiply", Merge, "multiply"},
    {"Subtract", Subtract, "subtract"},
};

}  // namespace

std::span<const LayerRow> MergingLayers() { return kRows; }

}  // namespace rvm::keras
