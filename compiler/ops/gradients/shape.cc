// Gradients of reductions, and of operators that move elements.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

std::vector<int64_t> AxesReduced(Pullback& p) {
  std::vector<bool> reduced = ReducedAxes(p.attrs(), p.type(0).shape.dims.size());
  std::vector<int64_t> axes;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

// `term`, of the shape of a reduction's result, with its reduced axes as extents of 1.
Term WithReducedAxes(Pullback& p, Term term) {
  if (p.attrs().GetBool("keepdims")) return term;
  for (int64_t axis : AxesReduced(p)) term = p.Call("expand_dims", {term}, ir::Attrs{{"axis", axis}});
  return term;
}

}  // namespace

// ---- reductions

void SumGradient(Pullback& p) { p.Give(0, p.Call("broadcast_to_like", {WithReducedAxes(p, p.d()), p.x()})); }
void MeanGradient(Pullback& p) {
  Term share = WithReducedAxes(p, p.d()) / CountOver(p, AxesReduced(p));
  p.Give(0, p.Call("broadcast_to_like", {share, p.x()}));
}
// Equal extremes share.
void ExtremeOfGradient(Pullback& p) {
  Term is_extreme = p.Call("equal", {p.x(), WithReducedAxes(p, p.y())});
  Term mask = Cast(is_extreme, p.type(0).dtype);
  p.Give(0, mask * (WithReducedAxes(p, p.d()) / SumOver(mask, AxesReduced(p))));
}
void VarianceGradient(Pullback& p) {
  Term count = CountOver(p, AxesReduced(p));
  Term from_mean = p.x() - (p.num_args() > 1 ? p.x(1) : SumOver(p.x(), AxesReduced(p)) / count);
  Term divisor = p.attrs().GetBool("unbiased") ? count - 1 : count;
  Term share = WithReducedAxes(p, p.d()) * 2 / divisor;
  p.Give(0, share * from_mean);
  if (p.num_args() > 1) p.Give(1, -(share * from_mean));
}
void LogSumExpGradient(Pullback& p) {
  p.Give(0, WithReducedAxes(p, p.d()) * p.Call("exp", {p.x() - WithReducedAxes(p, p.y())}));
}

// ---- views and moves

void ReshapeGradient(Pullback& p) { p.Give(0, p.Call("reshape_like", {p.d(), p.x()})); }
void TransposeGradient(Pullback& p) {
  int64_t rank = p.d().rank();
  std::vector<int64_t> inverse(static_cast<size_t>(rank));
  if (p.attrs().IsNone("axes")) {
    for (int64_t i = 0; i < rank; ++i) inverse[static_cast<size_t>(i)] = rank - 1 - i;
  } else {
    std::vector<int64_t> axes = p.attrs().GetInts("axes");
    for (size_t i = 0; i < axes.size(); ++i)
      inverse[static_cast<size_t>(FromFront(axes[i], rank))] = static_cast<int64_t>(i);
  }
  p.Give(0, p.Call("transpose", {p.d()}, ir::Attrs{{"axes", ir::IntList(inverse)}}));
}
void ReverseGradient(Pullback& p) { p.Give(0, p.Call("reverse", {p.d()}, p.attrs())); }

