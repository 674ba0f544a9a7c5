// The passes between type inference and bytecode, in their order.
#ifndef RVM_COMPILER_PASSES_PIPELINE_H_
#define RVM_COMPILER_PASSES_PIPELINE_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

struct PassContext {
  const std::vector<std::string>& entries;  // the functions that can be called from outside
  int opt_level;
  diagnostics::Diagnostics& diagnostics;
};

struct PassInfo {
  std::string_view name;
  std::string_view summary;  // one line
  int min_opt_level;         // runs at this level and above
  absl::StatusOr<ir::Module> (*run)(const ir::Module&, const PassContext&);
};

// In the order in which they run. Each needs what those before it give.
std::span<const PassInfo> AllPasses();

// Called after each pass that ran.
using PassObserver = std::function<void(const PassInfo&, const ir::Module&)>;

// Takes a typed module without free variables; gives what bytecode::EmitProgram takes. Nodes
// of `module` are not changed, its arena grows. Statuses are those of the passes; what a pass refuses
// of the program is among the diagnostics, too.
absl::StatusOr<ir::Module> RunPasses(const ir::Module& module, const std::vector<std::string>& entries, int opt_level,
                                     diagnostics::Diagnostics& diagnostics, const PassObserver& observer = nullptr);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PIPELINE_H_
