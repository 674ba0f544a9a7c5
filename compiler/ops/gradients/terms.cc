#include "compiler/ops/gradients/terms.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace rvm::ops {

int64_t FromFront(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

int64_t AxisOf(Pullback& p) { return FromFront(p.attrs().GetInt("axis"), p.rank(0)); }

Term SumOver(Term x, const std::vector<int64_t>& axes) {
  return x.code().Call("sum", {x}, ir::Attrs{{"axis", ir::IntList(axes)}, {"keepdims", true}});
}

Term MeanOver(Term x, const std::vector<int64_t>& axes) {
  return x.code().Call("mean", {x}, ir::Attrs{{"axis", ir::IntList(axes)}, {"keepdims", true}});
}

Term SumBut(Term x, int64_t axis) {
  return x.code().Call("sum", {x}, ir::Attrs{{"axis", ir::IntList({{axis}})}, {"exclude", true}});
}

Term CountOver(Pullback& p, const std::vector<int64_t>& axes) {
  int64_t count = 1;
  for (int64_t axis : axes) {
    const Dim& extent = p.type(0).shape.dims[static_cast<size_t>(axis)];
    if (!extent.is_const()) return SumOver(p.Call("ones_like", {p.x()}), axes);
    count *= extent.constant();
  }
  return p.Scalar(static_cast<double>(count), p.x());
}

Term UnitMatrix(Term x, int64_t axis) {
  Pullback& code = x.code();
  return code.Call("diag", {SumBut(code.Call("zeros_like", {x}), axis) + 1});
}

Term Cast(Term x, ir::DTypeTerm dtype) {
  if (x.type().dtype == dtype) return x;
  return x.code().Call("cast", {x}, ir::Attrs{{"dtype", dtype.dtype.ToString()}});
}

std::string ImageLayout(size_t axes) { return "NC" + std::string("DHW").substr(3 - axes); }

Term InLayout(Term x, const std::string& from, const std::string& to) {
  if (from == to) return x;
  return x.code().Call("layout_transform", {x}, ir::Attrs{{"src_layout", from}, {"dst_layout", to}});
}

Term Numbered(Term x) {
  Pullback& code = x.code();
  return code.Call("reshape_like", {code.Call("cumsum", {Wide(code.Call("ones_like", {x}))}), x});
}

Term Wide(Term indices) { return Cast(indices, ir::DTypeTerm::Of(kInt64)); }

Term WideFloat(Term x) {
  DataType dtype = x.type().dtype.dtype;
  return dtype == kFloat64 ? x : Cast(x, ir::DTypeTerm::Of(kFloat32));
}

Term Extent(Term x, int64_t axis) {
  Pullback& code = x.code();
  const Dim& extent = x.type().shape.dims[static_cast<size_t>(axis)];
  if (extent.is_const()) return code.Int(extent.constant());
  return Picked(code.Call("shape_of", {x}, ir::Attrs{{"dtype", "int64"}}), axis, 0);
}

Term Places(Term x, int64_t axis) {
  Pullback& code = x.code();
  const Dim& extent = x.type().shape.dims[static_cast<size_t>(axis)];
  if (extent.is_const()) return Counted(code, extent.constant());
  return Numbered(SumBut(code.Call("zeros_like", {x}), axis)) - 1;
}

Term Counted(Pullback& p, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return p.Ints(numbers);
}

Term ExtentsOfTuples(Pullback& p) {
  int64_t length = p.type(1).shape.dims[0].constant();
  std::vector<Term> extents;
  for (int64_t axis = 0; axis < length; ++axis) extents.push_back(Extent(p.x(0), axis));
  std::vector<int64_t> shape(static_cast<size_t>(p.rank(1)), 1);
  shape[0] = length;
  return Reshaped(Stacked(extents, 0), shape);
}

Term Reshaped(Term x, const std::vector<int64_t>& newshape) {
  return x.code().Call("reshape", {x}, ir::Attrs{{"newshape", ir::IntList(newshape)}});
}

Term Transposed(Term x, const std::vector<int64_t>& axes) {
  return x.code().Call("transpose", {x}, ir::Attrs{{"axes", ir::IntList(axes)}});
}

Term Expanded(Term x, int64_t axis, int64_t count) {
  if (count == 0) return x;
  return x.code().Call("expand_dims", {x}, ir::Attrs{{"axis", axis}, {"num_newaxis", count}});
}

Term Picked(Term x, int64_t index, int64_t axis) {
  ir::Attrs one{
      {"begin", ir::IntList({{index}})}, {"end", ir::IntList({{index + 1}})}, {"axes", ir::IntList({{axis}})}};
  Term picked = x.code().Call("strided_slice", {x}, one);
  return x.code().Call("squeeze", {picked}, ir::Attrs{{"axis", ir::IntList({{axis}})}});
}

Term Stacked(std::vector<Term> parts, int64_t axis) {
  Pullback& code = parts[0].code();
  return code.CallOnTuple("stack", std::move(parts), ir::Attrs{{"axis", axis}});
}

Term Clamped(Term indices, Term least, Term extents) {
  Pullback& code = indices.code();
  return code.Call("maximum", {code.Call("minimum", {Wide(indices), extents - 1}), least});
}

Term Where(Term condition, Term x, Term y) { return condition.code().Call("where", {condition, x, y}); }

Term Zero(Term like) { return like.code().Scalar(0, like); }

}  // namespace rvm::ops
