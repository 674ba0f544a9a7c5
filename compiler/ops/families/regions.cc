// Pooling of regions of interest: boxes of images, pooled to a fixed size.
//
// A region is a row (batch, left, top, right, bottom); its corners, times `spatial_scale`, are coordinates of data.
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/sampling.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a batch of images"}, {"rois", "regions (count, 5)"}};
constexpr AttrSpec kPoolAttrs[] = {{"pooled_size", AttrType::kInts, "", "height and width of the result"},
                                   {"spatial_scale", AttrType::kFloat, "", "elements of data per unit of `rois`"},
                                   {"layout", AttrType::kString, "\"NCHW\"", "axes of data"}};
constexpr AttrSpec kAlignAttrs[] = {
    kPoolAttrs[0],
    kPoolAttrs[1],
    {"sample_ratio", AttrType::kInt, "-1", "samples along each axis of a bin; below 1: about one per element"},
    kPoolAttrs[2],
    {"mode", AttrType::kString, "\"avg\"", "of the samples: \"avg\" or \"max\""},
    {"least_length", AttrType::kFloat, "1",
     "the least height and width of a region, in elements of data; -inff: none"}};
constexpr Example kAlignExamples[] = {
    {"vision.roi_align([[[[1f, 2f], [3f, 4f]]]], [[0f, 0f, 0f, 1f, 1f]], pooled_size=[1, 1], spatial_scale=1f, "
     "sample_ratio=2)",
     "[[[[2.5f]]]]"},
    {"vision.roi_align([[[[1f, 2f], [3f, 4f]]]], [[0f, 0f, 0f, 1f, 1f]], pooled_size=[1, 1], spatial_scale=1f, "
     "sample_ratio=2, mode=\"max\")",
     "[[[[3.25f]]]]"},
    {"vision.roi_align([[[[1f, 2f], [3f, 4f]]]], [[0f, 0f, 0f, 0.5f, 0.5f]], pooled_size=[1, 1], spatial_scale=1f, "
     "sample_ratio=1, least_length=0f)",
     "[[[[1.75f]]]]"}};
constexpr Example kPoolExamples[] = {
    {"vision.roi_pool([[[[1f, 2f], [3f, 4f]]]], [[0f, 0f, 0f, 1f, 0f]], pooled_size=[1, 2], spatial_scale=1f)",
     "[[[[1f, 2f]]]]"}};

template <bool aligned>
Solve RegionRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  const Dims &data = args[0]->shape.dims, &rois = args[1]->shape.dims;
  if (data.size() != 4) return FailRank(context, 0, data.size(), "rank 4");
  if (rois.size() != 2) return FailRank(context, 1, rois.size(), "rank 2");
  for (int i = 0; i < 2; ++i) {
    DataType dtype = args[static_cast<size_t>(i)]->dtype.dtype;
    if (!dtype.is_float()) return FailDType(context, i, dtype, "a floating-point dtype");
  }
  if (!CheckLayout(context, attrs.GetString("layout"), "NCHW", "layout")) return Solve::kFailed;
  std::vector<int64_t> size = PerAxis(attrs.GetInts("pooled_size"), 2);
  bool has_mode = !aligned || attrs.GetString("mode") == "avg" || attrs.GetString("mode") == "max";
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || !has_mode) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        "`pooled_size` or `mode` does not fit; expected two positive extents, and \"avg\" or \"max\"");
  }
  if (!context.RequireEqual(rois[1], 5, "columns of `rois`")) return Solve::kFailed;
  Layout layout(attrs.GetString("layout"));
  Dims out = data;
  out[layout.axis('N')] = rois[0];
  for (size_t s = 0; s < 2; ++s) out[layout.spatial[s]] = size[s];
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// The bins of all regions along one spatial axis, as tensors (regions, bins).
struct Bins {
  Tensor first, length, samples;  // of a bin: the start of its samples, its length, the number of its samples
};

// Returns the column of `rois` with the least coordinate of spatial axis `s`; the greatest is two columns further.
int64_t Column(size_t s) { return s == 0 ? 2 : 1; }

Bins AlignedBins(const ComputeContext& context, size_t s, const Dim& pooled, DataType wide) {
  const Tensor& rois = context.input(1);
  int64_t ratio = context.attrs().GetInt("sample_ratio");
  double least_length = context.attrs().GetDouble("least_length");
  bool may_be_empty = least_length <= 0;
  Dims dims = {rois.dims()[0]};
  auto corner = [&](const Expr& roi, int64_t column) {
    return te::Cast(wide, rois({roi, te::Index(column)})) *
           te::FloatConst(wide, context.attrs().GetDouble("spatial_scale"));
  };
  Bins bins;
  bins.first = te::ComputeTensor("first", wide, dims, [&](Indices i) { return corner(i[0], Column(s)); });
  bins.length = te::ComputeTensor("length", wide, dims, [&](Indices i) {
    Expr length = corner(i[0], Column(s) + 2) - corner(i[0], Column(s));
    if (!std::isinf(least_length)) {
      length = te::Binary(BinaryOp::kMaximum, length, te::FloatConst(wide, least_length));
    }
    return te::Binary(BinaryOp::kDivide, length, te::Cast(wide, te::DimValue(pooled)));
  });
  Tensor bin_length = bins.length;
  bins.samples = te::ComputeTensor("samples", kInt64, dims, [&](Indices i) {
    if (ratio > 0) return te::Index(ratio);
    Expr count = te::Cast(kInt64, te::Unary(UnaryOp::kCeil, bin_length(i)));
    return may_be_empty ? te::Binary(BinaryOp::kMaximum, count, te::Index(0)) : count;
  });
  return bins;
}

