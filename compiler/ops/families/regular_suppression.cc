// Non-maximum suppression class by class, whose best boxes of all classes are the result.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/boxes.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"boxes", "(batch, boxes, 4): two corners"},
                             {"scores", "(batch, boxes, classes); classes before the last `num_classes` do not count"}};
constexpr AttrSpec kAttrs[] = {
    {"max_detections_per_class", AttrType::kInt, "", "the number of boxes to keep of each class"},
    {"max_detections", AttrType::kInt, "", "the number of boxes in the result; there may be fewer"},
    {"num_classes", AttrType::kInt, "", "the number of classes"},
    {"iou_threshold", AttrType::kFloat, "",
     "of two boxes with a greater overlap, the one with the lower score is removed"},
    {"score_threshold", AttrType::kFloat, "", "boxes with lower scores are not considered"}};
constexpr Example kExamples[] = {
    {"vision.regular_non_max_suppression([[[0f, 0f, 1f, 1f], [0f, 0f, 1f, 0.9f], [2f, 2f, 3f, 3f]]], [[[0.7f, 0.1f], "
     "[0.9f, 0.2f], [0.8f, 0.6f]]], max_detections_per_class=2, max_detections=4, num_classes=2, iou_threshold=0.5f, "
     "score_threshold=0.3f)",
     "([[[0f, 0f, 1f, 0.9f], [2f, 2f, 3f, 3f], [2f, 2f, 3f, 3f], [0f, 0f, 0f, 0f]]], [[0f, 0f, 1f, 0f]], [[0.9f, "
     "0.8f, 0.6f, 0f]], [3f])"}};

Solve Relation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i = 0; i < 2; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (arg.shape.dims.size() != 3) return FailRank(context, i, arg.shape.dims.size(), "3");
    if (arg.dtype.dtype != kFloat32) return FailDType(context, i, arg.dtype.dtype, "`float32`");
  }
  for (const char* name : {"max_detections_per_class", "max_detections", "num_classes"}) {
    int64_t count = context.attrs().GetInt(name);
    if (count >= 1 && count <= int64_t{1} << 30) continue;
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`", name, "` is ", count, "; expected 1 or more"));
  }
  const Dims &boxes = args[0]->shape.dims, &scores = args[1]->shape.dims;
  if (!context.RequireEqual(boxes[0], scores[0], "batches of boxes and scores") ||
      !context.RequireEqual(boxes[1], scores[1], "number of boxes and of scores") ||
      !context.RequireEqual(boxes[2], 4, "coordinates of a box") ||
      !context.RequireAtLeast(scores[2], context.attrs().GetInt("num_classes"), "classes of the scores"))
    return Solve::kFailed;
  Dim most = context.attrs().GetInt("max_detections");
  auto tensor = [&](Dims dims) {
    return static_cast<const ir::Type*>(ir::MakeTensorType(context.arena(), std::move(dims), kFloat32));
  };
  std::vector<const ir::Type*> fields = {tensor({boxes[0], most, 4}), tensor({boxes[0], most}),
                                         tensor({boxes[0], most}), tensor({boxes[0]})};
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

