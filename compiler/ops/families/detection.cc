// The parts of object detectors other than the network: anchors, decoding of predictions, non-maximum suppression.
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/ops/families/boxes.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kImages[] = {{"data", "a batch of images (n, c, h, w)"}};
constexpr AttrSpec kReorgAttrs[] = {{"stride", AttrType::kInt, "1", "extent of the blocks"}};
constexpr Example kReorgExamples[] = {
    {"vision.yolo_reorg([[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]], stride=1)",
     "[[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]]"},
    {"vision.yolo_reorg([[[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]], [[13, 14], [15, 16]]]], stride=2)",
     "[[[[1]], [[3]], [[9]], [[11]], [[2]], [[4]], [[10]], [[12]], [[5]], [[7]], [[13]], [[15]], [[6]], [[8]], [[14]], "
     "[[16]]]]"}};
constexpr AttrSpec kPriorAttrs[] = {
    {"sizes", AttrType::kAny, "[1f]", "extents of the anchors, parts of the image"},
    {"ratios", AttrType::kAny, "[1f]", "width by height of the anchors of the first size"},
    {"steps", AttrType::kAny, "[-1f, -1f]", "distance of the centres, y and x; not above 0: the whole image"},
    {"offsets", AttrType::kAny, "[0.5f, 0.5f]", "the position of the first centre, in steps, y and x"},
    {"clip", AttrType::kBool, "False", "move corners into the image"}};
constexpr Example kPriorExamples[] = {
    {"vision.multibox_prior([[[[0f, 0f]]]], sizes=[0.5f], ratios=[1f, 4f])",
     "[[[0.125f, 0.25f, 0.375f, 0.75f], [0f, 0.375f, 0.5f, 0.625f], [0.625f, 0.25f, 0.875f, 0.75f], [0.5f, 0.375f, 1f, "
     "0.625f]]]"}};
constexpr Input kLocationInputs[] = {{"cls_prob", "(batch, classes, anchors); class 0 is the background"},
                                     {"loc_pred", "(batch, anchors * 4)"},
                                     {"anchor", "(1, anchors, 4)"}};
constexpr AttrSpec kLocationAttrs[] = {
    {"clip", AttrType::kBool, "True", "move corners into the image"},
    {"threshold", AttrType::kFloat, "0.01f", "the least probability of a class"},
    {"variances", AttrType::kAny, "[0.1f, 0.1f, 0.2f, 0.2f]", "factors of the predictions"},
    {"keep_background", AttrType::kBool, "False", "the background is a class"}};
constexpr Example kLocationExamples[] = {
    {"vision.multibox_transform_loc([[[0.1f, 0.7f], [0.9f, 0.3f]]], [[0f, 1f, 0f, 0f, 0f, 0f, 0f, 0f]], [[[0.25f, "
     "0.25f, "
     "0.75f, 0.75f], [0f, 0f, 1f, 1f]]], threshold=0.5f)",
     "([[[0f, 0.9f, 0.25f, 0.3f, 0.75f, 0.8f], [-1f, -1f, -1f, -1f, -1f, -1f]]], [1])"}};
constexpr Input kProposalInputs[] = {{"cls_prob", "(batch, 2 * anchors, h, w): for each anchor no, then yes"},
                                     {"bbox_pred", "(batch, 4 * anchors, h, w)"},
                                     {"im_info", "(batch, 3): height, width, scale of the images"}};
constexpr AttrSpec kProposalAttrs[] = {
    {"scales", AttrType::kAny, "", "extents of the anchors, in `feature_stride`"},
    {"ratios", AttrType::kAny, "", "height by width of the anchors"},
    {"feature_stride", AttrType::kInt, "16", "pixels of the image per element"},
    {"threshold", AttrType::kFloat, "0.7f",
     "of two boxes with a greater overlap, the one with the lower score is removed"},
    {"rpn_pre_nms_top_n", AttrType::kInt, "6000", "the number of best boxes that are considered; below 1: all"},
    {"rpn_post_nms_top_n", AttrType::kInt, "300",
     "the number of regions in the result; they repeat if there are fewer"},
    {"rpn_min_size", AttrType::kInt, "16", "smaller boxes have the score -1"},
    {"iou_loss", AttrType::kBool, "False", "predictions are added to the corners"}};
