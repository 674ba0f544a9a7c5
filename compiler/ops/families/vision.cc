// Selection of boxes: by their score, and by non-maximum suppression.
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/boxes.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kBoxes = {"data", "boxes (batch, boxes, fields), floating point"};
constexpr Input kCountInputs[] = {kBoxes, {"score_threshold", "a scalar"}};
constexpr Input kSuppressInputs[] = {
    kBoxes,
    {.name = "valid_count", .doc = "the number of valid boxes of each batch", .is_count = true},
    {"indices", "(batch, boxes), the numbers that identify boxes in the result"},
    {.name = "max_output_size",
     .doc = "an integer scalar, the number of boxes to keep; negative: all",
     .is_count = true},
    {"iou_threshold", "a scalar: the overlap from which a box is suppressed; no suppression unless positive"}};
constexpr AttrSpec kCountAttrs[] = {
    {"score_threshold", AttrType::kAny, "None", "unused, for compatibility", true},
    {"id_index", AttrType::kInt, "0",
     "the field of the class; a box with a negative class is invalid; -1: no such field"},
    {"score_index", AttrType::kInt, "1", "the field of the score"}};
constexpr AttrSpec kSuppressAttrs[] = {
    {"force_suppress", AttrType::kBool, "False", "boxes also suppress boxes of other classes"},
    {"top_k", AttrType::kInt, "-1", "the number of best boxes that are considered; below 1: all"},
    {"coord_start", AttrType::kInt, "2", "the first of the fields of two corners"},
    {"score_index", AttrType::kInt, "1", "the field of the score"},
    {"id_index", AttrType::kInt, "0", "the field of the class; -1: none"},
    {"return_indices", AttrType::kBool, "True", "give a tuple of numbers and how many there are, else boxes"},
    {"invalid_to_bottom", AttrType::kBool, "False", "the boxes that are kept come first"}};

// Returns whether `data` is a tensor of boxes with the fields `first`, ..., `first + count - 1`. Reports an error if
// not.
bool HasFields(TypeContext& context, const ir::TensorType& data, std::string_view attr, int64_t count,
               bool may_be_none = false) {
  int64_t first = context.attrs().GetInt(attr);
  if (data.shape.dims.size() != 3) {
    FailRank(context, 0, data.shape.dims.size(), "3");
    return false;
  }
  if (!data.dtype.dtype.is_float()) {
    FailDType(context, 0, data.dtype.dtype, "a floating-point dtype");
    return false;
  }
  if (first < 0 && may_be_none) return true;
  if (first < 0) {
    context.Fail(DiagnosticKind::kBadAttribute,
                 absl::StrCat("`", std::string(attr), "` is ", first, "; expected a field"));
    return false;
  }
  return context.RequireAtLeast(data.shape.dims[2], first + count, "fields of `data`");
}

// ---- selection by score -----------------------------------------------------------------

Solve ValidCountsRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!HasFields(context, *args[0], "score_index", 1) || !HasFields(context, *args[0], "id_index", 1, true))
    return Solve::kFailed;
  if (!args[1]->shape.dims.empty()) return FailRank(context, 1, args[1]->shape.dims.size(), "a scalar");
  const Dims& dims = args[0]->shape.dims;
  std::vector<const ir::Type*> fields = {ir::MakeTensorType(context.arena(), {dims[0]}, kInt32), args[0],
                                         ir::MakeTensorType(context.arena(), {dims[0], dims[1]}, kInt32)};
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

