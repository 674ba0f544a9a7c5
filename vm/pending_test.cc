// Tests of kernel calls that wait and run together, in programs with variants of kernels for batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vm/machine.h"
#include "vm/testing/program_builder.h"
#include "vm/testing/row_kernels.h"

namespace rvm::vm {
namespace {

using testing::Calls;
using testing::Floats;
using testing::Int;
using testing::LinkRowKernels;
using testing::Ran;

std::unique_ptr<Machine> MachineOf(const std::string& functions, const MachineOptions& options = {}) {
  return *Machine::Create(LinkRowKernels(functions), options);
}

std::string RunEntry(Machine& machine, const std::vector<Value>& args, const std::string& entry = "main") {
  auto result = machine.Invoke(entry, args);
  EXPECT_EQ(machine.stats().leaked_objects, 0);
  EXPECT_EQ(machine.stats().live_bytes, 0);
  return result.ok() ? result->ToString() : std::string(result.status().message());
}

// A tree over four leaves: mix(mix(a, b), mix(c, d)).
constexpr char kTree[] = R"(
  entry "main" = F0 ("a", "b", "c", "d")
  function F0 "main" params 4 result T0 {
    r0, r1, r2, r3, r4, r5, r6: T0
  code
    call_kernel [r4], N0, [r0!, r1!, K0]
    call_kernel [r5], N0, [r2!, r3!, K0]
    call_kernel [r6], N0, [r4!, r5!, K0]
    return r6
  }
)";
const std::vector<Value> kLeaves = {Floats({1, 2}), Floats({3, 4}), Floats({5, 6}), Floats({7, 8})};

TEST(PendingTest, CallsOfALevelRunAsOne) {
  auto machine = MachineOf(kTree);
  EXPECT_EQ(RunEntry(*machine, kLeaves), "[16f, 20f]");
  EXPECT_EQ(Calls(), "mix 2, mix 1");
}

TEST(PendingTest, CallsWithOtherSharedOperandsStayApart) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b", "w")
    function F0 "main" params 3 result T0 {
      r0, r1: T0  r2: Tensor[(2, 2), float32]  r3, r4, r5, r6, r7: T0
    code
      call_kernel [r3], N0, [r0, r1, K0]
      call_kernel [r4], N0, [r0, r1, K3]
      call_kernel [r5], N0, [r3!, r4!, r2]
      call_kernel [r6], N0, [r0!, r1!, r2!]
      call_kernel [r7], N0, [r5!, r6!, K0]
      return r7
    }
  )");
  Value w = Value::Tensor(Literal::FromValues<float>(kFloat32, {2, 2}, std::vector<float>{1, 1, 0, 0}));
  // r3 = (4, 6), r4 = (5, 8), r5 = r4 + r3 w = (9, 12), r6 = (3, 4) + (1, 1) = (4, 5).
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4}), w}), "[13f, 17f]");
  EXPECT_EQ(Calls(), "mix 1, mix 1, mix 1, mix 1, mix 1");
}

TEST(PendingTest, ControlReadsRealValues) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result (int64, float32) {
      r0, r1, r2, r3: T0  r4: Tensor[(2), int32]  r5: int64  r6: float32  r7: (int64, float32)
    code
      call_kernel [r2], N0, [r0, r1, K0]
      call_kernel [r4], N10, [r2!]
      call_kernel [r3], N0, [r1!, r0!, K3]
      get_element r5, r4, 1
      call_kernel [r6], N4, [r3]
      drop r3
      drop r4
      make_cell r7, C0, [r5, r6]
      return r7
    }
    cell C0 = tuple (int64, float32) (int64, float32)
  )");
  // r2 = (4, 6), r3 = (1, 2) + 2 (3, 4) = (7, 10).
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4})}), "(6i64, 17f)");
  EXPECT_EQ(Calls(), "mix 1, mix 1, round 1, total 1");
}

TEST(PendingTest, NumbersOfKernelsWithVariantsAreThere) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result float32 {
      r0, r1, r2: T0  r3, r4, r5: float32
    code
      call_kernel [r2], N0, [r0!, r1, K0]
      call_kernel [r3], N8, [r2, r1]
      call_kernel [r4], N8, [r1, r2]
      drop r1
      drop r2
      add_f32 r5, r3, r4
      return r5
    }
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4})}), "72f");
  EXPECT_EQ(Calls(), "mix 1, score 1, score 1");
}

