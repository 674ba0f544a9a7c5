// One-way matching of types.
#ifndef RVM_COMPILER_IR_MATCH_TYPES_H_
#define RVM_COMPILER_IR_MATCH_TYPES_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/adt.h"

namespace rvm::ir {

// Matches `pattern`, which contains `params`, against its instance `type`, and adds the argument of each parameter to
// `found`. Returns false if `type` is not an instance of `pattern`.
bool MatchTypes(const Type* pattern, const Type* type, const std::vector<const TypeParam*>& params,
                absl::flat_hash_map<const TypeParam*, TypeArg>& found);

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_MATCH_TYPES_H_
