// Emits bytecode for a module in A-normal form whose operator calls have been
// fused into primitive functions.
//
// Reading order: liveness.h, function_emitter.h (what a step becomes),
// emit_match.cc (decision trees), emit_program.cc (the tables).
#ifndef RVM_COMPILER_BYTECODE_EMIT_PROGRAM_H_
#define RVM_COMPILER_BYTECODE_EMIT_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "kernels/schedule/schedule.h"
#include "serialization/executable.h"

namespace rvm::bytecode {

struct EmittedProgram {
  Executable executable;                    // class, code objects and recipes are missing
  std::vector<schedule::Schedule> kernels;  // by KernelId; code generation is the driver's part
  struct Origin {
    const ir::Function* primitive;  // the first of those that the kernel or its variant computes; the module owns it
    std::string device;             // the kind that it is placed on; "" for the host
    int64_t num_operators = 0;      // of all places that call it
  };
  std::vector<Origin> origins;              // by KernelId
  std::vector<std::string> constant_names;  // by ConstantId: of the weight that it was; "": none
};

struct EmitOptions {
  bool plan_memory = true;     // tensors that stay in an activation live in its arena
  bool reuse_inputs = true;    // results of kernels may reuse the memory of their inputs
  bool pack_constants = true;  // kernels may read constants in a layout of their own
  bool batch = false;          // kernels that pay have variants for many calls at once (schedule::ScheduleBatchPair)
  bool batch_all = false;      // with `batch`: the others, too
  schedule::Target target;     // of the kernels' schedules
};

// REQUIRES: `module` is monomorphic, typed, in A-normal form, fused; entries name functions.
// kResourceExhausted where the program outgrows the format.
absl::StatusOr<EmittedProgram> EmitProgram(const ir::Module& module, const std::vector<std::string>& entries,
                                           const diagnostics::SourceMap& sources, const EmitOptions& options);

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_EMIT_PROGRAM_H_
