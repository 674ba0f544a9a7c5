// The evaluator of programs of loops, for tests: runs a program on tensors and finds what no printer and no device
// would show.
#ifndef RVM_KERNELS_LOOPS_TESTING_EVALUATE_H_
#define RVM_KERNELS_LOOPS_TESTING_EVALUATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "kernels/loops/program.h"
#include "kernels/schedule/schedule.h"

namespace rvm::loops {

// Memory in which some bytes have values.
struct Memory {
  explicit Memory(size_t size) : bytes(size), has_value(size) {}
  explicit Memory(const Literal& tensor);

  std::vector<std::byte> bytes;
  std::vector<bool> has_value;
};

// The memory that the launches of a kernel work on.
struct KernelMemory {
  std::vector<Memory> inputs, outputs;
  Memory workspace{0};
};

using SymbolValues = absl::flat_hash_map<int64_t, int64_t>;  // by id

// Runs the program, one block after the other. Returns kInternal, with the thread and the statement, if
// - an element does not exist, or is read before it has a value;
// - two threads access an element of a tensor or of shared memory, one of them stores to it, and no barrier of their
//   block lies between;
// - some threads of a block come to a barrier, and others do not;
// - a loop makes no step.
// REQUIRES: Verify(program) is OK.
absl::Status Evaluate(const Program& program, const SymbolValues& symbols, KernelMemory& memory);

// Verifies and runs the programs of a schedule's launches. Returns the outputs; kInternal, likewise, also if an element
// of them has no value in the end.
absl::StatusOr<std::vector<Literal>> EvaluateLaunches(const schedule::Schedule& schedule,
                                                      std::span<const Program> programs, const SymbolValues& symbols,
                                                      std::span<const Literal> inputs);

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_TESTING_EVALUATE_H_
