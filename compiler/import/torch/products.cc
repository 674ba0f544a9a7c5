// Products of vectors and of axes that are named.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/shapes.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::MatrixProduct;
using importing::Product;

Operand Outer(NodeContext& c, Operand a, Operand b) {
  c.Promote({&a, &b});
  return c.Mul(c.Unsqueeze(a, {c.RankOf(a)}), b);
}

// outer and ger.
Operands OuterProduct(NodeContext& c) { return {Outer(c, c.In("self"), c.In("vec2"))}; }

// addbmm and addr: beta * self + alpha * a sum of products.
Operands AddProducts(NodeContext& c) {
  Operand self = c.In("self"), y;
  if (c.Has("vec1")) {
    y = Outer(c, c.In("vec1"), c.In("vec2"));
  } else {
    y = c.Op("sum", {MatrixProduct(c, c.In("batch1"), c.In("batch2"))}, {{"axis", ir::AttrValue::List{0}}});
  }
  c.Promote({&self, &y});
  double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  if (alpha != 1) y = c.Mul(y, c.Number(alpha, y));
  if (beta == 0) return {c.BroadcastTo(y, c.DimsOf(y))};
  return {c.Add(y, beta == 1 ? self : c.Mul(self, c.Number(beta, self)))};
}

// Sums over the last axis of both.
Operands InnerProduct(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  if (c.RankOf(a) == 0 || c.RankOf(b) == 0) return {c.Mul(a, b)};
  Dims rows = c.DimsOf(a), more = c.DimsOf(b);
  Dim depth = rows.back();
  rows.pop_back();
  more.pop_back();
  Operand left = c.Reshape(a, {Product(rows), depth}), right = c.Reshape(b, {Product(more), depth});
  Operand y = MatrixProduct(c, left, c.Transpose(right, std::vector<int64_t>{1, 0}));
  rows.insert(rows.end(), more.begin(), more.end());
  return {c.failed() ? nullptr : c.Reshape(y, rows)};
}

// Sums over `dims_self` of the one and `dims_other` of the other.
Operands TensorDot(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  int64_t rank_a = c.RankOf(a), rank_b = c.RankOf(b);
  std::vector<int64_t> over_a = c.Axes(c.Ints("dims_self"), rank_a), over_b = c.Axes(c.Ints("dims_other"), rank_b);
  if (c.failed() || over_a.size() != over_b.size()) return {c.failed() ? nullptr : c.Fail("its axes do not fit")};
  auto others = [](int64_t rank, const std::vector<int64_t>& axes) {
    std::vector<int64_t> rest;
    for (int64_t i = 0; i < rank; ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) rest.push_back(i);
    }
    return rest;
  };
  std::vector<int64_t> order_a = others(rank_a, over_a), order_b = over_b, rest_b = others(rank_b, over_b);
  Dims result;
  Dim rows = 1, depth = 1, columns = 1;
  for (int64_t axis : order_a) rows = rows * c.ExtentOf(a, axis), result.push_back(c.ExtentOf(a, axis));
  for (size_t i = 0; i < over_a.size(); ++i) {
    Dim extent = c.ExtentOf(a, over_a[i]), other = c.ExtentOf(b, over_b[i]);
    // An extent of 1 is summed against all of the other.
    if (extent == Dim(1) && other != Dim(1))
      b = c.Op("sum", {b}, {{"axis", ir::AttrValue::List{over_b[i]}}, {"keepdims", true}});
    if (other == Dim(1) && extent != Dim(1))
      a = c.Op("sum", {a}, {{"axis", ir::AttrValue::List{over_a[i]}}, {"keepdims", true}});
    depth = depth * c.ExtentOf(a, over_a[i]);
  }
  for (int64_t axis : rest_b) columns = columns * c.ExtentOf(b, axis), result.push_back(c.ExtentOf(b, axis));
  order_a.insert(order_a.end(), over_a.begin(), over_a.end());
  order_b.insert(order_b.end(), rest_b.begin(), rest_b.end());
  Operand y = MatrixProduct(c, c.Reshape(c.Transpose(a, order_a), {rows, depth}),
                            c.Reshape(c.Transpose(b, order_b), {depth, columns}));
  return {c.failed() ? nullptr : c.Reshape(y, result)};
}

Operands Kronecker(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  Dims left = c.DimsOf(a), right = c.DimsOf(b);
  size_t rank = std::max(left.size(), right.size());
  left.insert(left.begin(), rank - left.size(), Dim(1));
  right.insert(right.begin(), rank - right.size(), Dim(1));
  Dims spread_left, spread_right, result;
  for (size_t i = 0; i < rank; ++i) {
    spread_left.insert(spread_left.end(), {left[i], Dim(1)});
    spread_right.insert(spread_right.end(), {Dim(1), right[i]});
    result.push_back(left[i] * right[i]);
  }
  return {c.Reshape(c.Mul(c.Reshape(a, spread_left), c.Reshape(b, spread_right)), result)};
}

