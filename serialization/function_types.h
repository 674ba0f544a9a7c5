// The function types that cross the border between a program and its host.
#ifndef RVM_SERIALIZATION_FUNCTION_TYPES_H_
#define RVM_SERIALIZATION_FUNCTION_TYPES_H_

#include <vector>

#include "serialization/executable.h"

namespace rvm {

// By type. A parameter of a function that the program takes goes the other way, and so does a parameter of one that it
// gives.
struct FunctionTypes {
  explicit FunctionTypes(const Executable& executable)
      : taken(executable.types.size()), given(executable.types.size()) {}

  std::vector<bool> taken;  // the host passes functions of this type
  std::vector<bool> given;  // the host gets closures of this type
  bool gives_any() const;
};

// Returns the types for all entries.
FunctionTypes FunctionTypesOf(const Executable& executable);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_FUNCTION_TYPES_H_
