// Gradients of operators that select boxes or distinct elements: of what they give, each row is one of data.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

// Row i of batch b of `d` is row `from`[b, i] of data (batch, boxes, fields); it is none of them if that is negative.
void GiveBoxes(Pullback& p, Term from, Term d) {
  Term boxes = Extent(p.x(0), 1), rows = Extent(p.x(0), 0) * boxes;
  Term row = Expanded(Places(p.x(0), 0) * boxes, 1) + from;
  row = Where(p.Call("less", {from, Zero(from)}), rows, row);  // `scatter_nd` drops it
  Term zeros = Reshaped(p.Call("zeros_like", {p.x(0)}), {-3, 0});
  Term places = Expanded(Reshaped(row, {-1}), 0);
  Term sums = p.Call("scatter_nd", {zeros, places, Reshaped(d, {-3, 0})}, ir::Attrs{{"mode", "add"}});
  p.Give(0, p.Call("reshape_like", {sums, p.x(0)}));
}

}  // namespace

void ValidCountsGradient(Pullback& p) {
  if (p.has_d(1)) GiveBoxes(p, Wide(p.y(2)), p.d(1));
}

// Boxes that carry their number as one more field tell where those that are kept came from.
void NonMaxSuppressionGradient(Pullback& p) {
  if (p.attrs().GetBool("return_indices")) return;
  Term boxes = WideFloat(p.x(0));
  ir::Attrs fields{{"axis", 2}};
  Term first = p.Call("zeros_like", {Picked(boxes, 0, 2)});
  Term number = first + Cast(Places(boxes, 1), boxes.type().dtype);
  std::vector<Term> args = {p.CallOnTuple("concatenate", {boxes, Expanded(number, 2)}, fields)};
  for (size_t i = 1; i < p.num_args(); ++i) args.push_back(p.x(i));
  Term kept = p.Call(p.op(), args, p.attrs());
  ir::Attrs last{{"begin", ir::IntList({{-1}})}, {"end", ir::IntList({{kWholeAxis}})}, {"axes", ir::IntList({{2}})}};
  Term from = p.Call("squeeze", {p.Call("strided_slice", {kept}, last)}, ir::Attrs{{"axis", ir::IntList({{2}})}});
  GiveBoxes(p, Wide(from), p.d());
}

// A distinct element, or slice, is the first of its kind.
void UniqueGradient(Pullback& p) {
  if (!p.has_d(0)) return;
  bool is_flat = p.attrs().IsNone("axis");
  Term x = is_flat ? Reshaped(p.x(), {-1}) : p.x();
  int64_t axis = is_flat ? 0 : AxisOf(p);
  Term first = Expanded(Wide(p.y(1)), 1, x.rank() - 1 - axis);
  Term places = p.Call("broadcast_to_like", {first, p.d(0)});
  Term sums = p.Call("scatter_elements", {p.Call("zeros_like", {x}), places, p.d(0)},
                     ir::Attrs{{"axis", axis}, {"reduction", "add"}});
  p.Give(0, is_flat ? p.Call("reshape_like", {sums, p.x()}) : sums);
}

}  // namespace rvm::ops