std::vector<Tensor> ComputeValidCounts(const ComputeContext& context) {
  const Tensor &data = context.input(0), &threshold = context.input(1);
  DataType wide = Accumulator(data.dtype());
  int64_t id = context.attrs().GetInt("id_index"), score = context.attrs().GetInt("score_index");
  BoxCondition is_valid = [&](const Expr& batch, const Expr& box) {
    Expr above = Less(te::Cast(wide, threshold({})), te::Cast(wide, data({batch, box, te::Index(score)})));
    if (id < 0) return above;
    Expr zero = te::Const(data.dtype(), 0);
    return And(above, te::Binary(BinaryOp::kGreaterEqual, data({batch, box, te::Index(id)}), zero));
  };
  Tensor count = CountWhere(data.dims(), is_valid);
  Order order = OrderWhere(data.dims(), is_valid);
  Tensor place = te::ComputeTensor("place", kInt64, {data.dims()[0], data.dims()[1]}, [&](std::span<const Expr> i) {
    return te::Select(Less(i[1], count({i[0]})), order.PlaceAt(i), te::Index(-1));
  });
  Tensor boxes = te::ComputeTensor("boxes", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    Expr from = place({i[0], i[1]});
    return te::Select(Less(from, te::Index(0)), te::Const(data.dtype(), -1), data({i[0], from, i[2]}));
  });
  return {CastTensor(count, kInt32), boxes, CastTensor(place, kInt32)};
}

// ---- non-maximum suppression ------------------------------------------------------------

Solve SuppressRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!HasFields(context, *args[0], "score_index", 1) || !HasFields(context, *args[0], "id_index", 1, true) ||
      !HasFields(context, *args[0], "coord_start", 4))
    return Solve::kFailed;
  const Dims& dims = args[0]->shape.dims;
  constexpr size_t kRanks[] = {3, 1, 2, 0, 0};
  for (int i = 1; i < 5; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    size_t rank = kRanks[i];
    if (arg.shape.dims.size() != rank) return FailRank(context, i, arg.shape.dims.size(), absl::StrCat(rank));
    bool has_integers = i == 2 ? IsIndexType(arg.dtype.dtype) : IsCountType(arg.dtype.dtype);
    if (i < 4 && !has_integers) return FailDType(context, i, arg.dtype.dtype, "an integer dtype");
    for (size_t axis = 0; axis < rank; ++axis) {
      if (!context.RequireEqual(arg.shape.dims[axis], dims[axis], "`vision.non_max_suppression`: batches and boxes"))
        return Solve::kFailed;
    }
  }
  if (!context.attrs().GetBool("return_indices")) return context.Result(args[0]);
  std::vector<const ir::Type*> fields = {ir::MakeTensorType(context.arena(), {dims[0], dims[1]}, kInt32),
                                         ir::MakeTensorType(context.arena(), {dims[0], 1}, kInt32)};
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

// The state of a box is kept in one sum: the number of boxes kept before it, plus kOverlap for each overlap.
constexpr int64_t kOverlap = int64_t{1} << 32;

class Suppression {
 public:
  explicit Suppression(const ComputeContext& context);

  // For each position in the order of scores, the box if it is kept, otherwise -1.
  Tensor Run() const;

 private:
  Expr Field(const Expr& batch, const Expr& box, int64_t field) const {
    return te::Cast(wide_, data_({batch, box, te::Index(field)}));
  }
  Expr BestField(std::span<const Expr> i, int64_t field) const { return Field(i[0], order_.PlaceAt(i), field); }
  Expr IsCandidate(const Expr& batch, const Expr& place) const {
    return Less(te::Const(wide_, 0), score_({batch, place}));
  }
  Expr OverlapOf(const Expr& batch, const Expr& a, const Expr& b) const;
  Expr Conflict(const Expr& batch, const Expr& place, const Expr& better) const;

  const Tensor& data_;
  DataType wide_;
  Dims dims_;  // batches, boxes
  int64_t id_index_, score_index_;
  bool force_;
  Expr threshold_, applies_, most_;
  Tensor valid_, limit_;  // of a batch: the number of boxes, the number of boxes considered
  Order order_;
  // The fields of the boxes in order. Boxes that are not considered have the score 0. A corner is two tensors; the
  // corner with the lesser coordinates comes first.
  Tensor score_, id_;
  std::array<Tensor, 4> corners_;
};

Tensor ValidCounts(const Tensor& counts, const Dim& boxes) {
  return te::ComputeTensor("valid", kInt64, counts.dims(), [&](std::span<const Expr> i) {
    Expr count = te::Cast(kInt64, counts(i));
    return te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, count, te::DimValue(boxes)), te::Index(0));
  });
}

