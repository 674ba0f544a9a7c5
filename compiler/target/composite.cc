#include "compiler/target/composite.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/primitive.h"
#include "compiler/ops/op_def.h"

namespace rvm::target {
namespace {

using ir::DynCast;

const ir::TensorType* TensorTypeOf(const ir::Type* type) {
  const auto* tensor = DynCast<ir::TensorType>(type);
  return tensor != nullptr && tensor->shape.is_dims() && tensor->dtype.is_concrete() ? tensor : nullptr;
}

class CompositeMaker {
 public:
  CompositeMaker(const Pattern& pattern, std::span<ir::Var* const> params) {
    composite_.pattern = pattern.name;
    for (const ir::Var* param : params) places_[param] = {Operand::Kind::kArgument, composite_.num_arguments++};
  }

  bool Add(const BoundCall& bound) {
    const ir::TensorType* type = TensorTypeOf(bound.call->type);
    if (type == nullptr) return false;
    CompositeCall call{ir::OpCallee(bound.call)->name, &bound.call->attrs, {}, type->dtype.dtype, type->shape.dims};
    const ops::OpDef& op = *ir::OpCallee(bound.call);
    for (size_t i = 0; i < bound.call->args.size(); ++i) {
      const ir::Expr* arg = bound.call->args[i];
      const ir::TensorType* of_arg = TensorTypeOf(arg->type);
      if (of_arg == nullptr) return false;
      Operand operand = OperandOf(op, i, arg);
      operand.dtype = of_arg->dtype.dtype;
      operand.dims = of_arg->shape.dims;
      call.operands.push_back(std::move(operand));
    }
    if (bound.var != nullptr) places_[bound.var] = {Operand::Kind::kCall, composite_.calls.size()};
    composite_.calls.push_back(std::move(call));
    return true;
  }

  Composite Finish() { return std::move(composite_); }

 private:
  struct Place {
    Operand::Kind kind;
    size_t number;
  };

  Operand OperandOf(const ops::OpDef& op, size_t i, const ir::Expr* arg) {
    Operand operand;
    operand.kind = Operand::Kind::kArgument;
    if (const auto* constant = DynCast<ir::Constant>(arg)) {
      // Fusion makes parameters of all others, too.
      bool is_immediate = constant->literal.rank() == 0 ||
                          (ops::DecidesShape(op, i) && constant->literal.num_elements() <= ir::kMaxImmediates);
      if (is_immediate) {
        operand.kind = Operand::Kind::kConstant;
        operand.constant = constant->literal;
      } else {
        operand.number = composite_.num_arguments++;
      }
      return operand;
    }
    auto [found, added] =
        places_.try_emplace(ir::Cast<ir::VarExpr>(arg)->var, Place{Operand::Kind::kArgument, composite_.num_arguments});
    if (added) ++composite_.num_arguments;
    operand.kind = found->second.kind;
    operand.number = found->second.number;
    return operand;
  }

  Composite composite_;
  absl::flat_hash_map<const ir::Var*, Place> places_;
};

// Returns true if calls [i, end) are steps [s, end) of the pattern.
bool FitsFrom(const Pattern& pattern, size_t s, std::span<const BoundCall> calls, size_t i) {
  for (; s < pattern.steps.size(); ++s) {
    const PatternStep& step = pattern.steps[s];
    bool is_here = i < calls.size() && FitsStep(step, calls[i]);
    if (is_here && step.is_optional && FitsFrom(pattern, s + 1, calls, i)) return true;
    if (!is_here && !step.is_optional) return false;
    if (is_here) ++i;
  }
  return i == calls.size();
}

// Returns the calls of a primitive function; nullopt if it does anything else.
std::optional<std::vector<BoundCall>> CallsOf(const ir::Function& primitive) {
  std::vector<BoundCall> calls;
  const ir::Expr* body = primitive.body;
  for (; const auto* let = DynCast<ir::Let>(body); body = let->body) {
    if (ir::OpCallee(let->value) == nullptr) return std::nullopt;
    calls.push_back({let->var, ir::Cast<ir::Call>(let->value)});
  }
  const auto* result = DynCast<ir::VarExpr>(body);
  if (calls.empty() || result == nullptr || result->var != calls.back().var) return std::nullopt;
  return calls;
}

}  // namespace

bool FitsStep(const PatternStep& step, const BoundCall& call) {
  return std::find(step.operators.begin(), step.operators.end(), ir::OpCallee(call.call)->name) != step.operators.end();
}

bool FitsPattern(const Pattern& pattern, std::span<const BoundCall> calls) { return FitsFrom(pattern, 0, calls, 0); }

std::optional<Composite> MakeComposite(const Pattern& pattern, std::span<const BoundCall> calls,
                                       std::span<ir::Var* const> params) {
  CompositeMaker maker(pattern, params);
  for (const BoundCall& call : calls) {
    if (!maker.Add(call)) return std::nullopt;
  }
  return maker.Finish();
}

std::optional<Composite> CompositeOfKernel(std::span<const Pattern> patterns, const ir::Function& primitive,
                                           const KernelDesc& kernel) {
  std::optional<std::vector<BoundCall>> calls = CallsOf(primitive);
  if (!calls) return std::nullopt;
  auto pattern = std::find_if(patterns.begin(), patterns.end(),
                              [&](const Pattern& candidate) { return FitsPattern(candidate, *calls); });
  if (pattern == patterns.end()) return std::nullopt;
  std::optional<Composite> composite = MakeComposite(*pattern, *calls, primitive.params);
  if (!composite || composite->num_arguments != kernel.params.size() || kernel.results.size() != 1) return std::nullopt;
  *composite = WithoutVariables(*std::move(composite));
  for (CompositeCall& call : composite->calls) {
    for (Operand& operand : call.operands) {
      if (operand.kind == Operand::Kind::kArgument) operand.dims = kernel.params[operand.number].dims;
    }
  }
  composite->calls.back().dims = kernel.results[0].dims;
  return composite;
}

}  // namespace rvm::target
