// Checks the invariants of every program: it types, its text reads back equal, and the VM, unoptimised and optimised,
// gives the results of the reference evaluator, errors included.
#ifndef RVM_TESTS_RANDOM_CHECK_PROGRAM_H_
#define RVM_TESTS_RANDOM_CHECK_PROGRAM_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/random/generator.h"
#include "vm/machine.h"

namespace rvm::random_programs {

struct Verdict {
  std::string failure;  // what kind, "O3 value"; empty: none
  std::string detail;
  bool skipped = false;  // some call takes too many steps to compare, or nothing runs on the device
};

Verdict CheckProgram(const Program& program);

// Each pass alone: after every pass of the unoptimised pipeline, and after every other pass when it is added to that
// pipeline, the program means what it meant (evaluated), and with the added pass the VM gives the same results.
Verdict CheckEachPass(const Program& program);

// A program of GenerateDifferentiable: its gradient along a random direction, its tangent and the difference of its
// values there are the same, and the VM gives the evaluator's results at -O0, -O3 and portable. `detail` is "flat"
// where the gradient is zero. Skipped where differences tell nothing: the value is an error, or too rough.
Verdict CheckGradient(const Program& program);
// The optimised program, with some or all of its operators on devices of this machine. Skipped if it launches nothing
// there.
Verdict CheckOnCuda(const Program& program);
Verdict CheckOnOpenCl(const Program& program);
Verdict CheckOnSim(const Program& program);
Verdict CheckOnSimAndOpenCl(const Program& program);

std::string CallText(const EntryCall& call);

// Returns whether functions as machine code give what their bytecode gives: values, errors with their backtraces, and
// objects. Each of the first payments of fuel fails in turn, then the last one; each of the first allocations, too.
Verdict CompareControl(const std::string& name, std::span<const EntryCall> calls,
                       std::shared_ptr<const vm::Program> linked);

// Returns whether the program parses and types.
bool IsAccepted(const Program& program);

// In another process, so that a crash ("crash") or an endless loop ("hang") is a verdict too. One process
// serves all programs up to one that ends it.
using Check = Verdict (*)(const Program&);
std::vector<Verdict> CheckInChild(std::span<const Program> programs, Check check = CheckProgram);
Verdict CheckInChild(const Program& program, Check check = CheckProgram);

}  // namespace rvm::random_programs

#endif  // RVM_TESTS_RANDOM_CHECK_PROGRAM_H_