Suppression::Suppression(const ComputeContext& context)
    : data_(context.input(0)),
      wide_(Accumulator(data_.dtype())),
      dims_({data_.dims()[0], data_.dims()[1]}),
      id_index_(context.attrs().GetInt("id_index")),
      score_index_(context.attrs().GetInt("score_index")),
      force_(context.attrs().GetBool("force_suppress") || id_index_ < 0),
      threshold_(te::Cast(wide_, context.input(4)({}))),
      applies_(Less(te::Const(wide_, 0), threshold_)),
      most_(te::Cast(kInt64, context.input(3)({}))),
      valid_(ValidCounts(context.input(1), dims_[1])),
      order_(dims_, 1, [&](std::span<const Expr> i) {
        Expr key = ScoreKey(data_({i[0], i[1], te::Index(score_index_)}));
        return te::Select(Less(i[1], valid_({i[0]})), key, te::Index(std::numeric_limits<int64_t>::max()));
      }) {
  int64_t top_k = context.attrs().GetInt("top_k"), coord = context.attrs().GetInt("coord_start");
  limit_ = te::ComputeTensor("limit", kInt64, {dims_[0]}, [&](std::span<const Expr> i) {
    return top_k < 1 ? valid_(i) : te::Binary(BinaryOp::kMinimum, valid_(i), te::Index(top_k));
  });
  auto field = [&](const char* name, int64_t number, double otherwise) {
    return te::ComputeTensor(name, wide_, dims_, [&](std::span<const Expr> i) {
      return te::Select(Less(i[1], limit_({i[0]})), BestField(i, number), te::Const(wide_, otherwise));
    });
  };
  score_ = field("score", score_index_, 0);
  if (id_index_ >= 0) id_ = field("id", id_index_, -1);
  for (int64_t which = 0; which < 4; ++which) {
    int64_t axis = coord + which % 2;
    BinaryOp op = which < 2 ? BinaryOp::kMinimum : BinaryOp::kMaximum;
    corners_[static_cast<size_t>(which)] = te::ComputeTensor("corner", wide_, dims_, [&](std::span<const Expr> i) {
      return te::Binary(op, BestField(i, axis), BestField(i, axis + 2));
    });
  }
}

Expr Suppression::OverlapOf(const Expr& batch, const Expr& a, const Expr& b) const {
  auto corners = [&](const Expr& box) { return [&, box](size_t which) { return corners_[which]({batch, box}); }; };
  return Overlap(corners(a), corners(b), te::Const(wide_, 0));
}

// Returns whether the box at `place` is suppressed by the box at `better`, if that is kept.
Expr Suppression::Conflict(const Expr& batch, const Expr& place, const Expr& better) const {
  Expr overlaps = te::Binary(BinaryOp::kGreaterEqual, OverlapOf(batch, place, better), threshold_);
  if (id_index_ < 0) return overlaps;
  Expr id = id_({batch, better});
  overlaps = And(overlaps, te::Binary(BinaryOp::kGreaterEqual, id, te::Const(wide_, 0)));
  return force_ ? overlaps : And(overlaps, Equal(id_({batch, place}), id));
}