constexpr Example kProposalExamples[] = {
    {"vision.proposal([[[[0.2f, 0.7f]], [[0.8f, 0.3f]]]], [[[[0f, 0f]], [[0f, 0f]], [[0f, 0f]], [[0f, 0f]]]], [[16f, "
     "32f, "
     "1f]], scales=[1f], ratios=[1f], rpn_post_nms_top_n=3, rpn_min_size=1)",
     "[[0f, 0f, 0f, 15f, 15f], [0f, 16f, 0f, 31f, 15f], [0f, 0f, 0f, 15f, 15f]]"}};
constexpr Input kClassesInputs[] = {
    {"boxes", "(batch, boxes, 4): two corners"},
    {"scores", "(batch, classes, boxes)"},
    {.name = "max_output_boxes_per_class", .doc = "an integer scalar; below 1: all", .is_count = true},
    {"iou_threshold", "a scalar: of two boxes with at least this overlap, the one with the lower score is removed"},
    {"score_threshold", "a scalar: only boxes with greater scores are considered"}};
constexpr AttrSpec kClassesAttrs[] = {
    {"output_format", AttrType::kString, "\"onnx\"",
     "\"onnx\": rows (batch, class, box) of all batches, then -1, and their number; \"tensorflow\": of each batch rows "
     "(class, box), their scores, and their number"}};
constexpr Example kClassesExamples[] = {
    {"vision.all_class_non_max_suppression([[[0f, 0f, 1f, 1f], [0f, 0f, 1f, 0.9f], [2f, 2f, 3f, 3f]]], [[[0.7f, 0.9f, "
     "0.8f]]], 2i64, 0.5f, 0.1f)",
     "([[0i64, 0i64, 1i64], [0i64, 0i64, 2i64], [-1i64, -1i64, -1i64]], [2i64])"},
    {"vision.all_class_non_max_suppression([[[0f, 0f, 1f, 1f], [0f, 0f, 1f, 0.9f], [2f, 2f, 3f, 3f]]], [[[0.7f, 0.9f, "
     "0.8f]]], 1i64, 0.5f, 0.1f, output_format=\"tensorflow\")",
     "([[[0i64, 1i64], [-1i64, -1i64], [-1i64, -1i64]]], [[0.9f, 0f, 0f]], [1i64])"}};

// Returns the attribute as numbers. If it is not a list of numbers, reports an error to `context` if given, and returns
// {}.
std::vector<double> Numbers(const ir::Attrs& attrs, std::string_view name, TypeContext* context = nullptr) {
  std::vector<double> numbers;
  const ir::AttrValue::List* list = attrs.Find(name)->AsList();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const ir::AttrValue& value = (*list)[i];
    if (!value.AsInt() && !value.AsDouble()) break;
    numbers.push_back(value.AsInt() ? static_cast<double>(*value.AsInt()) : *value.AsDouble());
  }
  if (list != nullptr && numbers.size() == list->size() && !numbers.empty()) return numbers;
  if (context != nullptr) {
    context->Fail(DiagnosticKind::kBadAttribute,
                  absl::StrCat("`", absl::string_view(name.data(), name.size()), "` is not a list of numbers"));
  }
  return {};
}

Solve RequireRanks(TypeContext& context, const Types& args, std::initializer_list<size_t> ranks) {
  int arg = 0;
  for (size_t rank : ranks) {
    const ir::TensorType& type = *args[static_cast<size_t>(arg)];
    if (type.shape.dims.size() != rank) return FailRank(context, arg, type.shape.dims.size(), absl::StrCat(rank));
    if (!type.dtype.dtype.is_float()) return FailDType(context, arg, type.dtype.dtype, "a floating-point dtype");
    ++arg;
  }
  return Solve::kDone;
}

const ir::Type* TupleOf(TypeContext& context, std::vector<const ir::Type*> fields) {
  return context.arena().New<ir::TupleType>(std::move(fields));
}

// ---- reorganised images --------------------------------------------------------------

Solve ReorgRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims dims = args[0]->shape.dims;
  int64_t stride = context.attrs().GetInt("stride");
  if (dims.size() != 4) return FailRank(context, 0, dims.size(), "rank 4");
  if (stride < 1 || stride > 4096) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`stride` is ", stride, "; expected 1 to 4096"));
  }
  if (!context.RequireEqual(FloorMod(dims[1], stride * stride), 0, "remainder of the channels by the blocks") ||
      !context.RequireEqual(FloorMod(dims[2], stride), 0, "remainder of the height by `stride`") ||
      !context.RequireEqual(FloorMod(dims[3], stride), 0, "remainder of the width by `stride`"))
    return Solve::kFailed;
  return ResultTensor(context,
                      {dims[0], dims[1] * (stride * stride), FloorDiv(dims[2], stride), FloorDiv(dims[3], stride)},
                      args[0]->dtype.dtype);
}

