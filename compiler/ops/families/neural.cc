// Contractions, softmax and prelu.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kDenseInputs[] = {{"data", "a tensor (..., k)"}, {"weight", "a matrix (units, k)"}};
constexpr Input kMatmulInputs[] = {{"a", "a tensor (..., m, k)"}, {"b", "a matrix (k, n), or a tensor (..., k, n)"}};
constexpr Input kBatchInputs[] = {{"x", "a tensor (b, m, k)"}, {"y", "a tensor (b, k, n); b may be 1 on either side"}};
constexpr Input kInputs[] = {{"data", "a tensor"}};
constexpr AttrSpec kDenseAttrs[] = {{"units", AttrType::kInt, "None", "rows of weight, checked", true},
                                    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}};
constexpr AttrSpec kMatmulAttrs[] = {{"units", AttrType::kInt, "None", "columns of the result, checked", true},
                                     {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of a)"},
                                     {"transpose_a", AttrType::kBool, "False", "a is (k, m)"},
                                     {"transpose_b", AttrType::kBool, "False", "b is (n, k)"}};
constexpr Example kMatmulExamples[] = {
    {"nn.matmul([[[1f, 2f]], [[3f, 4f]]], [[[1f], [1f]], [[0f], [2f]]])", "[[[3f]], [[8f]]]"},
    {"nn.matmul([[1f, 2f]], [[[[1f], [1f]], [[0f], [2f]]]])", "[[[[3f]], [[4f]]]]"}};
constexpr AttrSpec kBatchAttrs[] = {{"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of x)"},
                                    {"transpose_a", AttrType::kBool, "False", "x is (b, k, m)"},
                                    {"transpose_b", AttrType::kBool, "False", "y is (b, n, k)"}};
constexpr AttrSpec kAxisAttrs[] = {{"axis", AttrType::kInt, "-1", "the axis normalised over"}};
constexpr AttrSpec kSoftmaxAttrs[] = {
    kAxisAttrs[0], {"masked", AttrType::kBool, "False", "elements that are all -inf give 0 instead of nan"}};
// Softmax gives 0 for shares below these powers of two of the largest. Shares of many millions of elements stay normal
// numbers.
constexpr double kMinExponent = -100, kMinExponentOfDoubles = -996;
constexpr Example kSoftmaxExamples[] = {
    {"nn.softmax([[0f, -inff], [-inff, -inff]], masked=True)", "[[1f, 0f], [0f, 0f]]"}};
constexpr Input kPreluInputs[] = {{"data", "a tensor"}, {"alpha", "a vector along `axis`"}};
constexpr AttrSpec kChannelAttrs[] = {{"axis", AttrType::kInt, "1", "the axis of channels"}};

// Sum over k of a(k) * b(k), accumulated in the result's dtype (float32 for half types).
Expr Dot(const Dim& k, DataType out, const std::function<Expr(Expr)>& a, const std::function<Expr(Expr)>& b) {
  Dim extents[] = {k};
  DataType wide = Accumulator(out);
  return te::Reduce(te::ReduceOp::kSum, extents,
                    [&](std::span<const Expr> r) { return te::Cast(wide, a(r[0])) * te::Cast(wide, b(r[0])); });
}

std::vector<Tensor> Narrow(Tensor wide, DataType dtype) {
  if (wide.dtype() == dtype) return {wide};
  return {
      te::ComputeTensor("cast", dtype, wide.dims(), [&](std::span<const Expr> i) { return te::Cast(dtype, wide(i)); })};
}

struct TwoTensors {
  const ir::TensorType* a = nullptr;
  const ir::TensorType* b = nullptr;
};

Solve TwoArgs(TypeContext& context, TwoTensors& args) {
  bool failed = false;
  args.a = TensorArg(context, 0, &failed);
  args.b = failed ? nullptr : TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  if (args.a == nullptr || args.b == nullptr) return Solve::kStuck;
  return RequireFactors(context, args.a->dtype.dtype, args.b->dtype.dtype) ? Solve::kDone : Solve::kFailed;
}

Solve RankFail(TypeContext& context, int arg, size_t rank, std::string_view expected) {
  return context.Fail(DiagnosticKind::kRankMismatch,
                      absl::StrCat("argument ", arg + 1, " has rank ", rank, "; expected rank ",
                                   absl::string_view(expected.data(), expected.size())),
                      arg);
}