// cross and linalg_cross: of vectors with 3 elements along an axis, by default the first that has as many.
Operands Cross(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  int64_t axis = -1;
  if (c.Has("dim") || c.row().name == "linalg_cross") {
    axis = c.Axis(c.Int("dim", -1), c.RankOf(a)) - c.RankOf(a);
  } else {
    for (int64_t i = c.RankOf(a); i > 0; --i) {
      if (c.ExtentOf(a, -i) == Dim(3)) {
        axis = -i;
        break;
      }
    }
  }
  auto turned = [&](Operand x, std::vector<int64_t> order) {
    return c.Op("take", {x, c.emit().Vector(order)}, {{"axis", c.RankOf(x) + axis}});
  };
  if (c.failed()) return {};
  return {c.Sub(c.Mul(turned(a, {1, 2, 0}), turned(b, {2, 0, 1})), c.Mul(turned(a, {2, 0, 1}), turned(b, {1, 2, 0})))};
}

// _weight_norm: v times g over the lengths of v along `dim`, or of all of it.
Operands WeightNorm(NodeContext& c) {
  Operand v = c.In("v"), g = c.In("g");
  std::vector<int64_t> axes = importing::AllAxes(c.RankOf(v));
  if (const int64_t dim = c.Int("dim", 0); dim != -1) axes.erase(axes.begin() + c.Axis(dim, c.RankOf(v)));
  if (c.failed()) return {};
  Operand squares = c.Op("sum", {c.Mul(v, v)}, {{"axis", ir::IntList(axes)}, {"keepdims", true}});
  return {c.Mul(v, c.Div(g, c.Op("sqrt", {squares})))};
}

// _grouped_mm: rows times the matrix of their group, as in a mixture of experts. Group i ends before row `offs[i]`.
Operands GroupedProduct(NodeContext& c) {
  Operand x = c.In(c.Has("input") ? "input" : "self"), matrices = c.In(c.Has("weight") ? "weight" : "mat2");
  if (c.failed()) return {};
  if (!c.Has("offs") && c.RankOf(x) == 3 && c.RankOf(matrices) == 3) return {MatrixProduct(c, x, matrices)};
  if (!c.Has("offs") || c.Has("bias") || c.RankOf(x) != 2 || c.RankOf(matrices) != 3) {
    return {c.Unsupported("groups that are not rows of a matrix, or a bias")};
  }
  const Dim rows = c.ExtentOf(x, 0);
  Operand row = c.Unsqueeze(c.Iota(rows), {1}), ends = c.Cast(c.In("offs"), c.DTypeOf(row));
  Operand group = c.Op("sum", {c.Cast(c.Op("greater_equal", {row, ends}), kInt32)}, {{"axis", ir::AttrValue::List{1}}});
  Operand own = c.Op("take", {matrices, group}, {{"axis", int64_t{0}}});
  Operand y = MatrixProduct(c, c.Unsqueeze(x, {1}), own);
  return {c.failed() ? nullptr : c.Cast(c.Reshape(y, {rows, c.ExtentOf(y, 2)}), c.DType("out_dtype", c.DTypeOf(x)))};
}

// chain_matmul and linalg_multi_dot.
Operands ProductOfAll(NodeContext& c) {
  Operands matrices = c.List(c.Has("matrices") ? "matrices" : "tensors");
  if (c.failed() || matrices.empty()) return {c.failed() ? nullptr : c.Fail("it has no matrices")};
  Operand y = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) y = MatrixProduct(c, y, matrices[i]);
  return {y};
}