// Computes like Darknet: blocks of space are read as if the image had c / stride^2 channels and were `stride` times as
// high and wide. The values read, which have the shape of data, are then reshaped to the shape of the result.
std::vector<Tensor> ComputeReorg(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  int64_t s = context.attrs().GetInt("stride");
  const Dims& dims = data.dims();
  Dims wide = {dims[0], FloorDiv(dims[1], s * s), dims[2] * s, dims[3] * s};
  auto div = [](const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kFloorDivide, a, b); };
  auto mod = [](const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kFloorMod, a, b); };
  return {te::ComputeTensor("reorg", out.dtype, out.dims, [&](Indices i) {
    std::vector<Expr> at = Unflatten(FlatIndex(i, out.dims), dims);
    Expr channels = te::DimValue(wide[1]), stride = te::Index(s);
    Expr block = div(at[1], channels);
    std::vector<Expr> from = {at[0], mod(at[1], channels), at[2] * stride + div(block, stride),
                              at[3] * stride + mod(block, stride)};
    return AtFlat(data, FlatIndex(from, wide));
  })};
}

// ---- anchors -------------------------------------------------------------------------

Solve PriorRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  if (data.size() != 4) return FailRank(context, 0, data.size(), "rank 4");
  int64_t anchors = -1;
  for (std::string_view name : {"sizes", "ratios", "steps", "offsets"}) {
    std::vector<double> numbers = Numbers(context.attrs(), name, &context);
    if (numbers.empty()) return Solve::kFailed;
    bool is_pair = name == "steps" || name == "offsets";
    if (is_pair && numbers.size() != 2) {
      return context.Fail(DiagnosticKind::kBadAttribute,
                          absl::StrCat("`", absl::string_view(name.data(), name.size()), "` is not two numbers"));
    }
    if (!is_pair) anchors += static_cast<int64_t>(numbers.size());
  }
  return ResultTensor(context, {1, data[2] * data[3] * anchors, 4}, kFloat32);
}

std::vector<Tensor> ComputePrior(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  const ir::Attrs& attrs = context.attrs();
  std::vector<double> sizes = Numbers(attrs, "sizes"), ratios = Numbers(attrs, "ratios");
  std::vector<double> steps = Numbers(attrs, "steps"), offsets = Numbers(attrs, "offsets");
  auto number = [](double value) { return te::FloatConst(kFloat32, value); };
  Expr extent[] = {te::Cast(kFloat32, te::DimValue(data.dims()[2])), te::Cast(kFloat32, te::DimValue(data.dims()[3]))};
  size_t count = sizes.size() + ratios.size() - 1;
  return {te::ComputeTensor("multibox_prior", kFloat32, out.dims, [&](Indices i) {
    Expr anchor = te::Binary(BinaryOp::kFloorMod, i[1], te::Index(static_cast<int64_t>(count)));
    Expr place = te::Binary(BinaryOp::kFloorDivide, i[1], te::Index(static_cast<int64_t>(count)));
    Expr is_x = Equal(te::Binary(BinaryOp::kFloorMod, i[2], te::Index(2)), te::Index(0));
    Expr columns = te::DimValue(data.dims()[3]);
    Expr half[2];  // half of the height, half of the width
    for (size_t k = count; k-- > 0;) {
      double size = k < sizes.size() ? sizes[k] : sizes[0];
      double root = k < sizes.size() ? 1 : std::sqrt(ratios[k - sizes.size() + 1]);
      Expr across = te::Binary(BinaryOp::kDivide, number(size) * extent[0], extent[1]) * number(root) * number(0.5);
      Expr halves[] = {number(size / root / 2), across};
      Expr here = Equal(anchor, te::Index(static_cast<int64_t>(k)));
      for (size_t axis = 0; axis < 2; ++axis) {
        half[axis] = half[axis] ? te::Select(here, halves[axis], half[axis]) : halves[axis];
      }
    }
    auto corner = [&](size_t axis) {
      BinaryOp part = axis == 0 ? BinaryOp::kFloorDivide : BinaryOp::kFloorMod;
      Expr step = steps[axis] > 0 ? number(steps[axis]) : te::Binary(BinaryOp::kDivide, number(1), extent[axis]);
      Expr centre = (te::Cast(kFloat32, te::Binary(part, place, columns)) + number(offsets[axis])) * step;
      return te::Select(Less(i[2], te::Index(2)), centre - half[axis], centre + half[axis]);
    };
    Expr value = te::Select(is_x, corner(1), corner(0));
    if (!attrs.GetBool("clip")) return value;
    return te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, value, number(1)), number(0));
  })};
}

