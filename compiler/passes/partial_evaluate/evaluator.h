// Partial evaluation of one function.
#ifndef RVM_COMPILER_PASSES_PARTIAL_EVALUATE_EVALUATOR_H_
#define RVM_COMPILER_PASSES_PARTIAL_EVALUATE_EVALUATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/partial_evaluate/store.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

// State shared by the evaluations of a module's functions.
struct EvaluatedModule {
  EvaluatedModule(const ir::Module& m, diagnostics::Diagnostics& d) : module(m), diagnostics(d), graph(m) {}

  const ir::Module& module;
  diagnostics::Diagnostics& diagnostics;
  CallGraph graph;
  // Recursive functions, with the parameters that were known, whose calls could not be unrolled to the end.
  absl::flat_hash_set<std::string> not_unrolled;
};

class Evaluator {
 public:
  explicit Evaluator(EvaluatedModule& shared) : shared_(shared), arena_(*shared.module.arena) {}

  // Returns the residual function.
  ir::Function* Run(const ir::Function& function);

 private:
  using Value = PartialValue;
  using Kind = PartialValue::Kind;
  // Residual code in order. A binding without a value is a place that nothing needed.
  using Block = std::deque<Binding>;
  // A call of a function that is being unrolled, which would be left.
  struct LeftCall {
    ir::Span span;
    std::string_view reason;
  };

  // ---- expressions: evaluator.cc. `hint`: the variable to call the result by, if it is new; or null
  Value* Eval(ir::Expr* expr, ir::Var* hint = nullptr);
  Value* EvalChain(ir::Expr* expr, ir::Var* hint);
  Value* EvalNode(ir::Expr* expr, ir::Var* hint);
  void EvalLet(const ir::Let& let);
  Value* EvalProject(const ir::Project& project, ir::Var* hint);
  Value* EvalIf(const ir::If& branch, ir::Var* hint);
  Value* EvalMatch(const ir::Match& match, ir::Var* hint);
  void BindPattern(const ir::Pattern& pattern, Value* value);  // REQUIRES: it is known to match
  Value* EvalRefCreate(const ir::RefCreate& create, ir::Var* hint);
  Value* EvalRefRead(const ir::RefRead& read, ir::Var* hint);
  Value* EvalRefWrite(const ir::RefWrite& write, ir::Var* hint);
  std::vector<Value*> EvalAll(const std::vector<ir::Expr*>& exprs);
  // Each path in a block of its own, from the same state; afterwards only what holds on all of them is known.
  std::vector<ir::Expr*> EvalPaths(size_t num_paths, absl::FunctionRef<Value*(size_t)> eval);
  void MeetPaths(std::vector<Block>& blocks, std::vector<Store::Path>& paths, Store::Mark mark, size_t births);

  // ---- calls: calls.cc
  Value* EvalCall(const ir::Call& call, ir::Var* hint);
  Value* CallOp(const ir::Call& call, const ops::OpDef& op, const std::vector<Value*>& args, ir::Var* hint);
  Value* CallGlobal(const ir::Call& call, const ir::GlobalExpr& callee, const std::vector<Value*>& args, ir::Var* hint);
  Value* CallClosure(const ir::Call& call, Value* closure, const std::vector<Value*>& args, ir::Var* hint);
  Value* ResidualCall(const ir::Call& call, ir::Expr* callee, const std::vector<Value*>& args, ir::Var* hint);
  // Null if the callee has extents to check, or the room for copies is used up; not_unfolded_ says which.
  Value* Unfold(const ir::Call& call, const ir::Function& function, const std::vector<Value*>& args, bool is_only_use,
                ir::Var* hint);
  Value* Unroll(const ir::Call& call, const std::string& name, const ir::Function& function,
                const std::vector<Value*>& args, ir::Var* hint);
  void RemarkLoop(const ir::Call& call, const std::string& name, const LeftCall& left);

  // ---- values and residual code: residual.cc
  Value* New(Kind kind, const ir::Type* type, ir::Span span);
  Value* Dynamic(ir::Var* var, ir::Span span);
  Value* Lazy(Value* value, ir::Var* hint);  // gives it a slot
  Value* Tuple(std::vector<Value*> fields, const ir::Type* type, ir::Span span, ir::Var* hint);
  Value* Closure(const ir::Function& literal, ir::Span span, ir::Var* hint);
  Value* FromConstants(const ir::Expr* expr, ir::Var* hint);
  // `let hint = value` now.
  Value* Emit(ir::Expr* value, ir::Var* hint);
  // `value` as one of type `type`: a let of that type makes the check of the extents that differ.
  Value* Coerce(Value* value, const ir::Type* type, ir::Var* hint);
  Value* CoerceFields(Value* value, const ir::TupleType* type, ir::Var* hint);
  void Bind(ir::Var* var, Value* value);
  ir::Var* Name(ir::Var* hint, const ir::Type* type, ir::Span span);
  // A use in residual code that runs now: what can be reached from the value escapes.
  ir::Expr* Use(Value* value);
  // A use in residual code that makes another value, which has not escaped.
  ir::Expr* Atom(Value* value);
  void Make(Value* value);
  ir::Function* ResidualFunction(const ir::Function& literal);
  // The locations that can be reached from the value without reading a reference.
  void ForEachLocation(Value* value, absl::FunctionRef<void(Value*)> visit);
  void Escape(Value* value);
  // Before the body of a closure: it runs later, when nothing is known about the locations that it captures.
  void Expose(Value* value);
  const std::vector<Value*>& Captured(Value* closure);
  ir::Expr* Finish(const Block& block, ir::Expr* body);
  ir::Builder At(ir::Span span) const { return {arena_, span}; }

  EvaluatedModule& shared_;
  ir::Arena& arena_;
  std::deque<Value> values_;
  absl::flat_hash_map<const ir::Var*, Value*> bound_;
  absl::flat_hash_set<const ir::Var*> named_;  // variables of residual code
  UseCounts uses_;                             // in the code that has been evaluated
  Block* block_ = nullptr;
  Store store_;
  size_t num_locations_ = 0;
  size_t room_ = 0;  // nodes that may still be copied
  int depth_ = 0;    // of unfolded calls
  // Calls of recursive functions that are being unrolled, outermost first.
  struct Unrolling {
    std::string name;
    std::vector<int64_t> sizes;  // of the arguments: see SizeOf
  };
  std::vector<Unrolling> unrolling_;
  absl::flat_hash_map<std::string, LeftCall> left_calls_;  // by the name of a function in unrolling_
  std::string_view not_unfolded_;                          // why Unfold gave null
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PARTIAL_EVALUATE_EVALUATOR_H_
