// Operators whose number of results depends on all elements: `arange`, `argwhere`, `unique`.
//
// A call is two kernels: one counts, the other is given the count, from which its result has its shape
// (OpDef::count_op, fill_op; passes/count_results.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/ops/compute_helpers.h"
#include "compiler/ops/families.h"
#include "compiler/ops/relations.h"

namespace rvm::ops {
namespace {

using diagnostics::DiagnosticKind;
using te::BinaryOp;
using te::Expr;
using te::ReduceOp;
using te::Tensor;
using Types = std::vector<const ir::TensorType*>;

constexpr Input kCount = {.name = "count", .doc = "an int64 scalar, how many there are", .decides_shape = true};
constexpr Input kData[] = {{"data", "a tensor"}};
constexpr Input kDataAndCount[] = {{"data", "a tensor"}, kCount};
constexpr Input kRange[] = {{"start", "a scalar"}, {"stop", "a scalar"}, {"step", "a scalar"}};
constexpr Input kRangeAndCount[] = {{"start", "a scalar"}, {"stop", "a scalar"}, {"step", "a scalar"}, kCount};
constexpr AttrSpec kRangeAttrs[] = {{"start", AttrType::kAny, "None", "unused, for compatibility", true},
                                    {"stop", AttrType::kAny, "None", "unused, for compatibility", true},
                                    {"step", AttrType::kAny, "None", "unused, for compatibility", true},
                                    {"dtype", AttrType::kDType, "\"\"", "dtype of the result (that of start)"}};
constexpr AttrSpec kUniqueAttrs[] = {
    {"sorted", AttrType::kBool, "True", "in ascending order, else in order of first occurrence"},
    {"return_counts", AttrType::kBool, "False", "also say how often each occurs"}};

Solve CountRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return ResultTensor(context, {}, kInt64);
}

// The number of results: the last argument if `is_given`, else to be counted.
bool CountDim(TypeContext& context, bool is_given, Dim& count) {
  if (!is_given) {
    count = context.DataDependentDim();
    return true;
  }
  Dims values;
  if (!ValueDims(context, context.num_args() - 1, 0, values)) return false;
  count = values[0];
  return context.RequireAtLeast(count, 0, "the number of results");
}

// ---- arange -------------------------------------------------------------------------

// How many there are if all arguments are known; nullopt else.
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
  if (!known) {
    if (!CountDim(context, is_given, count)) return Solve::kFailed;
  } else if (*known < 1e12) {
    count = static_cast<int64_t>(*known);
  } else {
    return context.Fail(DiagnosticKind::kBadAttribute, "`step` is 0 or the range has no end; expected a finite range",
                        2);
  }
  return ResultTensor(context, {count}, DTypeAttr(context.attrs(), "dtype", args[0]->dtype.dtype));
}

// -1, which no tensor has as its extent, if the step is 0.
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

// Elements are numbered in blocks, so that finding the one of a number looks at the blocks, then at
// one block, instead of at all elements.
constexpr int64_t kBlock = 512;

template <bool is_given>
Solve ArgwhereRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dim count;
  if (!CountDim(context, is_given, count)) return Solve::kFailed;
  return ResultTensor(context, {count, static_cast<int64_t>(args[0]->shape.dims.size())}, kInt32);
}

// 1 where `data`, flattened, is not zero; 0 also behind its end.
Expr IsSet(const Tensor& data, const Expr& flat) {
  Dim size = Volume(data.dims());
  Expr inside = Less(flat, te::DimValue(size));
  Expr is_set = te::Binary(BinaryOp::kNotEqual, AtFlat(data, Clamp(flat, size)), te::Const(data.dtype(), 0));
  return te::Select(inside, te::Cast(kInt64, UnlessEmpty(size, is_set)), te::Index(0));
}

std::vector<Tensor> ComputeArgwhereCount(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  return {ReduceOver(ReduceOp::kSum, kInt64, {}, {Volume(data.dims())},
                     [&](std::span<const Expr>, std::span<const Expr> k) { return IsSet(data, k[0]); })};
}

