// Operators whose number of results is data-dependent: `arange`, `argwhere`, `unique`.
//
// A call runs two kernels: one counts the results, the other takes the count as an argument, which determines the shape
// of its result (OpDef::count_op and fill_op; compiler/passes/fusion/count_results.cc).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kCount = {.name = "count", .doc = "an int64 scalar, the number of results", .decides_shape = true};
constexpr Input kData[] = {{"data", "a tensor"}};
constexpr Input kDataAndCount[] = {{"data", "a tensor"}, kCount};
constexpr Input kRange[] = {{.name = "start", .doc = "a scalar", .may_decide_shape = true},
                            {.name = "stop", .doc = "a scalar", .may_decide_shape = true},
                            {.name = "step", .doc = "a scalar", .may_decide_shape = true}};
constexpr Input kRangeAndCount[] = {{"start", "a scalar"}, {"stop", "a scalar"}, {"step", "a scalar"}, kCount};
constexpr AttrSpec kRangeAttrs[] = {{"start", AttrType::kAny, "None", "unused, for compatibility", true},
                                    {"stop", AttrType::kAny, "None", "unused, for compatibility", true},
                                    {"step", AttrType::kAny, "None", "unused, for compatibility", true},
                                    {"dtype", AttrType::kDType, "\"\"", "dtype of the result (that of start)"}};
constexpr AttrSpec kUniqueAttrs[] = {
    {"sorted", AttrType::kBool, "True", "in ascending order, else in order of first occurrence"},
    {"return_counts", AttrType::kBool, "False", "also return the number of occurrences of each"},
    {"axis", AttrType::kInt, "None", "compare the slices along this axis; None: the elements, in row-major order",
     true}};
constexpr Example kUniqueExamples[] = {
    {"unique([3, 1, 1, 3, 2])", "([1, 2, 3], [1, 4, 0], [2, 0, 0, 2, 1], [3])"},
    {"unique([3, 1, 1, 3, 2], sorted=False, return_counts=True)",
     "([3, 1, 2], [0, 1, 4], [0, 1, 1, 0, 2], [3], [2, 2, 1])"},
    {"unique([[1, 2], [0, 5], [1, 2]], axis=0)", "([[0, 5], [1, 2]], [1, 0], [1, 0, 1], [2])"}};

Solve CountRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return ResultTensor(context, {}, kInt64);
}

// Sets `count` to the number of results: the last argument if `is_given`, else a data-dependent dim.
bool CountDim(TypeContext& context, bool is_given, Dim& count, std::string_view what = "the number of results") {
  if (!is_given) {
    count = context.DataDependentDim();
    return true;
  }
  Dims values;
  if (!ValueDims(context, context.num_args() - 1, 0, values)) return false;
  count = values[0];
  return context.RequireAtLeast(count, 0, what);
}

// ---- arange -------------------------------------------------------------------------

// Returns the number of elements if all arguments are constants.
std::optional<double> KnownRange(TypeContext& context) {
  double values[3];
  for (size_t i = 0; i < 3; ++i) {
    const Literal* value = context.arg_value(i);
    if (value == nullptr) return std::nullopt;
    values[i] = value->DoubleAt(0);
  }
  double count = std::ceil((values[1] - values[0]) / values[2]);
  return values[2] == 0 ? HUGE_VAL : std::max(count, 0.0);
}

// Returns the number of elements if the arguments are integers and their values are known as dims.
std::optional<Dim> KnownCount(TypeContext& context, const Types& args) {
  std::optional<Dim> values[3];
  for (size_t i = 0; i < 3; ++i) {
    DataType dtype = args[i]->dtype.dtype;
    values[i] = dtype == kInt32 || dtype == kInt64 ? context.KnownValue(i, 0) : std::nullopt;
    if (!values[i]) return std::nullopt;
  }
  std::optional<int64_t> step = values[2]->AsConst();
  if (!step || *step == 0 || *step == INT64_MIN) return std::nullopt;
  Dim distance = WithoutCancelled(*step > 0 ? *values[1] - *values[0] : *values[0] - *values[1]);
  int64_t stride = std::abs(*step);
  Dim count = FloorDiv(distance + (stride - 1), stride);
  return ClampedToNatural(count);
}

