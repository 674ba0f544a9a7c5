// Matmuls that run row by row with what is computed from their rows: attention, with heads in several
// axes, masks, lengths that are not known, and values that lie otherwise.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/codegen/testing.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

std::vector<Expr> With(Indices at, size_t first, std::initializer_list<Expr> last) {
  std::vector<Expr> indices(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(first));
  indices.insert(indices.end(), last);
  return indices;
}

// Returns the product of the last two axes of a and b: b is [..., depth, columns].
Tensor Product(const Tensor& a, const Tensor& b) {
  Dims dims = a.dims();
  dims.back() = b.dims().back();
  const size_t heads = a.rank() - 2;
  Dim depth[] = {a.dims().back()};
  return ComputeTensor("product", kFloat32, dims, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, depth, [&](Indices r) {
      return te::Cast(kFloat32, a(With(i, heads + 1, {r[0]}))) *
             te::Cast(kFloat32, b(With(i, heads, {r[0], i[heads + 1]})));
    });
  });
}

Tensor Reduced(ReduceOp op, const Tensor& x) {
  Dims dims = x.dims();
  Dim extents[] = {dims.back()};
  dims.pop_back();
  return ComputeTensor("reduced", kFloat32, dims, [&](Indices i) {
    return te::Reduce(op, extents, [&](Indices r) { return x(With(i, dims.size(), {r[0]})); });
  });
}

Tensor Softmax(const Tensor& x) {
  const size_t last = x.rank() - 1;
  Tensor top = Reduced(ReduceOp::kMaximum, x);
  Tensor power = ComputeTensor("power", kFloat32, x.dims(),
                               [&](Indices i) { return te::Unary(UnaryOp::kExp, x(i) - top(With(i, last, {}))); });
  Tensor sum = Reduced(ReduceOp::kSum, power);
  return ComputeTensor("softmax", kFloat32, x.dims(),
                       [&](Indices i) { return te::Binary(BinaryOp::kDivide, power(i), sum(With(i, last, {}))); });
}

// The inputs of an attention: queries [heads, rows, depth], keys [heads, depth, keys], values [heads, keys, columns].
struct Attention {
  Dims heads;
  Dim rows, keys;
  int64_t depth = 32, columns = 32;
  DataType dtype = kFloat32;

  Tensor Of(int64_t index, std::string name, const Dim& a, const Dim& b) const {
    Dims dims = heads;
    dims.push_back(a);
    dims.push_back(b);
    return Input(index, std::move(name), dtype, dims);
  }
  Tensor queries() const { return Of(0, "q", rows, depth); }
  Tensor transposed_keys() const { return Of(1, "k", depth, keys); }
  Tensor values() const { return Of(2, "v", keys, columns); }

  te::Computation Plain() const {
    Tensor q = queries(), k = transposed_keys(), v = values();
    return {"attention", {q, k, v}, {Product(Softmax(Product(q, k)), v)}};
  }
};

// Checks that the whole of an attention is one group.
void ExpectOneGroup(const ScheduledKernel& kernel) {
  const schedule::Schedule& schedule = kernel.schedule;
  const auto is_one = [](const schedule::NestGroup& group) { return group.matmuls.has_value() && group.count >= 5; };
  EXPECT_EQ(std::ranges::count_if(schedule.groups, is_one), 1) << Describe(schedule);
}

TEST(MatrixGroupsTest, RowsOfOneProductFeedAnother) {
  for (const auto& [rows, keys] : {std::pair(250, 130), {101, 101}, {49, 49}, {24, 300}, {100, 33}, {6, 1001}}) {
    Attention attention{.heads = {2, 3}, .rows = rows, .keys = keys};
    for (const ScheduledKernel& kernel : CheckOnTargets(attention.Plain(), {.range = 1, .threads = true}))
      ExpectOneGroup(kernel);
  }
  // One head, whose rows are the first axis; and other depths and columns, for tiles of other heights.
  for (const auto& [depth, columns] : {std::pair(64, 80), {16, 48}, {40, 16}, {96, 64}}) {
    Attention attention{.heads = {}, .rows = 103, .keys = 90, .depth = depth, .columns = columns};
    for (const ScheduledKernel& kernel : CheckOnTargets(attention.Plain(), {.range = 1, .threads = true}))
      ExpectOneGroup(kernel);
  }
}