void ConcatenateGradient(Pullback& p) {
  int64_t axis = FromFront(p.attrs().GetInt("axis"), p.d().rank());
  Term rest = p.d();
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (size_t i = 0; i < p.num_fields(0); ++i) {
    const Dim& extent = p.type(0, i).shape.dims[static_cast<size_t>(axis)];
    if (!extent.is_const()) break;
    ends.push_back(end += extent.constant());
  }
  if (p.num_fields(0) == 1) return p.Give(0, 0, p.d());
  if (ends.size() + 1 >= p.num_fields(0)) {
    ends.resize(p.num_fields(0) - 1);
    std::vector<Term> parts =
        p.CallForTuple("split", {p.d()}, ir::Attrs{{"indices_or_sections", ir::IntList(ends)}, {"axis", axis}});
    for (size_t i = 0; i < parts.size(); ++i) p.Give(0, i, parts[i]);
    return;
  }
  // Extents known at run time: what a part leaves is moved to the front. `slice_like` takes a part's extent.
  for (size_t i = 0; i < p.num_fields(0); ++i) {
    Term part = p.Call("slice_like", {rest, p.x(0, i)}, ir::Attrs{{"axes", ir::IntList({{axis}})}});
    p.Give(0, i, part);
    if (i + 1 == p.num_fields(0)) return;
    Term turned = p.Call("reverse", {rest}, ir::Attrs{{"axis", axis}});
    std::vector<Term> others;
    for (size_t j = i + 1; j < p.num_fields(0); ++j) others.push_back(p.x(0, j));
    Term like = others.size() == 1 ? others[0] : p.CallOnTuple("concatenate", others, ir::Attrs{{"axis", axis}});
    rest = p.Call("reverse", {p.Call("slice_like", {turned, like}, ir::Attrs{{"axes", ir::IntList({{axis}})}})},
                  ir::Attrs{{"axis", axis}});
  }
}
void StackGradient(Pullback& p) {
  int64_t axis = FromFront(p.attrs().GetInt("axis"), p.d().rank());
  for (size_t i = 0; i < p.num_fields(0); ++i) {
    Term index = p.Call("cast", {p.Scalar(static_cast<double>(i), p.d())}, ir::Attrs{{"dtype", "int32"}});
    p.Give(0, i, p.Call("take", {p.d(), index}, ir::Attrs{{"axis", axis}}));
  }
}
void SplitGradient(Pullback& p) {
  std::vector<Term> parts;
  for (size_t i = 0; i < p.num_results(); ++i) {
    parts.push_back(p.has_d(i) ? p.d(i) : p.Call("zeros_like", {p.y(i)}));
  }
  if (parts.size() == 1) return p.Give(0, parts[0]);
  p.Give(0, p.CallOnTuple("concatenate", parts, ir::Attrs{{"axis", p.attrs().GetInt("axis")}}));
}
void StridedSliceGradient(Pullback& p) {
  size_t rank = p.type(0).shape.dims.size();
  std::vector<int64_t> begin(rank, 0), end(rank, kWholeAxis), strides(rank, 1);
  std::vector<int64_t> begins = p.attrs().GetInts("begin"), ends = p.attrs().GetInts("end");
  std::vector<int64_t> steps = p.attrs().GetInts("strides");
  std::vector<int64_t> axes(begins.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (!p.attrs().IsNone("axes")) axes = p.attrs().GetInts("axes");
  bool has_sizes = p.attrs().GetString("slice_mode") == "size";
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<size_t>(FromFront(axes[i], static_cast<int64_t>(rank)));
    begin[axis] = begins[i];
    if (i < ends.size()) end[axis] = ends[i];
    if (has_sizes) {
      end[axis] = ends[i] < 0 || (begins[i] < 0 && begins[i] + ends[i] >= 0) ? kWholeAxis : begins[i] + ends[i];
    } else if (i < steps.size()) {
      strides[axis] = steps[i];
    } else if (steps.size() == 1) {
      strides[axis] = steps[0];
    }
  }
  p.Give(0, p.Call("strided_set", {p.Call("zeros_like", {p.x()}), p.d(), p.Ints(begin), p.Ints(end), p.Ints(strides)}));
}
void StridedSetGradient(Pullback& p) {
  if (!p.type(2).shape.dims[0].is_const()) return p.Refuse("the length of `begin` is not known");
  p.Give(0, p.Call("strided_set", {p.d(), p.Call("zeros_like", {p.x(1)}), p.x(2), p.x(3), p.x(4)}));
  p.Give(1, p.Call("dyn.strided_slice", {p.d(), p.x(2), p.x(3), p.x(4)}));
}
void DynStridedSliceGradient(Pullback& p) {
  int64_t count = p.type(1).shape.dims[0].constant();
  std::vector<int64_t> axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), 0);
  if (!p.attrs().IsNone("axes") && !p.attrs().GetInts("axes").empty()) axes = p.attrs().GetInts("axes");
  // Position of each axis of x in begin, end and strides; behind these vectors stands the entry that takes all of an
  // axis.
  std::vector<int64_t> places(p.type(0).shape.dims.size(), count);
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i] = FromFront(axes[i], p.rank(0));
    places[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  }
  auto by_axis = [&](Term given, int64_t rest) {
    return p.Call("take", {p.CallOnTuple("concatenate", {given, p.Ints({rest})}), p.Ints(places)});
  };
  Term begin = Wide(p.x(1)), end = Wide(p.x(2));
  bool has_sizes = p.attrs().GetString("slice_mode") == "size";
  if (has_sizes) {
    auto extents = [&](Term x) {
      return p.Call("take", {p.Call("shape_of", {x}, ir::Attrs{{"dtype", "int64"}}), p.Ints(axes)});
    };
    Term counted = Where(p.Call("less", {begin, Zero(begin)}), begin + extents(p.x()), begin);
    begin = Clamped(counted, Zero(begin), extents(p.x()) + 1);
    end = begin + extents(p.d());
  }
  Term strides = has_sizes ? p.Ints(std::vector<int64_t>(axes.size(), 1)) : Wide(p.x(3));
  Term zeros = p.Call("zeros_like", {p.x()});
  p.Give(0, p.Call("strided_set", {zeros, p.d(), by_axis(begin, 0), by_axis(end, kWholeAxis), by_axis(strides, 1)}));
}
void SliceLikeGradient(Pullback& p) {
  // Inverts the slice by padding with zeros up to x: a part of x at its beginning.
  Term zeros = p.Call("zeros_like", {p.x()});
  int64_t rank = p.d().rank();
  std::vector<int64_t> axes = p.attrs().IsNone("axes") ? std::vector<int64_t>() : p.attrs().GetInts("axes");
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(p.rank(1)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  Term result = p.d();
  for (int64_t named : axes) {
    int64_t axis = FromFront(named, rank);
    // x's extent, of zeros, behind d, cut to x's extent.
    Term like = result;
    std::vector<int64_t> others;
    for (int64_t i = 0; i < rank; ++i) {
      if (i != axis) others.push_back(i);
    }
    if (!others.empty()) like = p.Call("slice_like", {zeros, result}, ir::Attrs{{"axes", ir::IntList(others)}});
    if (others.empty()) like = zeros;
    Term longer = p.CallOnTuple("concatenate", {result, like}, ir::Attrs{{"axis", axis}});
    result = p.Call("slice_like", {longer, p.x()}, ir::Attrs{{"axes", ir::IntList({{axis}})}});
  }
  p.Give(0, result);
}

// ---- repeated, masked and scanned elements

void TriluGradient(Pullback& p) {
  std::vector<Term> args = {p.d()};
  for (size_t i = 1; i < p.num_args(); ++i) args.push_back(p.x(i));
  p.Give(0, p.Call("trilu", args, p.attrs()));
}
void ReverseSequenceGradient(Pullback& p) { p.Give(0, p.Call("reverse_sequence", {p.d(), p.x(1)}, p.attrs())); }
void SequenceMaskGradient(Pullback& p) {
  p.Give(0,
         p.Call("sequence_mask", {p.d(), p.x(1)}, ir::Attrs{{"mask_value", 0.0}, {"axis", p.attrs().GetInt("axis")}}));
}
void RepeatGradient(Pullback& p) {
  int64_t repeats = p.attrs().GetInt("repeats");
  if (repeats == 0) return p.Give(0, p.Call("zeros_like", {p.x()}));
  bool is_flat = p.attrs().IsNone("axis");
  int64_t axis = is_flat ? 0 : FromFront(p.attrs().GetInt("axis"), p.d().rank());
  std::vector<int64_t> shape(static_cast<size_t>(axis), 0);
  shape.insert(shape.end(), {-4, -1, repeats, -2});
  Term split = p.Call("reshape", {p.d()}, ir::Attrs{{"newshape", ir::IntList(shape)}});
  Term sum = p.Call("sum", {split}, ir::Attrs{{"axis", ir::IntList({{axis + 1}})}});
  p.Give(0, is_flat ? p.Call("reshape_like", {sum, p.x()}) : sum);
}
void TileGradient(Pullback& p) {
  std::vector<int64_t> reps = p.attrs().GetInts("reps");
  if (std::find(reps.begin(), reps.end(), 0) != reps.end()) return p.Give(0, p.Call("zeros_like", {p.x()}));
  Term sum = p.d();
  int64_t first = sum.rank() - static_cast<int64_t>(reps.size());
  for (size_t i = 0; i < reps.size(); ++i) {
    int64_t axis = first + static_cast<int64_t>(i);
    std::vector<int64_t> shape(static_cast<size_t>(axis), 0);
    shape.insert(shape.end(), {-4, reps[i], -1, -2});
    Term split = p.Call("reshape", {sum}, ir::Attrs{{"newshape", ir::IntList(shape)}});
    sum = p.Call("sum", {split}, ir::Attrs{{"axis", ir::IntList({{axis}})}});
  }
  p.Give(0, p.Call("reshape_like", {sum, p.x()}));
}
// Axis by axis. The product of all others, right with zeros: what is before an element times what is behind it.
void ProdGradient(Pullback& p) {
  std::vector<int64_t> axes = AxesReduced(p);
  std::vector<Term> partial = {p.x()};
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    partial.push_back(p.Call("prod", {partial[i]}, ir::Attrs{{"axis", ir::IntList({{axes[i]}})}, {"keepdims", true}}));
  }
  Term share = WithReducedAxes(p, p.d());
  for (size_t i = axes.size(); i > 0; --i) {
    ir::Attrs axis{{"axis", axes[i - 1]}}, scan = axis;
    scan.Set("exclusive", true);
    Term x = partial[i - 1];
    Term behind = p.Call("reverse", {p.Call("cumprod", {p.Call("reverse", {x}, axis)}, scan)}, axis);
    share = share * (p.Call("cumprod", {x}, scan) * behind);
  }
  p.Give(0, share);
}
void LayoutTransformGradient(Pullback& p) {
  ir::Attrs back{{"src_layout", p.attrs().GetString("dst_layout")}, {"dst_layout", p.attrs().GetString("src_layout")}};
  p.Give(0, p.Call("layout_transform", {p.d()}, back));
}
// Constant borders: the inverse crops. The border's value gets what the inside does not.
void PadGradient(Pullback& p) {
  if (p.attrs().GetString("pad_mode") != "constant") return MoveGradient(p);
  ir::AttrValue::List widths;
  for (const ir::AttrValue& pair : *p.attrs().Find("pad_width")->AsList()) {
    ir::AttrValue::List negated;
    for (const ir::AttrValue& width : *pair.AsList()) negated.emplace_back(-*width.AsInt());
    widths.emplace_back(std::move(negated));
  }
  Term inside = p.Call("nn.pad", {p.d(), p.Scalar(0, p.d())}, ir::Attrs{{"pad_width", widths}});
  p.Give(0, inside);
  if (p.num_args() > 1) p.Give(1, p.Call("sum", {p.d()}) - p.Call("sum", {inside}));
}
void DynPadGradient(Pullback& p) {
  if (p.attrs().GetString("pad_mode") != "constant") return MoveGradient(p);
  Term inside = p.Call("dyn.nn.pad", {p.d(), -p.x(1), p.Scalar(0, p.d())}, p.attrs());
  p.Give(0, inside);
  p.Give(2, p.Call("sum", {p.d()}) - p.Call("sum", {inside}));
}
void DepthToSpaceGradient(Pullback& p) { p.Give(0, p.Call("nn.space_to_depth", {p.d()}, p.attrs())); }
void SpaceToDepthGradient(Pullback& p) { p.Give(0, p.Call("nn.depth_to_space", {p.d()}, p.attrs())); }
void BatchToSpaceGradient(Pullback& p) {
  p.Give(0, p.Call("nn.space_to_batch_nd", {p.d()},
                   ir::Attrs{{"block_shape", *p.attrs().Find("block_shape")}, {"paddings", *p.attrs().Find("crops")}}));
}
void SpaceToBatchGradient(Pullback& p) {
  p.Give(0, p.Call("nn.batch_to_space_nd", {p.d()},
                   ir::Attrs{{"block_shape", *p.attrs().Find("block_shape")}, {"crops", *p.attrs().Find("paddings")}}));
}
void DilateGradient(Pullback& p) {
  std::vector<int64_t> strides = p.attrs().GetInts("strides"), begin(strides.size(), 0),
                       end(strides.size(), kWholeAxis);
  p.Give(0, p.Call("strided_slice", {p.d()},
                   ir::Attrs{
                       {"begin", ir::IntList(begin)}, {"end", ir::IntList(end)}, {"strides", ir::IntList(strides)}}));
}
void DiagGradient(Pullback& p) {
  int64_t k = p.attrs().GetInt("k");
  if (p.rank(0) == 1) return p.Give(0, p.Call("diag", {p.d()}, p.attrs()));
  p.Give(0, p.Call("matrix_set_diag", {p.Call("zeros_like", {p.x()}), p.d()}, ir::Attrs{{"k1", k}, {"k2", k}}));
}
void MeshgridGradient(Pullback& p) {
  for (size_t i = 0; i < p.num_results(); ++i) {
    if (!p.has_d(i)) continue;
    if (p.type(0, i).shape.dims.empty()) {
      p.Give(0, i, p.Call("sum", {p.d(i)}));
      continue;
    }
    bool exchanges = p.attrs().GetString("indexing") == "xy" && i < 2 && p.num_results() > 1;
    auto axis = static_cast<int64_t>(exchanges ? 1 - i : i);
    p.Give(0, i, SumBut(p.d(i), axis));
  }
}
// The products of which an element is a factor, over the element. The first zero is taken as a 1 for its own share;
// what is behind it in a product with it gets none.
void CumprodGradient(Pullback& p) {
  bool is_flat = p.attrs().IsNone("axis");
  Term x = is_flat ? p.Call("reshape", {p.x()}, ir::Attrs{{"newshape", ir::IntList({{-1}})}}) : p.x();
  ir::Attrs axis{{"axis", is_flat ? 0 : p.attrs().GetInt("axis")}}, scan = axis;
  scan.Set("exclusive", p.attrs().GetBool("exclusive"));
  auto sums_of_products = [&](Term factors) {
    Term products = Cast(p.d(), p.type(0).dtype) * p.Call("cumprod", {factors}, scan);
    return p.Call("reverse", {p.Call("cumsum", {p.Call("reverse", {products}, axis)}, scan)}, axis);
  };
  Term is_zero = p.Call("equal", {x, Zero(x)}), one = p.Scalar(1, x);
  Term zeros_so_far = p.Call("cumsum", {Wide(is_zero)}, axis);
  Term is_first = p.Call("logical_and", {is_zero, p.Call("equal", {zeros_so_far, p.Scalar(1, zeros_so_far)})});
  Term others = sums_of_products(x) / Where(is_zero, one, x);
  Term share = Where(is_first, sums_of_products(Where(is_first, one, x)), Where(is_zero, Zero(x), others));
  p.Give(0, is_flat ? p.Call("reshape_like", {share, p.x()}) : share);
}
void CumsumGradient(Pullback& p) {
  if (p.attrs().IsNone("axis")) {
    Term turned = p.Call("reverse", {p.d()}, ir::Attrs{{"axis", 0}});
    ir::Attrs flat = p.attrs();
    flat.Set("axis", 0);
    Term sums = p.Call("reverse", {p.Call("cumsum", {turned}, flat)}, ir::Attrs{{"axis", 0}});
    return p.Give(0, p.Call("reshape_like", {sums, p.x()}));
  }
  ir::Attrs axis{{"axis", p.attrs().GetInt("axis")}};
  Term turned = p.Call("reverse", {p.d()}, axis);
  p.Give(0, p.Call("reverse", {p.Call("cumsum", {turned}, p.attrs())}, axis));
}

}  // namespace rvm::ops
