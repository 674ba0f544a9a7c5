// Kernels that machine code of functions calls by itself: the memory that results take, every way to end a run, and the
// heap's counters are those of bytecode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/abi/kernel_abi.h"
#include "kernels/codegen/kernel_compiler.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "native/testing.h"
#include "serialization/assembler.h"
#include "vm/machine.h"

namespace rvm::native {
namespace {

using vm::Machine;

// ---- kernels on rows of four

// Runs of kernels in the call of a machine, which is cancelled at the one with the number `cancels_at`.
struct Runs {
  int count = 0, cancels_at = -1;
  Machine* machine = nullptr;
  int direct = 0;  // calls whose array of addresses is on the stack: the VM has one on the heap
};
Runs& TheRuns() {
  static Runs runs;
  return runs;
}
void Count(void* const* buffers) {
  constexpr uintptr_t kNear = 16 << 10;
  auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (reinterpret_cast<uintptr_t>(buffers) - frame < kNear) ++TheRuns().direct;
  if (++TheRuns().count == TheRuns().cancels_at) TheRuns().machine->Cancel();
}

const float* In(void* const* buffers, int i) { return static_cast<const float*>(buffers[i]); }
float* Out(void* const* buffers, int i) { return static_cast<float*>(buffers[i]); }

// a + b; may lie on either.
int32_t Add(void* const* buffers, const int64_t*, RvmKernelContext*) {
  Count(buffers);
  for (int i = 0; i < 4; ++i) Out(buffers, 2)[i] = In(buffers, 0)[i] + In(buffers, 1)[i];
  return kRvmOk;
}
// a + b, a - b; each may lie on either.
int32_t Both(void* const* buffers, const int64_t*, RvmKernelContext*) {
  Count(buffers);
  for (int i = 0; i < 4; ++i) {
    float a = In(buffers, 0)[i], b = In(buffers, 1)[i];
    Out(buffers, 2)[i] = a + b;
    Out(buffers, 3)[i] = a - b;
  }
  return kRvmOk;
}
// a reversed, by way of the workspace, and its greatest element.
int32_t Reverse(void* const* buffers, const int64_t*, RvmKernelContext* context) {
  Count(buffers);
  auto* copy = static_cast<float*>(context->workspace);
  std::copy_n(In(buffers, 0), 4, copy);
  *static_cast<int32_t*>(buffers[2]) = static_cast<int32_t>(*std::max_element(copy, copy + 4));
  std::reverse_copy(copy, copy + 4, Out(buffers, 1));
  return kRvmOk;
}
// a as int32; may lie on a.
int32_t Round(void* const* buffers, const int64_t*, RvmKernelContext*) {
  Count(buffers);
  for (int i = 0; i < 4; ++i) static_cast<int32_t*>(buffers[1])[i] = static_cast<int32_t>(In(buffers, 0)[i]);
  return kRvmOk;
}
// a, unless its first element is 7; may lie on a.
int32_t Refuse(void* const* buffers, const int64_t*, RvmKernelContext*) {
  Count(buffers);
  if (In(buffers, 0)[0] == 7) return kRvmIndexOutOfRange;
  std::copy_n(In(buffers, 0), 4, Out(buffers, 1));
  return kRvmOk;
}

constexpr const char* kProgram = R"(
file "calls.relay"
adt A0 "Rows" { "Nil" "Cons" (Tensor[(4), float32], adt A0) C0 }
cell C0 = constructor adt A0 tag 1 (Tensor[(4), float32], adt A0)
constant K0 = float32 (4) [1, 2, 3, 4]
kernel N0 "add" "add" () {
  param float32 (4) param float32 (4) result float32 (4) workspace 0 reuse 0 0 reuse 0 1
}
kernel N1 "both" "both" () {
  param float32 (4) param float32 (4) result float32 (4) result float32 (4) workspace 0
  reuse 0 0 reuse 0 1 reuse 1 0 reuse 1 1
}
kernel N2 "reverse" "reverse" () {
  param float32 (4) result float32 (4) result int32 () workspace 128
}
kernel N3 "round" "round" () { param float32 (4) result int32 (4) workspace 0 reuse 0 0 }
kernel N4 "refuse" "refuse" () { param float32 (4) result float32 (4) workspace 0 reuse 0 0 }

entry "sum" = F0 ("n", "a")
entry "shared" = F1 ("n", "a")
entry "both" = F2 ("n", "a")
entry "reverse" = F3 ("n", "a")
entry "round" = F4 ("n", "a")
entry "rows" = F5 ("n", "a")
entry "planned" = F6 ("n", "a")
entry "refuse" = F7 ("n", "a")

; The state takes its own memory: the constant of the first step has none to give.
function F0 "sum" params 2 result Tensor[(4), float32] {
  r0: int64
  r1, r2: Tensor[(4), float32]
  r3: int64
code
    load_int r3, 0
    load_const r2, K0
  L0:
    branch_eq_int r0, r3, L1
    call_kernel [r2], N0, [r2!, r1]
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r1
    return r2
}

; The first argument has another owner at each step, so that the second one gives its memory.
function F1 "shared" params 2 result Tensor[(4), float32] {
  r0: int64
  r1, r2, r3, r4: Tensor[(4), float32]
  r5: int64
code
    load_int r5, 0
    load_const r2, K0
  L0:
    branch_eq_int r0, r5, L1
    retain r3, r2
    call_kernel [r4], N0, [r2!, r1]
    call_kernel [r2], N0, [r3!, r4!]
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r1
    return r2
}

; Two results take both arguments, or one of them.
function F2 "both" params 2 result Tensor[(4), float32] {
  r0: int64
  r1, r2, r3: Tensor[(4), float32]
  r4: int64
code
    load_int r4, 0
    load_const r2, K0
    call_kernel [r3], N0, [r2, r1]
  L0:
    branch_eq_int r0, r4, L1
    call_kernel [r2, r3], N1, [r2!, r3!]
    call_kernel [r3], N0, [r2, r3!]
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r3
    drop r1
    return r2
}

; A workspace, which the first call makes though the pool has a block, and a scalar beside the tensor.
function F3 "reverse" params 2 result int64 {
  r0: int64
  r1: Tensor[(4), float32]
  r2: int32
  r3, r4, r5: int64
  r6: Tensor[(4), float32]
code
    call_kernel [r6], N0, [r1, K0]
    drop r6
    load_int r3, 0
    load_int r4, 0
  L0:
    branch_eq_int r0, r3, L1
    call_kernel [r1, r2], N2, [r1!]
    cast r5, r2, int32, int64
    add_int r4, r4, r5
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r1
    return r4
}

; The result has elements of another type in the memory of its argument.
function F4 "round" params 2 result Tensor[(4), int32] {
  r0: int64
  r1, r2: Tensor[(4), float32]
  r3: Tensor[(4), int32]
  r4: int64
code
    load_int r4, 1
    call_kernel [r2], N0, [r1, r1]
    call_kernel [r3], N3, [r2!]
  L0:
    branch_lt_int r0, r4, L1
    drop r3
    call_kernel [r2], N0, [r1, r1]
    call_kernel [r3], N3, [r2!]
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r1
    return r3
}

; Each step leaves a tensor alive: a block of the pool, or, at first, of a new chunk.
function F5 "rows" params 2 result adt A0 {
  r0: int64
  r1, r2: Tensor[(4), float32]
  r3: adt A0
  r4: int64
code
    load_int r4, 0
    load_tag r3, 0
  L0:
    branch_eq_int r0, r4, L1
    call_kernel [r2], N0, [r1, K0]
    drop r2
    call_kernel [r2], N0, [r1, K0]
    make_cell r3, C0, [r2, r3]
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r1
    return r3
}

; Two results in the arena, one on the heap.
function F6 "planned" params 2 result Tensor[(4), float32] arena 384 {
  r0: int64
  r1, r2: Tensor[(4), float32]
  r3, r4, r5: Tensor[(4), float32] planned
  r6: int64
code
    load_int r6, 0
    load_const r2, K0
  L0:
    branch_eq_int r0, r6, L1
    call_kernel_planned [r3], [0], N0, [r2, r1]
    call_kernel_planned [r4, r5], [128, 256], N1, [r3, r2]
    call_kernel_planned [r2], [new], N0, [r4, r2!]
    add_imm_int r0, r0, -1
    jump L0
  L1:
    drop r1
    return r2
}

; A kernel that fails, in a call of its own.
function F7 "refuse" params 2 result Tensor[(4), float32] {
  r0: int64
  r1, r2: Tensor[(4), float32]
  r3: int64
code
    load_int r3, 0
    branch_ne_int r0, r3, L0
    return r1
  L0:
    call_kernel [r2], N0, [r1!, K0]
    call_kernel [r2], N4, [r2!]
    add_imm_int r0, r0, -1
    call r2, F7, [r0, r2]
    return r2
}
)";

constexpr const char* kEntries[] = {"sum", "shared", "both", "reverse", "round", "rows", "planned", "refuse"};

class DirectCallsTest : public ::testing::Test {
 protected:
  DirectCallsTest() {
    auto executable = Assemble(kProgram);
    EXPECT_TRUE(executable.ok()) << executable.status();
    auto verified = Verify(*std::move(executable));
    EXPECT_TRUE(verified.ok()) << verified.status();
    executable_ = *std::move(verified);
    Link();
  }

