// Replaces costly functions of a byte by tables of their 256 values.
//
// Takes and returns A-normal form. Quantised models compute functions such as SiLU of tensors of int8 or uint8 in
// floats: the byte is dequantised, the function applied, and the result quantised again. Where each element of a tensor
// of bytes is computed from one element of another one, from constants of one element and from constant tables, and
// that costs more than to look up a byte, the values are computed here, by the reference evaluator, and `take` reads
// them. Steps between that nothing else needs are dropped.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "base/value.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/element_cost.h"
#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

constexpr int64_t kBytes = 256;
// Functions that cost so many additions pay for a table where a byte is looked up by itself.
constexpr int64_t kMinCost = 30;
// The cost of a look-up that is a step: with more steps than the conversion of its index, a function has a table.
constexpr int64_t kLookupCost = kMinCost - 2;

bool IsByte(const ir::TensorType* type) {
  return type != nullptr && type->shape.is_dims() && type->dtype.is_concrete() && type->dtype.dtype.bits == 8 &&
         !type->dtype.dtype.is_bool();
}

// Returns a constant of one element as a scalar.
Literal ScalarOf(const Literal& literal) {
  auto owner = std::make_shared<const Literal>(literal);
  const std::byte* element = owner->data();
  return Literal(literal.dtype(), {}, Buffer::Borrow(element, literal.bytes(), std::move(owner)));
}

// Returns all bytes as `dtype`, by their bits.
Literal AllBytes(DataType dtype) {
  std::shared_ptr<Buffer> bytes = Buffer::Allocate(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) bytes->data()[i] = static_cast<std::byte>(i);
  return Literal(dtype, {kBytes}, std::move(bytes));
}

