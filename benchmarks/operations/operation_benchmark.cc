// Runs one instruction or two in a loop, for what Relay's text cannot ask for alone.
//
//   operation_benchmark LOOP ROUNDS    prints nanoseconds of a round, the least of several runs
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/value.h"
#include "serialization/assembler.h"
#include "serialization/verifier.h"
#include "vm/machine.h"

namespace {

using rvm::Value;

// Each loop runs r0 rounds. The kernel does nothing: what is left is the call.
constexpr char kLoops[] = R"(
adt A0 "Box" { "None" "Full" (int32) C0 }
cell C0 = constructor adt A0 tag 1 (int32)
constant K0 = float32 (4) [10, 20, 30, 40]
kernel N0 "empty" "empty" () {
  param float32 (4)
  param float32 (4)
  param float32 (4)
  result float32 (4)
  workspace 0
}
kernel N1 "empty" "empty_of_any_length" ("n") {
  param float32 ($0)
  param float32 ($0)
  param float32 ($0)
  result float32 ($0)
  workspace 0
  reuse 0 0
}

entry "loop" = F0 ("rounds")
entry "call_kernel_planned" = F1 ("rounds")
entry "call_kernel" = F2 ("rounds")
entry "get_tag" = F3 ("rounds")
entry "call_kernel_dynamic" = F4 ("rounds")
entry "call_kernel_in_place" = F5 ("rounds")
entry "move" = F6 ("rounds")
entry "load_int" = F7 ("rounds")
entry "branch" = F8 ("rounds")

function F0 "loop" params 1 result int32 {
  r0: int32
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    jump L1
L2:
    return r0
}

function F1 "call_kernel_planned" params 1 result int32 arena 128 {
  r0: int32
  r1: Tensor[(4), float32] planned
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    call_kernel_planned [r1], [0], N0, [K0, K0, K0]
    jump L1
L2:
    return r0
}

function F2 "call_kernel" params 1 result int32 {
  r0: int32
  r1: Tensor[(4), float32]
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    call_kernel [r1], N0, [K0, K0, K0]
    drop r1
    jump L1
L2:
    return r0
}

function F3 "get_tag" params 1 result int32 {
  r0: int32
  r1: adt A0
  r2: int32
code
    make_cell r1, C0, [r0]
    load_int r0, ROUNDS
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    get_tag r2, r1
    branch_ne_imm r2, 1, L2
    jump L1
L2:
    drop r1
    return r0
}

function F4 "call_kernel_dynamic" params 1 result int32 {
  r0: int32
  r1: Tensor[(?), float32]
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    call_kernel_dynamic [r1], N1, [K0, K0, K0]
    drop r1
    jump L1
L2:
    return r0
}

function F5 "call_kernel_in_place" params 1 result int32 {
  r0: int32
  r1: Tensor[(?), float32]
code
    call_kernel_dynamic [r1], N1, [K0, K0, K0]
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    call_kernel_dynamic [r1], N1, [r1!, K0, K0]
    jump L1
L2:
    drop r1
    return r0
}

function F6 "move" params 1 result int32 {
  r0: int32
  r1: int32
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    move r1, r0
    jump L1
L2:
    return r0
}

function F7 "load_int" params 1 result int32 {
  r0: int32
  r1: int32
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    load_int r1, 7
    jump L1
L2:
    return r0
}

function F8 "branch" params 1 result int32 {
  r0: int32
code
L1:
    branch_eq_imm r0, 0, L2
    add_imm_i32 r0, r0, -1
    branch_eq_imm r0, -1, L2
    jump L1
L2:
    return r0
}
)";

int32_t Empty(void* const*, const int64_t*, RvmKernelContext*) { return kRvmOk; }

absl::StatusOr<double> Measure(const char* loop, int32_t rounds) {
  std::string text = kLoops;
  // The cell takes the register of the rounds with it, so they come back as a number.
  std::string_view placeholder = "ROUNDS";
  text.replace(text.find(placeholder), placeholder.size(), std::to_string(rounds));
  RVM_ASSIGN_OR_RETURN(rvm::Executable executable, rvm::Assemble(text));
  RVM_ASSIGN_OR_RETURN(auto verified, rvm::Verify(std::move(executable)));
  RVM_ASSIGN_OR_RETURN(auto program, rvm::vm::Program::LinkWithKernels(std::move(verified), {Empty, Empty}));
  RVM_ASSIGN_OR_RETURN(auto machine, rvm::vm::Machine::Create(std::move(program), {}));
  Value argument = Value::Tensor(rvm::Literal::ScalarInt(rvm::kInt32, rounds));
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 7; ++i) {
    auto began = std::chrono::steady_clock::now();
    RVM_RETURN_IF_ERROR(machine->Invoke(loop, {&argument, 1}).status());
    std::chrono::duration<double, std::nano> ns = std::chrono::steady_clock::now() - began;
    least = std::min(least, ns.count() / rounds);
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: operation_benchmark LOOP ROUNDS\n", stderr);
    return 1;
  }
  absl::StatusOr<double> ns = Measure(argv[1], std::atoi(argv[2]));
  if (!ns.ok()) {
    std::fprintf(stderr, "%s\n", ns.status().ToString().c_str());
    return 1;
  }
  std::printf("%.3f\n", *ns);
  return 0;
}
