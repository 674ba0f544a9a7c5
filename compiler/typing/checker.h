// Checker: walks the expressions of a module, gives each a type with holes, and makes values
// flow to where they are used. Internal to this folder.
#ifndef RVM_COMPILER_TYPING_CHECKER_H_
#define RVM_COMPILER_TYPING_CHECKER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/typing/relation_queue.h"
#include "compiler/typing/solver.h"

namespace rvm::typing {

class Checker {
 public:
  Checker(ir::Module& module, diagnostics::Diagnostics& diagnostics)
      : module_(module), diagnostics_(diagnostics), solver_(*module.arena), relations_(solver_, diagnostics) {}

  // checker_module.cc
  void CheckModule();

 private:
  struct Global {
    const ir::FuncType* type;
    const ir::GlobalFunction* global;
    bool is_checked = false;                  // the body was
    std::vector<ir::GlobalExpr*> early_uses;  // before that
    bool is_used_elsewhere = false;           // some of these are in other functions
  };

  // Returns the destination of a value, for the message if it does not fit: "argument 1 of `@f`".
  using Subject = absl::FunctionRef<std::string()>;

  // Destination of a value, for the message if it does not fit. Its notes are those of AddOrigin(value) and `declared`,
  // where the expectation was written.
  struct Site {
    diagnostics::DiagnosticKind kind;
    ir::Span span;
    const ir::Expr* value = nullptr;
    ir::Span declared = {};
    std::string_view declared_what = "";           // "the parameter is declared here"
    const ir::Constructor* constructor = nullptr;  // of the pattern that the value is matched by
  };

  // ---- checker_module.cc
  void DeclareFunction(const ir::GlobalFunction& global);
  void CheckBodies();
  void Settle();
  void ReportUnsolved();
  void WriteBack();
  void CheckMatches();

  // ---- derive_constraints.cc
  class ConstraintDeriver;
  void DeriveConstraints(Global& global);
  bool IsUsedAtOwnParams(const Global& global);

  // ---- checker_expr.cc. `expected` is what the context asks for, or null; the result is the
  // expression's own type, which its caller makes flow there.
  const ir::Type* Check(ir::Expr* expr, const ir::Type* expected);
  const ir::Type* CheckSpine(ir::Expr* expr, const ir::Type* expected);
  const ir::Type* CheckLeaf(ir::Expr* expr, const ir::Type* expected);
  void CheckLetValue(ir::Let* let);
  void CheckCondition(ir::If* conditional);
  void CheckClauses(ir::Match* match, const ir::Type* join);
  void CheckPattern(ir::Pattern* pattern, const ir::Type* type);
  void ResolveParentheses(ir::Pattern* pattern, const ir::Type* type);
  // Notes the values of the variables in `pattern`, a variable or a tuple, that matches `value`.
  void BindPattern(const ir::Pattern& pattern, ir::Expr* value);
  void CheckConstructorPattern(ir::Pattern* pattern, const ir::Type* type);
  const ir::Type* CheckTuple(ir::Tuple* tuple, const ir::Type* expected);
  const ir::Type* CheckProject(ir::Project* project);
  const ir::Type* CheckRefRead(ir::RefRead* read);
  const ir::Type* CheckRefWrite(ir::RefWrite* write);
  const ir::Type* RefContents(ir::Expr* ref, std::string_view what);
  // Declares the parameters; returns the function's type.
  const ir::FuncType* DeclareLiteral(ir::Function* function);
  void CheckBody(ir::Function* function, const ir::FuncType* type, const ir::Type* expected, ir::Span declared,
                 Subject subject);
  const ir::Type* ScalarType(DataType dtype);
  // Is it known to be that of a function with type parameters (dims apart) and no constraints?
  bool IsPolymorphic(const ir::Type* type);
  // Returns the type of an operator or a constructor as a value: polymorphic where that is expected.
  const ir::Type* Generalised(const ir::Type* type, const ir::Type* expected);
  // Returns the type that branches join into.
  const ir::Type* JoinType(const ir::Type* expected);

  // ---- checker_call.cc
  const ir::Type* CheckCall(ir::Call* call, const ir::Type* expected);
  const ir::Type* CheckOpCall(ir::Call* call, ir::OpExpr* callee);
  const ir::Type* OpValue(ir::OpExpr* op);
  const ir::FuncType* ConstructorType(ir::ConstructorExpr* expr, std::vector<ir::TypeArg> args);
  const ir::FuncType* GlobalType(ir::GlobalExpr* expr, std::vector<ir::TypeArg> args);
  // Returns a polymorphic type's instance, its constraints queued; other types as they are.
  const ir::Type* InstanceOf(const ir::Type* type, ir::Span span, const ir::Call* call, std::vector<ir::TypeArg>* args);
  void QueueConstraints(const ir::FuncType& type, ir::Span span, const ir::Call* call);
  // Returns the callee's function type; null if an error was reported.
  const ir::FuncType* CalleeType(ir::Call* call);
  bool CheckTypeArgs(const std::vector<const ir::TypeParam*>& params, ir::Call* call, std::vector<ir::TypeArg>* args);
  std::string CalleeName(const ir::Expr* callee);
  Site ArgumentSite(const ir::Call* call, size_t i);

  // ---- Flows and messages
  // `from` comes to `to`; reports "SUBJECT has type `..`; expected `..`" if it does not fit.
  bool Flow(const ir::Type* from, const ir::Type* to, const Site& site, Subject subject);
  void ReportMismatch(const ir::Type* from, const ir::Type* to, const Site& site, Subject subject);
  const ir::Type* CommonType(const ir::Type* from, const ir::Type* to);
  // Notes where a variable, or the function that is called, was declared.
  void AddOrigin(diagnostics::Diagnostic& diagnostic, const ir::Expr* value);
  // Notes how to refer to a constructor of that name that another type has.
  void AddNamesakes(diagnostics::Diagnostic& diagnostic, const ir::Constructor& constructor);
  ir::Span SpanOfGlobal(std::string_view name) const;
  diagnostics::Diagnostic& Error(ir::Span span, diagnostics::DiagnosticKind kind, std::string message);
  std::string Text(const ir::Type* type);

  void SetType(ir::Expr* expr, const ir::Type* type);
  void Declare(ir::Var* var, const ir::Type* type);

  ir::Module& module_;
  diagnostics::Diagnostics& diagnostics_;
  Solver solver_;
  RelationQueue relations_;
  absl::flat_hash_map<std::string_view, Global> globals_;
  const Global* checking_ = nullptr;  // whose body is being checked
  absl::flat_hash_map<int, const ir::Type*> scalars_;
  std::vector<ir::TypeConstraint>* assumptions_ = nullptr;  // of the function being checked

  // Nodes that were typed, to write back.
  std::vector<ir::Expr*> exprs_;
  std::vector<ir::Var*> vars_;
  std::vector<ir::Match*> matches_;
  std::vector<ir::Span> sites_;  // Solver::set_site
};

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_CHECKER_H_