// The samples of a bin that are read: those from the first one inside the image. `extent` of them suffice, because
// several samples are at least half an element apart.
struct Samples {
  Bins bins;
  Dim extent;
  size_t axis;
  size_t column;  // the axis of the result
};

std::vector<Tensor> ComputeAlign(const ComputeContext& context) {
  const Tensor &data = context.input(0), &rois = context.input(1);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  bool average = context.attrs().GetString("mode") == "avg";
  int64_t ratio = context.attrs().GetInt("sample_ratio");
  bool may_be_empty = ratio <= 0 && context.attrs().GetDouble("least_length") <= 0;
  DataType wide = CoordinateType(data.dtype());
  size_t n = layout.axis('N');
  std::vector<Samples> axes;
  Dims extents;
  for (size_t s = 0; s < 2; ++s) {
    size_t axis = layout.spatial[s];
    Dim extent = ratio > 0 ? Dim(ratio) : data.dims()[axis] * 2 + 4;
    axes.push_back({AlignedBins(context, s, out.dims[axis], wide), extent, axis, axis});
    extents.push_back(extent);
  }
  auto number = [&](double value) { return te::FloatConst(wide, value); };
  // The first sample of a bin that is read.
  auto begin = [&](const Samples& a, Indices o) {
    if (ratio > 0) return te::Index(0);
    Expr spacing = te::Binary(BinaryOp::kDivide, a.bins.length({o[n]}), te::Cast(wide, a.bins.samples({o[n]})));
    Expr start = a.bins.first({o[n]}) + te::Cast(wide, o[a.axis]) * a.bins.length({o[n]});
    Expr before = te::Binary(BinaryOp::kDivide, number(-1) - start, spacing) - number(1);
    Expr first = te::Binary(BinaryOp::kMaximum, te::Cast(kInt64, te::Unary(UnaryOp::kFloor, before)), te::Index(0));
    return may_be_empty ? te::Select(Less(te::Index(0), a.bins.samples({o[n]})), first, te::Index(0)) : first;
  };
  Tensor folded =
      ReduceOver(average ? ReduceOp::kSum : ReduceOp::kMaximum, wide, out.dims, extents, [&](Indices o, Indices r) {
        std::vector<Expr> at(o.begin(), o.end()), coordinates;
        at[n] = Clamp(te::Cast(kInt64, rois({o[n], te::Index(0)})), data.dims()[n]);
        Expr counts, inside;
        for (size_t s = 0; s < 2; ++s) {
          const Samples& a = axes[s];
          Expr samples = te::Cast(wide, a.bins.samples({o[n]})), k = begin(a, o) + r[s];
          Expr length = a.bins.length({o[n]});
          Expr x = a.bins.first({o[n]}) + te::Cast(wide, o[a.axis]) * length +
                   te::Binary(BinaryOp::kDivide, (te::Cast(wide, k) + number(0.5)) * length, samples);
          Expr last = te::Cast(wide, te::DimValue(data.dims()[a.axis]));
          Expr here = And(te::Binary(BinaryOp::kLessEqual, number(-1), x), te::Binary(BinaryOp::kLessEqual, x, last));
          inside = inside ? And(inside, here) : here;
          Expr exists = Less(k, a.bins.samples({o[n]}));
          counts = counts ? And(counts, exists) : exists;
          x = te::Binary(BinaryOp::kMinimum, te::Binary(BinaryOp::kMaximum, x, number(0)), last - number(1));
          coordinates.push_back(x);
        }
        Expr value = te::Select(
            inside,
            UnlessEmpty(Volume(data.dims()), Bilinear(data, at, layout.spatial, coordinates, Outside::kRepeatsEdge)),
            number(0));
        return te::Select(counts, value, average ? number(0) : Lowest(wide));
      });
  Tensor result = te::ComputeTensor("roi_align", wide, out.dims, [&](Indices o) {
    Expr total = te::Index(1), is_cut;
    for (const Samples& a : axes) {
      Expr samples = a.bins.samples({o[n]}), first = begin(a, o);
      total = total * samples;
      Expr cut = te::Binary(BinaryOp::kOr, Less(te::Index(0), first), Less(first + te::DimValue(a.extent), samples));
      is_cut = is_cut ? te::Binary(BinaryOp::kOr, is_cut, cut) : cut;
    }
    if (average) {
      if (may_be_empty) total = te::Binary(BinaryOp::kMaximum, total, te::Index(1));
      return te::Binary(BinaryOp::kDivide, folded(o), te::Cast(wide, total));
    }
    // Samples outside the image count as zeros.
    Expr greatest = te::Select(is_cut, te::Binary(BinaryOp::kMaximum, folded(o), number(0)), folded(o));
    return may_be_empty ? te::Select(Less(te::Index(0), total), greatest, number(0)) : greatest;
  });
  return {CastTensor(result, out.dtype)};
}

