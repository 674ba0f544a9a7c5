#include "compiler/ops/families/dynamic_reshape.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dim_bounds.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr std::string_view kElements = "`dyn.reshape`: number of elements";

// 1 if `dim` is zero, otherwise 0.
Dim IsZero(const Dim& dim) { return Dim(1) - Min(Max(dim, Dim(0) - dim), 1); }

// The extents of the input that the elements of `newshape` refer to: element i to axis i, and one axis further for each
// -3 before it.
class ReferredAxes {
 public:
  explicit ReferredAxes(const Dims& in) : in_(in), rank_(static_cast<int64_t>(in.size())) {}

  // Returns the extent that element `i` copies; 0 if it refers to no axis.
  Dim Copied(int64_t i) const {
    return At(i, [&](int64_t axis) { return Extent(axis); });
  }
  // Returns the product of that extent and the next one.
  Dim Joined(int64_t i) const {
    return At(i, [&](int64_t axis) { return axis + 1 < rank_ ? Extent(axis) * Extent(axis + 1) : Dim(0); });
  }
  // 1 if element `i` refers to no axis with at least, or exactly, so many axes behind it, otherwise 0.
  Dim LacksAxes(int64_t i, int64_t behind, bool exactly = false) const {
    if (!exactly && i + most_ + behind < rank_) return 0;
    return Dim(1) - At(i, [&](int64_t axis) {
             int64_t rest = rank_ - 1 - axis;
             return Dim(exactly ? rest == behind : rest >= behind);
           });
  }
  // 1 if element `i` refers to `axis`, otherwise 0.
  Dim IsAt(int64_t i, int64_t axis) const {
    int64_t shift = axis - i;
    if (shift < 0 || shift > most_) return 0;
    if (most_ == 0) return 1;
    if (shift == 0) return Dim(1) - Min(shift_, 1);
    return shift == most_ ? Max(shift_ - (most_ - 1), 0) : IsZero(shift_ - shift);
  }
  // `joins` is 1 if the element before the next one is -3, otherwise 0.
  void Shift(const Dim& joins) {
    if (joins == Dim(0) || rank_ < 2) return;
    shift_ = shift_ + joins;
    ++most_;
  }

 private:
  Dim Extent(int64_t axis) const { return in_[static_cast<size_t>(axis)]; }

  // `of(axis)` of the axis that element `i` refers to; 0 if there is none.
  template <typename F>
  Dim At(int64_t i, F of) const {
    Dim value = 0;
    for (int64_t axis = i; axis < rank_ && axis <= i + most_; ++axis) {
      value = value + IsAt(i, axis) * of(axis);
    }
    return value;
  }

  const Dims& in_;
  int64_t rank_;
  Dim shift_ = 0;     // the number of -3 so far
  int64_t most_ = 0;  // its maximum
};

// ---- values that are known ------------------------------------------------------

// The result of a reshape whose `newshape` is known as dims over the program's extents.
//
// Without `allowzero` an element that is 0 copies an extent of the input. An extent of the program may be 0 as well;
// such an element is taken as an extent, and the call gets `allowzero`, so that this holds when the program runs.
class KnownReshape {
 public:
  KnownReshape(const Dims& in, Dims values, bool copies) : in_(in), values_(std::move(values)), copies_(copies) {
    for (size_t i = 0; i < values_.size(); ++i) {
      has_zero_ = has_zero_ || (copies && values_[i] == Dim(0));
      if (copies && !values_[i].is_const() && !IsProven(i)) allows_zero_ = true;
    }
    // Zeros that are written keep their meaning; extents that may be 0 are then not known.
    allows_zero_ = allows_zero_ && !has_zero_;
  }

  // Returns whether the call needs `allowzero`.
  bool allows_zero() const { return allows_zero_; }

  Dims Result() const {
    Dims out, given, rest = in_;
    std::optional<size_t> inferred;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] == Dim(-1)) inferred = i;
      out.push_back(Extent(i));
      if (IsCopy(i)) rest[i] = 1;
      if (inferred != i && !IsCopy(i)) given.push_back(out[i]);
    }
    if (inferred) out[*inferred] = FloorDiv(Volume(rest), Volume(given));
    return out;
  }

 private:
  // Returns whether element `i`, which is no constant, is the extent of the result also where it is 0.
  bool IsProven(size_t i) const {
    return LowerBound(values_[i]) >= 1 || i >= in_.size() || CompareDims(values_[i], in_[i]) == DimEquality::kEqual;
  }

  // Returns whether element `i` copies an extent where it is 0, so that no quotient of extents depends on it.
  bool IsCopy(size_t i) const {
    if (!copies_ || allows_zero_ || i >= in_.size()) return false;
    return values_[i] == Dim(0) || CompareDims(values_[i], in_[i]) == DimEquality::kEqual;
  }

  Dim Extent(size_t i) const {
    if (IsCopy(i)) return in_[i];
    bool may_copy = copies_ && !allows_zero_ && !values_[i].is_const() && !IsProven(i);
    return may_copy ? Dim::Any() : values_[i];
  }

  const Dims& in_;
  Dims values_;
  bool copies_;
  bool has_zero_ = false;
  bool allows_zero_ = false;
};