TEST(PendingTest, ViewsAndKernelsWithoutVariantsWait) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result (T2, T1, T0) {
      r0, r1, r2: T0  r3: T2  r4, r5, r6: T1  r7: T0  r8: (T2, T1, T0)
    code
      call_kernel [r2], N0, [r0, r1, K0]
      retain r7, r2
      view r3, r2, T2, []
      retain r4, r7
      call_kernel_dynamic [r5], N5, [r4!]
      call_kernel_dynamic [r6], N5, [r5!]
      drop r1
      drop r0
      make_cell r8, C0, [r3, r6, r7]
      return r8
    }
    cell C0 = tuple (T2, T1, T0) (T2, T1, T0)
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4})}), "([[4f, 6f]], [16f, 24f], [4f, 6f])");
  EXPECT_EQ(Calls(), "mix 1, twice 1, twice 1");
}

TEST(PendingTest, CallsWaitForViewsOfTheirOperands) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result (T0, T0) {
      r0, r1, r2, r3: T0  r4: T2  r5, r6: T0  r7: (T0, T0)
    code
      call_kernel [r2], N0, [r0, r1, K0]
      retain r3, r2
      view r4, r3, T2, []
      view r5, r4, T0, []
      call_kernel [r6], N0, [r5!, r1, K0]
      drop r0
      drop r1
      make_cell r7, C0, [r2, r6]
      return r7
    }
    cell C0 = tuple (T0, T0) (T0, T0)
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4})}), "([4f, 6f], [7f, 10f])");
  EXPECT_EQ(Calls(), "mix 1, mix 1");
}

TEST(PendingTest, ControlReadsViews) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result int64 {
      r0, r1, r2: T0  r3, r4: Tensor[(2), int32]  r5: Tensor[(1, 2), int32]  r6: int64
    code
      call_kernel [r2], N0, [r0!, r1!, K0]
      call_kernel [r3], N10, [r2!]
      retain r4, r3
      view r5, r4, Tensor[(1, 2), int32], []
      get_element r6, r5, 1
      drop r3
      drop r5
      return r6
    }
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4})}), "6i64");
}

// Views that were made before their results had elements, and are read afterwards.
TEST(PendingTest, SharedOperandsMayBeViews) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b", "x")
    function F0 "main" params 3 result (T0, T0, float32) {
      r0, r1: T1  r2: T0  r3, r4, r5, r6: T1  r7, r8: Tensor[(2, 2), float32]  r9: float32  r10, r11: T0
      r12: (T0, T0, float32)
    code
      call_kernel_dynamic [r3], N6, [r0!, K2]
      call_kernel_dynamic [r4], N6, [r1!, K2]
      retain r5, r3
      retain r6, r4
      view r7, r5, Tensor[(2, 2), float32], []
      view r8, r6, Tensor[(2, 2), float32], []
      call_kernel [r9], N8, [r2, K4]
      call_kernel [r10], N0, [r2, r2, r7]
      call_kernel [r11], N0, [r2, r2, r8]
      drop r2
      drop r3
      drop r4
      drop r7
      drop r8
      make_cell r12, C0, [r10, r11, r9]
      return r12
    }
    cell C0 = tuple (T0, T0, float32) (T0, T0, float32)
  )");
  // The matrices are twice the unit matrix and three times.
  EXPECT_EQ(RunEntry(*machine, {Floats({-3, -5, -5, -3}), Floats({-2, -5, -5, -2}), Floats({1, 2})}),
            "([3f, 6f], [4f, 8f], 5f)");
  EXPECT_EQ(Calls(), "shift 2, score 1, mix 1, mix 1");
}

TEST(PendingTest, RowsOfOtherLengthsStayApart) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b", "c")
    function F0 "main" params 3 result (T1, T1, T1) {
      r0, r1, r2, r3, r4, r5: T1  r6: (T1, T1, T1)
    code
      call_kernel_dynamic [r3], N6, [r0!, K2]
      call_kernel_dynamic [r4], N6, [r1!, K2]
      call_kernel_dynamic [r5], N6, [r2!, K2]
      make_cell r6, C0, [r3, r4, r5]
      return r6
    }
    cell C0 = tuple (T1, T1, T1) (T1, T1, T1)
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2, 3}), Floats({4}), Floats({7, 8, 9})}),
            "([6f, 7f, 8f], [9f], [12f, 13f, 14f])");
  EXPECT_EQ(Calls(), "shift 2, shift 1");
}

