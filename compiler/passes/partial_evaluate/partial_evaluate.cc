// Evaluates what is known at compile time: constants, tuples, data, closures, references that do not escape.
//
// Takes a specialised module. Runs each function on what is known at compile time: constants, tuples, data, closures,
// and references whose contents are tracked by a simulated store. Calls of known closures, and of functions that are
// called with something known, are unfolded; recursion is unrolled where an argument that is known gets smaller with
// each call. What is left, the residual program, is in A-normal form, with its effects in their order; both branches of
// a condition that is not known are evaluated, and only what holds after both stays known. References that do not
// escape disappear. Removes functions that become unreachable.
//
// The method is that of the paper on Relay (Roesch et al., "Relay: A High-Level Compiler for Deep Learning", section
// 4.3), with a store per path, and residual code for closures, references and data only where they are needed, as in
// Stadler et al., "Partial Escape Analysis and Scalar Replacement for Java" (CGO 2014).
#include "absl/status/statusor.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/partial_evaluate/evaluator.h"
#include "compiler/passes/pass.h"

namespace rvm::passes {
namespace {

absl::StatusOr<ir::Module> PartialEvaluate(const ir::Module& module, PassContext& context) {
  EvaluatedModule shared(module, context.diagnostics);
  ir::Module result = module;
  for (ir::GlobalFunction& global : result.functions) global.function = Evaluator(shared).Run(*global.function);
  return DropUnreachable(result, context.entries);
}

}  // namespace

const Pass kPartialEvaluate = {.name = "partial_evaluate",
                               .summary = "what is left of the program when what is known has been computed",
                               .run = PartialEvaluate};

}  // namespace rvm::passes