// ---- predictions for anchors ---------------------------------------------------------

Solve LocationRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (Solve solve = RequireRanks(context, args, {3, 2, 3}); solve != Solve::kDone) return solve;
  if (std::vector<double> v = Numbers(context.attrs(), "variances", &context); v.size() != 4) {
    return v.empty() ? Solve::kFailed : context.Fail(DiagnosticKind::kBadAttribute, "`variances` is not four numbers");
  }
  const Dims &classes = args[0]->shape.dims, &location = args[1]->shape.dims, &anchor = args[2]->shape.dims;
  if (!context.RequireEqual(location[0], classes[0], "batches of `loc_pred`") ||
      !context.RequireEqual(location[1], classes[2] * 4, "columns of `loc_pred`") ||
      !context.RequireEqual(anchor[0], 1, "axis 0 of `anchor`") ||
      !context.RequireEqual(anchor[1], classes[2], "number of anchors") ||
      !context.RequireEqual(anchor[2], 4, "columns of `anchor`") ||
      !context.RequireAtLeast(classes[1], 2, "number of classes"))
    return Solve::kFailed;
  DataType dtype = args[1]->dtype.dtype;
  return context.Result(TupleOf(context, {ir::MakeTensorType(context.arena(), {classes[0], classes[2], 6}, dtype),
                                          ir::MakeTensorType(context.arena(), {classes[0]}, kInt32)}));
}

std::vector<Tensor> ComputeLocation(const ComputeContext& context) {
  const Tensor &classes = context.input(0), &location = context.input(1), &anchor = context.input(2);
  const te::TensorSpec& out = context.output(0);
  const ir::Attrs& attrs = context.attrs();
  bool keeps = attrs.GetBool("keep_background"), clips = attrs.GetBool("clip");
  DataType wide = Accumulator(out.dtype);
  std::vector<double> variances = Numbers(attrs, "variances");
  int64_t first = keeps ? 0 : 1;
  Dims dims = {classes.dims()[0], classes.dims()[2]};
  auto score_of = [&](Indices o, Indices r) { return te::Cast(wide, classes({o[0], r[0] + te::Index(first), o[1]})); };
  Tensor score = ReduceOver(ReduceOp::kMaximum, wide, dims, {classes.dims()[1] - first}, score_of);
  Tensor best = ReduceOver(ReduceOp::kArgMax, kInt64, dims, {classes.dims()[1] - first}, score_of);
  Tensor id = te::ComputeTensor("id", kInt64, dims, [&](Indices i) {
    Expr is_class = te::Binary(BinaryOp::kGreaterEqual, score(i), te::FloatConst(wide, attrs.GetDouble("threshold")));
    return te::Select(is_class, best(i) + te::Index(first), te::Index(0));
  });
  BoxCondition counts = [&](const Expr& batch, const Expr& box) {
    return te::Binary(BinaryOp::kGreaterEqual, id({batch, box}), te::Index(first));
  };
  Tensor count = CountWhere(dims, counts);
  Order order = OrderWhere(dims, counts);
  Tensor rows = te::ComputeTensor("multibox_transform_loc", out.dtype, out.dims, [&](Indices i) {
    Expr box = order.PlaceAt(i.first(2));
    auto corner = [&](int64_t which) { return te::Cast(wide, anchor({te::Index(0), box, te::Index(which)})); };
    auto predicted = [&](int64_t which) {
      Expr value = te::Cast(wide, location({i[0], box * te::Index(4) + te::Index(which)}));
      return value * te::FloatConst(wide, variances[static_cast<size_t>(which)]);
    };
    Expr half = te::FloatConst(wide, 0.5);
    auto edge = [&](int64_t axis, bool is_end) {
      Expr extent = corner(axis + 2) - corner(axis);
      Expr centre = predicted(axis) * extent + (corner(axis) + corner(axis + 2)) * half;
      Expr reach = te::Unary(UnaryOp::kExp, predicted(axis + 2)) * extent * half;
      Expr x = is_end ? centre + reach : centre - reach;
      if (!clips) return x;
      return te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, x, te::Const(wide, 1)), te::Const(wide, 0));
    };
    Expr fields[] = {te::Cast(wide, id({i[0], box}) - te::Index(first)),
                     score({i[0], box}),
                     edge(0, false),
                     edge(1, false),
                     edge(0, true),
                     edge(1, true)};
    Expr value = fields[5];
    for (int64_t k = 4; k >= 0; --k) {
      value = te::Select(Equal(i[2], te::Index(k)), fields[k], value);
    }
    return te::Cast(out.dtype, te::Select(Less(i[1], count({i[0]})), value, te::Const(wide, -1)));
  });
  return {rows, CastTensor(count, kInt32)};
}

