// Builder: makes typed nodes, for passes. The type of a node follows from its parts unless the caller gives one.
#ifndef RVM_COMPILER_IR_BUILD_H_
#define RVM_COMPILER_IR_BUILD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/expr.h"

namespace rvm::ir {

// One let of a chain of lets.
struct Binding {
  Var* var;
  Expr* value;
  Span span;
};

// `let chain[0]; let chain[1]; ...; body`.
Expr* MakeLets(Arena& arena, const std::vector<Binding>& chain, Expr* body);
// The same, with `e` in place of `let v = e; v` at the end, so that a call there is a tail call.
Expr* MakeBlock(Arena& arena, std::vector<Binding> chain, Expr* body);

class Builder {
 public:
  // All nodes made have the span `span`.
  Builder(Arena& arena, Span span) : arena_(arena), span_(span) {}
  Arena& arena() const { return arena_; }

  // ---- variables
  ir::Var* Var(std::string_view name, const Type* type) const;
  // Returns a variable whose type is also printed as its annotation, as parameters need.
  ir::Var* DeclaredVar(std::string_view name, const Type* type) const;
  ir::VarExpr* Use(ir::Var* var) const;
  // Appends `let name = value` to `chain` and returns a use of the variable.
  ir::VarExpr* Bind(std::string_view name, Expr* value, std::vector<Binding>& chain) const;

  // ---- values
  ir::Constant* Constant(Literal literal) const;
  ir::Tuple* Tuple(std::vector<Expr*> fields) const;
  ir::Tuple* Tuple(std::vector<Expr*> fields, const Type* type) const;
  ir::Project* Project(Expr* tuple, size_t index) const;
  ir::Project* Project(Expr* tuple, size_t index, const Type* type) const;
  // `fn (params) { body }`.
  ir::Function* Function(std::vector<const TypeParam*> type_params, std::vector<ir::Var*> params, Expr* body) const;
  // `fn (params) -> result { body }`.
  ir::Function* Function(std::vector<const TypeParam*> type_params, std::vector<ir::Var*> params, const Type* result,
                         Expr* body) const;
  ir::RefCreate* RefCreate(Expr* value, const Type* type) const;
  ir::RefRead* RefRead(Expr* ref, const Type* type) const;
  ir::RefWrite* RefWrite(Expr* ref, Expr* value, const Type* type) const;

  // ---- calls
  ir::GlobalExpr* Global(std::string name, const Type* type) const;
  // Returns the constructor with the type arguments of `type`, an instance of its ADT.
  ir::ConstructorExpr* Constructor(const ir::Constructor* constructor, const AdtType* type) const;
  // REQUIRES: the callee has a function type without type parameters, or `type` is given.
  ir::Call* Call(Expr* callee, std::vector<Expr*> args) const;
  ir::Call* Call(Expr* callee, std::vector<Expr*> args, Attrs attrs, const Type* type) const;
  // Returns a call of an operator whose result has the type `type`; ops/build_call.h derives that type.
  ir::Call* CallOp(const ops::OpDef* op, std::vector<Expr*> args, Attrs attrs, const Type* type) const;

  // ---- control
  ir::If* If(Expr* condition, Expr* then_branch, Expr* else_branch, const Type* type) const;
  ir::Match* Match(Expr* value, std::vector<Clause> clauses, bool is_complete, const Type* type) const;

  // ---- patterns
  ir::Pattern* VarPattern(ir::Var* var) const;
  ir::Pattern* ConstructorPattern(const ir::Constructor* constructor, std::vector<ir::Pattern*> fields) const;

 private:
  Arena& arena_;
  Span span_;
};

// ---- types

std::vector<const Type*> TypesOf(const std::vector<Expr*>& exprs);
std::vector<const Type*> TypesOf(const std::vector<Var*>& vars);
const FuncType* MakeFuncType(Arena& arena, std::vector<const Type*> params, const Type* result);
// Returns the types of the fields of `constructor` in a value of type `adt`.
std::vector<const Type*> FieldTypes(Arena& arena, const Constructor& constructor, const AdtType& adt);

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_BUILD_H_
