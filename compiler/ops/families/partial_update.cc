// Operators that replace a part of a tensor: strided slices, diagonals, queues.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kSetInputs[] = {{"data", "a tensor"},
                                {"v", "the new elements, of the rank of data"},
                                {"begin", "first index of each axis, an integer vector; negative counts from the end"},
                                {"end", "the index after the last, an integer vector"},
                                {"strides", "step of each axis, an integer vector; not 0"}};
constexpr Input kDiagInputs[] = {
    {"data", "a tensor of matrices (..., m, n)"},
    {"diagonal",
     "(..., length), of which the diagonal takes the first elements; (..., diagonals, length) with `k1` < `k2`"}};
constexpr AttrSpec kDiagAttrs[] = {
    {"k1", AttrType::kInt, "0", "the lowest diagonal; 0 is the main one, negative ones are below"},
    {"k2", AttrType::kInt, "0", "the highest diagonal"},
    {"super_diag_right_align", AttrType::kBool, "True", "shorter diagonals above are filled up at their beginning"},
    {"sub_diag_right_align", AttrType::kBool, "False", "shorter diagonals below are filled up at their beginning"}};
constexpr Input kFifoInputs[] = {{"input", "the new elements"}, {"buffer", "the current elements"}};
constexpr AttrSpec kFifoAttrs[] = {{"axis", AttrType::kInt, "0", "the axis of time"}};

// ---- slices --------------------------------------------------------------------------

