#include "compiler/import/blocks/attention.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rvm::importing {
namespace {

// The shares of products, with one more for each query that no value has.
Operand SoftmaxWithSink(Steps& c, Operand scores, Operand sink) {
  Dims dims = c.DimsOf(scores);
  const Dim keys = dims[3];
  dims[3] = 1;
  sink = c.BroadcastTo(c.Unsqueeze(c.Cast(sink, c.DTypeOf(scores)), {1, 2}), {1, dims[1], 1, 1});
  Operand all = c.Concatenate({scores, c.BroadcastTo(sink, dims)}, 3);
  return c.SliceAxis(c.Op("nn.softmax", {all}, {{"axis", 3}}), 3, 0, keys);
}

}  // namespace

Operand HeadsOf(Steps& c, Operand x, int64_t heads) {
  if (c.failed()) return nullptr;
  const Dims dims = c.DimsOf(x);
  if (dims.size() != 3 || heads < 1) {
    return c.Fail(absl::StrCat("an input of shape ", DimsToString(dims), " has to be split into ", heads,
                               " heads; expected (batch, steps, heads * size)"));
  }
  return c.Reshape(x, {dims[0], dims[1], heads, FloorDiv(dims[2], heads)});
}

Operand HeadsOutside(Steps& c, Operand x) {
  constexpr int64_t kAxes[] = {0, 2, 1, 3};
  return c.Transpose(x, kAxes);
}

Operand JoinHeads(Steps& c, Operand x) {
  x = HeadsOutside(c, x);
  if (c.failed()) return nullptr;
  const Dims dims = c.DimsOf(x);
  return c.Reshape(x, {dims[0], dims[1], dims[2] * dims[3]});
}

Operand Rotated(Steps& c, Operand x, Operand cosine, Operand sine, bool interleaved) {
  if (c.failed()) return nullptr;
  const Dim size = c.ExtentOf(x, 3), half = c.ExtentOf(cosine, -1), rotated = half * 2;
  const bool is_whole = CompareDims(rotated, size) == DimEquality::kEqual;
  Operand rest = is_whole ? nullptr : c.SliceAxis(x, 3, rotated, size);
  x = c.SliceAxis(x, 3, 0, rotated);
  cosine = c.Unsqueeze(cosine, {2});
  sine = c.Unsqueeze(sine, {2});
  auto every_second = [&](int64_t first) {
    Dims dims = c.DimsOf(x);
    dims[3] = half;
    return c.emit().OpAs(dims, "strided_slice", {x},
                         {{"begin", ir::IntList({{first}})},
                          {"end", ir::IntList({{std::numeric_limits<int64_t>::max()}})},
                          {"strides", ir::IntList({{2}})},
                          {"axes", ir::IntList({{3}})}});
  };
  if (c.failed()) return nullptr;
  Operand a = interleaved ? every_second(0) : c.SliceAxis(x, 3, 0, half);
  Operand b = interleaved ? every_second(1) : c.SliceAxis(x, 3, half, rotated);
  Operand real = c.Sub(c.Mul(cosine, a), c.Mul(sine, b)), imaginary = c.Add(c.Mul(sine, a), c.Mul(cosine, b));
  Operand y;
  if (interleaved) {
    Operand pairs = c.Op("stack", {c.emit().Tuple({real, imaginary})}, {{"axis", 4}});
    y = c.Reshape(pairs, c.DimsOf(x));
  } else {
    y = c.Concatenate({real, imaginary}, 3);
  }
  return rest == nullptr ? y : c.Concatenate({y, rest}, 3);
}

Operand ScaleOfSize(Steps& c, Operand query) {
  const Dim size = c.ExtentOf(query, -1);
  if (size.is_const()) return c.Number(1 / std::sqrt(static_cast<double>(size.constant())), query);
  return c.Op("rsqrt", {c.Cast(c.emit().FromDim(size), c.DTypeOf(query))});
}

Operand Attend(Steps& c, Operand query, Operand key, Operand value, const AttendOptions& options) {
  if (c.failed()) return nullptr;
  const DataType dtype = c.DTypeOf(query);
  const Dims heads = c.DimsOf(query);
  const Dim keys = c.ExtentOf(key, 2), groups = c.ExtentOf(key, 1);
  query = c.Mul(query, options.scale == 0 ? ScaleOfSize(c, query) : c.Number(options.scale, query));
  // Heads that share keys are rows of one product.
  const bool is_grouped = CompareDims(heads[1], groups) != DimEquality::kEqual;
  const Dim rows = is_grouped ? FloorDiv(heads[1], groups) * heads[2] : heads[2];
  if (is_grouped) query = c.Reshape(query, {heads[0], groups, rows, heads[3]});
  Operand scores = c.Cast(c.Op("nn.matmul", {query, key}, {{"transpose_b", true}}), kFloat32);
  if (is_grouped) scores = c.Reshape(scores, {heads[0], heads[1], heads[2], keys});
  if (options.softcap > 0) {
    Operand cap = c.Number(options.softcap, scores);
    scores = c.Mul(c.Op("tanh", {c.Div(scores, cap)}), cap);
  }
  if (options.bias != nullptr) scores = c.Add(scores, c.Cast(options.bias, kFloat32));
  Operand weights = options.sink != nullptr
                        ? SoftmaxWithSink(c, scores, options.sink)
                        : c.Op("nn.softmax", {scores}, {{"axis", 3}, {"masked", options.bias != nullptr}});
  weights = c.Cast(weights, dtype);
  if (!is_grouped) return c.Op("nn.matmul", {weights, value});
  Operand y = c.Op("nn.matmul", {c.Reshape(weights, {heads[0], groups, rows, keys}), value});
  return c.failed() ? nullptr : c.Reshape(y, {heads[0], heads[1], heads[2], c.ExtentOf(value, 3)});
}

Operand BiasWhere(Steps& c, Operand condition, double otherwise) {
  return c.Where(condition, c.emit().Number(0, kFloat32), c.emit().Number(otherwise, kFloat32));
}

}  // namespace rvm::importing
