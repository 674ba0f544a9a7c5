// The types of code that computes derivatives.
//
// Such code has two kinds of places. *Flat* ones are parameters, results and local variables; a tensor there is
// itself, and its adjoint is a plain value of the reversed block. *Boxed* ones are fields of data types, the contents
// of references and what a closure captures: a floating-point tensor there is a pair `(T, ref(T))` of its value and the
// accumulator of its adjoint in reverse mode, a pair `(T, T)` of its value and its tangent in forward mode. Everything
// else is lifted by its structure:
//
//   Boxed(List[T]) = List[Boxed(T)]      Boxed(ref(T)) = ref(Boxed(T))      Boxed((A, B)) = (Boxed(A), Boxed(B))
//   Boxed(fn (A) -> R) = fn (Flat(A)) -> (Flat(R), fn (Adjoint(R)) -> (Adjoint(A),))     in reverse mode
//   Boxed(fn (A) -> R) = fn (Boxed(A)) -> Boxed(R)                                       in forward mode
//
// Flat differs from Boxed in tensors, and tuples of them, alone. Adjoint(T) is T for a floating-point tensor, a tuple
// of the fields' for a tuple, `()` for all else. A data type whose own definition has tensors or functions in its
// fields gets a definition of its own per instance.
#ifndef RVM_COMPILER_PASSES_DIFFERENTIATE_LIFTED_TYPES_H_
#define RVM_COMPILER_PASSES_DIFFERENTIATE_LIFTED_TYPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

enum class Mode : uint8_t { kReverse, kForward };

class LiftedTypes {
 public:
  LiftedTypes(const ir::Module& module, Mode mode);
  Mode mode() const { return mode_; }

  const ir::Type* Flat(const ir::Type* type);
  const ir::Type* Boxed(const ir::Type* type);
  const ir::Type* Adjoint(const ir::Type* type);
  // Returns the type of a function in reverse mode, and of the result of a call of it. Parameters that are `constant`
  // have the adjoint `()`; those beyond its end are not.
  const ir::FuncType* Reversed(const ir::FuncType& type, const std::vector<bool>& constant = {});
  const ir::Type* ReversedResult(const ir::Type* result, const std::vector<const ir::Type*>& adjoints_of,
                                 const std::vector<bool>& constant = {});
  // Returns the type of a function in forward mode. Parameters that are `constant` have no tangents.
  const ir::FuncType* Forward(const ir::FuncType& type, const std::vector<bool>& constant = {});

  // A floating-point tensor, or a tuple with one: Flat and Boxed differ.
  bool HasFloats(const ir::Type* type);
  // Something that is boxed in a flat place too, and not inert.
  bool HasBoxed(const ir::Type* type);
  // Nothing in it is lifted.
  bool IsInert(const ir::Type* type);

  // Returns the constructor of Boxed(adt).
  const ir::Constructor* Boxed(const ir::Constructor& constructor, const ir::AdtType& adt);
  // `type` with `?` for extents that are no numbers: for places where their names are not in scope.
  const ir::Type* WithoutNames(const ir::Type* type);
  const std::vector<ir::AdtDef*>& adts() const { return adts_; }

 private:
  bool FindsLifted(const ir::Type* type, absl::flat_hash_set<std::string>& seen);
  // Returns whether the definition has nothing to lift but what stands for its parameters.
  bool IsParametric(const ir::AdtDef* adt);
  bool IsParametric(const ir::Type* field, absl::flat_hash_set<const ir::AdtDef*>& seen);
  const ir::AdtDef* InstanceOf(const ir::AdtType& adt);

  ir::Arena& arena_;
  Mode mode_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, ir::AdtDef*> instances_;
  absl::flat_hash_map<const ir::AdtDef*, bool> is_parametric_;
  std::vector<ir::AdtDef*> adts_;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_DIFFERENTIATE_LIFTED_TYPES_H_
