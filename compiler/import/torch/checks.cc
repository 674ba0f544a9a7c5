// Checks, when the program runs, the assumptions of an export about its inputs: ranges of extents, and guards.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch {
namespace {

using importing::Expression;
using Kind = Expression::Kind;

// The export cannot tell 0 and 1 from 2: torch checks no lower bound of 2 either.
constexpr int64_t kTracedMinimum = 2;
constexpr int64_t kFirst[] = {0};

// Returns the operator of Relay that an operation is.
std::string_view OperatorOf(Kind kind) {
  switch (kind) {
    case Kind::kAdd: return "add";
    case Kind::kSubtract: return "subtract";
    case Kind::kMultiply: return "multiply";
    case Kind::kFloorDivide: return "floor_divide";
    case Kind::kFloorMod: return "floor_mod";
    case Kind::kMinimum: return "minimum";
    case Kind::kMaximum: return "maximum";
    case Kind::kEqual: return "equal";
    case Kind::kNotEqual: return "not_equal";
    case Kind::kLess: return "less";
    case Kind::kLessEqual: return "less_equal";
    case Kind::kGreater: return "greater";
    case Kind::kGreaterEqual: return "greater_equal";
    case Kind::kAnd: return "logical_and";
    case Kind::kOr: return "logical_or";
    case Kind::kNot: return "logical_not";
    case Kind::kNumber:
    case Kind::kName:
    case Kind::kExtent: break;
  }
  RVM_UNREACHABLE("a leaf of a guard is no operation");
}

void ForEachLeaf(const Expression& expression, const std::function<void(const Expression&)>& visit) {
  if (expression.operands.empty()) visit(expression);
  for (const Expression& operand : expression.operands) ForEachLeaf(operand, visit);
}

}  // namespace

void Importer::CheckRanges(Scope& scope) {
  absl::flat_hash_set<std::string> checked;
  for (const InputSpec* input : param_inputs_) {
    auto found = program_.graph->tensors.find(input->arg.text);
    if (input->role != InputRole::kUser || found == program_.graph->tensors.end()) continue;
    for (size_t axis = 0; axis < found->second.sizes.size(); ++axis) {
      const std::string symbol = PlainSymbol(found->second.sizes[axis].expression);
      auto range = program_.ranges.find(symbol);
      if (symbol.empty() || range == program_.ranges.end() || !checked.insert(symbol).second) continue;
      Operand& x = scope.values[input->arg.text];
      Dim extent = emit_.ExtentOf(x, static_cast<int64_t>(axis));
      auto check = [&](const Dim& bounded, std::string_view words, int64_t bound) {
        if (CompareDims(bounded, extent) == DimEquality::kEqual) return;
        std::string what = absl::StrCat("axis ", axis, " of `", input->arg.text, "`, which was exported to be at ",
                                        Abseil(words), " ", bound);
        x = emit_.Op("check_extent", {x, emit_.FromDim(bounded)},
                     {{"axis", static_cast<int64_t>(axis)}, {"what", what}});
      };
      if (range->second.min && *range->second.min > kTracedMinimum) {
        check(Max(extent, *range->second.min), "least", *range->second.min);
      }
      if (range->second.max) check(Min(extent, *range->second.max), "most", *range->second.max);
    }
  }
}

// Returns the value of a leaf; null if the graph has no such input, or it has no such axis.
Operand Importer::GuardLeaf(const Expression& leaf, const Scope& scope) {
  if (leaf.kind == Kind::kNumber) return emit_.Integer(leaf.number);
  auto found = scope.values.find(leaf.name);
  if (found == scope.values.end()) return nullptr;
  const auto* tensor = ir::DynCast<ir::TensorType>(found->second->type);
  if (tensor == nullptr) return nullptr;
  if (leaf.kind == Kind::kExtent) {
    if (leaf.number >= emit_.RankOf(found->second)) return nullptr;
    return emit_.FromDim(emit_.ExtentOf(found->second, leaf.number));
  }
  bool is_integer = tensor->shape.dims.empty() && emit_.DTypeOf(found->second) == kInt64;
  return is_integer ? found->second : nullptr;
}

Operand Importer::GuardValue(const Expression& expression, const Scope& scope) {
  if (expression.operands.empty()) return GuardLeaf(expression, scope);
  Operands operands;
  for (const Expression& operand : expression.operands) operands.push_back(GuardValue(operand, scope));
  return emit_.Op(OperatorOf(expression.kind), std::move(operands));
}

// Puts the check of a guard on the first input that it reads: `check_extent` of an extent that is impossible where the
// guard does not hold. Null where nothing can be checked.
Operand* Importer::CheckedInput(const Expression& guard, Scope& scope, int64_t& axis) {
  Operand* input = nullptr;
  bool is_known = true;
  ForEachLeaf(guard, [&](const Expression& leaf) {
    if (leaf.kind == Kind::kNumber) return;
    is_known = is_known && GuardLeaf(leaf, scope) != nullptr;
    bool is_better = input == nullptr || (axis < 0 && leaf.kind == Kind::kExtent);
    if (!is_known || !is_better) return;
    input = &scope.values[leaf.name];
    axis = leaf.kind == Kind::kExtent ? leaf.number : -1;
  });
  return is_known ? input : nullptr;
}

void Importer::CheckGuards(Scope& scope) {
  if (options_.all_extents_unknown) return;
  for (const std::string& text : program_.guards) {
    std::optional<Expression> guard = importing::ParseExpression(text, importing::Syntax::kGuard);
    int64_t axis = -1;
    Operand* input = guard ? CheckedInput(*guard, scope, axis) : nullptr;
    if (input == nullptr) {
      warnings_.push_back(
          absl::StrCat("the export assumed `", text,
                       "`, which is not checked: it is not a condition on extents and integers of inputs"));
      continue;
    }
    Operand holds = GuardValue(*guard, scope);
    if (holds->constant && holds->constant->IntAt(0) != 0) continue;
    if (holds->constant) {
      refusals_.Add("a guard", absl::StrCat("`", text, "`"),
                    absl::InvalidArgumentError("what the export assumed does not hold for the inputs given"));
      continue;
    }
    // An integer is checked as the one element of a vector.
    Operand x =
        axis < 0 ? emit_.Op("expand_dims", {*input}, {{"axis", int64_t{0}}, {"num_newaxis", int64_t{1}}}) : *input;
    int64_t at = axis < 0 ? 0 : axis;
    Operand extent = emit_.Op("where", {holds, emit_.FromDim(emit_.ExtentOf(x, at)), emit_.Integer(-1)});
    x = emit_.Op("check_extent", {x, extent},
                 {{"axis", at}, {"what", absl::StrCat("`", text, "`, as exported, does not hold")}});
    *input = axis < 0 ? emit_.Op("squeeze", {x}, {{"axis", ir::IntList(kFirst)}}) : x;
  }
}

}  // namespace rvm::torch