// The product of (..., k) with (n, k) or (k, n). `data_k` is the axis of k in data.
Solve DenseShape(TypeContext& context, const TwoTensors& args, bool transpose_a, bool transpose_b,
                 std::string_view name) {
  Dims out = args.a->shape.dims;
  const Dims& weight = args.b->shape.dims;
  if (out.size() < (transpose_a ? 2u : 1u)) return RankFail(context, 0, out.size(), "1 or more");
  if (weight.size() != 2) return RankFail(context, 1, weight.size(), "2");
  if (transpose_a) std::swap(out[out.size() - 1], out[out.size() - 2]);
  const Dim& k = transpose_b ? weight[1] : weight[0];
  const Dim& n = transpose_b ? weight[0] : weight[1];
  std::string what = absl::StrCat("`", absl::string_view(name.data(), name.size()),
                                  "`: reduction extents of argument 1 and argument 2");
  if (!context.RequireEqual(out.back(), k, what, DiagnosticKind::kReductionExtentMismatch)) return Solve::kFailed;
  if (!context.attrs().IsNone("units") &&
      !context.RequireEqual(n, context.attrs().GetInt("units"), "`units` and the extent of the weight"))
    return Solve::kFailed;
  out.back() = n;
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "out_dtype", args.a->dtype.dtype));
}

Solve DenseRelation(TypeContext& context) {
  TwoTensors args;
  if (Solve solve = TwoArgs(context, args); solve != Solve::kDone) return solve;
  return DenseShape(context, args, false, true, "nn.dense");
}

// The leading axes broadcast.
Solve BatchedMatmulShape(TypeContext& context, const TwoTensors& args) {
  Dims a = args.a->shape.dims, b = args.b->shape.dims;
  if (a.size() < 2) return RankFail(context, 0, a.size(), "2 or more");
  if (context.attrs().GetBool("transpose_a")) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (context.attrs().GetBool("transpose_b")) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (!context.RequireEqual(a.back(), b[b.size() - 2], "`nn.matmul`: reduction extents of argument 1 and argument 2",
                            DiagnosticKind::kReductionExtentMismatch))
    return Solve::kFailed;
  if (!context.attrs().IsNone("units") &&
      !context.RequireEqual(b.back(), context.attrs().GetInt("units"), "`units` and the columns of the result"))
    return Solve::kFailed;
  Dims out = a.size() >= b.size() ? a : b;
  for (size_t i = 3; i <= out.size(); ++i) {
    if (i > a.size() || i > b.size()) continue;
    out[out.size() - i] =
        context.RequireBroadcast(a[a.size() - i], b[b.size() - i], "`nn.matmul`: leading extents broadcast");
  }
  out[out.size() - 2] = a[a.size() - 2];
  out[out.size() - 1] = b[b.size() - 1];
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "out_dtype", args.a->dtype.dtype));
}

Solve MatmulRelation(TypeContext& context) {
  TwoTensors args;
  if (Solve solve = TwoArgs(context, args); solve != Solve::kDone) return solve;
  if (args.b->shape.dims.size() > 2) return BatchedMatmulShape(context, args);
  return DenseShape(context, args, context.attrs().GetBool("transpose_a"), context.attrs().GetBool("transpose_b"),
                    "nn.matmul");
}

std::vector<Tensor> Contract(const ComputeContext& context, bool transpose_a, bool transpose_b) {
  const Tensor &a = context.input(0), &b = context.input(1);
  const te::TensorSpec& out = context.output();
  size_t last = a.rank() - 1;
  const Dim& k = a.dims()[transpose_a ? last - 1 : last];
  return Narrow(te::ComputeTensor("dense", Accumulator(out.dtype), out.dims,
                                  [&](std::span<const Expr> i) {
                                    return Dot(
                                        k, out.dtype,
                                        [&](Expr r) {
                                          std::vector<Expr> at(i.begin(), i.end());
                                          at[last] = r;
                                          if (transpose_a) std::swap(at[last], at[last - 1]);
                                          return a(at);
                                        },
                                        [&](Expr r) { return transpose_b ? b({i[last], r}) : b({r, i[last]}); });
                                  }),
                out.dtype);
}

std::vector<Tensor> ComputeDense(const ComputeContext& context) { return Contract(context, false, true); }
// Returns the element (..., row, column) of a factor at the batch index `leading`, whose extents are `out`.
Expr FactorAt(const Tensor& factor, std::span<const Expr> leading, const Dims& out, Expr row, Expr column,
              bool transposed) {
  if (transposed) std::swap(row, column);
  Dims batches(factor.dims().begin(), factor.dims().end() - 2);
  std::vector<Expr> at = BroadcastIndices(leading, batches, Dims(out.begin(), out.end() - 2));
  at.push_back(std::move(row));
  at.push_back(std::move(column));
  return factor(at);
}