TEST(PendingTest, CallsThatRunTheQueueKeepTheirExtents) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result (T1, float32) {
      r0, r1, r2, r3: T1  r4: float32  r5: (T1, float32)
    code
      call_kernel_dynamic [r2], N6, [r0!, K2]
      call_kernel_dynamic [r3], N6, [r1!, K2]
      call_kernel_dynamic [r4], N11, [r2]
      drop r2
      make_cell r5, C0, [r3, r4]
      return r5
    }
    cell C0 = tuple (T1, float32) (T1, float32)
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2, 3}), Floats({4})}), "([9f], 21f)");
  EXPECT_EQ(Calls(), "shift 1, shift 1, sum 1");
}

TEST(PendingTest, NegativeWorkspaceIsAnError) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a")
    function F0 "main" params 1 result T1 {
      r0, r1, r2: T1
    code
      call_kernel_dynamic [r1], N6, [r0!, K2]
      call_kernel_dynamic [r2], N12, [r1!]
      return r2
    }
  )");
  auto result = machine->Invoke("main", std::vector<Value>{Floats({1, 2, 3})});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
  EXPECT_EQ(Calls(), "shift 1");
}

TEST(PendingTest, RowsThatAreTooLongRunAlone) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result (T1, T1) {
      r0, r1, r2, r3: T1  r4: (T1, T1)
    code
      call_kernel_dynamic [r2], N6, [r0!, K2]
      call_kernel_dynamic [r3], N6, [r1!, K2]
      make_cell r4, C0, [r2, r3]
      return r4
    }
    cell C0 = tuple (T1, T1) (T1, T1)
  )");
  std::vector<float> values(1 << 17, 1.0F);
  auto result = machine->Invoke("main", std::vector<Value>{Floats(values), Floats(values)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Calls(), "shift 1, shift 1");
}

// A sum of n products of rows, of which each needs the one before, through a chain of calls.
constexpr char kSums[] = R"(
  entry "main" = F0 ("a", "n")
  function F0 "main" params 2 result (T0, T0) {
    r0: T0  r1: int32  r2, r3, r4: T0  r5: (T0, T0)
  code
    retain r2, r0
    retain r3, r0
  L0:
    call_kernel [r3], N0, [r0, r3!, K0]
    call_kernel [r2], N13, [r2!, r3, r0]
    add_imm_i32 r1, r1, -1
    branch_ne_imm r1, 0, L0
    call_kernel [r4], N0, [r2, r3!, K0]
    drop r0
    make_cell r5, C0, [r2, r4]
    return r5
  }
  cell C0 = tuple (T0, T0) (T0, T0)
)";

TEST(PendingTest, LinksOfAChainRunAsOne) {
  // a + 2a a + 3a a + ... + 6a a; and with 6a.
  auto machine = MachineOf(kSums);
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Int(5)}), "([21f, 82f], [27f, 94f])");
  EXPECT_EQ(Calls(), "mix 1, mix 1, mix 1, mix 1, mix 1, add 5, mix 1");
  Ran().clear();
  // A few do not pay.
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Int(3)}), "([10f, 38f], [14f, 46f])");
  EXPECT_EQ(Calls(), "mix 1, mix 1, mix 1, add 1, add 1, add 1, mix 1");
  Ran().clear();
  // The queue holds 4096 calls.
  EXPECT_EQ(RunEntry(*machine, {Floats({0, 1}), Int(4000)}), "([0f, 8006001f], [0f, 8010002f])");
}

TEST(PendingTest, SumsThatSomebodyHasAreNoLinks) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result (T0, T0, T0) {
      r0, r1, r2, r3, r4, r5: T0  r6: (T0, T0, T0)
    code
      call_kernel [r2], N13, [r0, r0, r1]
      retain r3, r2
      call_kernel [r2], N13, [r2!, r0, r1]
      call_kernel [r2], N13, [r2!, r3, r1]
      call_kernel [r2], N13, [r2!, r0, r1]
      call_kernel [r4], N13, [r2, r0, r1]
      retain r5, r4
      call_kernel [r4], N13, [r4!, r5, r1]
      drop r5
      drop r0
      drop r1
      make_cell r6, C0, [r3, r2, r4]
      return r6
    }
    cell C0 = tuple (T0, T0, T0) (T0, T0, T0)
  )");
  // a = 1, b = 2: 3; 5, 5 + 6, 13; 15 + 15 * 2. And a = 10, b = 1: 20; 30, 50, 60; 70 + 70.
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 10}), Floats({2, 1})}), "([3f, 20f], [13f, 60f], [45f, 140f])");
}