using Values = std::vector<std::optional<Dim>>;

bool IsExtent(const std::optional<Dim>& value) { return value && !value->is_const() && IsNatural(*value); }

// The elements of `newshape` if each is a constant or an extent, one is an extent, and KnownReshape knows what they
// mean.
std::optional<Dims> ForKnownReshape(const Values& values, size_t rank, bool copies) {
  Dims dims;
  int inferred = 0, extents = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    extents += IsExtent(values[i]);
    inferred += values[i] == Dim(-1);
    bool lacks_axis = copies && values[i] == Dim(0) && i >= rank;
    bool is_constant = values[i] && values[i]->is_const() && values[i]->constant() >= -1;
    if (lacks_axis || !(is_constant || IsExtent(values[i]))) return std::nullopt;
    dims.push_back(*values[i]);
  }
  return extents > 0 && inferred <= 1 ? std::optional(std::move(dims)) : std::nullopt;
}

}  // namespace

Solve DynamicReshapeRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& in = args[0]->shape.dims;
  bool copies = context.attrs().GetInt("allowzero") == 0;
  Dims values;
  if (!ValueDims(context, 1, 1, values)) return Solve::kFailed;
  Values known_values;
  for (size_t i = 0; i < values.size(); ++i) known_values.push_back(context.KnownValue(1, static_cast<int64_t>(i)));
  if (std::optional<Dims> known = ForKnownReshape(known_values, in.size(), copies)) {
    KnownReshape reshape(in, *std::move(known), copies);
    if (reshape.allows_zero()) context.ResolveAttr("allowzero", 1);
    Dims result = reshape.Result();
    if (!context.RequireEqual(Volume(result), Volume(in), kElements)) return Solve::kFailed;
    return ResultTensor(context, result, args[0]->dtype.dtype);
  }
  // Exact expressions of dims that are no constants would be long.
  for (size_t i = 0; i < values.size(); ++i) {
    if (known_values[i] && !values[i].is_const()) values[i] = Dim::Any();
  }
  Dims out, is_inferred;
  ReferredAxes axes(in);
  Dim inferred = 0;  // the number of inferred extents
  // The inferred extent is the quotient of the products of these extents. Those that are copied are in neither, so that
  // they may be 0.
  Dim from = 1, known = 1;
  Dims copied(in.size(), Dim(0));  // by axis: 1 if it is copied, otherwise 0
  Dim missing = 0;                 // the number of elements that refer to axes which the input does not have
  for (size_t i = 0; i < values.size(); ++i) {
    const Dim& value = values[i];
    if (!context.RequireAtLeast(value, -3, "an extent of `newshape`")) return Solve::kFailed;
    auto at = static_cast<int64_t>(i);
    Dim joins = Max(Dim(-2) - value, 0), copies_last = IsZero(value + 2), is_copy = copies ? IsZero(value) : Dim(0);
    missing = missing + joins * axes.LacksAxes(at, 1) + is_copy * axes.LacksAxes(at, 0);
    // -2 stands for as many extents as are left: here it must be one.
    bool is_last = i + 1 == values.size();
    missing = missing + (is_last ? copies_last * axes.LacksAxes(at, 0, /*exactly=*/true) : copies_last);
    if (is_last) is_copy = is_copy + copies_last;
    is_inferred.push_back(IsZero(value + 1));
    inferred = inferred + is_inferred[i];
    Dim extent = Max(value, 0) + joins * axes.Joined(at);
    known = known * (extent + is_inferred[i] + is_copy);
    for (size_t axis = i; axis < in.size(); ++axis) {
      copied[axis] = copied[axis] + is_copy * axes.IsAt(at, static_cast<int64_t>(axis));
    }
    out.push_back(extent + is_copy * axes.Copied(at));
    axes.Shift(joins);
  }
  for (size_t axis = 0; axis < in.size(); ++axis) from = from * (in[axis] * (Dim(1) - copied[axis]) + copied[axis]);
  if (!context.RequireEqual(missing, 0, "elements of `newshape` that refer to axes which the input does not have") ||
      !context.RequireAtLeast(1, inferred, "how many extents `newshape` may leave to be inferred"))
    return Solve::kFailed;
  Dim rest = FloorDiv(from, known);
  for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] + is_inferred[i] * rest;
  for (size_t i = 0; i < out.size(); ++i) {
    if (IsExtent(known_values[i]) && (!copies || LowerBound(*known_values[i]) >= 1)) out[i] = *known_values[i];
  }
  if (!context.RequireEqual(Volume(out), Volume(in), kElements)) return Solve::kFailed;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

}  // namespace rvm::ops