  // Links the program with machine code that `change` has changed.
  void Link(const std::function<void(llvm::Module& module)>& change = [](llvm::Module&) {}) {
    auto control = CompileChangedControl(*executable_, *codegen::ParseHostTarget("host"), change);
    ASSERT_TRUE(control.ok()) << control.status();
    program_ = *vm::Program::LinkWithKernels(executable_, {Add, Both, Reverse, Round, Refuse}, nullptr, nullptr,
                                             &control->code);
  }

  // Returns the result or the error of a call, and the heap's counters after it, as text.
  std::string Run(const vm::MachineOptions& options, const std::string& entry, int64_t n, int64_t fuel,
                  int cancels_at) {
    auto machine = *Machine::Create(program_, options);
    std::string text;
    for (int round = 0; round < 2; ++round) {  // the second one has memory in its pool
      TheRuns() = {.cancels_at = cancels_at, .machine = machine.get()};
      constexpr float kRow[] = {4, 3, 2, 1};
      auto row = Value::Tensor(Literal::FromValues<float>(kFloat32, {4}, kRow));
      auto result =
          machine->Invoke(entry, std::vector<Value>{Value::Tensor(Literal::ScalarInt(kInt64, n)), row}, {.fuel = fuel});
      vm::MachineStats stats = machine->stats();
      absl::StrAppend(&text, result.ok() ? result->ToString() : result.status().ToString(), "; ", TheRuns().count,
                      " kernels, ", stats.allocations, " allocations, ", stats.peak_bytes, " bytes, ",
                      stats.leaked_objects, " left\n");
      EXPECT_EQ(stats.leaked_objects, 0) << entry << " " << n;
    }
    return text;
  }