TEST(PendingTest, ResultsOfOtherKernelsBeginNoChain) {
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "b")
    function F0 "main" params 2 result T0 {
      r0: T1  r1: T0  r2, r3: T1  r4, r5: T0
    code
      call_kernel_dynamic [r2], N6, [r0!, K2]
      call_kernel_dynamic [r3], N5, [r2!]
      check_shape r4, r3, T0
      call_kernel [r5], N13, [r4!, r1, r1]
      drop r1
      return r5
    }
  )");
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Floats({3, 4})}), "[21f, 30f]");
}

TEST(PendingTest, AllocationsOfChainsMayFail) {
  bool ends = false;
  for (int64_t n = 1; !ends; ++n) {
    auto machine = MachineOf(kSums, {.fail_allocation = n});
    std::vector<Value> args = {Floats({1, 2}), Int(9)};
    auto result = machine->Invoke("main", args);
    ends = result.ok();
    EXPECT_EQ(machine->stats().leaked_objects, 0);
    if (ends) break;
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
    EXPECT_EQ(RunEntry(*machine, args), "([55f, 218f], [65f, 238f])") << n;
    ASSERT_LT(n, 100);
  }
}

// A chain of calls that is longer than the queue, and one beside it.
constexpr char kChain[] = R"(
  entry "main" = F0 ("a", "n")
  function F0 "main" params 2 result (T0, T0) {
    r0: T0  r1: int32  r2, r3: T0  r4: (T0, T0)
  code
    retain r2, r0
    retain r3, r0
  L0:
    call_kernel [r2], N0, [r0, r2!, K0]
    call_kernel [r3], N0, [r0, r3!, K0]
    add_imm_i32 r1, r1, -1
    branch_ne_imm r1, 0, L0
    drop r0
    make_cell r4, C0, [r2, r3]
    return r4
  }
  cell C0 = tuple (T0, T0) (T0, T0)
)";

TEST(PendingTest, RowsLieTogether) {
  // 200 calls of one level, whose results are operands of 200 others, last first.
  auto machine = MachineOf(R"(
    adt A0 "List[Row]" { "Nil" "Cons" (T0, adt A0) C0 }
    cell C0 = constructor adt A0 tag 1 (T0, adt A0)
    entry "main" = F0 ("a", "n")
    function F0 "main" params 2 result adt A0 {
      r0: T0  r1: int32  r2, r3: adt A0  r4, r5: T0
    code
      load_tag r2, 0
    L0:
      call_kernel [r4], N0, [r0, r0, K0]
      make_cell r2, C0, [r4, r2]
      add_imm_i32 r1, r1, -1
      branch_ne_imm r1, 0, L0
      load_tag r3, 0
    L1:
      branch_tag r2, 0, L2
      unpack [r4, r2], r2, C0
      call_kernel [r5], N0, [r4!, r0, K3]
      make_cell r3, C0, [r5, r3]
      jump L1
    L2:
      drop r0
      drop r2
      return r3
    }
  )");
  auto result = machine->Invoke("main", std::vector<Value>{Floats({1, 2}), Int(200)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  int64_t cells = 0;
  for (const Value* list = &*result; list->name() == "Cons"; list = &list->fields()[1]) {
    ASSERT_EQ(list->fields()[0].ToString(), "[5f, 10f]") << cells;
    ++cells;
  }
  EXPECT_EQ(cells, 200);
  EXPECT_LT(Ran().size(), 20);
}

TEST(PendingTest, QueueRunsWhenItIsFull) {
  auto machine = MachineOf(kChain);
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Int(5000)}), "([5001f, 10002f], [5001f, 10002f])");
  EXPECT_EQ(Ran().size(), 5000);
  EXPECT_EQ(Ran().front(), "mix 2");
}

TEST(PendingTest, QueueRunsWhenMemoryRunsOut) {
  // 8192 results of 128 bytes do not fit; an eighth of the limit may wait.
  auto machine = MachineOf(kChain, {.memory_limit_bytes = 512 << 10});
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Int(4000)}), "([4001f, 8002f], [4001f, 8002f])");
  EXPECT_GE(Ran().size(), 4000);  // a pair may be torn apart
  EXPECT_LT(Ran().size(), 4100);
}

