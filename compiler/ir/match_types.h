// What type parameters stand for in an instance of a type.
#ifndef RVM_COMPILER_IR_MATCH_TYPES_H_
#define RVM_COMPILER_IR_MATCH_TYPES_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/adt.h"

namespace rvm::ir {

// Finds what `params` stand for: `pattern`, over them, against `type`, an instance. Adds to `found`. False if `type` is
// no instance, or a parameter would be two things.
bool MatchTypes(const Type* pattern, const Type* type, const std::vector<const TypeParam*>& params,
                absl::flat_hash_map<const TypeParam*, TypeArg>& found);

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_MATCH_TYPES_H_
