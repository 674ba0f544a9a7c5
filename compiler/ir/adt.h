// Algebraic data type definitions.
#ifndef RVM_COMPILER_IR_ADT_H_
#define RVM_COMPILER_IR_ADT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/type.h"

namespace rvm::ir {

// One constructor. `tag` is its index in the definition.
struct Constructor {
  std::string name;
  std::vector<const Type*> fields;  // in terms of the ADT's type_params
  const AdtDef* adt = nullptr;
  uint32_t tag = 0;
  Span span;
};

// The identity of an ADT is the pointer: two definitions of the same structure are different types.
struct AdtDef {
  std::string name;
  std::vector<const TypeParam*> type_params;
  std::vector<Constructor*> constructors;
  bool is_extern = false;
  Span span;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_ADT_H_