TEST(PendingTest, OperandsThatWaitCount) {
  // A call holds 4 KB that it consumes, and gives 4 KB. An eighth of the limit is 64 KB.
  auto machine = MachineOf(R"(
    entry "main" = F0 ("a", "n")
    function F0 "main" params 2 result T1 {
      r0: T1  r1: int32  r2, r3, r4: T1
    code
      retain r4, r0
    L0:
      call_kernel_dynamic [r2], N5, [r0]
      call_kernel_dynamic [r3], N6, [r2!, K2]
      drop r4
      move r4, r3
      add_imm_i32 r1, r1, -1
      branch_ne_imm r1, 0, L0
      drop r0
      return r4
    }
  )",
                           {.memory_limit_bytes = 512 << 10});
  auto result = machine->Invoke("main", std::vector<Value>{Floats(std::vector<float>(1024, 1)), Int(64)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  EXPECT_TRUE(std::ranges::count(Ran(), "shift 8") > 0) << Calls();
  for (const char* more : {"shift 10", "shift 12", "shift 16"})
    EXPECT_EQ(std::ranges::count(Ran(), more), 0) << Calls();
}

TEST(PendingTest, EveryAllocationMayFail) {
  bool ends = false;
  for (int64_t n = 1; !ends; ++n) {
    auto machine = MachineOf(kTree, {.fail_allocation = n});
    auto result = machine->Invoke("main", kLeaves);
    ends = result.ok();
    EXPECT_EQ(machine->stats().leaked_objects, 0);
    if (ends) break;
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
    EXPECT_EQ(RunEntry(*machine, kLeaves), "[16f, 20f]") << n;  // and the machine goes on
    ASSERT_LT(n, 100);
  }
}

constexpr char kTakes[] = R"(
  entry "main" = F0 ("i", "j", "k")
  function F0 "take" params 3 result (T0, T0, T0) {
    r0, r1, r2: int32  r3, r4, r5: T0  r6: (T0, T0, T0)
  code
    at 0:1:1
    call_kernel_dynamic [r3], N2, [K1, r0]
    at 0:2:2
    call_kernel_dynamic [r4], N2, [K1, r1]
    at 0:3:3
    call_kernel_dynamic [r5], N2, [K1, r2]
    at 0:4:4
    make_cell r6, C0, [r3, r4, r5]
    return r6
  }
  cell C0 = tuple (T0, T0, T0) (T0, T0, T0)
)";

TEST(PendingTest, FirstCallThatFailsGivesTheError) {
  auto machine = MachineOf(kTakes);
  EXPECT_EQ(RunEntry(*machine, {Int(2), Int(0), Int(1)}), "([30f, 31f], [10f, 11f], [20f, 21f])");
  EXPECT_EQ(Calls(), "row 3");
  EXPECT_EQ(RunEntry(*machine, {Int(2), Int(3), Int(-1)}),
            "an index is out of range in kernel `row`\n  in `take` at p.relay:2:2");
  EXPECT_EQ(RunEntry(*machine, {Int(2), Int(1), Int(-1)}),
            "an index is out of range in kernel `row`\n  in `take` at p.relay:3:3");
}

TEST(PendingTest, ErrorsOfCallsComeBeforeThoseOfControl) {
  auto machine = MachineOf(R"(
    entry "main" = F1 ("i")
    function F0 "take" params 1 result T0 {
      r0: int32  r1: T0
    code
      at 0:1:1
      call_kernel_dynamic [r1], N2, [K1, r0]
      return r1
    }
    function F1 "main" params 1 result T0 {
      r0: int32  r1: T0
    code
      at 0:7:1
      call r1, F0, [r0]
      at 0:8:2
      fatal 0
    }
  )");
  EXPECT_EQ(RunEntry(*machine, {Int(1)}), "no clause of this match fits the value\n  in `main` at p.relay:8:2");
  EXPECT_EQ(
      RunEntry(*machine, {Int(4)}),
      "an index is out of range in kernel `row`\n  in `take` at p.relay:1:1, whose result was needed later:\n  in "
      "`main` at p.relay:8:2");
}

TEST(PendingTest, CancelledRunsForgetTheirCalls) {
  auto machine = MachineOf(kChain);
  auto stop = [](void*) { return 1; };
  auto result = machine->Invoke("main", std::vector<Value>{Floats({1, 2}), Int(100000000)},
                                {.poll = stop, .poll_context = nullptr});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
  Ran().clear();
  EXPECT_EQ(RunEntry(*machine, {Floats({1, 2}), Int(3)}), "([4f, 8f], [4f, 8f])");
  EXPECT_EQ(Calls(), "mix 2, mix 2, mix 2");
}

// ---- updates of tensors

