// Gradients of operators that read at indices or sort, and of those that only move elements.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {

// ---- any move

namespace {
// y has elements of argument `arg` in other places, and others that do not depend on it. What the operator does to the
// numbers 1, 2, ... of the elements says which; 0 stands for the others. `moved` is the operator.
void GiveByNumbers(Pullback& p, size_t arg, const std::function<Term(Term numbers)>& moved) {
  Term x = p.x(arg);
  Term places = p.Call("expand_dims", {moved(Numbered(x))}, ir::Attrs{{"axis", 0}});
  Term zeros = p.Call("reshape", {p.Call("zeros_like", {x})}, ir::Attrs{{"newshape", ir::IntList({{-1}})}});
  const ir::AttrValue::List one_before(1, ir::IntList({{1, 0}}));
  ir::Attrs behind{{"begin", ir::IntList({{1}})}, {"end", ir::IntList({{kWholeAxis}})}};
  Term room = p.Call("nn.pad", {zeros, Zero(zeros)}, ir::Attrs{{"pad_width", one_before}});
  Term sums = p.Call("scatter_nd", {room, places, p.d()}, ir::Attrs{{"mode", "add"}});
  p.Give(arg, p.Call("reshape_like", {p.Call("strided_slice", {sums}, behind), x}));
}
}  // namespace
// The first argument, or the first of a tuple, is moved as the other arguments say.
void MoveGradient(Pullback& p) {
  GiveByNumbers(p, 0, [&](Term numbers) {
    std::vector<Term> args = {numbers};
    // The value of a border has the dtype of what it surrounds.
    for (size_t i = 1; i < p.num_args(); ++i) args.push_back(p.type(i).dtype.dtype.is_float() ? Wide(p.x(i)) : p.x(i));
    for (size_t i = 1; i < p.num_fields(0); ++i) args.push_back(p.x(0, i));
    return p.num_fields(0) > 1 ? p.CallOnTuple(p.op(), args, p.attrs()) : p.Call(p.op(), args, p.attrs());
  });
}
// A queue: what is new, and what was there.
void FifoBufferGradient(Pullback& p) {
  auto nothing = [&](size_t arg) { return Wide(p.Call("zeros_like", {p.x(arg)})); };
  GiveByNumbers(p, 0, [&](Term numbers) { return p.Call(p.op(), {numbers, nothing(1)}, p.attrs()); });
  GiveByNumbers(p, 1, [&](Term numbers) { return p.Call(p.op(), {nothing(0), numbers}, p.attrs()); });
}

void MatrixSetDiagGradient(Pullback& p) {
  p.Give(0, p.Call("matrix_set_diag", {p.d(), p.Call("zeros_like", {p.x(1)})}, p.attrs()));
  Term nothing = Wide(p.Call("zeros_like", {p.x(0)}));
  GiveByNumbers(p, 1, [&](Term numbers) { return p.Call("matrix_set_diag", {nothing, numbers}, p.attrs()); });
}

// ---- reads at indices: repeated ones add up

namespace {
// The indices of a `take` along the axis, or in the flattened tensor, as its mode reads them.
Term IndicesOfTake(Pullback& p, bool is_flat) {
  Term extent = is_flat ? p.Call("ndarray_size", {p.x(0)}, ir::Attrs{{"dtype", "int64"}}) : Extent(p.x(0), AxisOf(p));
  if (p.attrs().GetString("mode") == "wrap") return p.Call("floor_mod", {Wide(p.x(1)), extent});
  return Clamped(p.x(1), Zero(extent), extent);
}
}  // namespace
void TakeGradient(Pullback& p) {
  if (p.attrs().GetInt("batch_dims") != 0) return MoveGradient(p);
  bool is_flat = p.attrs().IsNone("axis");
  if (is_flat) {
    Term flat = p.Call("reshape", {p.x()}, ir::Attrs{{"newshape", ir::IntList({{-1}})}});
    Term indices = p.Call("expand_dims", {IndicesOfTake(p, is_flat)}, ir::Attrs{{"axis", 0}});
    Term sum = p.Call("scatter_nd", {p.Call("zeros_like", {flat}), indices, p.d()}, ir::Attrs{{"mode", "add"}});
    return p.Give(0, p.Call("reshape_like", {sum, p.x()}));
  }
  int64_t axis = AxisOf(p);
  int64_t index_rank = p.rank(1);
  int64_t rank = p.d().rank();
  // The axis that is indexed comes to the front, in x and, with those of the indices, in d.
  std::vector<int64_t> front;
  for (int64_t i = 0; i < index_rank; ++i) front.push_back(axis + i);
  for (int64_t i = 0; i < rank; ++i) {
    if (i < axis || i >= axis + index_rank) front.push_back(i);
  }
  int64_t x_rank = p.rank(0);
  std::vector<int64_t> to_front = {axis}, back;
  for (int64_t i = 0; i < x_rank; ++i) {
    if (i != axis) to_front.push_back(i);
  }
  for (int64_t i = 0; i < x_rank; ++i) back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  Term d = axis == 0 ? p.d() : p.Call("transpose", {p.d()}, ir::Attrs{{"axes", ir::IntList(front)}});
  Term zeros = p.Call("zeros_like", {p.x()});
  if (axis != 0) zeros = p.Call("transpose", {zeros}, ir::Attrs{{"axes", ir::IntList(to_front)}});
  Term indices = p.Call("expand_dims", {IndicesOfTake(p, is_flat)}, ir::Attrs{{"axis", 0}});
  Term sum = p.Call("scatter_nd", {zeros, indices, d}, ir::Attrs{{"mode", "add"}});
  p.Give(0, axis == 0 ? sum : p.Call("transpose", {sum}, ir::Attrs{{"axes", ir::IntList(back)}}));
}
void GatherGradient(Pullback& p) {
  Term extent = Extent(p.x(), AxisOf(p));
  ir::Attrs attrs{{"axis", p.attrs().GetInt("axis")}, {"reduction", "add"}};
  Term indices = Clamped(p.x(1), -extent, extent);
  p.Give(0, p.Call("scatter_elements", {p.Call("zeros_like", {p.x()}), indices, p.d()}, attrs));
}
void GatherNdGradient(Pullback& p) {
  if (p.attrs().GetInt("batch_dims") != 0) return MoveGradient(p);
  Term extents = ExtentsOfTuples(p);
  Term indices = Clamped(p.x(1), -extents, extents);
  p.Give(0, p.Call("scatter_nd", {p.Call("zeros_like", {p.x()}), indices, p.d()}, ir::Attrs{{"mode", "add"}}));
}