TEST(MatrixGroupsTest, LengthsThatAreNotKnown) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n"), b = Dim::Var(3, "b");
  for (const Dim& rows : {m, Dim(70)}) {
    Attention attention{.heads = {3}, .rows = rows, .keys = n};
    std::vector<std::vector<int64_t>> sizes = {{0, 5}, {1, 9}, {3, 1}, {4, 64}, {5, 130}, {31, 31}, {97, 70}, {130, 0}};
    if (rows == Dim(70)) sizes = {{1}, {31}, {200}};
    for (const ScheduledKernel& kernel :
         CheckOnTargets(attention.Plain(), {.symbol_values = sizes, .range = 1, .threads = true}))
      ExpectOneGroup(kernel);
  }
  // Any number of heads.
  Attention attention{.heads = {b, 2}, .rows = m, .keys = n};
  for (const ScheduledKernel& kernel : CheckOnTargets(
           attention.Plain(), {.symbol_values = {{0, 3, 4}, {1, 33, 40}, {3, 7, 65}}, .range = 1, .threads = true}))
    ExpectOneGroup(kernel);
}

// A mask for all heads of a batch keeps the axes of a nest apart.
TEST(MatrixGroupsTest, MasksOfEachBatchOrOfAll) {
  for (bool has_batch : {false, true}) {
    Attention attention{.heads = {2, 3}, .rows = 101, .keys = 75};
    Tensor q = attention.queries(), k = attention.transposed_keys(), v = attention.values();
    Tensor mask = Input(3, "mask", kFloat32, has_batch ? Dims{2, 1, 101, 75} : Dims{101, 75});
    Tensor scores = Product(q, k);
    Tensor masked = ComputeTensor("masked", kFloat32, scores.dims(), [&](Indices i) {
      return scores(i) + (has_batch ? mask({i[0], te::Index(0), i[2], i[3]}) : mask({i[2], i[3]}));
    });
    for (const ScheduledKernel& kernel :
         CheckOnTargets({"masked", {q, k, v, mask}, {Product(Softmax(masked), v)}}, {.range = 1, .threads = true}))
      ExpectOneGroup(kernel);
  }
}

// Queries of several heads share keys: they are rows of one product, whose blocks are of one head each because of the
// mask, also in calls with few rows.
TEST(MatrixGroupsTest, HeadsThatShareKeys) {
  Dim t = Dim::Var(1, "t"), m = Dim::Var(2, "m");
  for (const Dim& tokens : {Dim(50), t}) {
    const Dim rows = tokens * 3;
    Tensor q = Input(0, "q", kFloat32, {Dim(2), rows, Dim(64)}), k = Input(1, "k", kFloat32, {m, Dim(2), Dim(64)});
    Tensor mask = Input(2, "mask", kFloat32, {tokens, m});
    Dim depth[] = {Dim(64)};
    Tensor scores = ComputeTensor("scores", kFloat32, {Dim(2), rows, m}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, depth,
                        [&](Indices r) { return q({i[0], i[1], r[0]}) * k({i[2], i[0], r[0]}); });
    });
    Tensor masked = ComputeTensor("masked", kFloat32, {Dim(2), Dim(3), tokens, m}, [&](Indices i) {
      return scores({i[0], i[1] * te::DimValue(tokens) + i[2], i[3]}) + mask({i[2], i[3]});
    });
    CheckOptions options{.symbol_values = {{1}, {40}, {130}}, .range = 1, .threads = true};
    if (tokens == t) options.symbol_values = {{1, 1}, {1, 70}, {2, 64}, {3, 5}, {40, 33}, {100, 130}};
    for (const ScheduledKernel& kernel : CheckOnTargets({"shared", {q, k, mask}, {Softmax(masked)}}, options)) {
      ExpectOneGroup(kernel);
      for (const schedule::LoopNest& nest : kernel.schedule.nests) {
        if (!nest.tile) continue;
        EXPECT_EQ(nest.tile->few.has_value(), tokens == t) << Describe(kernel.schedule);
        EXPECT_EQ(CompareDims(nest.tile->blocks_of_rows.span, tokens), DimEquality::kEqual)
            << Describe(kernel.schedule);
      }
    }
  }
}