// Two requests in one: each appends a row that waits to its table, and goes on with the sum.
constexpr char kTables[] = R"(
  type T3 = Tensor[(?, 2), float32]
  entry "main" = F0 ("t", "u", "x")
  function F0 "main" params 3 result (T3, T3) {
    r0, r1: T3  r2, r3, r4, r5: T0  r6: (T3, T3)
  code
    call_kernel [r3], N0, [r2, r2, K0]
    call_kernel_dynamic [r0], N19, [r0!, r3]
    call_kernel [r3], N0, [r3!, r2, K0]
    call_kernel_dynamic [r0], N19, [r0!, r3!]
    call_kernel [r4], N0, [r2, r2, K3]
    call_kernel_dynamic [r1], N19, [r1!, r4]
    call_kernel [r4], N0, [r4!, r2!, K0]
    call_kernel_dynamic [r1], N19, [r1!, r4!]
    make_cell r6, C0, [r0, r1]
    return r6
  }
  cell C0 = tuple (T3, T3) (T3, T3)
)";
Value Rows(const std::vector<float>& elements) {
  return Value::Tensor(Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(elements.size()) / 2, 2}, elements));
}

TEST(PendingTest, UpdatesWait) {
  auto machine = MachineOf(kTables);
  std::vector<Value> args = {Rows({1, 2}), Rows({}), Floats({1, 10})};
  EXPECT_EQ(RunEntry(*machine, args), "([[1f, 2f], [2f, 20f], [3f, 30f]], [[3f, 30f], [4f, 40f]])");
  // A table of the caller has no room: its first copy has, for one more.
  EXPECT_EQ(Calls(), "mix 1, mix 1, append at 0, append at 1, mix 2, append at 0, append at 1");
}

TEST(PendingTest, TensorsThatSomebodyHasAreNotUpdatedInPlace) {
  auto machine = MachineOf(R"(
    type T3 = Tensor[(2, 2), float32]
    entry "main" = F0 ("w", "x")
    function F0 "main" params 2 result (T3, T3, T3, T3) {
      r0: T3  r1, r2: T0  r3, r4, r5, r6: T3  r7: (T3, T3, T3, T3)
    code
      call_kernel [r2], N0, [r1, r1, K0]
      call_kernel [r3], N20, [r0!, r2]
      call_kernel [r4], N20, [r3, r1]
      call_kernel [r2], N0, [r2!, r1, K0]
      call_kernel [r5], N20, [r3, r2]
      retain r6, r5
      call_kernel [r6], N20, [r6!, r1!]
      drop r2
      make_cell r7, C0, [r3, r4, r5, r6]
      return r7
    }
    cell C0 = tuple (T3, T3, T3, T3) (T3, T3, T3, T3)
  )");
  EXPECT_EQ(RunEntry(*machine, {Rows({1, 2, 3, 4}), Floats({1, 10})}),
            "([[3f, 22f], [3f, 4f]], [[4f, 32f], [3f, 4f]], [[6f, 52f], [3f, 4f]], [[7f, 62f], [3f, 4f]])");
  EXPECT_EQ(Calls(), "mix 1, put at 0, put at 1, mix 1, put at 2, put at 3");
}

TEST(PendingTest, UpdatesOfOneTensorAreInPlace) {
  auto machine = MachineOf(R"(
    type T3 = Tensor[(2, 2), float32]
    entry "main" = F0 ("w", "x")
    function F0 "main" params 2 result T3 {
      r0: T3  r1, r2, r3: T0  r4: T3
    code
      call_kernel [r2], N0, [r1, r1, K0]
      call_kernel [r4], N20, [r0, r2]
      call_kernel [r3], N0, [r2, r1, K0]
      call_kernel [r4], N20, [r4!, r3!]
      call_kernel [r4], N20, [r4!, r2!]
      drop r0
      drop r1
      return r4
    }
  )");
  EXPECT_EQ(RunEntry(*machine, {Rows({1, 2, 3, 4}), Floats({1, 10})}), "[[8f, 72f], [3f, 4f]]");
  EXPECT_EQ(Calls(), "mix 1, put at 0, mix 1, put at 0, put at 0");
}

TEST(PendingTest, TwoUpdatesOfOneParameterDoNotWait) {
  auto machine = MachineOf(R"(
    type T3 = Tensor[(2, 2), float32]
    entry "main" = F0 ("w", "x")
    function F0 "main" params 2 result (T3, T3) {
      r0: T3  r1, r2: T0  r3, r4, r5: T3  r6: (T3, T3)
    code
      call_kernel [r2], N0, [r1, r1, K0]
      call_kernel [r3], N20, [r0!, r1!]
      call_kernel [r4, r5], N21, [r3!, r2!]
      make_cell r6, C0, [r4, r5]
      return r6
    }
    cell C0 = tuple (T3, T3) (T3, T3)
  )");
  EXPECT_EQ(RunEntry(*machine, {Rows({1, 2, 3, 4}), Floats({1, 10})}),
            "([[4f, 32f], [3f, 4f]], [[2f, 12f], [5f, 24f]])");
  EXPECT_EQ(Calls(), "put at 0, mix 1, puts at 0, puts at 1");
}

