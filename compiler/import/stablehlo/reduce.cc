// Reductions of whole axes.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/shapes.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {
namespace {

// The bodies of JAX's argmax and argmin of floats (NaN first) and of integers, where `#` is the comparison.
constexpr std::string_view kArgFloat =
    "compare:# 0 2;compare:1 0 0;or 4 5;compare:0 0 2;compare:5 1 3;and 7 8;or 6 9;select 6 0 2;select 10 1 3;"
    "return 11 12;";
constexpr std::string_view kArgInteger =
    "compare:# 0 2;compare:0 0 2;compare:5 1 3;and 5 6;or 4 7;select 4 0 2;select 8 1 3;return 9 10;";
constexpr int kGreater = 3, kLess = 5;

bool IsArgBody(const std::string& text, int comparison) {
  const size_t mark = std::string_view("compare:").size();
  for (std::string_view known : {kArgFloat, kArgInteger}) {
    std::string expected(known);
    expected[mark] = static_cast<char>('0' + comparison);
    if (text == expected) return true;
  }
  return false;
}

// Returns the greatest or the least element and its number, in rows of numbers 0, 1, ...
Operands ArgReduce(NodeContext& c, int64_t axis, bool is_max) {
  const ir::Attrs attrs = {{"axis", ir::IntList({{axis}})}};
  Operand value = c.Op(is_max ? "max" : "min", {c.In(0)}, attrs);
  Operand number = c.Op(is_max ? "argmax" : "argmin", {c.In(0)}, attrs);
  return {value, c.Cast(number, c.DTypeOf(c.In(1)))};
}

// Returns the axes that are reduced in front, as one.
Operand WithRows(NodeContext& c, Operand x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> order = axes;
  Dims dims = {1};
  const int64_t rank = c.RankOf(x);
  for (int64_t axis : axes) dims[0] = dims[0] * c.ExtentOf(x, axis);
  for (int64_t i = 0; i < rank; ++i) {
    if (std::ranges::find(axes, i) != axes.end()) continue;
    order.push_back(i);
    dims.push_back(c.ExtentOf(x, i));
  }
  return c.Reshape(c.Transpose(x, order), dims);
}

Operands Reduce(NodeContext& c) {
  const size_t count = c.num_inputs() / 2;
  std::vector<int64_t> axes = c.Ints("dimensions");
  std::ranges::sort(axes);
  if (c.failed()) return {};
  if (count == 0 || c.num_inputs() % 2 != 0 || c.num_regions() != 1) return {c.Fail("it has not inputs and a body")};
  Operand x = c.In(0), initial = c.In(count);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= c.RankOf(x) || (i > 0 && axes[i] == axes[i - 1])) {
      return {c.Fail("its axes are not those of its operands")};
    }
  }
  bool is_empty = false;
  for (int64_t axis : axes) is_empty = is_empty || c.ExtentOf(x, axis) == Dim(0);
  const Block& body = c.op().regions[0];
  const std::string_view operation = SingleOperation(body), reduction = ReductionOf(operation, c.DTypeOf(x));
  if (count == 1 && !reduction.empty() && !axes.empty() && !is_empty) {
    Operand y = c.Op(reduction, {x}, {{"axis", ir::IntList(axes)}});
    if (IsNeutral(operation, initial) || c.failed()) return {y};
    return c.OnTensors(0, {y, initial});
  }
  if (count == 2 && axes.size() == 1 && !is_empty && c.IsIota(c.In(1), axes[0])) {
    const std::string text = TextOfBody(body);
    for (int comparison : {kGreater, kLess}) {
      if (IsArgBody(text, comparison)) return ArgReduce(c, axes[0], comparison == kGreater);
    }
  }
  Operands inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back(WithRows(c, c.In(i), axes));
  return Fold(c, inputs, c.Inputs(count, 2 * count));
}

constexpr OperatorRow kRows[] = {
    {"reduce", Reduce},
};

}  // namespace

std::span<const OperatorRow> ReduceOperators() { return kRows; }

}  // namespace rvm::stablehlo