TEST(MatrixGroupsTest, FactorsOfOtherTypesAndLayouts) {
  for (DataType dtype : {kFloat16, kBFloat16}) {
    Attention attention{.heads = {2}, .rows = 80, .keys = 95, .dtype = dtype};
    CheckOnTargets(attention.Plain(), {.range = 1, .threads = true});
  }
  // Queries, keys and values as a transformer has them: [tokens, heads, depth], and the result likewise.
  Dim n = Dim::Var(1, "n");
  for (const Dim& tokens : {Dim(90), n}) {
    std::vector<Tensor> in;
    for (const char* name : {"q", "k", "v"})
      in.push_back(Input(static_cast<int64_t>(in.size()), name, kFloat32, {tokens, Dim(4), Dim(24)}));
    Tensor q = ComputeTensor("heads", kFloat32, {Dim(4), tokens, Dim(24)},
                             [&](Indices i) { return in[0]({i[1], i[0], i[2]}); });
    Tensor k = ComputeTensor("heads", kFloat32, {Dim(4), Dim(24), tokens},
                             [&](Indices i) { return in[1]({i[2], i[0], i[1]}); });
    Tensor v = ComputeTensor("heads", kFloat32, {Dim(4), tokens, Dim(24)},
                             [&](Indices i) { return in[2]({i[1], i[0], i[2]}); });
    Tensor product = Product(Softmax(Product(q, k)), v);
    Tensor joined = ComputeTensor("joined", kFloat32, {tokens, Dim(4), Dim(24)},
                                  [&](Indices i) { return product({i[1], i[0], i[2]}); });
    CheckOptions options{.range = 1, .threads = true};
    if (tokens == n) options.symbol_values = {{1}, {4}, {31}, {100}};
    CheckOnTargets({"transformer", in, {joined}}, options);
  }
}

// The products of two attentions alternate: each is a group, in front of which nests of the other are moved.
TEST(MatrixGroupsTest, SeveralGroupsOfAKernel) {
  Attention attention{.heads = {2}, .rows = 60, .keys = 60};
  Tensor q = attention.queries(), k = attention.transposed_keys(), v = attention.values();
  Tensor doubled = ComputeTensor("doubled", kFloat32, k.dims(), [&](Indices i) { return k(i) + k(i); });
  Tensor first = Product(q, k), second = Product(q, doubled);
  Tensor a = Product(Softmax(first), v), b = Product(Softmax(second), v);
  Tensor sum = ComputeTensor("sum", kFloat32, a.dims(), [&](Indices i) { return a(i) + b(i); });
  for (const ScheduledKernel& kernel : CheckOnTargets({"two", {q, k, v}, {sum}}, {.range = 1, .threads = true})) {
    auto count = std::ranges::count_if(kernel.schedule.groups,
                                       [](const schedule::NestGroup& group) { return group.matmuls.has_value(); });
    EXPECT_EQ(count, 2) << Describe(kernel.schedule);
  }
  // The result of one is the queries of the next.
  Tensor next = Product(Softmax(Product(a, k)), v);
  CheckOnTargets({"chain", {q, k, v}, {next}}, {.range = 1, .threads = true});
}

// The weights are a result, too, so that all rows of them are stored.
TEST(MatrixGroupsTest, RowsThatAreResults) {
  Attention attention{.heads = {2}, .rows = 70, .keys = 75};
  Tensor q = attention.queries(), k = attention.transposed_keys(), v = attention.values();
  Tensor weights = Softmax(Product(q, k));
  CheckOnTargets({"weights", {q, k, v}, {Product(weights, v), weights}}, {.range = 1, .threads = true});
  // A later nest reads the scores again.
  Tensor scores = Product(q, k);
  Tensor again = Reduced(ReduceOp::kSum, scores);
  CheckOnTargets({"scores", {q, k, v}, {Product(Softmax(scores), v), again}}, {.range = 1, .threads = true});
}

// A result may have the memory of the queries, whose rows are read before they are written.
TEST(MatrixGroupsTest, ResultsInTheMemoryOfQueries) {
  Attention attention{.heads = {2}, .rows = 90, .keys = 75};
  for (const ScheduledKernel& kernel : CheckOnTargets(attention.Plain(), {.range = 1, .threads = true})) {
    ASSERT_EQ(kernel.schedule.reuses.size(), 1u) << Describe(kernel.schedule);
    EXPECT_EQ(kernel.schedule.reuses[0].input, 0);
  }
}

// A nest that reads rows of other positions is not in the group of its matmul.
TEST(MatrixGroupsTest, RowsOfOtherPositionsAreNoGroup) {
  Attention attention{.heads = {2}, .rows = 60, .keys = 60};
  Tensor q = attention.queries(), k = attention.transposed_keys(), v = attention.values();
  Tensor scores = Product(q, k);
  Tensor turned = ComputeTensor("turned", kFloat32, scores.dims(),
                                [&](Indices i) { return scores({i[0], te::Index(59) - i[1], i[2]}); });
  for (const ScheduledKernel& kernel :
       CheckOnTargets({"turned", {q, k, v}, {Product(Softmax(turned), v)}}, {.range = 1, .threads = true})) {
    ASSERT_FALSE(kernel.schedule.groups.empty());
    EXPECT_FALSE(kernel.schedule.groups[0].matmuls && kernel.schedule.groups[0].count > 1) << Describe(kernel.schedule);
  }
}

}  // namespace
}  // namespace rvm::codegen
