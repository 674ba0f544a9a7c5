#include "compiler/import/stablehlo/bodies.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/loops.h"
#include "compiler/import/shapes.h"

namespace rvm::stablehlo {
namespace {

using importing::Rolled;
using importing::Step;

constexpr std::string_view kCommutative[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};

struct ReductionRow {
  std::string_view operation, on_numbers, on_bools;
};
constexpr ReductionRow kReductions[] = {{"add", "sum", "any"},     {"multiply", "prod", "all"},
                                        {"maximum", "max", "any"}, {"minimum", "min", "all"},
                                        {"and", "", "all"},        {"or", "", "any"}};

// Each second row of x from `first` on, `count` of them.
Operand EachSecond(NodeContext& c, Operand x, int64_t first, int64_t count) {
  return c.Op("strided_slice", {x},
              {{"begin", ir::IntList({{first}})},
               {"end", ir::IntList({{first + 2 * count - 1}})},
               {"strides", ir::IntList({{int64_t{2}}})},
               {"axes", ir::IntList({{int64_t{0}}})}});
}

// Halves the rows of `inputs` until there is one: neighbours become one, so that the order stays.
Operands Halve(NodeContext& c, Operands inputs, int64_t rows) {
  while (rows > 1 && !c.failed()) {
    const int64_t pairs = rows / 2;
    Operands both;
    for (int64_t first : {0, 1}) {
      for (Operand x : inputs) both.push_back(EachSecond(c, x, first, pairs));
    }
    Operands results = c.OnTensors(0, both);
    if (c.failed() || results.size() != inputs.size()) return results;
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = c.BroadcastTo(results[i], c.DimsOf(both[i]));
      if (rows % 2 == 0) continue;
      results[i] = c.Concatenate({results[i], c.SliceAxis(inputs[i], 0, rows - 1, rows)}, 0);
    }
    inputs = std::move(results);
    rows = pairs + rows % 2;
  }
  return inputs;
}

bool HasPlaceholder(const Operands& operands) {
  for (Operand operand : operands) {
    if (operand == nullptr || operand->is_placeholder) return true;
  }
  return false;
}

Dims WithoutFirst(const Dims& dims) { return {dims.begin() + 1, dims.end()}; }

}  // namespace

std::string_view SingleOperation(const Block& body) {
  if (body.arguments.size() != 2 || body.operations.empty() || body.operations.size() > 2) return "";
  const Operation& last = body.operations.back();
  if (last.operands.size() != 1) return "";
  if (body.operations.size() == 1) return last.operands[0] == body.arguments[1] ? "update" : "";
  const Operation& op = body.operations[0];
  if (op.results.size() != 1 || last.operands[0] != op.results[0] || op.operands.size() != 2) return "";
  if (op.operands == body.arguments) return op.name;
  const bool is_swapped = op.operands[0] == body.arguments[1] && op.operands[1] == body.arguments[0];
  for (std::string_view name : kCommutative) {
    if (is_swapped && op.name == name) return name;
  }
  return "";
}

std::string TextOfBody(const Block& body) {
  absl::flat_hash_map<int32_t, size_t> numbers;
  std::string text;
  for (int32_t argument : body.arguments) numbers.emplace(argument, numbers.size());
  for (const Operation& op : body.operations) {
    absl::StrAppend(&text, Abseil(op.name));
    if (const Attribute* direction = op.Find("comparison_direction")) absl::StrAppend(&text, ":", direction->integer);
    for (int32_t operand : op.operands) {
      const auto number = numbers.find(operand);
      absl::StrAppend(&text, " ", number == numbers.end() ? "?" : absl::StrCat(number->second));
    }
    for (int32_t result : op.results) numbers.emplace(result, numbers.size());
    absl::StrAppend(&text, op.regions.empty() ? ";" : "{};");
  }
  return text;
}

Operands Fold(NodeContext& c, Operands inputs, const Operands& initial) {
  if (c.failed() || inputs.empty() || inputs.size() != initial.size()) return {};
  const Dim rows = c.ExtentOf(inputs[0], 0);
  const Dims rest = WithoutFirst(c.DimsOf(inputs[0]));
  Operands start;
  for (Operand value : initial) start.push_back(c.BroadcastTo(value, rest));
  if (rows == Dim(0)) return start;
  Operands both = start;
  if (rows.is_const()) {
    for (Operand x : Halve(c, inputs, rows.constant())) both.push_back(c.failed() ? x : c.Squeeze(x, {0}));
    if (c.failed()) return {};
    both = c.OnTensors(0, both);
    for (Operand& x : both) x = c.failed() ? x : c.BroadcastTo(x, rest);
    return both;
  }
  const Rolled rolled =
      Roll(c, c.emit().FromDim(rows), nullptr, start, [&](Operand index, const Operands& own) -> Step {
        Operands values = own;
        for (Operand x : inputs) values.push_back(c.Op("take", {x, index}, {{"axis", 0}}));
        Operands next = c.OnTensors(0, values);
        if (c.failed() || next.size() != own.size() || HasPlaceholder(next)) {
          return {nullptr, Operands(own.size(), c.emit().Placeholder()), {}};
        }
        for (Operand& x : next) x = c.BroadcastTo(x, rest);
        return {nullptr, next, {}};
      });
  return rolled.state;
}

std::string_view ReductionOf(std::string_view operation, DataType dtype) {
  for (const ReductionRow& row : kReductions) {
    if (row.operation == operation) return dtype.is_bool() ? row.on_bools : row.on_numbers;
  }
  return "";
}

bool IsNeutral(std::string_view operation, Operand x) {
  if (!x->constant || x->constant->num_elements() != 1) return false;
  const Literal& value = *x->constant;
  const DataType dtype = value.dtype();
  const bool wants_most = operation == "minimum", wants_least = operation == "maximum";
  if (operation == "add" || operation == "or") return dtype.is_float() ? value.DoubleAt(0) == 0 : value.IntAt(0) == 0;
  if (operation == "multiply") return dtype.is_float() ? value.DoubleAt(0) == 1 : value.IntAt(0) == 1;
  if (operation == "and") return dtype.is_bool() ? value.IntAt(0) != 0 : value.IntAt(0) == -1;
  if (!wants_most && !wants_least) return false;
  if (dtype.is_float()) return value.DoubleAt(0) == (wants_most ? 1 : -1) * std::numeric_limits<double>::infinity();
  if (dtype.is_bool()) return (value.IntAt(0) != 0) == wants_most;
  if (!dtype.is_int())
    return wants_most ? value.IntAt(0) == Literal::ScalarInt(dtype, -1).IntAt(0) : value.IntAt(0) == 0;
  const int64_t greatest = dtype.bits == 64 ? INT64_MAX : (int64_t{1} << (dtype.bits - 1)) - 1;
  return value.IntAt(0) == (wants_most ? greatest : -greatest - 1);
}

}  // namespace rvm::stablehlo
