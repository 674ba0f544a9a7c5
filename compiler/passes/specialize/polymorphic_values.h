// Polymorphic functions as values, for Specialize.
//
// A value of type `fn [A](A) -> A` becomes the tuple of its instances: one function for each list
// of type arguments at which the program uses a value of that type. What the instances are is known
// when all uses have been seen, so Specialize runs until a run asks for nothing new.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_POLYMORPHIC_VALUES_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_POLYMORPHIC_VALUES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/ir/type_parts.h"

namespace rvm::passes {

// Has it type parameters of another kind than ShapeVar? (Dims are known when the program runs.)
bool IsPolymorphic(const std::vector<const ir::TypeParam*>& params);
// `type` as a polymorphic function type, or null.
const ir::FuncType* AsPolymorphic(const ir::Type* type);
std::vector<const ir::TypeParam*> ShapeVars(const std::vector<const ir::TypeParam*>& params);

// Dims that are not constant are the same to all instances: they get names of their own, `dims`.
ir::TypeArg CanonicalArg(ir::Arena& arena, const ir::TypeArg& arg, std::vector<const ir::TypeParam*>& dims,
                         ir::TypeSubstitution& renaming);

// One instance of a polymorphic function type: what its parameters stand for, by position, and
// the dims in that which are known only when the program runs.
struct PolymorphicInstance {
  std::vector<ir::TypeArg> args;
  std::vector<const ir::TypeParam*> dims;
};

class PolymorphicTypes : private ir::TypeMapper {
 public:
  PolymorphicTypes(ir::Arena& arena, diagnostics::Diagnostics& diagnostics)
      : TypeMapper(arena), diagnostics_(diagnostics) {}

  // A run: what it lowers is forgotten with the next, the instances stay.
  void BeginRun();
  // Has anything been asked for in this run that earlier types of the run do not have?
  bool grew() const { return grew_; }
  // Has a type of this run changed by being lowered?
  bool used() const { return !tuples_.empty(); }
  // Reports what cannot be done with a polymorphic function; of one run only the first.
  void Refuse(ir::Span span, diagnostics::DiagnosticKind kind, std::string message);
  bool refused() const { return refused_; }
  // Sets the place in the program of the type that is lowered next, for errors. Keeps the last one if invalid.
  void set_place(ir::Span place) { place_ = place.valid() ? place : place_; }

  // Returns the type without polymorphic function types. Fails if a type parameter is left in it.
  const ir::Type* Lower(const ir::Type* type) { return Map(type); }
  ir::TypeArg Lower(const ir::TypeArg& arg) { return Map(arg); }
  // Returns the constructor of the lowered type; itself if that is the same.
  const ir::Constructor* Lower(const ir::Constructor* constructor) const;
  // ADTs that lowering made.
  const std::vector<ir::AdtDef*>& adts() const { return new_adts_; }

  // Returns the parameters of `type` in `instance`, a type of its form; nullopt if it does not determine them.
  std::optional<PolymorphicInstance> Solve(const ir::FuncType& type, const ir::Type* instance);
  // Returns the index among the instances of `type`. REQUIRES: AsPolymorphic(type); `instance` is lowered.
  size_t Demand(const ir::FuncType& type, PolymorphicInstance instance);
  const std::vector<PolymorphicInstance>& InstancesOf(const ir::FuncType& type);
  // Returns the type of an instance, lowered.
  const ir::Type* InstanceType(const ir::FuncType& type, const PolymorphicInstance& instance);
  // Returns the function type that a lowered tuple type stands for, or null.
  const ir::FuncType* Origin(const ir::Type* lowered) const;

  // Two lowered types have the same values: equal but for dims that are not constant.
  bool SameValues(const ir::Type* a, const ir::Type* b) { return a == b || KeyOf(a) == KeyOf(b); }
  // Returns the same for types with the same values.
  std::string KeyOf(const ir::Type* type);

 private:
  const ir::Type* MapType(const ir::Type* type) override;
  const ir::Type* LowerNew(const ir::Type* type);
  const ir::Type* LowerFunction(const ir::FuncType& type);
  const ir::Type* LowerAdt(const ir::AdtType& type);
  const ir::AdtDef* LowerDefinition(const ir::AdtDef* adt);
  void AppendKey(const ir::Type* type, std::string& key);
  void AppendFunctionKey(const ir::FuncType& type, std::string& key);

  diagnostics::Diagnostics& diagnostics_;
  ir::Span place_;
  bool refused_ = false;
  absl::flat_hash_map<std::string, std::vector<PolymorphicInstance>> instances_;  // by KeyOf
  absl::flat_hash_map<const ir::AdtDef*, const ir::AdtDef*> originals_;           // of lowered definitions
  bool grew_ = false;
  int key_depth_ = 0;
  // Lowered types of this run.
  absl::flat_hash_map<const ir::Type*, const ir::Type*> lowered_;
  // By KeyOf: the types, which differ in dims, and what each was lowered to.
  absl::flat_hash_map<std::string, std::vector<std::pair<const ir::FuncType*, const ir::Type*>>> tuples_;
  absl::flat_hash_set<std::string> lowering_;  // keys
  absl::flat_hash_map<const ir::Type*, const ir::FuncType*> origins_;
  absl::flat_hash_map<const ir::AdtDef*, const ir::AdtDef*> definitions_;
  absl::flat_hash_map<const ir::Constructor*, const ir::Constructor*> constructors_;
  std::vector<ir::AdtDef*> new_adts_;
  absl::flat_hash_set<const ir::TypeParam*> open_params_;  // of lowered definitions: they stay
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_POLYMORPHIC_VALUES_H_
