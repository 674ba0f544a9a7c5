// Expressions of Relay.
//
// A program is a tree: a value with several uses is always bound by a `let` (the parser turns graph bindings `%0 = e;`
// into lets whose variable is named "0"). Evaluation is strict, from left to right. Modules may share subtrees.
//
// `type` is null until type inference. After that every node has a type, and every pass preserves this.
#ifndef RVM_COMPILER_IR_EXPR_H_
#define RVM_COMPILER_IR_EXPR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/literal.h"
#include "compiler/ir/adt.h"
#include "compiler/ir/attrs.h"
#include "compiler/ir/span.h"
#include "compiler/ir/type.h"

namespace rvm::ops {
struct OpDef;
}

namespace rvm::ir {

enum class ExprKind : uint8_t {
  kConstant,
  kVar,
  kGlobal,
  kOp,
  kConstructor,
  kTuple,
  kProject,
  kFunction,
  kCall,
  kLet,
  kIf,
  kMatch,
  kRefCreate,
  kRefRead,
  kRefWrite,
};

struct Expr {
  ExprKind expr_kind;
  Span span;
  const Type* type = nullptr;

 protected:
  Expr(ExprKind k, Span s) : expr_kind(k), span(s) {}
};

// A local variable: bound by a function parameter, a let, a pattern, or free in the module
// (`free_var`). Identity is the pointer.
struct Var {
  int64_t id;
  std::string name;                  // without the `%`
  const Type* annotation = nullptr;  // as written; null if none
  Span span;
  const Type* type = nullptr;  // after inference
};

struct Constant : Expr {
  static constexpr ExprKind kKind = ExprKind::kConstant;
  Constant(Literal l, Span s) : Expr(kKind, s), literal(std::move(l)) {}
  Literal literal;
  // The name of the parameter that the constant was bound to, for messages; "" for other constants.
  std::string name;
};

struct VarExpr : Expr {
  static constexpr ExprKind kKind = ExprKind::kVar;
  VarExpr(Var* v, Span s) : Expr(kKind, s), var(v) {}
  Var* var;
};

struct GlobalFunction;  // module.h

struct GlobalExpr : Expr {
  static constexpr ExprKind kKind = ExprKind::kGlobal;
  GlobalExpr(std::string n, Span s) : Expr(kKind, s), name(std::move(n)) {}
  std::string name;                // without the `@`
  std::vector<TypeArg> type_args;  // after inference: one per type parameter of the function
};

// An operator, as a callee or as a first-class value.
struct OpExpr : Expr {
  static constexpr ExprKind kKind = ExprKind::kOp;
  OpExpr(const ops::OpDef* o, Span s) : Expr(kKind, s), op(o) {}
  const ops::OpDef* op;
};

struct ConstructorExpr : Expr {
  static constexpr ExprKind kKind = ExprKind::kConstructor;
  ConstructorExpr(const Constructor* c, Span s) : Expr(kKind, s), constructor(c) {}
  const Constructor* constructor;
  std::vector<TypeArg> type_args;  // after inference: one per type parameter of the ADT
};

struct Tuple : Expr {
  static constexpr ExprKind kKind = ExprKind::kTuple;
  Tuple(std::vector<Expr*> f, Span s) : Expr(kKind, s), fields(std::move(f)) {}
  std::vector<Expr*> fields;
};

// `e.index`
struct Project : Expr {
  static constexpr ExprKind kKind = ExprKind::kProject;
  Project(Expr* t, uint32_t i, Span s) : Expr(kKind, s), tuple(t), index(i) {}
  Expr* tuple;
  uint32_t index;
};

// `fn [A](%x: T, %y) -> R { body }`; a closure if it has free variables.
struct Function : Expr {
  static constexpr ExprKind kKind = ExprKind::kFunction;
  Function(std::vector<const TypeParam*> tp, std::vector<Var*> p, const Type* r, Expr* b, Span s)
      : Expr(kKind, s), type_params(std::move(tp)), params(std::move(p)), result_annotation(r), body(b) {}
  std::vector<const TypeParam*> type_params;
  std::vector<Var*> params;
  const Type* result_annotation;  // null if none
  Expr* body;
  Attrs attrs;
  std::vector<TypeConstraint> constraints;
  // The function was made by fusion and becomes one kernel; printed as `Primitive=1`. An attribute of that name in a
  // source text describes how another compiler fused operators, and is ignored.
  bool is_primitive = false;
};

struct Call : Expr {
  static constexpr ExprKind kKind = ExprKind::kCall;
  Call(Expr* c, std::vector<Expr*> a, Attrs at, Span s)
      : Expr(kKind, s), callee(c), args(std::move(a)), attrs(std::move(at)) {}
  Expr* callee;
  std::vector<Expr*> args;
  Attrs attrs;                              // operator attributes
  std::vector<TypeArg> explicit_type_args;  // `f<(10, 10)>(x)`, empty if none were written
  bool is_list = false;                     // a constructor call that was written `[a, b]`
};

// `let %v = value; body`. If `value` is a Function the variable is bound in it (recursion).
struct Let : Expr {
  static constexpr ExprKind kKind = ExprKind::kLet;
  Let(Var* v, Expr* val, Expr* b, Span s) : Expr(kKind, s), var(v), value(val), body(b) {}
  Var* var;
  Expr* value;
  Expr* body;
};

struct If : Expr {
  static constexpr ExprKind kKind = ExprKind::kIf;
  If(Expr* c, Expr* t, Expr* f, Span s) : Expr(kKind, s), condition(c), then_branch(t), else_branch(f) {}
  Expr* condition;
  Expr* then_branch;
  Expr* else_branch;
};

// A literal is an integer or a bool.
enum class PatternKind : uint8_t { kWildcard, kVar, kConstructor, kTuple, kLiteral };

struct Pattern {
  PatternKind kind = PatternKind::kWildcard;
  Span span;
  Var* var = nullptr;                        // kVar
  const Constructor* constructor = nullptr;  // kConstructor
  const Literal* literal = nullptr;          // kLiteral: rank 0, owned by the arena
  std::vector<Pattern*> fields;              // kConstructor, kTuple
  bool is_list = false;                      // written `[p, q]`
  // Written `(p)`, a kTuple of one field until type inference decides: `(p,)` for a tuple of one field, otherwise `p`.
  bool is_parenthesised = false;
};

struct Clause {
  Pattern* pattern;
  Expr* body;
  Span span;
};

struct Match : Expr {
  static constexpr ExprKind kKind = ExprKind::kMatch;
  Match(Expr* v, std::vector<Clause> c, bool complete, Span s)
      : Expr(kKind, s), value(v), clauses(std::move(c)), is_complete(complete) {}
  Expr* value;
  std::vector<Clause> clauses;
  bool is_complete;     // `match`: must be exhaustive; `match?`: may fail at run time
  bool is_let = false;  // of one clause, written `let pattern = value; body`
};

struct RefCreate : Expr {
  static constexpr ExprKind kKind = ExprKind::kRefCreate;
  RefCreate(Expr* v, Span s) : Expr(kKind, s), value(v) {}
  Expr* value;
};

struct RefRead : Expr {
  static constexpr ExprKind kKind = ExprKind::kRefRead;
  RefRead(Expr* r, Span s) : Expr(kKind, s), ref(r) {}
  Expr* ref;
};

// Value is `()`.
struct RefWrite : Expr {
  static constexpr ExprKind kKind = ExprKind::kRefWrite;
  RefWrite(Expr* r, Expr* v, Span s) : Expr(kKind, s), ref(r), value(v) {}
  Expr* ref;
  Expr* value;
};

// `DynCast<Call>(e)`: the node as T, or null. Also null for null.
template <typename T>
T* DynCast(Expr* expr) {
  return expr != nullptr && expr->expr_kind == T::kKind ? static_cast<T*>(expr) : nullptr;
}
template <typename T>
const T* DynCast(const Expr* expr) {
  return expr != nullptr && expr->expr_kind == T::kKind ? static_cast<const T*>(expr) : nullptr;
}
// REQUIRES: the kind is T's.
template <typename T>
T* Cast(Expr* expr) {
  return static_cast<T*>(expr);
}
template <typename T>
const T* Cast(const Expr* expr) {
  return static_cast<const T*>(expr);
}

// Returns the callee of `expr` if `expr` is a call and its callee a T; otherwise null. Also null for null.
template <typename T>
const T* CalleeAs(const Expr* expr) {
  const auto* call = DynCast<Call>(expr);
  return call == nullptr ? nullptr : DynCast<T>(call->callee);
}
inline const GlobalExpr* GlobalCallee(const Expr* expr) { return CalleeAs<GlobalExpr>(expr); }
inline const ops::OpDef* OpCallee(const Expr* expr) {
  const auto* callee = CalleeAs<OpExpr>(expr);
  return callee == nullptr ? nullptr : callee->op;
}
inline const Constructor* ConstructorCallee(const Expr* expr) {
  const auto* callee = CalleeAs<ConstructorExpr>(expr);
  return callee == nullptr ? nullptr : callee->constructor;
}
inline Var* VarCallee(const Expr* expr) {
  const auto* callee = CalleeAs<VarExpr>(expr);
  return callee == nullptr ? nullptr : callee->var;
}

inline bool IsPrimitive(const Expr* expr) {
  const auto* function = DynCast<Function>(expr);
  return function != nullptr && function->is_primitive;
}

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_EXPR_H_
