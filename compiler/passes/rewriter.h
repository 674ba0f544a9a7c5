// Rewriter: a new tree from an old one. Passes override what they change.
#ifndef RVM_COMPILER_PASSES_REWRITER_H_
#define RVM_COMPILER_PASSES_REWRITER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "compiler/ir/build.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

using ir::Binding;
using ir::MakeLets;

const ir::FuncType& TypeOf(const ir::Function& function);
// Returns the type of `expr`; null if that is no tensor of known rank.
const ir::TensorType* TensorOf(const ir::Expr* expr);
// Returns whether both are tensors of provably the same extents.
bool SameExtents(const ir::Type* a, const ir::Type* b);
// Returns the permutation of a transpose: axis `i` of the result is axis `AxesOf(transpose)[i]` of the operand.
std::vector<int64_t> AxesOf(const ir::Call& transpose);
// Returns whether all operands of the operator broadcast to the shape of its result.
bool Broadcasts(const ops::OpDef& op);
// Returns the value of a constant; null if `expr` is none.
const Literal* ConstantOf(const ir::Expr* expr);
// Returns the variable that `expr` is a use of; null if it is none.
ir::Var* VarOf(const ir::Expr* expr);
// Nodes in `expr`; where there are more than `limit`, some number above it.
size_t CountNodes(const ir::Expr* expr, size_t limit);

struct VarUses {
  size_t all = 0;
  size_t calls = 0;  // those as a callee
};
using UseCounts = absl::flat_hash_map<const ir::Var*, VarUses>;
// Adds the uses of variables in `expr` to `counts`.
void CountUses(const ir::Expr* expr, UseCounts& counts);
// Returns whether `expr` uses `var`.
bool Mentions(const ir::Expr* expr, const ir::Var* var);

// Returns whether no clause wants a tuple, or a value of a type with one constructor, that the match is on as a whole:
// its fields will do.
bool LooksAtFieldsOnly(const ir::Match& match);
// Returns the module with other functions.
ir::Module WithFunctions(const ir::Module& module, std::vector<ir::GlobalFunction> functions);
// Returns the module with another body for each function.
ir::Module MapFunctions(const ir::Module& module, absl::FunctionRef<ir::Expr*(const ir::GlobalFunction&)> new_body);

// Never changes a node: modules of earlier passes stay as they were. Chains of lets are
// rewritten in a loop, other nesting through WithStack.
class Rewriter {
 public:
  explicit Rewriter(ir::Arena& arena) : arena_(arena) {}
  virtual ~Rewriter() = default;
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  virtual ir::Expr* Rewrite(ir::Expr* expr);

 protected:
  // Any expression but a let. Here: the same with rewritten children.
  virtual ir::Expr* RewriteNode(ir::Expr* expr) { return RewriteChildren(expr); }
  // Appends what becomes of `let` without its body. Here: one binding.
  virtual void RewriteLet(const ir::Let& let, std::vector<Binding>& chain);
  // Puts a chain of lets together, once its body has been rewritten.
  virtual ir::Expr* FinishLets(const std::vector<Binding>& chain, ir::Expr* body);
  // Returns the variable that stands for `var`, called where it is bound, before any use.
  virtual ir::Var* RewriteBinder(ir::Var* var) { return var; }
  virtual const ir::Type* RewriteType(const ir::Type* type) { return type; }
  virtual ir::TypeArg RewriteTypeArg(const ir::TypeArg& arg) { return arg; }

  ir::Expr* RewriteChildren(ir::Expr* expr);
  ir::Function* RewriteFunction(const ir::Function& function);
  ir::Function* RewriteUntyped(const ir::Function& function);  // the same without its type
  // Returns the function with parameters of its own and a call of `global` as its body, which is not rewritten.
  ir::Function* MakeCaller(const ir::GlobalFunction& global);
  ir::Pattern* RewritePattern(const ir::Pattern& pattern);
  std::vector<ir::Expr*> RewriteAll(const std::vector<ir::Expr*>& exprs);

  // Makes nodes that stand at `span`.
  ir::Builder At(ir::Span span) { return {arena_, span}; }

  template <typename T>
  T* Typed(T* node, const ir::Expr* like) {
    node->type = RewriteType(like->type);
    return node;
  }

  ir::Arena& arena_;

 private:
  ir::Expr* RewriteOnThisStack(ir::Expr* expr);
};

// Replaces calls of modules in A-normal form by several steps.
class CallSplitter : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  // Appends the steps that a call becomes, the last one with its value. Appends none if the call stays.
  virtual void Split(const ir::Call& call, std::vector<Binding>& steps) = 0;

  ir::Expr* RewriteNode(ir::Expr* expr) final;
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) final;

 private:
  // Returns the value that replaces `expr`, with the steps before it appended to `chain`; null if it stays, or if the
  // value has another type.
  ir::Expr* Replace(const ir::Expr* expr, std::vector<Binding>& chain);
};

// Copies with fresh variables, so that a function body may stand in the program twice, and
// replaces type parameters.
class Copier : public Rewriter {
 public:
  explicit Copier(ir::Arena& arena, ir::TypeSubstitution substitution = {})
      : Rewriter(arena), substitution_(std::move(substitution)) {}

  ir::Function* Copy(const ir::Function& function) { return RewriteFunction(function); }

 protected:
  ir::Expr* RewriteNode(ir::Expr* expr) override;
  ir::Var* RewriteBinder(ir::Var* var) override;
  const ir::Type* RewriteType(const ir::Type* type) override;
  ir::TypeArg RewriteTypeArg(const ir::TypeArg& arg) override;

 private:
  ir::TypeSubstitution substitution_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> vars_;
  absl::flat_hash_map<const ir::Type*, const ir::Type*> types_;
};

// A copy to read: every variable is declared with its type, every function with its result.
ir::Module WithTypesShown(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_REWRITER_H_
