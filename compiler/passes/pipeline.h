// The pipeline: the passes between type inference and bytecode, in their order.
#ifndef RVM_COMPILER_PASSES_PIPELINE_H_
#define RVM_COMPILER_PASSES_PIPELINE_H_

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/passes/pass.h"

namespace rvm::passes {

struct Step {
  const Pass& pass;
  int min_opt_level;   // runs at this level and above
  int max_rounds = 0;  // not 0: a RVM_REPEAT of the last step of `pass`
};

// pipeline.def as a table. A step may rely on what the steps before it establish.
std::span<const Step> Pipeline();

// Null if no step has a pass of that name.
const Pass* FindPass(std::string_view name);

// Returns true if the pass runs at every level: the stages behind it rely on it.
bool IsRequired(const Pass& pass);

// Called after each pass that ran.
using PassObserver = std::function<void(const Pass&, const ir::Module&)>;

// The time that the runs of one pass took, without checks of the module and observers.
struct PassTime {
  const Pass* pass;
  int runs = 0;
  std::chrono::nanoseconds time{0};
};

struct PipelineOptions {
  int opt_level = 2;
  std::vector<std::string> extra_passes;  // also run, in their places, where the level would leave them out
  std::vector<std::string> left_out;      // passes that do not run at any level; none of them IsRequired
  const DeviceRules* devices = nullptr;   // what runs on a device; null: nothing
  bool batch = false;                     // independent kernel calls run together
  std::string_view until = {};            // the pass to stop before its first run; empty: run all
  std::string_view from = {};             // the pass whose first run is the first that runs; empty: run all
  bool verify = false;                    // check the module after each pass (verify/verify_module.h)
  PassObserver observer;
  std::function<bool()> must_stop;         // called before each pass; true ends the run with kCancelled; may be null
  std::vector<PassTime>* times = nullptr;  // gets an entry for each pass that ran, in the order of their first runs
};

// Takes a typed module without free variables; returns what bytecode::EmitProgram takes. The first error of a pass
// ends the run. kInternal if a check of the module fails: a bug of the pass that the message names.
absl::StatusOr<ir::Module> RunPasses(const ir::Module& module, const std::vector<std::string>& entries,
                                     diagnostics::Diagnostics& diagnostics, const PipelineOptions& options);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_PIPELINE_H_