Solve StridedSetRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  size_t rank = args[0]->shape.dims.size();
  if (args[1]->shape.dims.size() != rank) return FailRank(context, 1, args[1]->shape.dims.size(), "that of `data`");
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`");
  for (int i = 2; i < 5; ++i) {
    const ir::TensorType& vector = *args[static_cast<size_t>(i)];
    if (vector.shape.dims.size() != 1) return FailRank(context, i, vector.shape.dims.size(), "rank 1");
    if (!vector.dtype.dtype.is_int()) return FailDType(context, i, vector.dtype.dtype, "a signed integer dtype");
  }
  return context.Result(args[0]);
}

// Element `axis` of a vector; `otherwise` if the vector is shorter.
Expr ElementOr(const Tensor& vector, size_t axis, const Expr& otherwise) {
  Expr place = te::Index(static_cast<int64_t>(axis));
  const Dim& count = vector.dims()[0];
  if (count.is_const())
    return count.constant() > static_cast<int64_t>(axis) ? te::Cast(kInt64, vector({place})) : otherwise;
  return te::Select(Less(place, te::DimValue(count)), te::Cast(kInt64, vector({place})), otherwise);
}

// The slice along one axis of data, of extent `extent`.
struct Slice {
  Expr begin, step;  // begin is in [0, extent) if the slice has elements
  Expr end;          // may be out of range
  Expr forward;      // whether the step is positive
  Expr extent;

  // Returns whether index `i` of data is in the slice.
  Expr Has(const Expr& i) const {
    Expr inside = te::Select(forward, And(te::Binary(BinaryOp::kLessEqual, begin, i), Less(i, end)),
                             And(te::Binary(BinaryOp::kLessEqual, i, begin), Less(end, i)));
    return And(inside, Equal(te::Binary(BinaryOp::kFloorMod, i - begin, step), te::Index(0)));
  }
  // Returns the number of elements.
  Expr Count() const {
    Expr zero = te::Index(0), one = te::Index(1);
    Expr up = te::Binary(BinaryOp::kMinimum, end, extent) - begin;
    Expr down = begin - te::Binary(BinaryOp::kMaximum, end, te::Index(-1));
    Expr distance = te::Select(forward, up, down), stride = te::Select(forward, step, zero - step);
    Expr count = te::Binary(BinaryOp::kFloorDivide, distance - one, stride) + one;
    return te::Select(Less(zero, distance), count, zero);
  }
};

// Inputs 2, 3 and 4 are begins, ends and strides. As slices do, it begins inside, where the strides are counted from.
Slice SliceOf(const ComputeContext& context, size_t axis) {
  Slice slice{.extent = te::DimValue(context.input(0).dims()[axis])};
  Expr zero = te::Index(0), minus_one = te::Index(-1);
  auto from_end = [&](const Expr& x) { return te::Select(Less(x, zero), x + slice.extent, x); };
  slice.step = ElementOr(context.input(4), axis, te::Index(1));
  slice.forward = Less(zero, slice.step);
  Expr first = te::Select(slice.forward, zero, minus_one);
  Expr last = te::Select(slice.forward, slice.extent, slice.extent + minus_one);
  Expr begin = from_end(ElementOr(context.input(2), axis, zero));
  slice.begin = te::Binary(BinaryOp::kMinimum, te::Binary(BinaryOp::kMaximum, begin, first), last);
  slice.end = from_end(ElementOr(context.input(3), axis, slice.extent));
  return slice;
}

// Returns the extents of the slice depend on values, so `v` may be smaller; its last elements are then repeated. Steps
// of 1 and slices of the extents of `v` are the usual ones.
Tensor StridedSetInPlace(const Tensor& set, const ComputeContext& context, const std::vector<Slice>& slices) {
  const Tensor &data = context.input(0), &v = context.input(1);
  te::TensorUpdate update{.base = data, .estimate = Volume(v.dims())};
  std::vector<Expr> fits(slices.size());  // whether v has all elements of the slice; null: known, or v has only one
  for (size_t axis = 0; axis < slices.size(); ++axis) {
    const Slice& slice = slices[axis];
    Expr count = slice.Count();
    const Dim& given = v.dims()[axis];
    if (given != Dim(1) && CompareDims(given, data.dims()[axis]) != DimEquality::kEqual) {
      fits[axis] = te::Binary(BinaryOp::kLessEqual, count, te::DimValue(given));
      update.usual.push_back(fits[axis]);
    }
    if (slice.step->kind != te::ExprKind::kIntConst) update.usual.push_back(Equal(slice.step, te::Index(1)));
    update.counts.push_back(UnlessEmpty(given, count));
  }
  return te::WithUpdate(set, update, data.dims(), [&](Indices u) {
    te::TensorUpdate::Position position;
    std::vector<Expr> at;
    for (size_t axis = 0; axis < slices.size(); ++axis) {
      const Slice& slice = slices[axis];
      Expr moved = te::Select(Equal(slice.step, te::Index(1)), u[axis], u[axis] * slice.step);
      position.place.push_back(slice.begin + moved);
      const Dim& given = v.dims()[axis];
      Expr inside = given == Dim(1) ? te::Index(0) : u[axis];
      at.push_back(fits[axis] ? te::Select(fits[axis], inside, Clamp(u[axis], given)) : inside);
    }
    position.value = v(at);
    return position;
  });
}

std::vector<Tensor> ComputeStridedSet(const ComputeContext& context) {
  const Tensor &data = context.input(0), &v = context.input(1);
  std::vector<Slice> slices;
  for (size_t axis = 0; axis < data.rank(); ++axis) slices.push_back(SliceOf(context, axis));
  Tensor set = te::ComputeTensor("strided_set", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    Expr written;
    for (size_t axis = 0; axis < data.rank(); ++axis) {
      const Slice& slice = slices[axis];
      Expr here = slice.Has(i[axis]);
      at.push_back(Clamp(te::Binary(BinaryOp::kFloorDivide, i[axis] - slice.begin, slice.step), v.dims()[axis]));
      written = written ? And(written, here) : here;
    }
    if (!written) return v(at);
    Dim volume = Volume(v.dims());
    bool never_empty = volume.is_const() && volume.constant() > 0;
    if (!never_empty) written = And(written, Less(te::Index(0), te::DimValue(volume)));
    return te::Select(written, v(at), data(i));
  });
  return {data.rank() == 0 ? set : StridedSetInPlace(set, context, slices)};
}

// ---- diagonals -----------------------------------------------------------------------

Solve MatrixSetDiagRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &diagonal = args[1]->shape.dims;
  int64_t k1 = context.attrs().GetInt("k1"), k2 = context.attrs().GetInt("k2");
  if (k1 > k2) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`k1` is ", k1, " and `k2` ", k2, "; expected `k1` to be no greater"));
  }
  if (data.size() < 2) return FailRank(context, 0, data.size(), "2 or more");
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`");
  Dims expected(data.begin(), data.end() - 2);
  if (k1 < k2) expected.push_back(k2 - k1 + 1);
  const Dim &rows = data[data.size() - 2], &columns = data[data.size() - 1];
  expected.push_back(Max(Min(rows + std::min<int64_t>(k2, 0), columns - std::max<int64_t>(k1, 0)), 0));
  if (diagonal.size() != expected.size()) {
    return FailRank(context, 1, diagonal.size(), absl::StrCat("rank ", expected.size()));
  }
  constexpr std::string_view kWhat = "`matrix_set_diag`: extents of `diagonal`";
  for (size_t i = 0; i < expected.size(); ++i) {
    // Several diagonals are aligned to the longest one.
    bool may_be_longer = k1 == k2 && i + 1 == expected.size();
    bool fits = may_be_longer ? context.RequireAtLeast(diagonal[i], expected[i], kWhat)
                              : context.RequireEqual(diagonal[i], expected[i], kWhat);
    if (!fits) return Solve::kFailed;
  }
  return context.Result(args[0]);
}