// ---- proposals -----------------------------------------------------------------------

// Returns the corners (left, top, right, bottom) of the anchors of the first element; the scale varies fastest, then
// the ratio.
std::vector<std::array<double, 4>> Anchors(const ir::Attrs& attrs) {
  double side = static_cast<double>(attrs.GetInt("feature_stride")), centre = 0.5 * (side - 1);
  std::vector<std::array<double, 4>> anchors;
  for (double ratio : Numbers(attrs, "ratios")) {
    for (double scale : Numbers(attrs, "scales")) {
      double columns = std::floor(std::sqrt(std::floor(side * side / ratio)) + 0.5);
      double width = columns * scale, height = std::floor(columns * ratio + 0.5) * scale;
      anchors.push_back({centre - 0.5 * (width - 1), centre - 0.5 * (height - 1), centre + 0.5 * (width - 1),
                         centre + 0.5 * (height - 1)});
    }
  }
  return anchors;
}

Solve ProposalRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (Solve solve = RequireRanks(context, args, {4, 4, 2}); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  std::vector<double> scales = Numbers(attrs, "scales", &context), ratios = Numbers(attrs, "ratios", &context);
  if (scales.empty() || ratios.empty()) return Solve::kFailed;
  int64_t anchors = static_cast<int64_t>(scales.size() * ratios.size()), count = attrs.GetInt("rpn_post_nms_top_n");
  if (attrs.GetInt("feature_stride") < 1 || count < 1) {
    return context.Fail(DiagnosticKind::kBadAttribute, "`feature_stride` or `rpn_post_nms_top_n` is below 1");
  }
  const Dims &classes = args[0]->shape.dims, &boxes = args[1]->shape.dims, &info = args[2]->shape.dims;
  if (!context.RequireEqual(classes[1], 2 * anchors, "axis 1 of `cls_prob`") ||
      !context.RequireEqual(boxes[1], 4 * anchors, "axis 1 of `bbox_pred`") ||
      !context.RequireEqual(info[0], classes[0], "rows of `im_info`") ||
      !context.RequireEqual(info[1], 3, "columns of `im_info`"))
    return Solve::kFailed;
  for (size_t axis : {0, 2, 3}) {
    if (!context.RequireEqual(classes[axis], boxes[axis], "extents of `cls_prob` and `bbox_pred`"))
      return Solve::kFailed;
  }
  return ResultTensor(context, {classes[0] * count, 5}, args[1]->dtype.dtype);
}