// One-hot vectors; `dyn.one_hot` has their extent as an argument.
void OneHotGradient(Pullback& p) {
  std::vector<Term> args = {p.x(0), p.Scalar(1, p.x(1)), p.Scalar(0, p.x(1))};
  if (p.num_args() > 3) args.push_back(p.x(3));
  Term at = p.Call("sum", {p.d() * Cast(p.Call(p.op(), args, p.attrs()), p.d().type().dtype)});
  p.Give(1, at);
  p.Give(2, p.Call("sum", {p.d()}) - at);
}
namespace {
// Adds d to where its elements came from along the axis.
void GiveSorted(Pullback& p, Term order, Term d) {
  p.Give(0, p.Call("scatter_elements", {p.Call("zeros_like", {p.x()}), Wide(order), d},
                   ir::Attrs{{"axis", p.attrs().GetInt("axis")}, {"reduction", "add"}}));
}
}  // namespace
void SortGradient(Pullback& p) {
  ir::Attrs attrs{{"axis", p.attrs().GetInt("axis")}, {"is_ascend", p.attrs().GetBool("is_ascend")}};
  GiveSorted(p, p.Call("argsort", {p.x()}, attrs), p.d());
}
// `dyn.topk` has k as an argument.
void TopKGradient(Pullback& p) {
  const std::string& kind = p.attrs().GetString("ret_type");
  if (kind == "indices" || !p.has_d(0)) return;
  if (kind == "both") return GiveSorted(p, p.y(1), p.d());
  ir::Attrs attrs = p.attrs();
  attrs.Set("ret_type", "indices");
  std::vector<Term> args = {p.x(0)};
  if (p.num_args() > 1) args.push_back(p.x(1));
  GiveSorted(p, p.Call(p.op(), args, attrs), p.d());
}
// The last one of several values written to a position counts.
void SparseToDenseGradient(Pullback& p) {
  auto write = [&](Term values, Term elsewhere) {
    std::vector<Term> args = {p.x(0), values, elsewhere};
    if (p.num_args() > 3) args.push_back(p.x(3));
    return p.Call(p.op(), args, p.attrs());
  };
  Term is_written = write(p.Scalar(1, p.d()), p.Scalar(0, p.d()));
  Term written = p.Call("sum", {p.d() * is_written});
  Term elsewhere = p.Call("sum", {p.d()}) - written;
  if (p.rank(2) == 1) elsewhere = Expanded(elsewhere, 0);
  p.Give(2, elsewhere);
  if (p.rank(1) == 0) return p.Give(1, written);
  Term tuples = p.rank(0) == 2 ? p.Call("transpose", {p.x(0)})
                               : p.Call("reshape", {p.x(0)}, ir::Attrs{{"newshape", ir::IntList({{1, -1}})}});
  Term numbers = Numbered(p.x(1));
  Term last = p.Call("gather_nd", {write(numbers, Zero(numbers)), tuples});
  Term read = p.Call("gather_nd", {p.d(), tuples});
  p.Give(1, Where(p.Call("equal", {last, numbers}), read, Zero(read)));
}
// Rows that are of no segment get nothing.
void SegmentSumGradient(Pullback& p) {
  Term ids = Wide(p.x(1));
  Term count = p.Scalar(static_cast<double>(p.attrs().GetInt("num_segments")), ids);
  Term is_segment = p.Call("logical_and", {p.Call("greater_equal", {ids, Zero(ids)}), p.Call("less", {ids, count})});
  Term rows = p.Call("take", {p.d(), ids}, ir::Attrs{{"axis", 0}});
  if (int64_t rest = rows.rank() - 1; rest > 0)
    is_segment = p.Call("expand_dims", {is_segment}, ir::Attrs{{"axis", 1}, {"num_newaxis", rest}});
  p.Give(0, Where(is_segment, rows, Zero(rows)));
}

}  // namespace rvm::ops
