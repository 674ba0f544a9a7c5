// Decision trees: the nodes that rows of numbers reach.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr int64_t kMaxRounds = 64;  // each is code of its own
constexpr Input kInputs[] = {
    {"data", "rows of floats (rows, features)"},
    {"begin", "int32: the node at which each tree begins (trees), or each row in each tree (trees, rows)"},
    {"features", "int32: for each node the column of data that it compares (nodes)"},
    {"thresholds", "for each node the greatest number that goes to its first child (nodes)"},
    {"children", "int32: for each node its two children (nodes, 2); a leaf is its own child"}};
constexpr AttrSpec kAttrs[] = {{"rounds", AttrType::kInt, "", "how many steps down are taken, at most 64"}};
constexpr Example kExamples[] = {
    {"tree_nodes([[1f, 9f], [3f, 9f]], [0], [0, 0, 0], [2f, 0f, 0f], [[1, 2], [1, 1], [2, 2]], rounds=1)", "[[1, 2]]"}};

Solve Relation(TypeContext &context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  constexpr size_t kRanks[] = {2, 0, 1, 1, 2};
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t rank = args[i]->shape.dims.size();
    if (i != 1 && rank != kRanks[i]) return FailRank(context, static_cast<int>(i), rank, absl::StrCat(kRanks[i]));
    if (i == 1 && rank != 1 && rank != 2) return FailRank(context, 1, rank, "1 or 2");
    if (i == 0 || i == 3) continue;
    if (args[i]->dtype.dtype != kInt32) return FailDType(context, static_cast<int>(i), args[i]->dtype.dtype, "int32");
  }
  const DataType dtype = args[0]->dtype.dtype;
  if (!dtype.is_float()) return FailDType(context, 0, dtype, "a float dtype");
  if (args[3]->dtype.dtype != dtype) return FailOtherDType(context, 3, args[3]->dtype.dtype, "that of `data`");
  const Dims &begin = args[1]->shape.dims, &children = args[4]->shape.dims;
  const Dim &rows = args[0]->shape.dims[0], &nodes = args[2]->shape.dims[0];
  if (!context.RequireEqual(nodes, args[3]->shape.dims[0], "`tree_nodes`: numbers of features and thresholds") ||
      !context.RequireEqual(nodes, children[0], "`tree_nodes`: numbers of features and of pairs of children") ||
      !context.RequireEqual(children[1], 2, "`tree_nodes`: children of a node and 2") ||
      (begin.size() == 2 && !context.RequireEqual(begin[1], rows, "`tree_nodes`: rows of `begin` and `data`"))) {
    return Solve::kFailed;
  }
  const int64_t rounds = context.attrs().GetInt("rounds");
  if (rounds < 0 || rounds > kMaxRounds) {
    return context.Fail(diagnostics::DiagnosticKind::kBadAttribute,
                        absl::StrCat("`rounds` is ", rounds, "; expected 0 to ", kMaxRounds));
  }
  return ResultTensor(context, {begin[0], rows}, kInt32);
}

// Returns an int32 as an index of `extent`; one that is out of range as the last.
Expr Bounded(const Expr &index, const Dim &extent) {
  Expr last = te::Cast(kUInt32, te::DimValue(extent - 1));
  return te::Cast(kInt64, te::Binary(BinaryOp::kMinimum, te::Bitcast(kUInt32, index), last));
}

// Returns a tensor of nodes for each step, read only where it is written: one kernel keeps them in registers.
// Neighbours are rows of one tree, whose tables stay cached.
std::vector<Tensor> ComputeTreeNodes(const ComputeContext &context) {
  const Tensor &data = context.input(0), &begin = context.input(1), &features = context.input(2);
  const Tensor &thresholds = context.input(3), &children = context.input(4);
  const Dim &columns = data.dims()[1], &nodes = features.dims()[0];
  const Dims &dims = context.output().dims;
  Tensor node = te::ComputeTensor("tree_nodes", kInt32, dims, [&](Indices i) { return begin(i.first(begin.rank())); });
  for (int64_t round = context.attrs().GetInt("rounds"); round > 0; --round) {
    node = te::ComputeTensor("tree_nodes", kInt32, dims, [&](Indices i) {
      Expr at = Bounded(node(i), nodes);
      Expr number = data({i[1], Bounded(features({at}), columns)});
      Expr is_first = te::Binary(BinaryOp::kLessEqual, number, thresholds({at}));
      Expr next = children({at, te::Select(is_first, te::Index(0), te::Index(1))});
      return UnlessEmpty(nodes, UnlessEmpty(columns, next));
    });
  }
  return {node};
}

constexpr OpDef kOps[] = {
    {.name = "tree_nodes",
     .summary = "the nodes that rows reach in decision trees: at each, to the first child if a number of the row is at "
                "most the threshold, else, also for NaN, to the second",
     .inputs = kInputs,
     .attrs = kAttrs,
     .type_relation = Relation,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeTreeNodes,
     .examples = kExamples},
};

}  // namespace

std::span<const OpDef> TreeOps() { return kOps; }

}  // namespace rvm::ops
