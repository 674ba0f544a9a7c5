// RelationQueue: the type relations of operator calls (and of `where` constraints, and
// projections from tuples not known yet), tried when what they read becomes known.
//
// A relation waits on exactly the holes it has read. One that holds keeps waiting: if a dim it
// read is weakened to `?` its result is computed again.
#ifndef RVM_COMPILER_TYPING_RELATION_QUEUE_H_
#define RVM_COMPILER_TYPING_RELATION_QUEUE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/expr.h"
#include "compiler/ops/op_def.h"
#include "compiler/typing/solver.h"

namespace rvm::typing {

struct Relation {
  std::string_view name;              // of the operator or relation; "" for a projection
  ops::TypeRelation holds = nullptr;  // null for a projection
  const ir::Attrs* attrs = nullptr;   // complete; not for a projection
  ir::Attrs* own_attrs = nullptr;     // the same, of an operator's call
  std::vector<const ir::Type*> args;
  const ir::Type* result = nullptr;
  const ir::Call* call = nullptr;  // for argument spans and constant values; may be null
  const ir::Project* project = nullptr;
  ir::Span span;
  bool is_constraint = false;  // of a `where`, which stands at `declared_at`
  ir::Span declared_at;
  // The constraints of the functions around, which may be taken for granted.
  const std::vector<ir::TypeConstraint>* assumptions = nullptr;
};

class RelationQueue {
 public:
  RelationQueue(Solver& solver, diagnostics::Diagnostics& diagnostics) : solver_(solver), diagnostics_(diagnostics) {}

  // Notes the value that a let binds to `var`: it may decide shapes.
  void Bind(const ir::Var* var, const ir::Expr* value) { bound_.emplace(var, value); }
  // Tries the relation at once, and what that wakes.
  void Add(Relation relation);
  // Tries all that were woken.
  void Drain();
  // Tries relations that are held back only by open dims; returns whether one moved.
  bool Force();
  // A relation whose result depends on what type parameters stand for and is not known from elsewhere.
  struct Dependent {
    int32_t index;
    const Relation* relation;
    std::vector<const ir::Type*> args;  // resolved
    const ir::Type* form;               // of the result, with holes (ops/generic_type.h)
  };
  // Returns the next that was found since the last call; none if all were given.
  std::optional<Dependent> TakeDependent();
  // Gives a dependent relation its result.
  void Determine(int32_t index, const ir::Type* result);
  // Reports those that are still stuck, unless their types hold errors.
  void ReportStuck();

 private:
  enum class State : uint8_t { kStuck, kDone, kFailed };
  struct Entry {
    Relation relation;
    State state = State::kStuck;
    bool queued = false;
    const ir::Type* form = nullptr;  // see Dependent
  };
  class Context;

  void Enqueue(int32_t index);
  void EnqueueWoken();
  void Try(int32_t index, bool force);
  ops::Solve TryProject(Entry& entry, std::vector<HoleUse>& uses);
  ops::Solve TryRelation(Entry& entry, std::vector<HoleUse>& uses, bool force);
  // Solves a relation in which shapes or dtypes of `args` are the type parameters `params`.
  ops::Solve TryGeneric(Entry& entry, std::vector<HoleUse>& uses, const std::vector<const ir::Type*>& args,
                        const std::vector<const ir::TypeParam*>& params);
  // Returns the elements of the arguments that may decide the result's shape, as dims; empty for others.
  std::vector<std::vector<Dim>> ValuesOf(const Relation& relation, std::vector<HoleUse>& uses);
  bool HoldsByAssumption(const Relation& relation, const std::vector<const ir::Type*>& args);

  Solver& solver_;
  diagnostics::Diagnostics& diagnostics_;
  std::deque<Entry> entries_;
  std::deque<int32_t> queue_;
  std::deque<int32_t> dependents_;
  absl::flat_hash_map<const ir::Var*, const ir::Expr*> bound_;
};

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_RELATION_QUEUE_H_
