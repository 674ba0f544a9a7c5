// Turns recursion whose results are summed up, or multiplied, into loops with an accumulator.
//
// Takes and returns A-normal form. A function qualifies if some of its results are `x + f(y)`, where f is the function
// itself and the sum may have any number of operands. It becomes a function `<name>.sum` with the accumulator as a
// further parameter, which returns the old result plus the accumulator: `x + f(y)` is then a tail call.
//
//   def @f(%n) { if (%n == 0) { 7 } else { %n + @f(%n - 1) } }
//
// becomes
//
//   def @f(%n) { @f.sum(%n, 0) }
//   def @f.sum(%n, %sum) { if (%n == 0) { %sum + 7 } else { let %t = %sum + %n; @f.sum(%n - 1, %t) } }
//
// Other calls of f in the same sum take the accumulator along: `f(x) + f(y)` is `f.sum(y, f.sum(x, %sum))`. All other
// calls of f start at 0; @f remains only as an entry. Products have `<name>.product`, which starts at 1.
//
// Only sums and products of integer scalars qualify: they wrap, so the order of the operands does not matter, as it
// does for floats. The last call of f in a sum becomes the tail call. Steps behind it must be operations on scalars,
// which cannot fail and have no effects, because they are now computed before it. The steps and calls that run are
// otherwise the same, in the same order. A call costs as much fuel as before (the way from an entry to its loop is one
// call more), and takes no stack.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// How results are put together.
struct Operation {
  const char* op;
  const char* name;  // of the accumulator
  int64_t identity;
};
constexpr Operation kOperations[] = {{"add", "sum", 0}, {"multiply", "product", 1}};

// The loop that a function becomes.
struct Accumulation {
  const Operation* operation;
  std::string name;  // of the loop
};
using Accumulations = absl::flat_hash_map<std::string_view, Accumulation>;  // by function

bool IsIntegerScalar(const ir::Type* type) {
  if (!ir::IsScalar(type)) return false;
  const DataType dtype = DynCast<ir::TensorType>(type)->dtype.dtype;
  return dtype.is_int() || dtype.is_uint();
}

const ir::Call* CallOf(const Expr* expr, std::string_view function) {
  const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
  return callee != nullptr && callee->name == function ? Cast<ir::Call>(expr) : nullptr;
}

// A sum at the end of a block that the result of the function itself is part of.
struct Sum {
  absl::flat_hash_set<const ir::Var*> inner;  // variables of its parts that are sums, of no other use
  absl::flat_hash_set<const ir::Var*> calls;  // those of calls of the function, of no other use
  std::vector<Expr*> leaves;                  // operands that are neither
  const ir::Var* last_call = nullptr;
  const Expr* root = nullptr;
};

// Finds them in the body of `global`.
class SumFinder {
 public:
  SumFinder(const ir::GlobalFunction& global, const Operation& operation) : global_(global), operation_(operation) {
    CountUses(global.function->body, uses_);
  }