std::vector<Tensor> ComputeArgwhere(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Dim blocks = FloorDiv(Volume(data.dims()) + (kBlock - 1), kBlock);
  auto at = [](const Expr& block, const Expr& place) { return block * te::Index(kBlock) + place; };
  auto sum = [](const Dims& dims, const Dim& extent,
                const std::function<Expr(std::span<const Expr>, const Expr&)>& body) {
    return ReduceOver(ReduceOp::kSum, kInt64, dims, {extent},
                      [&](std::span<const Expr> i, std::span<const Expr> k) { return body(i, k[0]); });
  };
  Tensor in_block =
      sum({blocks}, kBlock, [&](std::span<const Expr> i, const Expr& k) { return IsSet(data, at(i[0], k)); });
  Tensor before_block = sum({blocks}, blocks, [&](std::span<const Expr> i, const Expr& k) {
    return te::Select(Less(k, i[0]), in_block({k}), te::Index(0));
  });
  Tensor before = sum({blocks, kBlock}, kBlock, [&](std::span<const Expr> i, const Expr& k) {
    return te::Select(Less(k, i[1]), IsSet(data, at(i[0], k)), te::Index(0));
  });
  Dim count = out.dims[0];
  // The last block before which there are at most as many.
  Tensor block_of = sum({count}, blocks, [&](std::span<const Expr> i, const Expr& k) {
    return te::Cast(kInt64, te::Binary(BinaryOp::kLessEqual, before_block({k}), i[0]));
  });
  Tensor place_of = sum({count}, kBlock, [&](std::span<const Expr> i, const Expr& k) {
    Expr block = Clamp(block_of({i[0]}) - te::Index(1), blocks);
    Expr is_it =
        And(Equal(before({block, k}), i[0] - before_block({block})), Equal(IsSet(data, at(block, k)), te::Index(1)));
    return te::Select(is_it, at(block, k), te::Index(0));
  });
  return {te::ComputeTensor("argwhere", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr rest = place_of({i[0]}), result = te::Index(0);
    for (size_t axis = data.rank(); axis-- > 0;) {
      Expr extent = te::DimValue(data.dims()[axis]);
      Expr index = axis == 0 ? rest : te::Binary(BinaryOp::kFloorMod, rest, extent);
      rest = te::Binary(BinaryOp::kFloorDivide, rest, extent);
      result = te::Select(Equal(i[1], te::Index(static_cast<int64_t>(axis))), index, result);
    }
    return te::Cast(out.dtype, result);
  })};
}

// ---- unique ---------------------------------------------------------------------------

template <bool is_given>
Solve UniqueRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  if (data.size() != 1) return FailRank(context, 0, data.size(), "1");
  Dim count;
  if (!CountDim(context, is_given, count)) return Solve::kFailed;
  auto tensor = [&](const Dim& extent, DataType dtype) {
    return static_cast<const ir::Type*>(ir::MakeTensorType(context.arena(), {extent}, dtype));
  };
  std::vector<const ir::Type*> fields = {tensor(count, args[0]->dtype.dtype), tensor(count, kInt32),
                                         tensor(data[0], kInt32), tensor(1, kInt32)};
  if (context.attrs().GetBool("return_counts")) fields.push_back(tensor(count, kInt32));
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

// A NaN is the same as another.
Expr IsSame(const Expr& x, const Expr& y) {
  if (!x.dtype().is_float()) return Equal(x, y);
  return te::Binary(BinaryOp::kOr, Equal(x, y),
                    And(te::Unary(te::UnaryOp::kIsNan, x), te::Unary(te::UnaryOp::kIsNan, y)));
}

// Where what stands at each place stands first.
Tensor FirstPlaces(const Tensor& data) {
  const Dim& size = data.dims()[0];
  return ReduceOver(ReduceOp::kMinimum, kInt64, {size}, {size}, [&](std::span<const Expr> i, std::span<const Expr> k) {
    return te::Select(IsSame(data({k[0]}), data({i[0]})), k[0], i[0]);
  });
}

std::vector<Tensor> ComputeUniqueCount(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Tensor first = FirstPlaces(data);
  return {ReduceOver(ReduceOp::kSum, kInt64, {}, {data.dims()[0]}, [&](std::span<const Expr>, std::span<const Expr> k) {
    return te::Cast(kInt64, Equal(first({k[0]}), k[0]));
  })};
}

