// Values, and the residual code that makes and uses them.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/passes/partial_evaluate/evaluator.h"

namespace rvm::passes {

using ir::DynCast;
using ir::Expr;

Evaluator::Value* Evaluator::New(Kind kind, const ir::Type* type, ir::Span span) {
  Value& value = values_.emplace_back();
  value.kind = kind;
  value.type = type;
  value.span = span;
  return &value;
}

Evaluator::Value* Evaluator::Dynamic(ir::Var* var, ir::Span span) {
  Value* value = New(Kind::kDynamic, var->type, span);
  value->var = var;
  named_.insert(var);
  return value;
}

Evaluator::Value* Evaluator::Lazy(Value* value, ir::Var* hint) {
  value->var = Name(hint, value->type, value->span);
  value->slot = &block_->emplace_back(Binding{value->var, nullptr, value->span});
  for (const Value* field : value->fields) {
    value->reaches_locations = value->reaches_locations || field->reaches_locations;
    value->num_cells += field->num_cells;
  }
  return value;
}

Evaluator::Value* Evaluator::Tuple(std::vector<Value*> fields, const ir::Type* type, ir::Span span, ir::Var* hint) {
  Value* value = New(Kind::kTuple, type, span);
  value->fields = std::move(fields);
  return Lazy(value, hint);
}

Evaluator::Value* Evaluator::Closure(const ir::Function& literal, ir::Span span, ir::Var* hint) {
  Value* value = New(Kind::kClosure, literal.type, span);
  value->literal = &literal;
  value->self = hint;
  value->reaches_locations = true;  // what it captures may: see Captured
  return Lazy(value, hint);
}

Evaluator::Value* Evaluator::FromConstants(const Expr* expr, ir::Var* hint) {
  if (const auto* constant = DynCast<ir::Constant>(expr)) {
    Value* value = New(Kind::kConstant, constant->type, constant->span);
    value->constant = constant;
    return value;
  }
  const auto* tuple = DynCast<ir::Tuple>(expr);
  RVM_CHECK(tuple != nullptr, "a folded call is made of constants and tuples");
  std::vector<Value*> fields;
  for (const Expr* field : tuple->fields) fields.push_back(FromConstants(field, nullptr));
  return Tuple(std::move(fields), tuple->type, tuple->span, hint);
}

ir::Var* Evaluator::Name(ir::Var* hint, const ir::Type* type, ir::Span span) {
  bool fits = hint != nullptr && ir::TypesEqual(hint->type, type);
  if (fits && named_.insert(hint).second) return hint;
  ir::Var* var = At(span).Var(hint == nullptr ? "t" : hint->name, type);
  named_.insert(var);
  return var;
}

Evaluator::Value* Evaluator::Emit(Expr* value, ir::Var* hint) {
  ir::Var* var = Name(hint, value->type, value->span);
  block_->push_back({var, value, value->span});
  return Dynamic(var, value->span);
}

Evaluator::Value* Evaluator::Coerce(Value* value, const ir::Type* type, ir::Var* hint) {
  if (ir::TypesEqual(value->type, type)) return value;
  // Extents inside of a tuple cannot be checked or forgotten, but those of its fields can.
  if (const auto* tuple = DynCast<ir::TupleType>(type); tuple != nullptr && DynCast<ir::TupleType>(value->type)) {
    return WithStack([&] { return CoerceFields(value, tuple, hint); });
  }
  Expr* atom = Use(value);
  ir::Var* var = Name(hint, type, value->span);
  var->annotation = type;
  block_->push_back({var, atom, value->span});
  return Dynamic(var, value->span);
}

Evaluator::Value* Evaluator::CoerceFields(Value* value, const ir::TupleType* type, ir::Var* hint) {
  std::vector<Value*> fields = value->fields;
  if (value->kind != Kind::kTuple) {
    const auto* from = DynCast<ir::TupleType>(value->type);
    for (uint32_t i = 0; i < from->fields.size(); ++i) {
      fields.push_back(Emit(At(value->span).Project(Use(value), i, from->fields[i]), nullptr));
    }
  }
  for (size_t i = 0; i < fields.size(); ++i) fields[i] = Coerce(fields[i], type->fields[i], nullptr);
  return Tuple(std::move(fields), type, value->span, hint);
}

void Evaluator::Bind(ir::Var* var, Value* value) { bound_[var] = Coerce(value, var->type, var); }

Expr* Evaluator::Use(Value* value) {
  Escape(value);
  return Atom(value);
}

Expr* Evaluator::Atom(Value* value) {
  if (value->kind == Kind::kConstant) {
    auto* copy = arena_.New<ir::Constant>(*value->constant);
    return copy;
  }
  Make(value);
  return At(value->span).Use(value->var);
}

void Evaluator::Make(Value* value) {
  if (value->slot == nullptr || value->is_made) return;
  value->is_made = true;
  const ir::Builder at = At(value->span);
  auto atoms = [&] {
    std::vector<Expr*> result;
    for (Value* field : value->fields) result.push_back(Atom(field));
    return result;
  };
  value->slot->value = WithStack([&]() -> Expr* {
    switch (value->kind) {
      case Kind::kTuple: return at.Tuple(atoms(), value->type);
      case Kind::kData: {
        auto* callee = arena_.New<ir::ConstructorExpr>(*value->constructor);
        return at.Call(callee, atoms(), {}, value->type);
      }
      case Kind::kClosure: {
        const ir::Function* literal = value->literal;
        if (std::exchange(value->is_literal_used, true)) literal = Copier(arena_).Copy(*literal);
        Block* outer = std::exchange(block_, nullptr);
        Store::Mark mark = store_.Now();
        Expose(value);
        store_.ForgetEscaped();
        ir::Function* residual = ResidualFunction(*literal);
        store_.TakeBack(mark);
        block_ = outer;
        return residual;
      }
      case Kind::kLocation: return at.RefCreate(Atom(value->initial), value->type);
      case Kind::kDynamic:
      case Kind::kConstant: break;
    }
    RVM_UNREACHABLE("only values that are made later have a slot");
  });
}

ir::Function* Evaluator::ResidualFunction(const ir::Function& literal) {
  Block block;
  Block* outer = std::exchange(block_, &block);
  for (ir::Var* param : literal.params) bound_[param] = Dynamic(param, param->span);
  Value* result = Eval(literal.body);
  auto* function = arena_.New<ir::Function>(literal);
  Expr* atom = Use(result);
  function->body = Finish(block, atom);
  block_ = outer;
  return function;
}

Expr* Evaluator::Finish(const Block& block, Expr* body) {
  std::vector<Binding> chain;
  for (const Binding& binding : block) {
    if (binding.value != nullptr) chain.push_back(binding);
  }
  return ir::MakeBlock(arena_, std::move(chain), body);
}

const std::vector<Evaluator::Value*>& Evaluator::Captured(Value* closure) {
  if (std::exchange(closure->has_captured, true)) return closure->captured;
  for (const ir::Var* var : analysis::FreeVars(closure->literal)) {
    auto found = bound_.find(var);
    Value* value = found == bound_.end() ? nullptr : found->second;
    if (value != nullptr && value != closure && value->reaches_locations) closure->captured.push_back(value);
  }
  closure->reaches_locations = !closure->captured.empty();
  return closure->captured;
}

void Evaluator::ForEachLocation(Value* value, absl::FunctionRef<void(Value*)> visit) {
  if (!value->reaches_locations || value->is_being_visited) return;
  WithStack([&] {
    value->is_being_visited = true;
    if (value->kind == Kind::kLocation) visit(value);
    for (Value* field : value->fields) ForEachLocation(field, visit);
    if (value->kind == Kind::kClosure) {
      for (Value* captured : Captured(value)) ForEachLocation(captured, visit);
    }
    value->is_being_visited = false;
  });
}

void Evaluator::Escape(Value* value) {
  ForEachLocation(value, [&](Value* location) {
    Store::Contents contents = store_.Get(location);
    if (contents.in_memory) return;
    store_.Set(location, contents.value, true);
    Escape(contents.value);
    if (contents.value == location->initial) return;
    Expr* written = Atom(contents.value);
    Emit(At(location->span).RefWrite(Atom(location), written, ir::UnitType(arena_)), nullptr);
  });
}

void Evaluator::Expose(Value* value) {
  ForEachLocation(value, [&](Value* location) { store_.Set(location, nullptr, true); });
}

}  // namespace rvm::passes