std::vector<Tensor> ComputeMatmul(const ComputeContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  bool ta = context.attrs().GetBool("transpose_a"), tb = context.attrs().GetBool("transpose_b");
  if (b.rank() > 2) {
    const te::TensorSpec& out = context.output();
    size_t lead = out.dims.size() - 2;
    // The two extents are checked to be equal. Places in memory simplify by one that is no broadcast.
    const Dim &ka = a.dims()[a.rank() - (ta ? 2 : 1)], &kb = b.dims()[b.rank() - (tb ? 1 : 2)];
    const Dim& k = ka.kind() == DimKind::kBroadcast ? kb : ka;
    return Narrow(te::ComputeTensor(
                      "matmul", Accumulator(out.dtype), out.dims,
                      [&](std::span<const Expr> i) {
                        return Dot(
                            k, out.dtype, [&](Expr r) { return FactorAt(a, i.first(lead), out.dims, i[lead], r, ta); },
                            [&](Expr r) { return FactorAt(b, i.first(lead), out.dims, r, i[lead + 1], tb); });
                      }),
                  out.dtype);
  }
  return Contract(context, context.attrs().GetBool("transpose_a"), context.attrs().GetBool("transpose_b"));
}

Solve BatchMatmulRelation(TypeContext& context) {
  TwoTensors args;
  if (Solve solve = TwoArgs(context, args); solve != Solve::kDone) return solve;
  Dims x = args.a->shape.dims, y = args.b->shape.dims;
  if (x.size() != 3) return RankFail(context, 0, x.size(), "3");
  if (y.size() != 3) return RankFail(context, 1, y.size(), "3");
  if (context.attrs().GetBool("transpose_a")) std::swap(x[1], x[2]);
  if (context.attrs().GetBool("transpose_b")) std::swap(y[1], y[2]);
  if (!context.RequireEqual(x[2], y[1], "`nn.batch_matmul`: reduction extents of argument 1 and argument 2",
                            DiagnosticKind::kReductionExtentMismatch))
    return Solve::kFailed;
  Dim batch = context.RequireBroadcast(x[0], y[0], "`nn.batch_matmul`: batch extents");
  return ResultTensor(context, {batch, x[1], y[2]}, DTypeAttr(context.attrs(), "out_dtype", args.a->dtype.dtype));
}

std::vector<Tensor> ComputeBatchMatmul(const ComputeContext& context) {
  const Tensor &x = context.input(0), &y = context.input(1);
  const te::TensorSpec& out = context.output();
  bool ta = context.attrs().GetBool("transpose_a"), tb = context.attrs().GetBool("transpose_b");
  return Narrow(te::ComputeTensor("batch_matmul", Accumulator(out.dtype), out.dims,
                                  [&](std::span<const Expr> i) {
                                    Expr bx = te::BroadcastIndex(i[0], x.dims()[0], out.dims[0]),
                                         by = te::BroadcastIndex(i[0], y.dims()[0], out.dims[0]);
                                    return Dot(
                                        x.dims()[ta ? 1 : 2], out.dtype,
                                        [&](Expr r) { return ta ? x({bx, r, i[1]}) : x({bx, i[1], r}); },
                                        [&](Expr r) { return tb ? y({by, i[2], r}) : y({by, r, i[2]}); });
                                  }),
                out.dtype);
}

Solve SoftmaxRelation(TypeContext& context) {
  if (Solve solve = FloatIdentityRelation(context); solve != Solve::kDone) return solve;
  const auto* data = ir::DynCast<ir::TensorType>(context.arg(0));
  return NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data->shape.dims.size()))
             ? Solve::kDone
             : Solve::kFailed;
}

