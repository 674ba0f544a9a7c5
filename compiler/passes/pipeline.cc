#include "compiler/passes/pipeline.h"

#include "base/status_macros.h"
#include "compiler/passes/check_extents.h"
#include "compiler/passes/count_results.h"
#include "compiler/passes/eliminate_dead_code.h"
#include "compiler/passes/flatten_params.h"
#include "compiler/passes/fold_constant.h"
#include "compiler/passes/fuse_ops.h"
#include "compiler/passes/inline.h"
#include "compiler/passes/lambda_lift.h"
#include "compiler/passes/order_loop_steps.h"
#include "compiler/passes/return_fields.h"
#include "compiler/passes/specialize.h"
#include "compiler/passes/specialize_calls.h"
#include "compiler/passes/split_entries.h"
#include "compiler/passes/to_anf.h"

namespace rvm::passes {
namespace {

constexpr PassInfo kPasses[] = {
    {"specialize", "one copy of each function per list of type arguments", 0,
     [](const ir::Module& module, const PassContext& context) {
       return Specialize(module, context.entries, context.diagnostics);
     }},
    // Before bodies move, since it compares their types with those that were declared.
    {"check_extents", "checks of declared extents that types do not prove", 0,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return CheckExtents(module, context.diagnostics);
     }},
    {"inline", "function bodies in place of calls", 1,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return Inline(module, context.entries);
     }},
    // After inlining, which brings literals to the functions that call them.
    {"specialize_calls", "a copy of each higher-order function per function it is called with", 2,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return SpecializeCalls(module, context.entries);
     }},
    {"fold_constant", "what is known at compile time is computed then", 1,
     [](const ir::Module& module, const PassContext&) -> absl::StatusOr<ir::Module> { return FoldConstant(module); }},
    {"eliminate_dead_code", "nothing that no result depends on", 1,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return EliminateDeadCode(module, context.entries);
     }},
    // After dead code, whose captures would become parameters.
    {"lambda_lift", "local functions that are only called to global ones", 1,
     [](const ir::Module& module, const PassContext&) -> absl::StatusOr<ir::Module> { return LambdaLift(module); }},
    // After lifting, which makes loops of functions that are called directly, with captures as parameters.
    {"split_entries", "a body of its own for what is an entry and called from inside", 1,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return SplitEntries(module, context.entries);
     }},
    {"flatten_params", "a parameter per field where a tuple is only taken apart", 1,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return FlattenParams(module, context.entries);
     }},
    // After parameters: what is passed on field by field is taken apart before.
    {"return_fields", "results field by field where a tuple is only made to be taken apart", 1,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return ReturnFields(module, context.entries);
     }},
    {"to_anf", "a name for every step of the computation", 0,
     [](const ir::Module& module, const PassContext&) -> absl::StatusOr<ir::Module> { return ToAnf(module); }},
    {"count_results", "counting and filling in place of operators whose number of results depends on the data", 0,
     [](const ir::Module& module, const PassContext&) -> absl::StatusOr<ir::Module> { return CountResults(module); }},
    {"fuse_ops", "operator calls to calls of kernels", 0,
     [](const ir::Module& module, const PassContext& context) -> absl::StatusOr<ir::Module> {
       return FuseOps(module, context.opt_level);
     }},
    {"order_loop_steps", "the next round's numbers computed where it looks for them", 1,
     [](const ir::Module& module, const PassContext&) -> absl::StatusOr<ir::Module> { return OrderLoopSteps(module); }},
};

}  // namespace

std::span<const PassInfo> AllPasses() { return kPasses; }

absl::StatusOr<ir::Module> RunPasses(const ir::Module& module, const std::vector<std::string>& entries, int opt_level,
                                     diagnostics::Diagnostics& diagnostics, const PassObserver& observer) {
  PassContext context{entries, opt_level, diagnostics};
  ir::Module current = module;
  for (const PassInfo& pass : AllPasses()) {
    if (opt_level < pass.min_opt_level) continue;
    RVM_ASSIGN_OR_RETURN(current, pass.run(current, context));
    if (observer) observer(pass, current);
  }
  return current;
}

}  // namespace rvm::passes