  // Returns the sum that is the value of a block, or nullopt.
  std::optional<Sum> Find(const Expr* block) const {
    std::vector<const ir::Let*> lets;
    absl::flat_hash_map<const ir::Var*, const Expr*> values;
    for (; const auto* let = DynCast<ir::Let>(block); block = let->body) {
      lets.push_back(let);
      if (IsUsedOnce(let->var)) values[let->var] = let->value;
    }
    if (!IsOperation(block)) return std::nullopt;
    Sum sum;
    sum.root = block;
    std::vector<const Expr*> pending = {block};
    while (!pending.empty()) {
      const Expr* part = pending.back();
      pending.pop_back();
      const std::vector<Expr*>& args = Cast<ir::Call>(part)->args;
      for (Expr* arg : args) {
        const auto* use = DynCast<ir::VarExpr>(arg);
        auto value = use == nullptr ? values.end() : values.find(use->var);
        if (value == values.end()) {
          sum.leaves.push_back(arg);
        } else if (CallOf(value->second, global_.name) != nullptr) {
          sum.calls.insert(use->var);
        } else if (IsOperation(value->second)) {
          sum.inner.insert(use->var);
          pending.push_back(value->second);
        } else {
          sum.leaves.push_back(arg);
        }
      }
    }
    for (auto let = lets.rbegin(); let != lets.rend(); ++let) {
      if (sum.calls.contains((*let)->var)) {
        sum.last_call = (*let)->var;
        return sum;
      }
      if (!sum.inner.contains((*let)->var) && !MayMoveUp((*let)->value)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool IsUsedOnce(const ir::Var* var) const {
    auto uses = uses_.find(var);
    return uses != uses_.end() && uses->second.all == 1;
  }

  bool IsOperation(const Expr* expr) const {
    const ops::OpDef* op = ir::OpCallee(expr);
    return op != nullptr && op->name == operation_.op && ir::TypesEqual(expr->type, TypeOf(*global_.function).result);
  }

  // Returns whether the value may be computed before a call that it stands behind.
  static bool MayMoveUp(const Expr* value) {
    const auto* call = DynCast<ir::Call>(value);
    if (call != nullptr) return ir::OpCallee(call) != nullptr && ops::SelectScalar(*call).has_value();
    return value->expr_kind == ir::ExprKind::kConstant || value->expr_kind == ir::ExprKind::kVar;
  }

  const ir::GlobalFunction& global_;
  const Operation& operation_;
  UseCounts uses_;
};

// Calls `visit` with each block whose value is the value of `block`.
template <typename F>
void ForEachTailBlock(const Expr* block, F&& visit) {
  std::vector<const Expr*> pending = {block};
  while (!pending.empty()) {
    const Expr* root = pending.back();
    pending.pop_back();
    const Expr* last = root;
    while (const auto* let = DynCast<ir::Let>(last)) last = let->body;
    if (const auto* branch = DynCast<ir::If>(last)) {
      pending.push_back(branch->else_branch);
      pending.push_back(branch->then_branch);
    } else if (const auto* match = DynCast<ir::Match>(last)) {
      for (const ir::Clause& clause : match->clauses) pending.push_back(clause.body);
    } else {
      visit(root);
    }
  }
}

const Operation* FindOperation(const ir::GlobalFunction& global) {
  if (!IsIntegerScalar(TypeOf(*global.function).result)) return nullptr;
  for (const Operation& operation : kOperations) {
    SumFinder finder(global, operation);
    bool found = false;
    ForEachTailBlock(global.function->body,
                     [&](const Expr* block) { found = found || finder.Find(block).has_value(); });
    if (found) return &operation;
  }
  return nullptr;
}

// Calls loops in place of their functions.
class CallRewriter : public Rewriter {
 public:
  CallRewriter(ir::Arena& arena, const Accumulations& loops) : Rewriter(arena), loops_(loops) {}

  // `@f(%x)` as `@f.sum(%x, 0)`, for an entry.
  ir::Function* Wrapper(const ir::GlobalFunction& global) {
    ir::Function* function = MakeCaller(global);
    function->body = Rewrite(function->body);
    return function;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
    auto loop = callee == nullptr ? loops_.end() : loops_.find(callee->name);
    if (loop == loops_.end()) return RewriteChildren(expr);
    return CallLoop(*Cast<ir::Call>(expr), loop->second, Identity(loop->second, expr));
  }

  Expr* Identity(const Accumulation& loop, const Expr* like) {
    const DataType dtype = DynCast<ir::TensorType>(like->type)->dtype.dtype;
    return At(like->span).Constant(Literal::ScalarInt(dtype, loop.operation->identity));
  }

  Expr* CallLoop(const ir::Call& call, const Accumulation& loop, Expr* accumulator) {
    std::vector<Expr*> args = RewriteAll(call.args);
    args.push_back(accumulator);
    const auto* type = LoopType(*DynCast<ir::FuncType>(call.callee->type));
    return At(call.span).Call(At(call.callee->span).Global(loop.name, type), std::move(args), call.attrs, call.type);
  }

  const ir::FuncType* LoopType(const ir::FuncType& type) {
    std::vector<const ir::Type*> params = type.params;
    params.push_back(type.result);
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), type.result, type.constraints);
  }

  const Accumulations& loops_;
};

// Makes the loop of a function.
class LoopMaker : public CallRewriter {
 public:
  LoopMaker(ir::Arena& arena, const Accumulations& loops, const ir::GlobalFunction& global)
      : CallRewriter(arena, loops),
        global_(global),
        loop_(loops.at(global.name)),
        finder_(global, *loop_.operation),
        accumulator_(At(global.function->span).DeclaredVar(loop_.operation->name, TypeOf(*global.function).result)) {}

  ir::Function* Make() {
    auto* function = arena_.New<ir::Function>(*global_.function);
    function->params.push_back(accumulator_);
    function->type = LoopType(TypeOf(*function));
    function->body = RewriteTail(function->body);
    return function;
  }

 private:
  Expr* RewriteTail(Expr* block) {
    return WithStack([&] { return RewriteTailBlock(block); });
  }

  Expr* RewriteTailBlock(Expr* block) {
    if (std::optional<Sum> sum = finder_.Find(block)) return RewriteSum(block, *sum);
    std::vector<Binding> chain;
    for (; const auto* let = DynCast<ir::Let>(block); block = let->body) RewriteLet(*let, chain);
    return MakeLets(arena_, chain, RewriteResult(block, chain));
  }

