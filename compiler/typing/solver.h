// Solver: what is known of the holes in types, and the one operation that adds knowledge:
// a value of one type flows into a place of another.
//
// Holes are of four sorts: types, shapes, dtypes, dims. Types, shapes and dtypes unify. Dims
// form a flat lattice below `?`: a dim hole that was given a value may later be *weakened* to
// `?`, when a value flows in whose dim is not provably the same (the join of the branches of an
// `if`, the elements of a list). A type that flows into a type hole is therefore copied with
// each dim in a hole of its own, which follows the original when that weakens. What a relation
// computed from a weakened dim is computed again (Wait).
//
// The holes of a callee's shape parameters are *sticky*: they keep the first known dim, and
// other arguments are checked against it, at run time if need be.
#ifndef RVM_COMPILER_TYPING_SOLVER_H_
#define RVM_COMPILER_TYPING_SOLVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "compiler/ir/arena.h"
#include "compiler/ir/type.h"

namespace rvm::typing {

// Holes that were met when a type was read, so that a relation can wait on them.
struct HoleUse {
  enum class Sort : uint8_t { kType, kShape, kDType, kDim } sort;
  int64_t id;
};

// Why the last flow failed: the innermost parts that do not fit.
struct FlowFailure {
  const ir::Type* from = nullptr;
  const ir::Type* to = nullptr;
  bool infinite = false;  // a hole would contain itself
};

// Two dims that must be equal, one of which still depended on an open hole.
struct PendingDims {
  Dim from, to;
  size_t site;  // set_site() at the time
};

class Solver {
 public:
  explicit Solver(ir::Arena& arena);

  // Returns a new hole. One that is `defaultable` becomes `()` if nothing determines it.
  const ir::Type* FreshType(bool defaultable = false);
  ir::TypeArg FreshArg(ir::Kind kind);
  // Returns a type that fits everywhere: stands where an error was reported.
  const ir::Type* ErrorType() const { return error_; }
  // `type` as written, each hole in it (id 0) made a new one.
  const ir::Type* Freshen(const ir::Type* type);
  ir::TypeArg Freshen(const ir::TypeArg& arg);
  // Returns a function type's parameters replaced by `args`.
  const ir::FuncType* Instantiate(const ir::FuncType* type, std::vector<ir::TypeArg>* args);

  // Returns the type that a hole stands for, if it is known; only the outermost.
  const ir::Type* Shallow(const ir::Type* type);
  // All of it. Holes that were read, filled dims too, are added to `uses`.
  const ir::Type* Resolve(const ir::Type* type, std::vector<HoleUse>* uses = nullptr);
  ir::TypeArg Resolve(const ir::TypeArg& arg);
  Dim ResolveDim(const Dim& dim, std::vector<HoleUse>* uses = nullptr);
  // Resolves many types that share parts, once each. Holes must not change meanwhile.
  class Resolver;
  bool IsError(const ir::Type* type);
  bool ContainsError(const ir::Type* type);

  // A value of type `from` comes to a place of type `to`. False if it cannot: see failure().
  bool Flow(const ir::Type* from, const ir::Type* to);
  // Both directions: references, whose contents are written too.
  bool Equate(const ir::Type* a, const ir::Type* b);
  bool FlowDim(const Dim& from, const Dim& to);
  const FlowFailure& failure() const { return failure_; }

  // Returns a new type of the form of `expected` in which every `?` stays and other dims are open.
  const ir::Type* Template(const ir::Type* expected);
  // Has `type` holes as it is written, filled or not?
  bool HasHoles(const ir::Type* type) { return (Flags(type) & kHasHole) != 0; }
  // Has a place of this type a `?` or a polymorphic function in it? Values that come there are then made for it.
  bool DecidesParts(const ir::Type* type) { return (Flags(Resolve(type)) & (kHasAny | kHasPolymorphic)) != 0; }

  // Marks every open hole in `type` as an error, so that it is not reported again.
  void Poison(const ir::Type* type);
  // Fills every open hole that has a default; returns whether there was one.
  bool FillDefaults();
  // Open type, shape or dtype holes remain in `type`.
  bool IsOpen(const ir::Type* type);

  // `waiter` is woken when the hole is filled or weakened.
  void Wait(const HoleUse& use, int32_t waiter);
  std::vector<int32_t> TakeWoken() { return std::exchange(woken_, {}); }