  // Returns whether a process that compares bytecode and machine code, in all ways in which a run may end, finds them
  // equal.
  bool IsRight() {
    return IsTrueInAProcess([&] { return AreEqual(); });
  }
  bool AreEqual() {
    auto are_equal = [&](const char* entry, int64_t fail_allocation, int cancels_at) {
      auto [bytecode, native] = RunBoth(entry, 8, -1, fail_allocation, cancels_at);
      return bytecode == native;
    };
    for (const char* entry : kEntries) {
      for (int n = 0; n <= 20; ++n) {
        if (!are_equal(entry, n, -1) || !are_equal(entry, 0, n)) return false;
      }
    }
    return true;
  }

  // Returns what Run gives for bytecode and for machine code.
  std::pair<std::string, std::string> RunBoth(const std::string& entry, int64_t n, int64_t fuel,
                                              int64_t fail_allocation, int cancels_at) {
    return {Run({.runs_bytecode = true, .fail_allocation = fail_allocation}, entry, n, fuel, cancels_at),
            Run({.fail_allocation = fail_allocation}, entry, n, fuel, cancels_at)};
  }

  // Compares bytecode and machine code.
  std::string Compare(const std::string& entry, int64_t n, int64_t fuel = -1, int64_t fail_allocation = 0,
                      int cancels_at = -1) {
    auto [expected, seen] = RunBoth(entry, n, fuel, fail_allocation, cancels_at);
    EXPECT_EQ(seen, expected) << entry << " " << n << ", fuel " << fuel << ", allocation " << fail_allocation
                              << ", cancelled at " << cancels_at;
    return expected;
  }