// Returns the rows of a table that stand in bags, summed, averaged, or the greatest of them.
Operands EmbeddingBag(NodeContext& c) {
  Operand weight = c.In("weight"), indices = c.Cast(c.In("indices"), kInt64), offsets = c.Cast(c.In("offsets"), kInt64);
  int64_t mode = c.Int("mode", 0), padding = c.Int("padding_idx", -1);
  if (c.failed() || c.RankOf(weight) != 2 || c.RankOf(indices) != 1 || c.RankOf(offsets) != 1) {
    return {c.failed() ? nullptr : c.Unsupported("indices that are no vector")};
  }
  if (c.Bool("include_last_offset", false)) offsets = c.SliceAxis(offsets, 0, 0, c.ExtentOf(offsets, 0) - 1);
  if (padding < 0 && c.Has("padding_idx") && c.overload() == "padding_idx") {
    std::optional<int64_t> rows = c.ExtentOf(weight, 0).AsConst();
    if (!rows) return {c.Unsupported("a table whose extents only the running model knows")};
    padding += *rows;
  }
  DataType dtype = c.DTypeOf(weight);
  Dims sums = {c.ExtentOf(offsets, 0), c.ExtentOf(weight, 1)};
  Operand rows = c.Op("take", {weight, indices}, {{"axis", 0}});
  Operand bags =
      c.Sub(c.Op("searchsorted", {offsets, c.Iota(c.ExtentOf(indices, 0))}, {{"right", true}, {"dtype", "int64"}}),
            c.Integer(1));
  if (c.Has("per_sample_weights")) rows = c.Mul(rows, c.Unsqueeze(c.In("per_sample_weights"), {1}));
  Operand counts = padding < 0 ? c.BroadcastTo(c.emit().Number(1, dtype), {c.ExtentOf(indices, 0)})
                               : c.Cast(c.Op("not_equal", {indices, c.Integer(padding)}), dtype);
  Operand is_counted = c.Unsqueeze(c.Op("not_equal", {counts, c.Number(0, counts)}), {1});
  bool is_max = mode == 2;
  Operand none = c.emit().Number(is_max ? -std::numeric_limits<double>::infinity() : 0, dtype);
  if (padding >= 0) rows = c.Where(is_counted, rows, none);
  Operand at = c.Unsqueeze(bags, {0});
  Operand y = c.Op("scatter_nd", {c.BroadcastTo(none, sums), at, rows}, {{"mode", is_max ? "max" : "add"}});
  if (mode != 0) {
    Operand zero = c.emit().Number(0, dtype);
    Operand total = c.Op("scatter_nd", {c.BroadcastTo(zero, {sums[0]}), at, counts}, {{"mode", "add"}});
    total = c.Unsqueeze(total, {1});
    y = is_max ? c.Where(c.Op("greater", {total, zero}), y, zero)
               : c.Div(y, c.Op("maximum", {total, c.emit().Number(1, dtype)}));
  }
  return {y};
}

// bilinear: for each row and output the product x1 W x2.
Operands Bilinear(NodeContext& c) {
  Operand a = c.In("input1"), b = c.In("input2"), weight = c.In("weight");
  c.Promote({&a, &b, &weight});
  if (c.failed() || c.RankOf(weight) != 3 || c.RankOf(a) < 1 || c.RankOf(b) < 1) {
    return {c.failed() ? nullptr : c.Fail("its inputs are scalars, or its weights have not 3 axes")};
  }
  Dims dims = c.DimsOf(a);
  Dim rows = Product(std::span(dims).first(dims.size() - 1)), outputs = c.ExtentOf(weight, 0);
  // (outputs, rows, elements of x2), summed with x2.
  Operand left = MatrixProduct(c, c.Reshape(a, {rows, dims.back()}), weight);
  Operand right = c.Reshape(b, {rows, c.ExtentOf(b, -1)});
  Operand y = c.Op("sum", {c.Mul(left, right)}, {{"axis", ir::AttrValue::List{2}}});
  dims.back() = outputs;
  if (c.failed()) return {};
  y = c.Reshape(c.Transpose(y, {{1, 0}}), dims);
  return {c.Has("bias") ? c.Add(y, c.In("bias")) : y};
}

// Returns the product of three tensors with new axes, summed over others: core ATen's bilinear.
Operands Trilinear(NodeContext& c) {
  Operand product = nullptr;
  for (int i = 1; i <= 3; ++i) {
    std::vector<int64_t> axes = c.Ints(absl::StrCat("expand", i));
    std::sort(axes.begin(), axes.end());
    Operand factor = c.Unsqueeze(c.In(absl::StrCat("i", i)), axes);
    product = product == nullptr ? factor : c.Mul(product, factor);
  }
  std::vector<int64_t> axes = c.Axes(c.Ints("sumdim"), c.RankOf(product));
  if (axes.empty()) return {product};
  return {c.Op("sum", {product}, {{"axis", ir::IntList(axes)}})};
}

constexpr OperatorRow kRows[] = {
    {"addbmm", AddProducts},
    {"addr", AddProducts},
    {"bilinear", Bilinear},
    {"_trilinear", Trilinear},
    {"_weight_norm", WeightNorm},
    {"_grouped_mm", GroupedProduct},
    {"transformers.grouped_mm_fallback.default", GroupedProduct},
    {"chain_matmul", ProductOfAll},
    {"linalg_multi_dot", ProductOfAll},
    {"cross", Cross},
    {"linalg_cross", Cross},
    {"_embedding_bag", EmbeddingBag},
    {"_embedding_bag_forward_only", EmbeddingBag},
    {"embedding_bag", EmbeddingBag},
    {"ger", OuterProduct},
    {"outer", OuterProduct},
    {"inner", InnerProduct},
    {"kron", Kronecker},
    {"tensordot", TensorDot},
};

}  // namespace

std::span<const OperatorRow> ProductsOperators() { return kRows; }

}  // namespace rvm::torch::convert