// Returns the boxes (batch, h * w * anchors, 5): corners and score.
Tensor ProposedBoxes(const ComputeContext& context, DataType wide) {
  const Tensor &classes = context.input(0), &deltas = context.input(1), &info = context.input(2);
  const ir::Attrs& attrs = context.attrs();
  std::vector<std::array<double, 4>> anchors = Anchors(attrs);
  int64_t count = static_cast<int64_t>(anchors.size());
  Expr columns = te::DimValue(classes.dims()[3]), stride = te::Index(attrs.GetInt("feature_stride"));
  auto number = [&](double value) { return te::FloatConst(wide, value); };
  auto div = [](const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kFloorDivide, a, b); };
  auto mod = [](const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kFloorMod, a, b); };
  Dims dims = {classes.dims()[0], classes.dims()[2] * classes.dims()[3] * count, 5};
  Tensor raw = te::ComputeTensor("predicted", wide, {dims[0], dims[1], 4}, [&](Indices i) {
    Expr anchor = mod(i[1], te::Index(count)), place = div(i[1], te::Index(count));
    Expr at[] = {mod(place, columns), div(place, columns)};  // x, y
    auto edge = [&](size_t which) {
      Expr value;
      for (size_t k = anchors.size(); k-- > 0;) {
        Expr here = number(anchors[k][which]);
        value = value ? te::Select(Equal(anchor, te::Index(static_cast<int64_t>(k))), here, value) : here;
      }
      return value + te::Cast(wide, at[which % 2] * stride);
    };
    auto delta = [&](size_t which) {
      Expr channel = anchor * te::Index(4) + te::Index(static_cast<int64_t>(which));
      return te::Cast(wide, deltas({i[0], channel, at[1], at[0]}));
    };
    auto corner = [&](size_t which) {
      if (attrs.GetBool("iou_loss")) return edge(which) + delta(which);
      size_t axis = which % 2;
      Expr extent = edge(axis + 2) - edge(axis) + number(1);
      Expr centre = delta(axis) * extent + edge(axis) + number(0.5) * (extent - number(1));
      Expr reach = number(0.5) * (te::Unary(UnaryOp::kExp, delta(axis + 2)) * extent - number(1));
      return which < 2 ? centre - reach : centre + reach;
    };
    Expr value;
    for (size_t which = 4; which-- > 0;) {
      Expr last = te::Cast(wide, info({i[0], te::Index(which % 2 == 0 ? 1 : 0)})) - number(1);
      Expr here = te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, corner(which), last), number(0));
      value = value ? te::Select(Equal(i[2], te::Index(static_cast<int64_t>(which))), here, value) : here;
    }
    return value;
  });
  return te::ComputeTensor("proposed", wide, dims, [&](Indices i) {
    Expr anchor = mod(i[1], te::Index(count)), place = div(i[1], te::Index(count));
    Expr x = mod(place, columns), y = div(place, columns);
    auto corner = [&](int64_t which) { return raw({i[0], i[1], te::Index(which)}); };
    auto of_image = [&](int64_t which) { return te::Cast(wide, info({i[0], te::Index(which)})); };
    Expr least = of_image(2) * number(static_cast<double>(attrs.GetInt("rpn_min_size")));
    Expr is_small = te::Binary(BinaryOp::kOr, Less(corner(2) - corner(0) + number(1), least),
                               Less(corner(3) - corner(1) + number(1), least));
    auto inside = [&](const Expr& at, int64_t which) {
      Expr extent = te::Binary(BinaryOp::kDivide, of_image(which), te::Cast(wide, stride));
      return Less(at, te::Cast(kInt64, extent));
    };
    Expr score = te::Cast(wide, classes({i[0], anchor + te::Index(count), y, x}));
    score =
        te::Select(And(And(inside(y, 0), inside(x, 1)), te::Unary(UnaryOp::kLogicalNot, is_small)), score, number(-1));
    Expr side = te::Binary(BinaryOp::kMinimum, i[2], te::Index(3));
    Expr grown = te::Select(Less(i[2], te::Index(2)), number(-0.5) * least, number(0.5) * least);
    Expr value = raw({i[0], i[1], side}) + te::Select(is_small, grown, number(0));
    return te::Select(Equal(i[2], te::Index(4)), score, value);
  });
}

std::vector<Tensor> ComputeProposal(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  const ir::Attrs& attrs = context.attrs();
  DataType wide = Accumulator(out.dtype);
  Tensor boxes = ProposedBoxes(context, wide);
  int64_t most = attrs.GetInt("rpn_pre_nms_top_n");
  Dims dims = {boxes.dims()[0], boxes.dims()[1]};
  Order order(dims, 1, [&](Indices i) { return ScoreKey(boxes({i[0], i[1], te::Index(4)})); });
  if (most > 0) dims[1] = Min(dims[1], most);
  Tensor sorted = te::ComputeTensor("sorted", wide, {dims[0], dims[1], 4},
                                    [&](Indices i) { return boxes({i[0], order.PlaceAt(i.first(2)), i[2]}); });
  Tensor conflicts = Conflicts(dims, [&](Indices lane, const Expr& box, const Expr& better) {
    auto corners = [&](const Expr& at) {
      return [&, at](size_t which) { return sorted({lane[0], at, te::Index(static_cast<int64_t>(which))}); };
    };
    return Less(te::FloatConst(wide, attrs.GetDouble("threshold")),
                Overlap(corners(box), corners(better), te::Const(wide, 1)));
  });
  BoxCondition stays = [&](const Expr& batch, const Expr& box) { return Equal(conflicts({batch, box}), te::Index(0)); };
  Tensor count = CountWhere(dims, stays);
  Order kept = OrderWhere(dims, stays);
  Expr regions = te::Index(attrs.GetInt("rpn_post_nms_top_n"));
  return {te::ComputeTensor("proposal", out.dtype, out.dims, [&](Indices i) {
    Expr batch = te::Binary(BinaryOp::kFloorDivide, i[0], regions);
    Expr number = te::Binary(BinaryOp::kFloorMod, i[0], regions), available = count({batch});
    Expr has_any = Less(te::Index(0), available);
    Expr place = te::Binary(BinaryOp::kFloorMod, number, available);
    Expr column = te::Binary(BinaryOp::kMaximum, i[1] - te::Index(1), te::Index(0));
    Expr box = kept.PlaceAt(std::array{batch, place});
    Expr value = te::Select(has_any, sorted({batch, box, column}), te::Const(wide, 0));
    return te::Cast(out.dtype, te::Select(Equal(i[1], te::Index(0)), te::Cast(wide, batch), value));
  })};
}