TEST(PendingTest, TablesWithoutRoomAreCopied) {
  auto machine = MachineOf(R"(
    type T3 = Tensor[(?, 2), float32]
    entry "main" = F0 ("t", "x")
    function F0 "main" params 2 result T3 {
      r0: T3  r1, r2: T0
    code
      call_kernel [r2], N0, [r1, r1, K0]
      drop r1
      call_kernel_dynamic [r0], N19, [r0!, r2]
      call_kernel_dynamic [r0], N19, [r0!, r2]
      call_kernel_dynamic [r0], N19, [r0!, r2]
      call_kernel_dynamic [r0], N19, [r0!, r2!]
      return r0
    }
  )");
  EXPECT_EQ(RunEntry(*machine, {Rows(std::vector<float>(60, 3)), Floats({1, 10})}).substr(29 * 10),
            " [3f, 3f], [2f, 20f], [2f, 20f], [2f, 20f], [2f, 20f]]");
  // The copy of the caller's 30 rows has room for two.
  EXPECT_EQ(Calls(), "mix 1, append at 0, append at 0, append at 1, append at 1");
  EXPECT_EQ(RunEntry(*machine, {Rows({}), Floats({1, 10})}), "[[2f, 20f], [2f, 20f], [2f, 20f], [2f, 20f]]");
}

TEST(PendingTest, EveryAllocationOfUpdatesMayFail) {
  std::vector<Value> args = {Rows({1, 2}), Rows({}), Floats({1, 10})};
  bool ends = false;
  for (int64_t n = 1; !ends; ++n) {
    auto machine = MachineOf(kTables, {.fail_allocation = n});
    auto result = machine->Invoke("main", args);
    ends = result.ok();
    EXPECT_EQ(machine->stats().leaked_objects, 0);
    if (ends) break;
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
    EXPECT_EQ(RunEntry(*machine, args), "([[1f, 2f], [2f, 20f], [3f, 30f]], [[3f, 30f], [4f, 40f]])") << n;
    ASSERT_LT(n, 100);
  }
}

// ---- matrices that a kernel arranges for a variant

// Code that blends the rows in r0 to r3 by the matrix in a register.
std::string Blend(const std::string& matrix) {
  std::string code;
  for (int row = 0; row < 4; ++row)
    absl::StrAppend(&code, "call_kernel [r", row, "], N16, [r", row, "!, ", matrix, "]\n");
  return code;
}

constexpr char kDouble[] = "call_kernel [r4], N18, [r4!]\n";
constexpr char kRunQueue[] = "call_kernel [r7], N4, [r0]\n";

// A program of such code: the matrices of the caller are in r4 and r5. Gives the rows.
std::unique_ptr<Machine> BlendMachine(const std::string& code, const MachineOptions& options = {}) {
  return MachineOf(absl::StrCat(R"(
    entry "main" = F0 ("a", "b", "c", "d", "v", "w")
    function F0 "main" params 6 result (T0, T0, T0, T0) {
      r0, r1, r2, r3: T0  r4, r5: Tensor[(2, 2), float32]  r6: (T0, T0, T0, T0)  r7: float32
    code
    )",
                                code, R"(
      drop r4
      drop r5
      make_cell r6, C0, [r0, r1, r2, r3]
      return r6
    }
    cell C0 = tuple (T0, T0, T0, T0) (T0, T0, T0, T0))"),
                   options);
}

// Rows and two matrices: {{1, 2}, {0, 1}} or another one, and {{0, 1}, {1, 0}}.
std::vector<Value> BlendArgs(const std::vector<float>& first = {1, 2, 0, 1}) {
  std::vector<Value> args = kLeaves;
  for (const std::vector<float>& elements : {first, {0, 1, 1, 0}})
    args.push_back(Value::Tensor(Literal::FromValues<float>(kFloat32, {2, 2}, elements)));
  return args;
}

