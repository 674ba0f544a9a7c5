// ResultSink: sees the tensors that a profiled machine computes, one after another.
#ifndef RVM_VM_PROFILER_RESULT_SINK_H_
#define RVM_VM_PROFILER_RESULT_SINK_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "base/literal.h"
#include "serialization/executable.h"

namespace rvm::vm {

// A result of a kernel or a view, as it is when its instruction has ended.
struct SeenResult {
  static constexpr uint32_t kNoKernel = std::numeric_limits<uint32_t>::max();
  uint32_t function;       // index in Executable::functions
  uint32_t pc;             // the instruction in its code
  const SourceLine* line;  // its place; null: unknown
  uint32_t kernel;         // index in Executable::kernels; kNoKernel for a view
  uint32_t result;         // among those of the instruction
  Literal tensor;
};

class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // Takes a result, on the thread of the run. An error ends the run.
  virtual absl::Status Take(SeenResult result) = 0;
};

}  // namespace rvm::vm

#endif  // RVM_VM_PROFILER_RESULT_SINK_H_
