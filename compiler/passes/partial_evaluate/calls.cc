// Decides which calls are unfolded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/passes/fold_call.h"
#include "compiler/passes/instantiate.h"
#include "compiler/passes/partial_evaluate/evaluator.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

namespace {

// Bodies of up to so many nodes are unfolded: any, and those that are called with something known.
constexpr size_t kSmallBody = 40;
constexpr size_t kKnownBody = 400;
constexpr size_t kOnlyCallBody = 2000;
// Calls within unfolded calls.
constexpr int kMaxDepth = 64;

// How much of an argument a recursive function can consume: constructor calls, or a natural number. -1: not known.
int64_t SizeOf(const PartialValue& value) {
  if (value.num_cells > 0) return static_cast<int64_t>(value.num_cells);
  if (value.constant == nullptr) return -1;
  const Literal& literal = value.constant->literal;
  return literal.rank() == 0 && literal.dtype().is_integral() ? literal.IntAt(0) : -1;
}

// Returns whether a callee may come to more when it knows `value`.
bool IsWorthKnowing(const PartialValue& value) {
  using Kind = PartialValue::Kind;
  switch (value.kind) {
    case Kind::kData:
    case Kind::kClosure:
    case Kind::kLocation: return true;
    case Kind::kTuple:
      return std::any_of(value.fields.begin(), value.fields.end(),
                         [](const PartialValue* field) { return IsWorthKnowing(*field); });
    case Kind::kConstant: return SizeOf(value) >= 0;
    case Kind::kDynamic: return false;
  }
  return false;
}

bool AnyIsWorthKnowing(const std::vector<PartialValue*>& values) {
  return std::any_of(values.begin(), values.end(), [](const PartialValue* value) { return IsWorthKnowing(*value); });
}

}  // namespace

Evaluator::Value* Evaluator::EvalCall(const ir::Call& call, ir::Var* hint) {
  if (const auto* callee = DynCast<ir::OpExpr>(call.callee)) {
    return CallOp(call, *callee->op, EvalAll(call.args), hint);
  }
  if (const auto* callee = DynCast<ir::ConstructorExpr>(call.callee)) {
    Value* value = New(Kind::kData, call.type, call.span);
    value->constructor = callee;
    value->fields = EvalAll(call.args);
    value->num_cells = 1;
    return Lazy(value, hint);
  }
  if (const auto* callee = DynCast<ir::GlobalExpr>(call.callee)) {
    return CallGlobal(call, *callee, EvalAll(call.args), hint);
  }
  Value* callee = Eval(call.callee);
  std::vector<Value*> args = EvalAll(call.args);
  if (callee->kind == Kind::kClosure) return CallClosure(call, callee, args, hint);
  return ResidualCall(call, Use(callee), args, hint);
}

Evaluator::Value* Evaluator::CallOp(const ir::Call& call, const ops::OpDef& op, const std::vector<Value*>& args,
                                    ir::Var* hint) {
  const ir::Builder at = At(call.span);
  auto is_constant = [](const Value* value) { return value->kind == Kind::kConstant; };
  std::vector<const Expr*> constants;
  for (Value* arg : args) {
    if (is_constant(arg)) {
      constants.push_back(arg->constant);
    } else if (arg->kind == Kind::kTuple && std::all_of(arg->fields.begin(), arg->fields.end(), is_constant)) {
      std::vector<Expr*> fields;
      for (Value* field : arg->fields) fields.push_back(Atom(field));
      constants.push_back(at.Tuple(std::move(fields), arg->type));
    }
  }
  if (constants.size() == args.size()) {
    const Expr* folded = FoldCall(at, op, call.attrs, constants, call.type);
    if (folded != nullptr) return FromConstants(folded, hint);
  }
  std::vector<Expr*> atoms;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i]->kind == Kind::kTuple && op.inputs[i].is_tuple) {
      std::vector<Expr*> fields;
      for (Value* field : args[i]->fields) fields.push_back(Use(field));
      atoms.push_back(at.Tuple(std::move(fields), args[i]->type));
    } else {
      atoms.push_back(Use(args[i]));
    }
  }
  auto* callee = arena_.New<ir::OpExpr>(*Cast<ir::OpExpr>(call.callee));
  return Emit(at.Call(callee, std::move(atoms), call.attrs, call.type), hint);
}

Evaluator::Value* Evaluator::ResidualCall(const ir::Call& call, Expr* callee, const std::vector<Value*>& args,
                                          ir::Var* hint) {
  std::vector<Expr*> atoms;
  for (Value* arg : args) atoms.push_back(Use(arg));
  store_.ForgetEscaped();
  return Emit(At(call.span).Call(callee, std::move(atoms), call.attrs, call.type), hint);
}

