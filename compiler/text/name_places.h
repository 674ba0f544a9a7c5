// The places of a text where names are bound and used, for editors.
#ifndef RVM_COMPILER_TEXT_NAME_PLACES_H_
#define RVM_COMPILER_TEXT_NAME_PLACES_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/adt.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/span.h"

namespace rvm::text {

enum class NameKind : uint8_t { kVariable, kFunction, kType, kConstructor, kTypeParam, kOperator };

// One place with a name. All places of one name have the same definition; those of an operator have the same `op`.
struct NamePlace {
  NameKind kind;
  ir::Span span;                                 // with the mark, if one is written
  ir::Span definition;                           // equal to `span` where the name is bound; invalid for operators
  const ir::Var* var = nullptr;                  // kVariable
  const ir::AdtDef* adt = nullptr;               // kType
  const ir::Constructor* constructor = nullptr;  // kConstructor
  const ir::TypeParam* param = nullptr;          // kTypeParam
  const ops::OpDef* op = nullptr;                // kOperator
};

// The part of a text in which a variable can be used, unless another variable of its name hides it.
struct VariableScope {
  const ir::Var* var;
  uint32_t begin;
  uint32_t end;
};

struct NamePlaces {
  std::vector<NamePlace> places;  // in the order of parsing
  std::vector<VariableScope> scopes;
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_NAME_PLACES_H_
