// Names of workers: functions that have the bodies of entries whose signatures a pass changes.
#ifndef RVM_COMPILER_PASSES_WORKERS_H_
#define RVM_COMPILER_PASSES_WORKERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

using Workers = absl::flat_hash_map<std::string, std::string>;  // by entry

// Returns a new name for each entry for which `changes` holds: `<entry>.worker`, with a number where that is taken. The
// entry becomes a wrapper, which keeps the signature.
Workers NameWorkers(const ir::Module& module, const std::vector<std::string>& entries,
                    absl::FunctionRef<bool(std::string_view)> changes);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_WORKERS_H_