class Tabulator : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Expr* value = Tabulate({let.var, Rewrite(let.value), let.span}, chain);
    chain.push_back({let.var, value, let.span});
  }

  // Leaves out the steps whose results went into tables.
  Expr* FinishLets(const std::vector<Binding>& chain, Expr* body) override {
    std::vector<Binding> steps = chain, kept;
    body = Tabulate({At(body->span).Var("end", body->type), body, body->span}, steps);
    bool may_drop = !values_.empty() && std::any_of(steps.begin(), steps.end(),
                                                    [&](const Binding& step) { return functions_.contains(step.var); });
    // Counting all that is inside at each depth would take the square of the time.
    if (!may_drop) return Rewriter::FinishLets(steps, body);
    UseCounts uses;
    CountUses(body, uses);
    for (size_t i = steps.size(); i-- > 0;) {
      if (functions_.contains(steps[i].var) && !uses.contains(steps[i].var)) continue;
      CountUses(steps[i].value, uses);
      kept.push_back(steps[i]);
    }
    std::reverse(kept.begin(), kept.end());
    return Rewriter::FinishLets(kept, body);
  }

 private:
  // A tensor whose elements are computed from those of another one.
  struct Function {
    ir::Var* byte;
    const ir::Call* call;
  };

  // Returns whether the call reads a constant table at each element of its other argument.
  static bool IsLookup(const ir::Call& call) {
    const Literal* table = ir::OpCallee(&call)->name == "take" ? ConstantOf(call.args[0]) : nullptr;
    return table != nullptr && table->rank() == 1 && call.attrs.GetInt("batch_dims") == 0;
  }

  // Returns the call that the step makes, if it is of an elementwise operator on tensors or a look-up, and gives the
  // declared type.
  static const ir::Call* ElementwiseCall(const Binding& step) {
    const ops::OpDef* op = ir::OpCallee(step.value);
    bool fits = op != nullptr && op->compute != nullptr && TensorOf(step.value) != nullptr &&
                (op->fusion == ops::FusionClass::kElementwise || op->fusion == ops::FusionClass::kBroadcast ||
                 IsLookup(*Cast<ir::Call>(step.value))) &&
                ir::TypesEqual(step.value->type, step.var->type);
    return fits ? Cast<ir::Call>(step.value) : nullptr;
  }

  // Returns the tensor of bytes from whose elements, and from constants of one and tables, the call computes each of
  // its own; null if there is none.
  ir::Var* ByteOf(const ir::Call& call) const {
    ir::Var* byte = nullptr;
    for (const Expr* arg : call.args) {
      const Literal* constant = ConstantOf(arg);
      if (constant != nullptr && (constant->num_elements() == 1 || IsLookup(call))) continue;
      ir::Var* var = VarOf(arg);
      if (var == nullptr || TensorOf(arg) == nullptr) return nullptr;
      if (auto found = functions_.find(var); found != functions_.end()) {
        var = found->second.byte;
      } else if (!IsByte(TensorOf(arg))) {
        return nullptr;
      }
      if (byte != nullptr && byte != var) return nullptr;
      byte = var;
    }
    bool fits = byte != nullptr && TensorOf(&call)->shape.is_dims() && SameExtents(call.type, byte->type);
    return fits ? byte : nullptr;
  }

  // Returns whether the steps of a function cost as much as a look-up or more. Visits no more of them than that takes.
  bool IsCostly(const ir::Var* result) const {
    int64_t cost = 0;
    std::vector<const ir::Var*> open = {result};
    absl::flat_hash_set<const ir::Var*> seen = {result};
    while (!open.empty() && cost < kMinCost) {
      const ir::Call& call = *functions_.at(open.back()).call;
      open.pop_back();
      cost += IsLookup(call) ? kLookupCost : std::max<int64_t>(ops::ElementCost(call), 1);
      for (const Expr* arg : call.args) {
        const ir::Var* next = VarOf(arg);
        if (functions_.contains(next) && seen.insert(next).second) open.push_back(next);
      }
    }
    return cost >= kMinCost;
  }

  // Returns the steps of a function whose values are not known, in order.
  std::vector<const ir::Var*> StepsTo(const ir::Var* result) const {
    std::vector<const ir::Var*> steps, open = {result};
    absl::flat_hash_map<const ir::Var*, bool> is_done;  // false: its arguments come first
    while (!open.empty()) {
      const ir::Var* var = open.back();
      auto [found, is_new] = is_done.try_emplace(var, false);
      if (is_new) {
        for (const Expr* arg : functions_.at(var).call->args) {
          const ir::Var* next = VarOf(arg);
          if (functions_.contains(next) && !values_.contains(next)) open.push_back(next);
        }
        continue;
      }
      open.pop_back();
      if (!found->second) steps.push_back(var);
      found->second = true;
    }
    return steps;
  }

  // Returns the values of a function of a byte; nullopt if one of its steps fails.
  std::optional<Literal> TableOf(const ir::Var* result, const ir::Var* byte) {
    values_.try_emplace(byte, Value::Tensor(AllBytes(DynCast<ir::TensorType>(byte->type)->dtype.dtype)));
    for (const ir::Var* step : StepsTo(result)) {
      const ir::Call& call = *functions_.at(step).call;
      std::vector<Value> args;
      for (const Expr* arg : call.args) {
        const Literal* constant = ConstantOf(arg);
        args.push_back(constant == nullptr ? values_.at(VarOf(arg))
                       : IsLookup(call)    ? Value::Tensor(*constant)
                                           : Value::Tensor(ScalarOf(*constant)));
      }
      absl::StatusOr<Value> value = ops::EvaluateOp(*ir::OpCallee(&call), call.attrs, args);
      if (!value.ok() || value->tensor().shape() != Shape{kBytes}) return std::nullopt;
      values_.insert_or_assign(step, *std::move(value));
    }
    return values_.at(result).tensor();
  }

  // Returns the value of a step behind `chain`: as a read of a table, if it is a costly function of a byte.
  Expr* Tabulate(const Binding& step, std::vector<Binding>& chain) {
    const ir::Call* call = ElementwiseCall(step);
    ir::Var* byte = call == nullptr ? nullptr : ByteOf(*call);
    if (byte == nullptr) return step.value;
    functions_.emplace(step.var, Function{byte, call});
    if (!IsByte(TensorOf(step.value))) return step.value;
    std::optional<Literal> table = IsCostly(step.var) ? TableOf(step.var, byte) : std::nullopt;
    if (!table) return step.value;
    const ir::Builder at = At(step.span);
    Expr* index = at.Use(byte);
    if (TensorOf(index)->dtype.dtype != kUInt8) {
      index = at.Bind("byte", ops::BuildCall(at, "cast", {index}, {{"dtype", "uint8"}}), chain);
    }
    return ops::BuildCall(at, "take", {at.Constant(*std::move(table)), index}, {{"axis", int64_t{0}}});
  }

  absl::flat_hash_map<const ir::Var*, Function> functions_;
  absl::flat_hash_map<const ir::Var*, Value> values_;  // of functions that went into tables, for all bytes
};

absl::StatusOr<ir::Module> TabulateBytes(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return Tabulator(*module.arena).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kTabulateBytes = {.name = "tabulate_bytes",
                             .summary = "tables of costly functions of a byte",
                             .run = TabulateBytes,
                             .needs = Form::kANormal,
                             .keeps_effect_order = true};

}  // namespace rvm::passes
