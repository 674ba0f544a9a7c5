// Compares compiled kernels, their recipes and their loops for a GPU with te::Evaluate.
#ifndef RVM_KERNELS_CODEGEN_TESTING_H_
#define RVM_KERNELS_CODEGEN_TESTING_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {

struct CheckOptions {
  std::vector<std::vector<int64_t>> symbol_values = {{}};  // in the order of the kernel's dims
  std::vector<bool> constant_inputs;
  double tolerance = 2e-5;  // relative to max(1, |expected|)
  double range = 4;         // inputs are in [-range, range]
  const char* target = "host";
  int opt_level = 2;
  bool threads = false;  // offer a parallel_for
};

// The targets that every machine schedules and compiles for in tests. A schedule depends on its target and not on the
// CPU, so a test that expects something of a schedule checks all of them.
inline constexpr const char* kX86Targets[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
// Returns true if this CPU runs code for `target`. Records the answer as the property `runs TARGET` of the test, from
// which the summary of all tests says which targets ran.
bool RunsHere(const char* target);

Literal RandomLiteral(DataType dtype, const Shape& shape, double range, std::mt19937& random);

struct ScheduledKernel {
  schedule::Schedule schedule;
  CompiledObject object;  // with one function, `kernel`
};

absl::StatusOr<schedule::Schedule> ScheduleFor(const te::Computation& computation,
                                               const std::vector<bool>& constant_inputs, const char* target);

absl::StatusOr<ScheduledKernel> ScheduleAndCompile(const te::Computation& computation,
                                                   const std::vector<bool>& constant_inputs, const char* target,
                                                   const CodegenOptions& options = {});

// Compiles, loads and runs the computation on random inputs, as machine code, as a recipe and as loops of a GPU. Code
// that this CPU does not run is only compiled. Reports differences as gtest failures. Returns the compiled object.
ScheduledKernel CheckKernel(const te::Computation& computation, const CheckOptions& options = {});

// Calls CheckKernel for each of kX86Targets, in place of options.target. Returns the compiled objects in that order,
// fewer after a fatal failure.
std::vector<ScheduledKernel> CheckOnTargets(const te::Computation& computation, CheckOptions options = {});

// Like CheckKernel, for the given inputs.
void CheckKernelOn(const te::Computation& computation, const std::vector<Literal>& inputs,
                   const CheckOptions& options = {});

// Checks that a long run of the computation, whose dims are constants, ends soon after it is cancelled: before its last
// outputs are written. Runs machine code and a recipe. Returns the compiled object.
ScheduledKernel CheckStops(const te::Computation& computation, const std::vector<bool>& constant_inputs = {});

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_TESTING_H_