  std::shared_ptr<const VerifiedExecutable> executable_;
  std::shared_ptr<const vm::Program> program_;
};

TEST_F(DirectCallsTest, ResultsAndCountersAreTheSame) {
  for (const char* entry : kEntries) {
    for (int64_t n : {0, 1, 2, 3, 100}) Compare(entry, n);
  }
  EXPECT_EQ(Compare("sum", 2).substr(0, 21), "[9f, 8f, 7f, 6f]; 2 k");
  EXPECT_EQ(Compare("reverse", 10).substr(0, 5), "40i64");
  EXPECT_EQ(Compare("round", 3).substr(0, 12), "[8, 6, 4, 2]");
  EXPECT_NE(Compare("refuse", 5).find("an index is out of range in"), std::string::npos);
}

TEST_F(DirectCallsTest, TheCodeMakesTheCalls) {
  for (const char* entry : kEntries) {
    if (entry == std::string("refuse")) continue;
    Run({.runs_bytecode = true}, entry, 10, -1, -1);
    EXPECT_EQ(TheRuns().direct, 0) << entry;
    Run({}, entry, 10, -1, -1);
    EXPECT_GE(TheRuns().direct, 9) << entry << ": " << TheRuns().count << " calls";
  }
}

TEST_F(DirectCallsTest, FuelIsTheSame) {
  for (const char* entry : kEntries) {
    for (int64_t fuel = 0; fuel < 12; ++fuel) Compare(entry, 6, fuel);
  }
}

// A condition of the code of calls that always has one value.
TEST_F(DirectCallsTest, PlantedBugsAreSeen) {
  struct Bug {
    const char* condition;  // as emitters name it
    bool value;
  };
  constexpr Bug kBugs[] = {
      {"is_alone", true},    // takes the memory of an argument with other owners
      {"is_left", true},     // takes it twice
      {"must_drop", true},   // drops an argument that was taken
      {"must_drop", false},  // leaves one that was not
      {"must_look", false},  // misses an error or a cancel
      {"is_block", true},    // takes a block of an empty list
      {"is_let", true},      // misses an allocation that must fail
      {"has_space", true},   // runs without scratch memory
  };
  ASSERT_TRUE(IsRight());
  for (const Bug& bug : kBugs) {
    int planted = 0;
    Link([&](llvm::Module& module) {
      for (llvm::Function& function : module) {
        for (llvm::Instruction& i : llvm::instructions(function)) {
          if (!i.getName().starts_with(bug.condition)) continue;
          i.replaceAllUsesWith(llvm::ConstantInt::getBool(module.getContext(), bug.value));
          ++planted;
        }
      }
    });
    EXPECT_GT(planted, 0) << bug.condition;
    EXPECT_FALSE(IsRight()) << bug.condition << " is always " << bug.value;
  }
}

TEST_F(DirectCallsTest, EveryAllocationMayFail) {
  for (const char* entry : kEntries) {
    for (int64_t n = 1; n <= 40; ++n) Compare(entry, 8, -1, n);
  }
}

TEST_F(DirectCallsTest, EveryKernelMayBeTheLast) {
  for (const char* entry : kEntries) {
    for (int kernel = 1; kernel <= 12; ++kernel) Compare(entry, 8, -1, 0, kernel);
  }
  EXPECT_NE(Compare("sum", 8, -1, 0, 3).find("cancelled"), std::string::npos);
}

}  // namespace
}  // namespace rvm::native