  Expr* RewriteResult(Expr* result, std::vector<Binding>& chain) {
    const ir::Builder at = At(result->span);
    if (const auto* branch = DynCast<ir::If>(result)) {
      return at.If(Rewrite(branch->condition), RewriteTail(branch->then_branch), RewriteTail(branch->else_branch),
                   branch->type);
    }
    if (const auto* match = DynCast<ir::Match>(result)) {
      std::vector<ir::Clause> clauses = match->clauses;
      for (ir::Clause& clause : clauses) clause.body = RewriteTail(clause.body);
      return at.Match(Rewrite(match->value), std::move(clauses), match->is_complete, match->type);
    }
    if (const ir::Call* call = CallOf(result, global_.name)) return CallLoop(*call, loop_, at.Use(accumulator_));
    const Literal* constant = ConstantOf(result);
    if (constant != nullptr && constant->IntAt(0) == loop_.operation->identity) return at.Use(accumulator_);
    Expr* value = Rewrite(result);
    const bool is_atom = value->expr_kind == ir::ExprKind::kVar || value->expr_kind == ir::ExprKind::kConstant;
    return Accumulate(at, at.Use(accumulator_), is_atom ? value : at.Bind("t", value, chain), value);
  }

  // `like`: an expression of the type of the result.
  Expr* Accumulate(const ir::Builder& at, Expr* accumulated, Expr* value, const Expr* like) {
    return at.CallOp(ops::FindOp(loop_.operation->op), {accumulated, value}, {}, like->type);
  }

  Expr* RewriteSum(Expr* block, const Sum& sum) {
    std::vector<Binding> chain;
    ir::Var* accumulated = accumulator_;
    const ir::Call* tail = nullptr;
    for (; const auto* let = DynCast<ir::Let>(block); block = let->body) {
      if (sum.inner.contains(let->var)) continue;
      if (!sum.calls.contains(let->var)) {
        RewriteLet(*let, chain);
      } else if (let->var == sum.last_call) {
        tail = Cast<ir::Call>(let->value);
      } else {
        Expr* call = CallLoop(*Cast<ir::Call>(let->value), loop_, At(let->span).Use(accumulated));
        chain.push_back({let->var, call, let->span});
        accumulated = let->var;
      }
    }
    const ir::Builder at = At(sum.root->span);
    Expr* value = at.Use(accumulated);
    for (Expr* leaf : sum.leaves) value = at.Bind("t", Accumulate(at, value, Rewrite(leaf), sum.root), chain);
    return MakeLets(arena_, chain, CallLoop(*tail, loop_, value));
  }

  const ir::GlobalFunction& global_;
  const Accumulation& loop_;
  SumFinder finder_;
  ir::Var* accumulator_;
};

Accumulations FindLoops(const ir::Module& module) {
  absl::flat_hash_set<std::string> names;
  for (const ir::GlobalFunction& global : module.functions) names.insert(global.name);
  Accumulations loops;
  for (const ir::GlobalFunction& global : module.functions) {
    const Operation* operation = FindOperation(global);
    if (operation == nullptr) continue;
    std::string base = absl::StrCat(global.name, ".", operation->name), name = base;
    for (int i = 1; !names.insert(name).second; ++i) name = absl::StrCat(base, "_", i);
    loops[global.name] = {operation, name};
  }
  return loops;
}

absl::StatusOr<ir::Module> AccumulateRecursion(const ir::Module& module, PassContext& context) {
  const Accumulations loops = FindLoops(module);
  if (loops.empty()) return module;
  std::vector<ir::GlobalFunction> functions;
  for (const ir::GlobalFunction& global : module.functions) {
    functions.push_back(global);
    auto found = loops.find(global.name);
    if (found == loops.end()) {
      auto* function = module.arena->New<ir::Function>(*global.function);
      function->body = CallRewriter(*module.arena, loops).Rewrite(function->body);
      functions.back().function = function;
      continue;
    }
    functions.back().function = CallRewriter(*module.arena, loops).Wrapper(global);
    ir::GlobalFunction loop = global;
    loop.name = found->second.name;
    loop.shown_as = std::string(global.ShownName());
    loop.function = LoopMaker(*module.arena, loops, global).Make();
    functions.push_back(std::move(loop));
  }
  return DropUnreachable(WithFunctions(module, std::move(functions)), context.entries);
}

}  // namespace

const Pass kAccumulateRecursion = {.name = "accumulate_recursion",
                                   .summary = "recursive sums and products of integers as loops with an accumulator",
                                   .run = AccumulateRecursion,
                                   .needs = Form::kANormal};

}  // namespace rvm::passes