// ---- the best of each class ----------------------------------------------------------

Solve ClassesRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (Solve solve = RequireRanks(context, args, {3, 3}); solve != Solve::kDone) return solve;
  for (int i = 2; i < 5; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (!arg.shape.dims.empty()) return FailRank(context, i, arg.shape.dims.size(), "a scalar");
    if (i == 2 && !IsCountType(arg.dtype.dtype)) return FailDType(context, i, arg.dtype.dtype, "an integer dtype");
  }
  const Dims &boxes = args[0]->shape.dims, &scores = args[1]->shape.dims;
  if (!context.RequireEqual(boxes[0], scores[0], "batches of boxes and scores") ||
      !context.RequireEqual(boxes[1], scores[2], "number of boxes and of scores") ||
      !context.RequireEqual(boxes[2], 4, "coordinates of a box"))
    return Solve::kFailed;
  auto tensor = [&](Dims dims, DataType dtype) {
    return static_cast<const ir::Type*>(ir::MakeTensorType(context.arena(), std::move(dims), dtype));
  };
  Dim rows = scores[1] * scores[2];
  const std::string& format = context.attrs().GetString("output_format");
  if (format == "onnx")
    return context.Result(TupleOf(context, {tensor({scores[0] * rows, 3}, kInt64), tensor({1}, kInt64)}));
  if (format == "tensorflow") {
    return context.Result(
        TupleOf(context, {tensor({scores[0], rows, 2}, kInt64), tensor({scores[0], rows}, args[1]->dtype.dtype),
                          tensor({scores[0]}, kInt64)}));
  }
  return context.Fail(DiagnosticKind::kBadAttribute,
                      absl::StrCat("`output_format` is \"", format, "\"; expected \"onnx\" or \"tensorflow\""));
}

// The boxes that are kept of each class, indexed by (batch, class, position in the order of scores).
struct Chosen {
  Order order;
  Tensor stays;  // bool
};

Chosen ChooseBoxes(const ComputeContext& context) {
  const Tensor &boxes = context.input(0), &scores = context.input(1);
  DataType wide = Accumulator(boxes.dtype());
  const Dims& dims = scores.dims();
  Order order(dims, 2, [&](Indices i) { return ScoreKey(scores(i)); });
  auto scalar = [&](size_t input, DataType dtype) { return te::Cast(dtype, context.input(input)({})); };
  Tensor score = te::ComputeTensor("score", scores.dtype(), dims,
                                   [&](Indices i) { return scores({i[0], i[1], order.PlaceAt(i)}); });
  Tensor edges = te::ComputeTensor("edges", wide, {boxes.dims()[0], boxes.dims()[1], 4}, [&](Indices i) {
    auto coordinate = [&](const Expr& which) { return te::Cast(wide, boxes({i[0], i[1], which})); };
    Expr axis = te::Binary(BinaryOp::kFloorMod, i[2], te::Index(2));
    Expr a = coordinate(axis), b = coordinate(axis + te::Index(2));
    return te::Select(Less(i[2], te::Index(2)), te::Binary(BinaryOp::kMinimum, a, b),
                      te::Binary(BinaryOp::kMaximum, a, b));
  });
  auto is_scored = [&](Indices at) { return Less(scalar(4, scores.dtype()), score(at)); };
  Tensor conflicts = Conflicts(dims, [&](Indices lane, const Expr& box, const Expr& better) {
    auto corners = [&](const Expr& place) {
      return [&, place](size_t which) {
        Expr at = order.PlaceAt(std::array{lane[0], lane[1], place});
        return edges({lane[0], at, te::Index(static_cast<int64_t>(which))});
      };
    };
    Expr overlap = Overlap(corners(box), corners(better), te::Const(wide, 0));
    Expr can_go = Less(te::Const(scores.dtype(), 0), score(std::array{lane[0], lane[1], box}));
    return And(can_go, te::Binary(BinaryOp::kGreaterEqual, overlap, scalar(3, wide)));
  });
  auto stays = [&](Indices i) { return And(is_scored(i), Equal(conflicts(i), te::Index(0))); };
  Tensor number = Running(dims, 2, te::Index(0), [&](Indices i, const Expr& before) {
    return te::Select(stays(i), before + te::Index(1), before);
  });
  Tensor chosen = te::ComputeTensor("stays", kBool, dims, [&](Indices i) {
    Expr most = scalar(2, kInt64);
    Expr fits = te::Binary(BinaryOp::kOr, Less(most, te::Index(1)), te::Binary(BinaryOp::kLessEqual, number(i), most));
    Expr applies = Less(te::Const(wide, 0), scalar(3, wide));
    return And(And(stays(i), fits), applies);
  });
  return {order, chosen};
}