// Bins are whole elements, from `begin` to before `end`; int64 tensors (regions, bins).
struct PooledAxis {
  Tensor begin, end;
};

PooledAxis PooledBins(const ComputeContext& context, size_t s, const Dim& extent, const Dim& pooled) {
  const Tensor& rois = context.input(1);
  DataType wide = CoordinateType(rois.dtype());
  Dims dims = {rois.dims()[0], pooled};
  auto corner = [&](const Expr& roi, int64_t column) {
    Expr x = te::Cast(wide, rois({roi, te::Index(column)})) *
             te::FloatConst(wide, context.attrs().GetDouble("spatial_scale"));
    return te::Cast(kInt64, RoundHalfAway(x));
  };
  auto edge = [&](const char* name, bool is_end) {
    return te::ComputeTensor(name, kInt64, dims, [&](Indices i) {
      Expr first = corner(i[0], Column(s));
      Expr length = corner(i[0], Column(s) + 2) - first + te::Index(1);
      length = te::Binary(BinaryOp::kMaximum, length, te::Index(1));
      Expr bin = te::Binary(BinaryOp::kDivide, te::Cast(wide, length), te::Cast(wide, te::DimValue(pooled)));
      // Absorbs the rounding errors of numbers that should be integers.
      Expr epsilon = te::FloatConst(wide, 1e-5);
      Expr x = is_end ? te::Unary(UnaryOp::kCeil, te::Cast(wide, i[1] + te::Index(1)) * bin - epsilon)
                      : te::Unary(UnaryOp::kFloor, te::Cast(wide, i[1]) * bin + epsilon);
      Expr place = te::Binary(BinaryOp::kMaximum, te::Cast(kInt64, x) + first, te::Index(0));
      return te::Binary(BinaryOp::kMinimum, place, te::DimValue(extent));
    });
  };
  return {edge("begin", false), edge("end", true)};
}

std::vector<Tensor> ComputePool(const ComputeContext& context) {
  const Tensor &data = context.input(0), &rois = context.input(1);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  size_t n = layout.axis('N');
  std::vector<PooledAxis> axes;
  Dims extents;
  for (size_t s = 0; s < 2; ++s) {
    size_t axis = layout.spatial[s];
    axes.push_back(PooledBins(context, s, data.dims()[axis], out.dims[axis]));
    extents.push_back(data.dims()[axis]);
  }
  Tensor folded = ReduceOver(ReduceOp::kMaximum, out.dtype, out.dims, extents, [&](Indices o, Indices r) {
    std::vector<Expr> at(o.begin(), o.end());
    at[n] = Clamp(te::Cast(kInt64, rois({o[n], te::Index(0)})), data.dims()[n]);
    Expr inside;
    for (size_t s = 0; s < 2; ++s) {
      size_t axis = layout.spatial[s];
      Expr here = And(te::Binary(BinaryOp::kLessEqual, axes[s].begin({o[n], o[axis]}), r[s]),
                      Less(r[s], axes[s].end({o[n], o[axis]})));
      inside = inside ? And(inside, here) : here;
      at[axis] = r[s];
    }
    return te::Select(inside, UnlessEmpty(data.dims()[n], data(at)), Lowest(out.dtype));
  });
  return {te::ComputeTensor("roi_pool", out.dtype, out.dims, [&](Indices o) {
    Expr has_elements;
    for (size_t s = 0; s < 2; ++s) {
      size_t axis = layout.spatial[s];
      Expr here = Less(axes[s].begin({o[n], o[axis]}), axes[s].end({o[n], o[axis]}));
      has_elements = has_elements ? And(has_elements, here) : here;
    }
    return te::Select(has_elements, folded(o), te::Const(out.dtype, 0));
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("vision.roi_align", "regions of images, each bin the mean or maximum of samples between elements",
                    kInputs, kAlignAttrs, RegionRelation<true>, FusionClass::kOpaque, ComputeAlign, kAlignExamples),
                 RoiAlignGradient),
    WithGradient(Op("vision.roi_pool", "regions of images, each bin the greatest element", kInputs, kPoolAttrs,
                    RegionRelation<false>, FusionClass::kOpaque, ComputePool, kPoolExamples),
                 RoiPoolGradient),
};

}  // namespace

std::span<const OpDef> RegionOps() { return kOps; }

}  // namespace rvm::ops