Tensor Suppression::Run() const {
  Expr zero = te::Index(0), one = te::Index(1), overlap = te::Index(kOverlap);
  // A box is kept if its sum is below this: fewer than `most` boxes are kept before it, and none of them overlaps.
  Expr bound = te::Select(Less(most_, zero), overlap, te::Binary(BinaryOp::kMinimum, most_, overlap));
  Tensor sums = te::ScanTensor("suppression", kInt64, dims_, [&](std::span<const Expr> i, const Tensor& self) {
    return te::Reduce(ReduceOp::kSum, std::array{dims_[1]}, [&](std::span<const Expr> k) {
      Expr stays = And(IsCandidate(i[0], k[0]), Less(self({i[0], k[0]}), bound));
      Expr value = te::Select(stays, te::Select(Conflict(i[0], i[1], k[0]), overlap + one, one), zero);
      return te::Select(And(applies_, Less(k[0], i[1])), value, zero);
    });
  });
  return te::ComputeTensor("box", kInt64, dims_, [&](std::span<const Expr> i) {
    Expr before = te::Binary(BinaryOp::kFloorMod, sums(i), overlap);
    Expr goes = And(Less(te::Const(wide_, 0), score_(i)), te::Binary(BinaryOp::kGreaterEqual, sums(i), overlap));
    goes = te::Binary(BinaryOp::kOr, goes, Equal(before, most_));
    goes = te::Binary(BinaryOp::kOr, goes, te::Binary(BinaryOp::kGreaterEqual, i[1], limit_({i[0]})));
    Expr box = te::Select(applies_, te::Select(goes, te::Index(-1), order_.PlaceAt(i)), i[1]);
    return te::Select(Less(i[1], valid_({i[0]})), box, te::Index(-1));
  });
}

// Returns the rows of (batch, boxes, ...) for which a condition holds, followed by rows of -1.
Tensor HoldingFirst(const Tensor& rows, const BoxCondition& holds, const Tensor& count) {
  Order order = OrderWhere(rows.dims(), holds);
  return te::ComputeTensor("first", rows.dtype(), rows.dims(), [&](std::span<const Expr> i) {
    std::vector<Expr> at = With(i, 1, order.PlaceAt(i.first(2)));
    return te::Select(Less(i[1], count({i[0]})), rows(at), te::Const(rows.dtype(), -1));
  });
}

std::vector<Tensor> ComputeSuppress(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(2);
  Tensor box = Suppression(context).Run();
  if (context.attrs().GetBool("return_indices")) {
    Tensor number = te::ComputeTensor("number", kInt64, box.dims(), [&](std::span<const Expr> i) {
      Expr value = te::Cast(kInt64, indices({i[0], box(i)}));
      return te::Select(Less(box(i), te::Index(0)), te::Index(-1), value);
    });
    BoxCondition is_kept = [&](const Expr& batch, const Expr& place) {
      return te::Binary(BinaryOp::kGreaterEqual, number({batch, place}), te::Index(0));
    };
    Tensor count = CountWhere(box.dims(), is_kept);
    Tensor counts = te::ComputeTensor("count", kInt32, {box.dims()[0], 1},
                                      [&](std::span<const Expr> i) { return te::Cast(kInt32, count({i[0]})); });
    return {CastTensor(HoldingFirst(number, is_kept, count), kInt32), counts};
  }
  Tensor boxes = te::ComputeTensor("boxes", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    Expr from = box({i[0], i[1]});
    return te::Select(Less(from, te::Index(0)), te::Const(data.dtype(), -1), data({i[0], from, i[2]}));
  });
  if (!context.attrs().GetBool("invalid_to_bottom")) return {boxes};
  BoxCondition is_kept = [&](const Expr& batch, const Expr& place) {
    Expr first = boxes({batch, place, te::Index(0)});
    return te::Binary(BinaryOp::kGreaterEqual, first, te::Const(data.dtype(), 0));
  };
  return {HoldingFirst(boxes, is_kept, CountWhere(box.dims(), is_kept))};
}

constexpr OpDef kOps[] = {
    {.name = "vision.get_valid_counts",
     .summary = "a tuple: of each batch how many boxes have a score above the threshold; these boxes, then -1; their "
                "places, then -1",
     .inputs = kCountInputs,
     .attrs = kCountAttrs,
     .type_relation = ValidCountsRelation,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeValidCounts,
     .gradient = ValidCountsGradient},
    {.name = "vision.non_max_suppression",
     .summary = "non-maximum suppression: the boxes, by descending score, that overlap no better box that is kept; -1 "
                "for the others",
     .inputs = kSuppressInputs,
     .attrs = kSuppressAttrs,
     .type_relation = SuppressRelation,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeSuppress,
     .gradient = NonMaxSuppressionGradient},
};

}  // namespace

std::span<const OpDef> VisionOps() { return kOps; }

}  // namespace rvm::ops
