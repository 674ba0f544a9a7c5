// Computes equal operator calls once, and takes a field of a tuple once.
//
// Takes and returns A-normal form. A let of an operator call is dropped where an earlier let, of the same block or of
// one around it, has the same operator, attributes, operands and type: its variable replaces the other. The order of
// the operands of a commutative operator does not matter. Operators are pure, and a call that fails fails the first
// time. The same holds for a let of a field, of a tuple by any of its names: a tensor that has two names cannot be
// updated in place. Lets outside a function literal are not reused inside it: that would add a capture.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// Operators of two tensors whose results do not depend on the order, but for the payload of a NaN: `maximum` and
// `minimum` order 0 and -0. Sorted.
constexpr std::string_view kCommutative[] = {"add",     "bitwise_and", "bitwise_or", "bitwise_xor",
                                             "equal",   "logical_and", "logical_or", "logical_xor",
                                             "maximum", "minimum",     "multiply",   "not_equal"};

bool IsCommutative(const ir::Call& call) {
  return std::binary_search(std::begin(kCommutative), std::end(kCommutative), ir::OpCallee(&call)->name);
}

uint64_t AddressOf(const void* pointer) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer)); }

bool IsSameOperand(const Expr* a, const Expr* b) {
  if (a->expr_kind != b->expr_kind) return false;
  if (const auto* use = DynCast<ir::VarExpr>(a)) return use->var == Cast<ir::VarExpr>(b)->var;
  if (const auto* constant = DynCast<ir::Constant>(a)) {
    const Literal &x = constant->literal, &y = Cast<ir::Constant>(b)->literal;
    return x.data() == y.data() ? x.dtype() == y.dtype() && x.shape() == y.shape() : x.rank() == 0 && x == y;
  }
  const auto *x = DynCast<ir::Tuple>(a), *y = DynCast<ir::Tuple>(b);
  return x != nullptr &&
         std::equal(x->fields.begin(), x->fields.end(), y->fields.begin(), y->fields.end(), IsSameOperand);
}

// The operator, the variables and the constants (a scalar's bits, a tensor's address): equal for equal calls. Without
// the constants, the arms of one long match would all have the same key.
using Key = std::vector<uint64_t>;

Key KeyOf(const ir::Call& call) {
  Key key = {AddressOf(ir::OpCallee(&call))};
  auto add = [&](const Expr* atom) {
    if (const auto* use = DynCast<ir::VarExpr>(atom)) {
      key.push_back(AddressOf(use->var));
    } else if (const auto* constant = DynCast<ir::Constant>(atom)) {
      const Literal& literal = constant->literal;
      uint64_t bits = 0;
      if (literal.rank() == 0) std::memcpy(&bits, literal.data(), static_cast<size_t>(literal.bytes()));
      key.push_back(literal.rank() == 0 ? bits : AddressOf(literal.data()));
    }
  };
  for (const Expr* arg : call.args) {
    const auto* tuple = DynCast<ir::Tuple>(arg);
    if (tuple == nullptr) add(arg);
    for (size_t i = 0; tuple != nullptr && i < tuple->fields.size(); ++i) add(tuple->fields[i]);
  }
  if (IsCommutative(call)) std::sort(key.begin() + 1, key.end());
  return key;
}

class SubexpressionRewriter : public Rewriter {
 public:
  using Rewriter::Rewriter;

  // A block's calls are not available after the block.
  Expr* Rewrite(Expr* expr) override {
    const size_t mark = log_.size();
    Expr* result = Rewriter::Rewrite(expr);
    for (; log_.size() > mark; log_.pop_back()) available_[log_.back()].pop_back();
    return result;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = renamed_.find(use->var);
      return found == renamed_.end() ? RewriteChildren(expr) : At(expr->span).Use(found->second);
    }
    if (expr->expr_kind != ir::ExprKind::kFunction) return RewriteChildren(expr);
    auto outer_available = std::exchange(available_, {});
    auto outer_log = std::exchange(log_, {});
    Expr* result = RewriteChildren(expr);
    available_ = std::move(outer_available);
    log_ = std::move(outer_log);
    return result;
  }

  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Rewriter::RewriteLet(let, chain);
    const Binding& binding = chain.back();
    if (const auto* use = DynCast<ir::VarExpr>(binding.value)) named_[binding.var] = Original(use->var);
    const auto* call = DynCast<ir::Call>(binding.value);
    const auto* field = DynCast<ir::Project>(binding.value);
    const auto* tuple = field == nullptr ? nullptr : DynCast<ir::VarExpr>(field->tuple);
    if (ir::OpCallee(call) == nullptr && tuple == nullptr) return;
    if (!ir::TypesEqual(binding.value->type, binding.var->type)) return;
    Key key =
        tuple == nullptr ? KeyOf(*call) : Key{AddressOf(Original(tuple->var)), static_cast<uint64_t>(field->index)};
    std::vector<Binding>& candidates = available_[key];
    for (const Binding& earlier : candidates) {
      const auto* other = DynCast<ir::Call>(earlier.value);
      const bool is_same = tuple == nullptr ? other != nullptr && IsSameCall(*other, *call)
                                            : other == nullptr && ir::TypesEqual(earlier.var->type, binding.var->type);
      if (!is_same) continue;
      renamed_[binding.var] = earlier.var;
      chain.pop_back();
      return;
    }
    candidates.push_back(binding);
    log_.push_back(std::move(key));
  }

 private:
  static bool IsSameCall(const ir::Call& a, const ir::Call& b) {
    if (!ir::TypesEqual(a.type, b.type) || !(a.attrs == b.attrs)) return false;
    bool is_same = std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), IsSameOperand);
    return is_same || (IsCommutative(a) &&
                       std::equal(a.args.begin(), a.args.end(), b.args.rbegin(), b.args.rend(), IsSameOperand));
  }

  // Returns the variable that this one is another name of, or itself.
  const ir::Var* Original(const ir::Var* var) const {
    auto found = named_.find(var);
    return found == named_.end() ? var : found->second;
  }

  absl::flat_hash_map<Key, std::vector<Binding>> available_;  // lets of operator calls and fields in scope
  std::vector<Key> log_;                                      // of what was added to them
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;
  absl::flat_hash_map<const ir::Var*, const ir::Var*> named_;  // names of variables, by the let that adds them
};

absl::StatusOr<ir::Module> EliminateCommonSubexpressions(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return SubexpressionRewriter(*module.arena).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kEliminateCommonSubexpressions = {.name = "eliminate_common_subexpressions",
                                             .summary = "equal operator calls computed, and fields taken, once",
                                             .run = EliminateCommonSubexpressions,
                                             .needs = Form::kANormal,
                                             .keeps_effect_order = true};

}  // namespace rvm::passes