// The diagonals that `matrix_set_diag` writes.
struct Diagonals {
  Expr rows, columns;
  Expr longest;  // elements of a row of `diagonal`
  int64_t k1, k2;
  bool is_right_aligned_above, is_right_aligned_below;

  // How many elements diagonal `k` has.
  Expr Length(const Expr& k) const {
    return te::Select(Less(te::Index(0), k), Least(rows, columns - k), Least(rows + k, columns));
  }
  // Returns the column of `diagonal` that the first element of diagonal `k` is in.
  Expr First(const Expr& k) const {
    if (k1 == k2) return te::Index(0);
    Expr gap = longest - Length(k), zero = te::Index(0);
    return te::Select(Less(zero, k), is_right_aligned_above ? gap : zero, is_right_aligned_below ? gap : zero);
  }
  static Expr Least(Expr a, Expr b) { return te::Binary(BinaryOp::kMinimum, std::move(a), std::move(b)); }
};

// Returns a position for each element of `diagonal`, of which some are beyond a diagonal's end.
Tensor SetDiagonalsInPlace(const Tensor& set, const Tensor& data, const Tensor& diagonal, const Diagonals& diagonals) {
  size_t lead = data.rank() - 2;
  te::TensorUpdate update{.base = data, .estimate = Volume(diagonal.dims())};
  return te::WithUpdate(set, update, diagonal.dims(), [&](Indices u) {
    Expr zero = te::Index(0);
    Expr k = diagonals.k1 < diagonals.k2 ? te::Index(diagonals.k2) - u[lead] : te::Index(diagonals.k1);
    Expr place = u.back() - diagonals.First(k);
    te::TensorUpdate::Position position{.value = diagonal(u)};
    position.place.assign(u.begin(), u.begin() + static_cast<std::ptrdiff_t>(lead));
    position.place.push_back(place - Diagonals::Least(k, zero));
    position.place.push_back(place + te::Binary(BinaryOp::kMaximum, k, zero));
    position.condition = And(te::Binary(BinaryOp::kGreaterEqual, place, zero), Less(place, diagonals.Length(k)));
    return position;
  });
}