template <bool log>
std::vector<Tensor> ComputeSoftmax(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  int64_t named = context.attrs().GetInt("axis");
  size_t axis = static_cast<size_t>(named < 0 ? named + static_cast<int64_t>(data.rank()) : named);
  DataType wide = Accumulator(data.dtype());
  const ir::AttrValue* attr = context.attrs().Find("masked");
  bool masked = attr != nullptr && *attr->AsBool();
  auto x = [&](std::span<const Expr> i) { return te::Cast(wide, data(i)); };
  Tensor top = ReduceAxis(te::ReduceOp::kMaximum, wide, data.dims(), axis, x);
  if (masked) {
    // Elements that are all -inf get exponentials of 0, instead of -inf - -inf.
    Tensor greatest = top;
    top = te::ComputeTensor("top", wide, greatest.dims(), [&](std::span<const Expr> i) {
      return te::Select(Equal(greatest(i), Lowest(wide)), te::Const(wide, 0), greatest(i));
    });
  }
  // Subnormal numbers take many CPUs a hundred cycles each, here and in the product of attention with values.
  const Expr least = te::FloatConst(wide, (wide == kFloat64 ? kMinExponentOfDoubles : kMinExponent) * std::log(2.0));
  Tensor power = te::ComputeTensor("exp", wide, data.dims(), [&](std::span<const Expr> i) {
    Expr below_top = x(i) - AtZero(top, i, axis), is_small = Less(below_top, least);
    return te::Select(is_small, te::Const(wide, 0),
                      te::Unary(te::UnaryOp::kExp, te::Select(is_small, least, below_top)));
  });
  Tensor sum =
      ReduceAxis(te::ReduceOp::kSum, wide, data.dims(), axis, [&](std::span<const Expr> i) { return power(i); });
  // A division for each row, not for each element.
  Tensor unit = te::ComputeTensor("unit", wide, sum.dims(), [&](std::span<const Expr> i) {
    Expr share = te::Binary(BinaryOp::kDivide, te::Const(wide, 1), sum(i));
    return masked ? te::Select(Equal(sum(i), te::Const(wide, 0)), te::Const(wide, 0), share) : share;
  });
  return Narrow(te::ComputeTensor("softmax", wide, data.dims(),
                                  [&](std::span<const Expr> i) {
                                    if (log)
                                      return x(i) - AtZero(top, i, axis) -
                                             te::Unary(te::UnaryOp::kLog, AtZero(sum, i, axis));
                                    return power(i) * AtZero(unit, i, axis);
                                  }),
                data.dtype());
}

Solve PreluRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(args[0]->shape.dims.size()));
  if (!axis || !RequireChannelVectors(context, args, 1, *axis, "nn.prelu")) return Solve::kFailed;
  return context.Result(args[0]);
}

std::vector<Tensor> ComputePrelu(const ComputeContext& context) {
  const Tensor &data = context.input(0), &alpha = context.input(1);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  return {te::ComputeTensor("prelu", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    return te::Select(Less(te::Const(data.dtype(), 0), data(i)), data(i), data(i) * alpha({i[axis]}));
  })};
}

constexpr OpDef kOps[] = {
    {.name = "nn.dense",
     .summary = "data times the transpose of weight",
     .inputs = kDenseInputs,
     .attrs = kDenseAttrs,
     .type_relation = DenseRelation,
     .fusion = FusionClass::kContraction,
     .compute = ComputeDense,
     .gradient = DenseGradient},
    {.name = "nn.matmul",
     .summary = "matrix product; leading axes broadcast",
     .inputs = kMatmulInputs,
     .attrs = kMatmulAttrs,
     .type_relation = MatmulRelation,
     .fusion = FusionClass::kContraction,
     .compute = ComputeMatmul,
     .examples = kMatmulExamples,
     .gradient = MatmulGradient},
    {.name = "nn.batch_matmul",
     .summary = "matrix product of each batch",
     .inputs = kBatchInputs,
     .attrs = kBatchAttrs,
     .type_relation = BatchMatmulRelation,
     .fusion = FusionClass::kContraction,
     .compute = ComputeBatchMatmul,
     .gradient = BatchMatmulGradient},
    {.name = "nn.softmax",
     .summary = "exp(x) / sum(exp(x)) along `axis`; 0 where exp(x) is below 2^-100 (of float64 2^-996) of the largest",
     .inputs = kInputs,
     .attrs = kSoftmaxAttrs,
     .type_relation = SoftmaxRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeSoftmax<false>,
     .examples = kSoftmaxExamples,
     .gradient = SoftmaxGradient},
    {.name = "nn.log_softmax",
     .summary = "log of softmax along `axis`",
     .inputs = kInputs,
     .attrs = kAxisAttrs,
     .type_relation = SoftmaxRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeSoftmax<true>,
     .gradient = LogSoftmaxGradient},
    {.name = "nn.fast_softmax",
     .summary = "softmax, for compatibility",
     .inputs = kInputs,
     .attrs = kAxisAttrs,
     .type_relation = SoftmaxRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeSoftmax<false>,
     .gradient = SoftmaxGradient},
    {.name = "nn.prelu",
     .summary = "x where x > 0, else x times the channel's alpha",
     .inputs = kPreluInputs,
     .attrs = kChannelAttrs,
     .type_relation = PreluRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputePrelu,
     .gradient = PreluGradient},
};

}  // namespace

std::span<const OpDef> NeuralOps() { return kOps; }

}  // namespace rvm::ops