template <bool is_given>
Solve ArangeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i : {0, 1, 2}) {
    size_t rank = args[static_cast<size_t>(i)]->shape.dims.size();
    if (rank != 0) return FailRank(context, i, rank, "a scalar");
  }
  std::optional<double> known = is_given ? std::nullopt : KnownRange(context);
  Dim count;
  std::optional<Dim> known_count = is_given || known ? std::nullopt : KnownCount(context, args);
  if (known_count) {
    count = *known_count;
  } else if (!known) {
    constexpr std::string_view kWhat = "`arange`: `step` is 0; expected a step up or down; number of elements";
    if (!CountDim(context, is_given, count, kWhat)) return Solve::kFailed;
  } else if (*known < 1e12) {
    count = static_cast<int64_t>(*known);
  } else {
    bool is_zero = context.arg_value(2)->DoubleAt(0) == 0;
    return context.Fail(DiagnosticKind::kBadAttribute,
                        is_zero ? "`step` is 0; expected a positive step, or a negative one to count down"
                                : "the range has no end; expected a finite range",
                        2);
  }
  return ResultTensor(context, {count}, DTypeAttr(context.attrs(), "dtype", args[0]->dtype.dtype));
}

// The count is -1, which `arange_fill` refuses, if the step is 0.
std::vector<Tensor> ComputeArangeCount(const ComputeContext& context) {
  return {te::ComputeTensor("count", kInt64, {}, [&](std::span<const Expr>) {
    auto wide = [&](size_t i) { return te::Cast(kFloat64, context.input(i)({})); };
    Expr zero = te::FloatConst(kFloat64, 0);
    Expr quotient = te::Binary(BinaryOp::kDivide, wide(1) - wide(0), wide(2));
    Expr count = te::Binary(BinaryOp::kMaximum, te::Unary(te::UnaryOp::kCeil, quotient), zero);
    return te::Select(Equal(wide(2), zero), te::Index(-1), te::Cast(kInt64, count));
  })};
}

std::vector<Tensor> ComputeArange(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  DataType dtype = out.dtype.is_float() ? Accumulator(out.dtype) : kInt64;
  Tensor range = te::ComputeTensor("arange", dtype, out.dims, [&](std::span<const Expr> i) {
    return te::Cast(dtype, context.input(0)({})) + te::Cast(dtype, i[0]) * te::Cast(dtype, context.input(2)({}));
  });
  return {CastTensor(range, out.dtype)};
}

// ---- argwhere -----------------------------------------------------------------------

template <bool is_given>
Solve ArgwhereRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dim count;
  if (!CountDim(context, is_given, count)) return Solve::kFailed;
  return ResultTensor(context, {count, static_cast<int64_t>(args[0]->shape.dims.size())}, kInt32);
}

// Returns whether element `flat` of `data` is not zero.
Expr IsSet(const Tensor& data, const Expr& flat) {
  return te::Binary(BinaryOp::kNotEqual, AtFlat(data, flat), te::Const(data.dtype(), 0));
}

std::vector<Tensor> ComputeArgwhereCount(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  return {
      ReduceOver(ReduceOp::kSum, kInt64, {}, {Volume(data.dims())},
                 [&](std::span<const Expr>, std::span<const Expr> k) { return te::Cast(kInt64, IsSet(data, k[0])); })};
}

// Rows beyond the number of set elements have the indices of element 0.
std::vector<Tensor> ComputeArgwhere(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Dim size = Volume(data.dims());
  Tensor places = Places(size, [&](const Expr& place) { return IsSet(data, place); }).First(out.dims[0]);
  return {te::ComputeTensor("argwhere", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr place = places({i[0]}), result = te::Index(0);
    place = te::Select(Less(place, te::DimValue(size)), place, te::Index(0));
    std::vector<Expr> indices = Unflatten(place, data.dims());
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      result = te::Select(Equal(i[1], te::Index(static_cast<int64_t>(axis))), indices[axis], result);
    }
    return te::Cast(out.dtype, result);
  })};
}

// ---- unique ---------------------------------------------------------------------------

// Returns whether `axis` is None or an axis of `data`; an error was reported if not.
bool CheckUniqueAxis(TypeContext& context, const ir::TensorType& data) {
  const ir::Attrs& attrs = context.attrs();
  return attrs.IsNone("axis") ||
         NormalAxis(context, attrs.GetInt("axis"), static_cast<int64_t>(data.shape.dims.size())).has_value();
}

Solve UniqueCountRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return CheckUniqueAxis(context, *args[0]) ? ResultTensor(context, {}, kInt64) : Solve::kFailed;
}

template <bool is_given>
Solve UniqueRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!CheckUniqueAxis(context, *args[0])) return Solve::kFailed;
  Dim count;
  if (!CountDim(context, is_given, count)) return Solve::kFailed;
  Dims values = args[0]->shape.dims;
  Dim items = Volume(values);
  if (context.attrs().IsNone("axis")) {
    values = {count};
  } else {
    items = std::exchange(values[Normal(context.attrs().GetInt("axis"), values.size())], count);
  }
  auto tensor = [&](Dims dims, DataType dtype) {
    return static_cast<const ir::Type*>(ir::MakeTensorType(context.arena(), std::move(dims), dtype));
  };
  std::vector<const ir::Type*> fields = {tensor(values, args[0]->dtype.dtype), tensor({count}, kInt32),
                                         tensor({items}, kInt32), tensor({1}, kInt32)};
  if (context.attrs().GetBool("return_counts")) fields.push_back(tensor({count}, kInt32));
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

