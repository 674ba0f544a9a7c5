// Types as the generator sees them: monomorphic but for type and dim parameters, equal where their
// texts are equal.
#ifndef RVM_TESTS_RANDOM_RANDOM_TYPES_H_
#define RVM_TESTS_RANDOM_RANDOM_TYPES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/data_type.h"

namespace rvm::random_programs {

struct Type;
using TypeRef = std::shared_ptr<const Type>;

enum class TypeForm : uint8_t { kTensor, kTuple, kFunction, kAdt, kRef, kParam };

struct Adt;

struct Type {
  TypeForm form = TypeForm::kTensor;
  std::string text;               // Relay; equal types have equal texts
  DataType dtype;                 // kTensor
  std::vector<std::string> dims;  // kTensor: "3", "?", "n"
  std::vector<TypeRef> parts;     // kTuple: fields; kFunction: parameters; kAdt: arguments; kRef: contents
  TypeRef result;                 // kFunction
  // kFunction with type parameters: what stands for each inside, and how it is declared. Always the same names, so
  // that equal types have equal texts: "P" and "P", or "Tensor[S, U]" and "S: Shape, U: BaseType".
  std::vector<std::string> type_params;
  const Adt* adt = nullptr;  // kAdt
};

struct Adt {
  struct Constructor {
    std::string name;
    std::vector<TypeRef> fields;
  };
  std::string name;
  std::vector<std::string> params;
  std::vector<Constructor> constructors;  // values of the first need no value of the ADT itself
  bool is_prelude = false;
  bool is_endless = false;   // holds itself at larger types
  bool has_no_text = false;  // endless, or a function in some field, whatever the arguments
  bool holds_polymorphic = false;
};

TypeRef Tensor(DataType dtype, std::vector<std::string> dims);
TypeRef Scalar(DataType dtype);
TypeRef TupleOf(std::vector<TypeRef> fields);
TypeRef FunctionOf(std::vector<TypeRef> params, TypeRef result, std::vector<std::string> type_params = {});
TypeRef AdtOf(const Adt* adt, std::vector<TypeRef> args);
TypeRef RefOf(TypeRef contents);
// Returns a type parameter by its name; "Tensor[S, U]" is any tensor.
TypeRef Param(const std::string& name);
// How the parameter that `name` stands for is declared: "P", "S: Shape, U: BaseType".
std::string Declaration(const std::string& name);
bool IsAnyTensor(const std::string& param);
std::string Declarations(const std::vector<std::string>& names);

// Arguments of type parameters ("A") and dim parameters ("n").
struct Bindings {
  std::map<std::string, TypeRef> types;
  std::map<std::string, std::string> dims;
};

TypeRef Substitute(const TypeRef& type, const Bindings& bindings);
// Extends `bindings` so that `pattern` becomes `type`; false if that cannot be. Parameters not among `params` stand
// for themselves, as do all dims if `dims_are_fixed`.
bool Match(const TypeRef& pattern, const TypeRef& type, const std::vector<std::string>& params, bool dims_are_fixed,
           Bindings& bindings);
// Returns the types of a constructor's fields in a value of type `adt_type`.
std::vector<TypeRef> FieldTypes(const TypeRef& adt_type, const Adt::Constructor& constructor);

inline bool Same(const TypeRef& a, const TypeRef& b) { return a->text == b->text; }
bool IsScalar(const TypeRef& type);
// Rank 0 and more, every extent a number.
bool IsStaticTensor(const TypeRef& type);
std::vector<int64_t> StaticShape(const TypeRef& type);
// A value can be compared and passed from outside: it holds no function and no type parameter.
bool IsData(const TypeRef& type);
// A value may hold one of these.
bool HoldsFloat(const TypeRef& type);
bool HoldsRef(const TypeRef& type);
bool HasOpenDims(const TypeRef& type);
bool HoldsPolymorphic(const TypeRef& type);
// Returns true if a type parameter may be `type` where functions are polymorphic values: a type around another
// parameter could have infinitely many instances.
bool MayStandForParam(const std::string& param, const TypeRef& type);

// Source of all random choices.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int Pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }  // 0 .. count - 1
  bool Chance(int percent) { return Pick(100) < percent; }
  template <typename T>
  const T& Of(const std::vector<T>& items) {
    return items[static_cast<size_t>(Pick(static_cast<int>(items.size())))];
  }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<size_t>(Pick(static_cast<int>(i)))]);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace rvm::random_programs

#endif  // RVM_TESTS_RANDOM_RANDOM_TYPES_H_