std::vector<Tensor> Compute(const ComputeContext& context) {
  const Tensor &boxes = context.input(0), &scores = context.input(1);
  const ir::Attrs& attrs = context.attrs();
  const Dim &batches = boxes.dims()[0], &count = boxes.dims()[1];
  int64_t classes = attrs.GetInt("num_classes");
  Dims dims = {batches, classes, count};
  Expr first_class = te::DimValue(scores.dims()[2]) - te::Index(classes);
  auto score_of = [&](const Expr& batch, const Expr& kind, const Expr& box) {
    return scores({batch, box, kind + first_class});
  };
  Order order(dims, 2, [&](Indices i) { return SortKey(score_of(i[0], i[1], i[2]), false); });
  Tensor edges = te::ComputeTensor("edges", kFloat32, {batches, count, 4}, [&](Indices i) {
    Expr axis = te::Binary(BinaryOp::kFloorMod, i[2], te::Index(2));
    Expr a = boxes({i[0], i[1], axis}), b = boxes({i[0], i[1], axis + te::Index(2)});
    return te::Select(Less(i[2], te::Index(2)), te::Binary(BinaryOp::kMinimum, a, b),
                      te::Binary(BinaryOp::kMaximum, a, b));
  });
  Expr least_overlap = te::FloatConst(kFloat32, attrs.GetDouble("iou_threshold"));
  Tensor conflicts = Conflicts(dims, [&](Indices lane, const Expr& box, const Expr& better) {
    auto corners = [&](const Expr& place) {
      return [&, place](size_t which) {
        Expr at = order.PlaceAt(std::array{lane[0], lane[1], place});
        return edges({lane[0], at, te::Index(static_cast<int64_t>(which))});
      };
    };
    return Less(least_overlap, Overlap(corners(box), corners(better), te::FloatConst(kFloat32, 0)));
  });
  auto best_score = [&](Indices i) { return score_of(i[0], i[1], order.PlaceAt(i)); };
  auto is_kept = [&](Indices i) {
    Expr considered = te::Binary(BinaryOp::kGreaterEqual, best_score(i),
                                 te::FloatConst(kFloat32, attrs.GetDouble("score_threshold")));
    return And(considered, Equal(conflicts(i), te::Index(0)));
  };
  Tensor number = Running(dims, 2, te::Index(0), [&](Indices i, const Expr& before) {
    return te::Select(is_kept(i), before + te::Index(1), before);
  });
  // The boxes of all classes in one row.
  Dims rows = {batches, count * classes};
  auto place = [&](const Expr& row) {
    return std::array{te::Binary(BinaryOp::kFloorDivide, row, te::DimValue(count)),
                      te::Binary(BinaryOp::kFloorMod, row, te::DimValue(count))};
  };
  Tensor stays = te::ComputeTensor("stays", kBool, rows, [&](Indices i) {
    auto [kind, at] = place(i[1]);
    std::array index = {i[0], kind, at};
    Expr most = te::Index(attrs.GetInt("max_detections_per_class"));
    return And(is_kept(index), te::Binary(BinaryOp::kLessEqual, number(index), most));
  });
  Order best(rows, 1, [&](Indices i) {
    auto [kind, at] = place(i[1]);
    Expr key = SortKey(best_score(std::array{i[0], kind, at}), false);
    return te::Select(stays(i), key, te::Index(std::numeric_limits<int64_t>::max()));
  });
  Tensor found = CountWhere(rows, [&](const Expr& batch, const Expr& row) { return stays({batch, row}); });
  // `value(batch, class, position in its order)` of a box of the result; 0 behind the last one.
  auto result = [&](const char* name, const Dims& out, auto value) {
    return te::ComputeTensor(name, kFloat32, out, [&](Indices i) {
      auto [kind, at] = place(best.PlaceAt(i.first(2)));
      return te::Select(Less(i[1], found({i[0]})), value(i, std::array{i[0], kind, at}), te::FloatConst(kFloat32, 0));
    });
  };
  return {result("boxes", context.output(0).dims,
                 [&](Indices i, Indices at) { return boxes({i[0], order.PlaceAt(at), i[2]}); }),
          result("classes", context.output(1).dims, [&](Indices, Indices at) { return te::Cast(kFloat32, at[1]); }),
          result("scores", context.output(2).dims, [&](Indices, Indices at) { return best_score(at); }),
          te::ComputeTensor("count", kFloat32, {batches}, [&](Indices i) {
            Expr most = te::Index(attrs.GetInt("max_detections"));
            return te::Cast(kFloat32, te::Binary(BinaryOp::kMinimum, found(i), most));
          })};
}

constexpr OpDef kOps[] = {
    Op("vision.regular_non_max_suppression",
       "non-maximum suppression class by class: a tuple of the best boxes of all classes, by descending score, then 0; "
       "their classes; their scores; and how many there are",
       kInputs, kAttrs, Relation, FusionClass::kOpaque, Compute, kExamples),
};

}  // namespace

std::span<const OpDef> RegularSuppressionOps() { return kOps; }

}  // namespace rvm::ops