  void set_site(size_t site) { site_ = site; }
  std::vector<PendingDims> TakePending() { return std::exchange(pending_, {}); }

  ir::Arena& arena() { return arena_; }

 private:
  using Waiters = absl::InlinedVector<int32_t, 2>;
  // Union-find node: `parent` is the node's own index at a root.
  template <typename Value>
  struct Hole {
    int64_t parent;
    std::optional<Value> value;
    Waiters waiters;
    absl::InlinedVector<int64_t, 1> followers;  // dims: weakened when this one is
    bool sticky = false;
    bool defaultable = false;
    bool error = false;
  };
  template <typename Value>
  using Holes = std::vector<Hole<Value>>;

  // Parts that occur in a type as it is written.
  static constexpr uint8_t kHasHole = 1, kHasDim = 2, kHasAny = 4, kHasPolymorphic = 8;
  uint8_t Flags(const ir::Type* type);
  uint8_t FlagsOnThisStack(const ir::Type* type);
  static uint8_t ShapeFlags(const ir::ShapeTerm& shape);
  uint8_t ArgFlags(const ir::TypeArg& arg);

  template <typename Value>
  static int64_t NewHole(Holes<Value>& holes, bool sticky = false, bool defaultable = false);
  template <typename Value>
  static int64_t Root(Holes<Value>& holes, int64_t id);
  template <typename Value>
  void Fill(Holes<Value>& holes, int64_t root, Value value);
  template <typename Value>
  void Union(Holes<Value>& holes, int64_t a, int64_t b);
  template <typename Value>
  void Wake(Hole<Value>& hole);

  // Build types from others; solver.cc.
  class HoleMapper;
  class ResolveMapper;
  class FreshenMapper;
  class CopyMapper;
  class TemplateMapper;

  ir::ShapeTerm ResolveShape(const ir::ShapeTerm& shape, std::vector<HoleUse>* uses);
  ir::DTypeTerm ResolveDType(const ir::DTypeTerm& dtype, std::vector<HoleUse>* uses);

  bool FlowType(const ir::Type* from, const ir::Type* to);
  bool FlowOnThisStack(const ir::Type* from, const ir::Type* to);
  bool FlowHole(const ir::Type* from, const ir::Type* to);
  bool FlowFunc(const ir::FuncType* from, const ir::FuncType* to);
  bool FlowArgs(const ir::AdtType* from, const ir::AdtType* to);
  bool FlowShape(const ir::ShapeTerm& from, const ir::ShapeTerm& to);
  bool FlowDType(const ir::DTypeTerm& from, const ir::DTypeTerm& to);
  bool Fail(const ir::Type* from, const ir::Type* to, bool infinite = false);
  bool FillType(int64_t hole, const ir::Type* type, bool type_is_destination);
  void FillShape(int64_t hole, const ir::ShapeTerm& shape, bool shape_is_destination);
  // Returns a dim hole of its own for `dim`, which follows it.
  Dim SoftCopy(const Dim& dim, bool dim_is_destination, bool sticky);
  bool FlowKnownDims(const Dim& from, const Dim& to);
  bool SolveDim(const Dim& open, const Dim& known);
  void Weaken(int64_t dim_root);
  // Returns the root's id if `dim` is a hole.
  std::optional<int64_t> DimRoot(const Dim& dim);

  ir::Arena& arena_;
  // Index 0 is not used: 0 is "a hole as written". types_[ir::kErrorHole] is the error type.
  Holes<const ir::Type*> types_{1};
  Holes<ir::ShapeTerm> shapes_{1};
  Holes<ir::DTypeTerm> dtypes_{1};
  Holes<Dim> dims_{1};
  absl::flat_hash_map<const ir::Type*, uint8_t> flags_;
  absl::flat_hash_set<std::pair<const ir::Type*, const ir::Type*>> flowed_;  // in this Flow
  int flow_depth_ = 0;
  bool invariant_ = false;
  std::vector<int32_t> woken_;
  std::vector<PendingDims> pending_;
  size_t site_ = 0;
  FlowFailure failure_;
  const ir::Type* error_;
};

class Solver::Resolver {
 public:
  explicit Resolver(Solver& solver);
  ~Resolver();
  const ir::Type* Resolve(const ir::Type* type);

 private:
  std::unique_ptr<ResolveMapper> mapper_;
  absl::flat_hash_map<const ir::Type*, const ir::Type*> resolved_;
};

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_SOLVER_H_