// The items that `unique` compares: the elements of data in row-major order, or its slices along an axis.
class Items {
 public:
  Items(const Tensor& data, const ir::Attrs& attrs) : data_(data) {
    if (attrs.IsNone("axis")) {
      size_ = Volume(data.dims());
      return;
    }
    axis_ = Normal(attrs.GetInt("axis"), data.rank());
    size_ = data.dims()[*axis_];
    if (data.rank() > 1) RankSlices();
  }

  const Dim& size() const { return size_; }

  // Returns an int64 whose order is that of the items, equal for equal items. Slices are ordered lexicographically.
  Expr Key(const Expr& item) const {
    if (!axis_) return SortKey(AtFlat(data_, item), true);
    if (data_.rank() == 1) return SortKey(data_({item}), true);
    return UnlessEmpty(slice_size_, ranks_({te::DimValue(slice_size_) - te::Index(1), item}));
  }

  // Returns the element at `i` of the data, with `item` as the index along the axis of the items.
  Expr ElementAt(std::span<const Expr> i, const Expr& item) const {
    return UnlessEmpty(size_, axis_ ? data_(With(i, *axis_, item)) : AtFlat(data_, item));
  }

 private:
  // ranks_[k, item] is the number of items whose first k + 1 elements are lexicographically less than those of `item`.
  void RankSlices() {
    Dims slice = data_.dims();
    slice[*axis_] = 1;
    slice_size_ = Volume(slice);
    Tensor keys = te::ComputeTensor("keys", kInt64, {slice_size_, size_}, [&](std::span<const Expr> i) {
      return SortKey(data_(With(Unflatten(i[0], slice), *axis_, i[1])), true);
    });
    ranks_ = te::ScanTensor("ranks", kInt64, keys.dims(), [&](std::span<const Expr> i, const Tensor& self) {
      return te::Reduce(ReduceOp::kSum, std::array{size_}, [&](std::span<const Expr> other) {
        auto rank = [&](const Expr& item) {
          return te::Select(Less(te::Index(0), i[0]), self({i[0] - te::Index(1), item}), te::Index(0));
        };
        Expr before = Less(rank(other[0]), rank(i[1])), same = Equal(rank(other[0]), rank(i[1]));
        Expr is_less = te::Select(same, Less(keys({i[0], other[0]}), keys(i)), before);
        return te::Cast(kInt64, is_less);
      });
    });
  }

  Tensor data_;
  std::optional<size_t> axis_;
  Dim size_, slice_size_;
  Tensor ranks_;
};

// The items in ascending order, in groups of equal items; the first item of a group is the first one in the data.
struct Groups {
  explicit Groups(const Items& items)
      : size(items.size()), order({size}, 0, [&](std::span<const Expr> i) { return items.Key(i[0]); }) {}

  // Returns whether a group begins at position `sorted` of the sorted items.
  Expr Begins(const Expr& sorted) const {
    Expr before = order.KeyAt(std::array{sorted - te::Index(1)});
    Expr differs = te::Binary(BinaryOp::kNotEqual, order.KeyAt(std::array{sorted}), before);
    return te::Select(Equal(sorted, te::Index(0)), te::IntConst(kBool, 1), differs);
  }
  Expr PlaceAt(const Expr& sorted) const { return order.PlaceAt(std::array{sorted}); }

  Dim size;
  Order order;
};

std::vector<Tensor> ComputeUniqueCount(const ComputeContext& context) {
  Groups groups(Items(context.input(0), context.attrs()));
  return {ReduceOver(ReduceOp::kSum, kInt64, {}, {groups.size}, [&](std::span<const Expr>, std::span<const Expr> k) {
    return te::Cast(kInt64, groups.Begins(k[0]));
  })};
}

// For each position, the number of positions up to it for which `holds` is true, minus 1.
Tensor NumberOf(const Dim& size, const std::function<Expr(const Expr&)>& holds) {
  return Running({size}, 0, te::Index(-1), [&](std::span<const Expr> i, const Expr& before) {
    return te::Select(holds(i[0]), before + te::Index(1), before);
  });
}