std::vector<Tensor> ComputeClasses(const ComputeContext& context) {
  const Tensor& scores = context.input(1);
  bool onnx = context.attrs().GetString("output_format") == "onnx";
  const Dims& dims = scores.dims();
  Chosen chosen = ChooseBoxes(context);
  // The boxes as rows, one per batch, or a single row.
  Dims rows = onnx ? Dims{1, Volume(dims)} : Dims{dims[0], dims[1] * dims[2]};
  auto place = [&](const Expr& batch, const Expr& row) {
    return Unflatten(onnx ? row : batch * te::DimValue(rows[1]) + row, dims);
  };
  BoxCondition stays = [&](const Expr& batch, const Expr& row) { return chosen.stays(place(batch, row)); };
  Tensor count = CountWhere(rows, stays);
  Order order = OrderWhere(rows, stays);
  const te::TensorSpec& out = context.output(0);
  Tensor indices = te::ComputeTensor("indices", kInt64, out.dims, [&](Indices i) {
    Expr batch = onnx ? te::Index(0) : i[0], row = onnx ? i[0] : i[1];
    std::vector<Expr> at = place(batch, order.PlaceAt(std::array{batch, row}));
    std::vector<Expr> fields = {at[1], chosen.order.PlaceAt(at)};
    if (onnx) fields.insert(fields.begin(), at[0]);
    Expr value = fields.back();
    for (size_t k = fields.size() - 1; k-- > 0;) {
      value = te::Select(Equal(i.back(), te::Index(static_cast<int64_t>(k))), fields[k], value);
    }
    return te::Select(Less(row, count({batch})), value, te::Index(-1));
  });
  if (onnx) return {indices, count};
  Tensor best = te::ComputeTensor("scores", scores.dtype(), rows, [&](Indices i) {
    std::vector<Expr> at = place(i[0], order.PlaceAt(i));
    Expr score = scores({at[0], at[1], chosen.order.PlaceAt(at)});
    return te::Select(Less(i[1], count({i[0]})), score, te::Const(scores.dtype(), 0));
  });
  return {indices, best, count};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("vision.yolo_reorg", "blocks of space gathered into channels, as darknet does", kImages,
                    kReorgAttrs, ReorgRelation, FusionClass::kInjective, ComputeReorg, kReorgExamples),
                 MoveGradient),
    Op("vision.multibox_prior", "anchors (1, h * w * (sizes + ratios - 1), 4): left, top, right and bottom of each",
       kImages, kPriorAttrs, PriorRelation, FusionClass::kInjective, ComputePrior, kPriorExamples),
    Op("vision.multibox_transform_loc",
       "a tuple: of each batch the boxes (class, score, corners) predicted for anchors that have a class, then -1; how "
       "many they are",
       kLocationInputs, kLocationAttrs, LocationRelation, FusionClass::kOpaque, ComputeLocation, kLocationExamples),
    Op("vision.proposal", "regions (batch, corners) that probably hold something", kProposalInputs, kProposalAttrs,
       ProposalRelation, FusionClass::kOpaque, ComputeProposal, kProposalExamples),
    Op("vision.all_class_non_max_suppression",
       "non-maximum suppression: for each class the boxes, by descending score, that overlap no better box that is "
       "kept",
       kClassesInputs, kClassesAttrs, ClassesRelation, FusionClass::kOpaque, ComputeClasses, kClassesExamples),
};

}  // namespace

std::span<const OpDef> DetectionOps() { return kOps; }

}  // namespace rvm::ops