TEST(PendingTest, MatricesAreArrangedOnceInARunOfTheQueue) {
  auto machine = BlendMachine(Blend("r4") + Blend("r4"));
  EXPECT_EQ(RunEntry(*machine, BlendArgs()), "([1f, 6f], [3f, 16f], [5f, 26f], [7f, 36f])");
  EXPECT_EQ(Calls(), "turn 1, blend 4, blend 4");
  // The next run may have other elements at the same place.
  Ran().clear();
  EXPECT_EQ(RunEntry(*machine, BlendArgs({2, 0, 0, 3})), "([4f, 18f], [12f, 36f], [20f, 54f], [28f, 72f])");
  EXPECT_EQ(Calls(), "turn 1, blend 4, blend 4");
}

TEST(PendingTest, EachMatrixIsArranged) {
  auto machine = BlendMachine(Blend("r4") + Blend("r5") + Blend("r4"));
  // (1, 4), then (4, 1), then (4, 9).
  EXPECT_EQ(RunEntry(*machine, BlendArgs()), "([4f, 9f], [10f, 23f], [16f, 37f], [22f, 51f])");
  EXPECT_EQ(Calls(), "turn 1, blend 4, turn 1, blend 4, blend 4");
}

TEST(PendingTest, MatricesThatAreUpdatedInPlaceAreArrangedAnew) {
  auto machine = BlendMachine(kDouble + Blend("r4") + kRunQueue + kDouble + Blend("r4"));
  // (1, 2) by {{2, 4}, {0, 2}} is (2, 8), and that by {{4, 8}, {0, 4}} is (8, 48).
  EXPECT_EQ(RunEntry(*machine, BlendArgs()), "([8f, 48f], [24f, 128f], [40f, 208f], [56f, 288f])");
  EXPECT_EQ(Calls(), "double 1, turn 1, blend 4, total 1, double in place 1, turn 1, blend 4");
}

TEST(PendingTest, MatricesThatCallsWaitForAreNotUpdatedInPlace) {
  auto machine = BlendMachine(kDouble + Blend("r4") + kDouble + Blend("r4"));
  EXPECT_EQ(RunEntry(*machine, BlendArgs()), "([8f, 48f], [24f, 128f], [40f, 208f], [56f, 288f])");
  EXPECT_EQ(Calls(), "double 1, double 1, turn 1, blend 4, turn 1, blend 4");
}

TEST(PendingTest, FewMatricesAreKept) {
  std::string code = Blend("r5");
  for (int i = 0; i < 4; ++i) code += Blend("r4") + kDouble;
  auto machine = BlendMachine(code + Blend("r5"));
  ASSERT_TRUE(machine->Invoke("main", BlendArgs()).ok());
  EXPECT_EQ(std::ranges::count(Ran(), "turn 1"), 6);
  EXPECT_EQ(std::ranges::count(Ran(), "blend 4"), 6);
  EXPECT_EQ(machine->stats().leaked_objects, 0);
}

TEST(PendingTest, CallsRunAloneIfAMatrixCannotBeArranged) {
  auto machine = BlendMachine(Blend("r4"));
  EXPECT_EQ(RunEntry(*machine, BlendArgs({13, 0, 0, 1})), "([13f, 2f], [39f, 4f], [65f, 6f], [91f, 8f])");
  EXPECT_EQ(Calls(), "turn 1, blend 1, blend 1, blend 1, blend 1");
}

TEST(PendingTest, FewCallsAreNotArranged) {
  auto machine = BlendMachine("call_kernel [r0], N16, [r0!, r4]\ncall_kernel [r1], N16, [r1!, r4]\n");
  EXPECT_EQ(RunEntry(*machine, BlendArgs()), "([1f, 4f], [3f, 10f], [5f, 6f], [7f, 8f])");
  EXPECT_EQ(Calls(), "blend 1, blend 1");
}

TEST(PendingTest, EveryAllocationOfArrangedMatricesMayFail) {
  bool ends = false;
  for (int64_t n = 1; !ends; ++n) {
    auto machine = BlendMachine(Blend("r4") + Blend("r5"), {.fail_allocation = n});
    auto result = machine->Invoke("main", BlendArgs());
    EXPECT_EQ(machine->stats().leaked_objects, 0);
    // Without memory for panels, calls run alone.
    ends = result.ok() && Calls() == "turn 1, blend 4, turn 1, blend 4";
    if (result.ok())
      EXPECT_EQ(result->ToString(), "([4f, 1f], [10f, 3f], [16f, 5f], [22f, 7f])") << n;
    else
      EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
    ASSERT_LT(n, 100);
  }
}

}  // namespace
}  // namespace rvm::vm