std::vector<Tensor> ComputeUnique(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const Dim &size = data.dims()[0], &count = context.output(0).dims[0];
  bool is_sorted = context.attrs().GetBool("sorted");
  Tensor first = FirstPlaces(data);
  // The number of different values before each.
  Tensor number =
      ReduceOver(ReduceOp::kSum, kInt64, {size}, {size}, [&](std::span<const Expr> i, std::span<const Expr> k) {
        Expr is_before = is_sorted ? ComesBefore(data({k[0]}), data({i[0]}), true) : Less(k[0], first({i[0]}));
        return te::Cast(kInt64, And(Equal(first({k[0]}), k[0]), is_before));
      });
  Tensor place =
      ReduceOver(ReduceOp::kSum, kInt64, {count}, {size}, [&](std::span<const Expr> i, std::span<const Expr> k) {
        Expr is_it = And(Equal(first({k[0]}), k[0]), Equal(number({k[0]}), i[0]));
        return te::Select(is_it, k[0], te::Index(0));
      });
  auto values = [&](std::span<const Expr> i) { return UnlessEmpty(size, data({Clamp(place({i[0]}), size)})); };
  std::vector<Tensor> result = {
      te::ComputeTensor("unique", data.dtype(), {count}, values), CastTensor(place, kInt32), CastTensor(number, kInt32),
      te::ComputeTensor("number", kInt32, {1},
                        [&](std::span<const Expr>) { return te::Cast(kInt32, te::DimValue(count)); })};
  if (context.attrs().GetBool("return_counts")) {
    Tensor counts =
        ReduceOver(ReduceOp::kSum, kInt64, {count}, {size}, [&](std::span<const Expr> i, std::span<const Expr> k) {
          return te::Cast(kInt64, Equal(number({k[0]}), i[0]));
        });
    result.push_back(CastTensor(counts, kInt32));
  }
  return result;
}

constexpr OpDef Op(std::string_view name, std::string_view summary, std::span<const Input> inputs,
                   std::span<const AttrSpec> attrs, TypeRelation relation, Compute compute) {
  return {.name = name,
          .summary = summary,
          .inputs = inputs,
          .attrs = attrs,
          .type_relation = relation,
          .fusion = FusionClass::kOpaque,
          .compute = compute};
}

constexpr OpDef Counted(OpDef op, std::string_view count_op, std::string_view fill_op) {
  op.count_op = count_op;
  op.fill_op = fill_op;
  return op;
}

constexpr OpDef Injective(OpDef op) {
  op.fusion = FusionClass::kInjective;
  return op;
}

constexpr OpDef kOps[] = {
    Counted(Injective(Op("arange", "start, start + step, ... below stop", kRange, kRangeAttrs, ArangeRelation<false>,
                         ComputeArange)),
            "arange_count", "arange_fill"),
    Op("arange_count", "how many elements `arange` gives", kRange, kRangeAttrs, CountRelation, ComputeArangeCount),
    Injective(Op("arange_fill", "`arange`, of so many elements", kRangeAndCount, kRangeAttrs, ArangeRelation<true>,
                 ComputeArange)),
    Counted(Op("argwhere", "the indices of the elements that are not 0, a row each", kData, {}, ArgwhereRelation<false>,
               nullptr),
            "argwhere_count", "argwhere_fill"),
    Op("argwhere_count", "how many elements are not 0", kData, {}, CountRelation, ComputeArgwhereCount),
    Op("argwhere_fill", "`argwhere`, of so many rows", kDataAndCount, {}, ArgwhereRelation<true>, ComputeArgwhere),
    Counted(Op("unique",
               "the different elements of a vector, where each stands first, which of them stands at each place, how "
               "many there are",
               kData, kUniqueAttrs, UniqueRelation<false>, nullptr),
            "unique_count", "unique_fill"),
    Op("unique_count", "how many different elements there are", kData, kUniqueAttrs, CountRelation, ComputeUniqueCount),
    Op("unique_fill", "`unique`, of so many different elements", kDataAndCount, kUniqueAttrs, UniqueRelation<true>,
       ComputeUnique),
};

}  // namespace

std::span<const OpDef> CountedOps() { return kOps; }

}  // namespace rvm::ops