std::vector<Tensor> ComputeMatrixSetDiag(const ComputeContext& context) {
  const Tensor &data = context.input(0), &diagonal = context.input(1);
  const ir::Attrs& attrs = context.attrs();
  size_t lead = data.rank() - 2;
  Diagonals diagonals{.rows = te::DimValue(data.dims()[lead]),
                      .columns = te::DimValue(data.dims()[lead + 1]),
                      .longest = te::DimValue(diagonal.dims()[diagonal.rank() - 1]),
                      .k1 = attrs.GetInt("k1"),
                      .k2 = attrs.GetInt("k2"),
                      .is_right_aligned_above = attrs.GetBool("super_diag_right_align"),
                      .is_right_aligned_below = attrs.GetBool("sub_diag_right_align")};
  Tensor set = te::ComputeTensor("matrix_set_diag", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    Expr row = i[lead], column = i[lead + 1];
    Expr k = column - row;
    std::vector<Expr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(lead));
    Expr hit = Equal(k, te::Index(diagonals.k1));
    if (diagonals.k1 < diagonals.k2) {
      hit = And(te::Binary(BinaryOp::kLessEqual, te::Index(diagonals.k1), k),
                te::Binary(BinaryOp::kLessEqual, k, te::Index(diagonals.k2)));
      at.push_back(te::Index(diagonals.k2) - k);
    }
    at.push_back(Diagonals::Least(row, column) + diagonals.First(k));
    return te::Select(hit, diagonal(at), data(i));
  });
  return {SetDiagonalsInPlace(set, data, diagonal, diagonals)};
}

// ---- queues ----------------------------------------------------------------------------

Solve FifoRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &input = args[0]->shape.dims, &buffer = args[1]->shape.dims;
  if (input.size() != buffer.size()) return FailRank(context, 0, input.size(), "that of `buffer`");
  if (args[0]->dtype.dtype != args[1]->dtype.dtype)
    return FailOtherDType(context, 0, args[0]->dtype.dtype, "that of `buffer`");
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(buffer.size()));
  if (!axis) return Solve::kFailed;
  for (size_t i = 0; i < buffer.size(); ++i) {
    if (i == static_cast<size_t>(*axis)) continue;
    if (!context.RequireEqual(input[i], buffer[i], "`nn.fifo_buffer`: extents of input and buffer"))
      return Solve::kFailed;
  }
  return context.Result(args[1]);
}

// Concatenates buffer and input, and keeps as many of the last elements as the buffer has.
std::vector<Tensor> ComputeFifo(const ComputeContext& context) {
  const Tensor &input = context.input(0), &buffer = context.input(1);
  size_t axis = Normal(context.attrs().GetInt("axis"), buffer.rank());
  return {te::ComputeTensor("fifo_buffer", buffer.dtype(), buffer.dims(), [&](std::span<const Expr> i) {
    Expr place = i[axis] + te::DimValue(input.dims()[axis]), kept = te::DimValue(buffer.dims()[axis]);
    return te::Select(Less(place, kept), buffer(With(i, axis, place)), input(With(i, axis, place - kept)));
  })};
}

constexpr OpDef kOps[] = {
    {.name = "nn.fifo_buffer",
     .summary = "buffer with input appended at its end, and as many elements removed at its beginning",
     .inputs = kFifoInputs,
     .attrs = kFifoAttrs,
     .type_relation = FifoRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeFifo,
     .gradient = FifoBufferGradient},
    {.name = "strided_set",
     .summary = "data with a strided slice replaced",
     .inputs = kSetInputs,
     .type_relation = StridedSetRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeStridedSet,
     .gradient = StridedSetGradient},
    {.name = "matrix_set_diag",
     .summary = "matrices with diagonals replaced",
     .inputs = kDiagInputs,
     .attrs = kDiagAttrs,
     .type_relation = MatrixSetDiagRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeMatrixSetDiag,
     .gradient = MatrixSetDiagGradient},
};

}  // namespace

std::span<const OpDef> PartialUpdateOps() { return kOps; }

}  // namespace rvm::ops
