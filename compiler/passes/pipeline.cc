#include "compiler/passes/pipeline.h"

#include "base/status_macros.h"
#include "compiler/passes/fuse_ops.h"
#include "compiler/passes/specialize.h"
#include "compiler/passes/to_anf.h"

namespace rvm::passes {
namespace {

constexpr PassInfo kPasses[] = {
    {"specialize", "one copy of each function per list of type arguments", 0,
     [](const ir::Module& module, const PassContext& context) { return Specialize(module, context.entries); }},
    {"to_anf", "a name for every step of the computation", 0,
     [](const ir::Module& module, const PassContext&) -> absl::StatusOr<ir::Module> { return ToAnf(module); }},
    {"fuse_ops", "operator calls to calls of kernels", 0,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return FuseOps(module, context.opt_level);
     }},
};

}  // namespace

std::span<const PassInfo> AllPasses() { return kPasses; }

absl::StatusOr<ir::Module> RunPasses(const ir::Module& module, const std::vector<std::string>& entries, int opt_level,
                                     const PassObserver& observer) {
  PassContext context{entries, opt_level};
  ir::Module current = module;
  for (const PassInfo& pass : AllPasses()) {
    if (opt_level < pass.min_opt_level) continue;
    RVM_ASSIGN_OR_RETURN(current, pass.run(current, context));
    if (observer) observer(pass, current);
  }
  return current;
}

}  // namespace rvm::passes