std::vector<Tensor> ComputeUnique(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Items items(data, context.attrs());
  const Dim &size = items.size(), &count = context.output(1).dims[0];
  Groups groups(items);
  auto begins = [&](const Expr& sorted) { return groups.Begins(sorted); };
  Order ranks({size}, 0, [&](std::span<const Expr> i) { return groups.PlaceAt(i[0]); });
  auto rank = [&](const Expr& place) { return ranks.PlaceAt(std::array{place}); };
  Places starts(size, begins);
  Tensor start, number;  // for each result, the start of its group; for each element, the index of its result
  if (context.attrs().GetBool("sorted")) {
    start = starts.First(count);
    Tensor group = NumberOf(size, begins);
    number = te::ComputeTensor("number", kInt64, {size}, [&](std::span<const Expr> i) { return group({rank(i[0])}); });
  } else {
    Tensor start_of = Running({size}, 0, te::Index(0), [&](std::span<const Expr> i, const Expr& before) {
      return te::Select(begins(i[0]), i[0], before);
    });
    Tensor first = te::ComputeTensor("first", kInt64, {size},
                                     [&](std::span<const Expr> i) { return groups.PlaceAt(start_of({rank(i[0])})); });
    auto is_first = [&](const Expr& place) { return Equal(first({place}), place); };
    Tensor places = Places(size, is_first).First(count), arrival = NumberOf(size, is_first);
    start = te::ComputeTensor("start", kInt64, {count}, [&](std::span<const Expr> i) {
      Expr place = places({i[0]});
      return te::Select(Less(place, te::DimValue(size)), rank(place), place);
    });
    number = te::ComputeTensor("number", kInt64, {size}, [&](std::span<const Expr> i) { return arrival({first(i)}); });
  }
  Tensor place = te::ComputeTensor("place", kInt64, {count}, [&](std::span<const Expr> i) {
    return te::Select(Less(start(i), te::DimValue(size)), groups.PlaceAt(start(i)), te::Index(0));
  });
  size_t axis = context.attrs().IsNone("axis") ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  auto value = [&](std::span<const Expr> i) { return items.ElementAt(i, place({i[axis]})); };
  std::vector<Tensor> result = {te::ComputeTensor("unique", data.dtype(), context.output(0).dims, value),
                                CastTensor(place, kInt32), CastTensor(number, kInt32),
                                te::ComputeTensor("number", kInt32, {1}, [&](std::span<const Expr>) {
                                  return te::Cast(kInt32, te::DimValue(count));
                                })};
  if (context.attrs().GetBool("return_counts")) {
    result.push_back(te::ComputeTensor("count", kInt32, {count}, [&](std::span<const Expr> i) {
      return te::Cast(kInt32, starts.NextAt(start(i) + te::Index(1)) - start(i));
    }));
  }
  return result;
}

constexpr OpDef Counted(OpDef op, std::string_view count_op, std::string_view fill_op) {
  op.count_op = count_op;
  op.fill_op = fill_op;
  return op;
}

constexpr OpDef kOps[] = {
    WithGradient(Counted(Op("arange", "start, start + step, ... below stop", kRange, kRangeAttrs, ArangeRelation<false>,
                            FusionClass::kInjective, ComputeArange),
                         "arange_count", "arange_fill"),
                 ArangeGradient),
    Op("arange_count", "the number of elements of `arange`", kRange, kRangeAttrs, CountRelation, FusionClass::kOpaque,
       ComputeArangeCount),
    WithGradient(Op("arange_fill", "`arange` with the given number of elements", kRangeAndCount, kRangeAttrs,
                    ArangeRelation<true>, FusionClass::kInjective, ComputeArange),
                 ArangeGradient),
    Counted(Op("argwhere", "the indices of the elements that are not 0, a row each", kData, {}, ArgwhereRelation<false>,
               FusionClass::kOpaque, nullptr),
            "argwhere_count", "argwhere_fill"),
    Op("argwhere_count", "the number of elements that are not 0", kData, {}, CountRelation, FusionClass::kOpaque,
       ComputeArgwhereCount),
    Op("argwhere_fill", "`argwhere` with the given number of rows", kDataAndCount, {}, ArgwhereRelation<true>,
       FusionClass::kOpaque, ComputeArgwhere),
    WithGradient(
        Counted(Op("unique",
                   "a tuple: the distinct elements, the index of the first occurrence of each, for each element its "
                   "index among the distinct ones, how many of these there are",
                   kData, kUniqueAttrs, UniqueRelation<false>, FusionClass::kOpaque, nullptr, kUniqueExamples),
                "unique_count", "unique_fill"),
        UniqueGradient),
    Op("unique_count", "the number of distinct elements", kData, kUniqueAttrs, UniqueCountRelation,
       FusionClass::kOpaque, ComputeUniqueCount),
    WithGradient(Op("unique_fill", "`unique` with the given number of distinct elements", kDataAndCount, kUniqueAttrs,
                    UniqueRelation<true>, FusionClass::kOpaque, ComputeUnique),
                 UniqueGradient),
};

}  // namespace

std::span<const OpDef> DataDependentOps() { return kOps; }

}  // namespace rvm::ops