Evaluator::Value* Evaluator::CallClosure(const ir::Call& call, Value* closure, const std::vector<Value*>& args,
                                         ir::Var* hint) {
  const ir::Function& literal = *closure->literal;
  auto uses = uses_.find(closure->self);
  bool is_only_use = call.callee->expr_kind == ExprKind::kFunction ||
                     (ir::VarCallee(&call) == closure->self && uses != uses_.end() && uses->second.all == 1);
  size_t limit = is_only_use ? kOnlyCallBody : kKnownBody;
  bool fits = !literal.is_primitive && CountNodes(literal.body, limit) <= limit;
  if (fits && !Mentions(literal.body, closure->self)) {
    bool takes_literal = literal.type_params.empty() && !closure->is_literal_used;
    if (takes_literal) closure->is_literal_used = true;
    Value* result = Unfold(call, literal, args, takes_literal, hint);
    if (result != nullptr) return result;
    if (takes_literal) closure->is_literal_used = false;
  }
  return ResidualCall(call, Use(closure), args, hint);
}

Evaluator::Value* Evaluator::CallGlobal(const ir::Call& call, const ir::GlobalExpr& callee,
                                        const std::vector<Value*>& args, ir::Var* hint) {
  const size_t* index = shared_.graph.Find(callee.name);
  if (index != nullptr) {
    const ir::Function& function = *shared_.module.functions[*index].function;
    Value* result = nullptr;
    if (shared_.graph.is_recursive(*index)) {
      result = Unroll(call, callee.name, function, args, hint);
    } else {
      size_t limit = AnyIsWorthKnowing(args) ? kKnownBody : kSmallBody;
      if (CountNodes(function.body, limit) <= limit) result = Unfold(call, function, args, false, hint);
    }
    if (result != nullptr) return result;
  }
  auto* copy = arena_.New<ir::GlobalExpr>(callee);
  return ResidualCall(call, copy, args, hint);
}

Evaluator::Value* Evaluator::Unfold(const ir::Call& call, const ir::Function& function, const std::vector<Value*>& args,
                                    bool is_only_use, ir::Var* hint) {
  if (depth_ == kMaxDepth) {
    not_unfolded_ = "the recursion is deeper than the limit of unrolling";
    return nullptr;
  }
  size_t nodes = is_only_use ? 0 : CountNodes(function.body, room_);
  if (nodes > room_) {
    not_unfolded_ = "the unrolled code would exceed the limit of its size";
    return nullptr;
  }
  std::vector<const ir::Type*> types;
  for (const Value* arg : args) types.push_back(arg->type);
  const ir::Function* own = Instantiate(arena_, function, types, is_only_use, is_only_use ? ir::Span() : call.span);
  if (own == nullptr) {
    not_unfolded_ = "extents of its arguments are known only at run time";
    return nullptr;
  }
  room_ -= nodes;
  if (own != &function) CountUses(own->body, uses_);
  ++depth_;
  for (size_t i = 0; i < args.size(); ++i) Bind(own->params[i], args[i]);
  Value* result = Coerce(Eval(own->body, hint), TypeOf(*own).result, nullptr);
  --depth_;
  return Coerce(result, call.type, nullptr);
}

void Evaluator::RemarkLoop(const ir::Call& call, const std::string& name, const LeftCall& left) {
  if (!call.span.valid()) return;
  diagnostics::Diagnostic* remark =
      shared_.diagnostics.Remark(call.span, diagnostics::DiagnosticKind::kLoopNotUnrolled,
                                 absl::StrCat("the recursion of `@", name, "` is not unrolled"));
  if (remark != nullptr) remark->AddNote(left.span, std::string(left.reason));
}

Evaluator::Value* Evaluator::Unroll(const ir::Call& call, const std::string& name, const ir::Function& function,
                                    const std::vector<Value*>& args, ir::Var* hint) {
  std::vector<int64_t> sizes;
  std::string key = name;
  for (const Value* arg : args) {
    sizes.push_back(SizeOf(*arg));
    absl::StrAppend(&key, sizes.back() < 0 ? " ?" : " known");
  }
  auto outer = std::find_if(unrolling_.rbegin(), unrolling_.rend(), [&](const auto& u) { return u.name == name; });
  bool is_attempt = outer == unrolling_.rend(), shrinks = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    shrinks = shrinks || (sizes[i] >= 0 && (is_attempt || sizes[i] < outer->sizes[i]));
  }
  if (is_attempt && (!shrinks || shared_.not_unrolled.contains(key))) return nullptr;
  size_t block_size = block_->size(), room = room_;
  Store::Mark mark = store_.Now();
  Value* result = nullptr;
  not_unfolded_ = "no known argument gets smaller in this call";
  if (shrinks && !left_calls_.contains(name)) {
    unrolling_.push_back({name, std::move(sizes)});
    result = Unfold(call, function, args, /*is_only_use=*/false, hint);
    unrolling_.pop_back();
  }
  if (result == nullptr) left_calls_.try_emplace(name, LeftCall{call.span, not_unfolded_});
  if (!is_attempt) return result;
  auto left = left_calls_.extract(name);
  if (left.empty()) return result;
  // A remaining call of the function gains nothing: all is taken back.
  shared_.not_unrolled.insert(key);
  RemarkLoop(call, name, left.mapped());
  block_->erase(block_->begin() + static_cast<std::ptrdiff_t>(block_size), block_->end());
  store_.TakeBack(mark);
  room_ = room;
  return nullptr;
}

}  // namespace rvm::passes
