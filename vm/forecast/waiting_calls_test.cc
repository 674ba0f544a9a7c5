// The forecast of calls that wait, beside what runs take.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serialization/verifier.h"
#include "vm/forecast/memory_forecast.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"
#include "vm/testing/program_builder.h"
#include "vm/testing/row_kernels.h"

namespace rvm::vm {
namespace {

using testing::Floats;
using testing::Int;
using testing::LinkRowKernels;

// `extent`: of what types leave open.
MemoryForecast ForecastOf(const Program& program, int64_t extent = 1, bool has_variants = true) {
  Executable executable = program.executable();
  if (!has_variants) executable.batch_variants.clear();
  auto verified = Verify(std::move(executable));
  EXPECT_TRUE(verified.ok()) << verified.status();
  auto forecast =
      ForecastMemory(**verified, (**verified)->entries[0], [&](size_t, size_t) { return std::optional(extent); });
  EXPECT_TRUE(forecast.ok()) << forecast.status();
  return *forecast;
}

// The peak of a run, in bytes.
int64_t PeakOf(const std::shared_ptr<const Program>& program, const std::vector<Value>& args) {
  auto machine = Machine::Create(program, {});
  EXPECT_TRUE(machine.ok()) << machine.status();
  auto result = (*machine)->Invoke("main", args);
  EXPECT_TRUE(result.ok()) << result.status();
  return (*machine)->stats().peak_bytes;
}

TEST(WaitingCallsTest, CallsOfStaticShapes) {
  auto program = LinkRowKernels(R"(
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
  )");
  MemoryForecast forecast = ForecastOf(*program);
  EXPECT_EQ(forecast.unbounded, "");
  EXPECT_EQ(forecast.waiting_calls, 4096);
  EXPECT_TRUE(forecast.is_waiting_bound);
  int64_t bound = forecast.waiting_calls * forecast.waiting_call_bytes;
  int64_t peak = PeakOf(program, {Floats({1, 2}), Int(3000)});
  EXPECT_GT(peak, forecast.peak_bytes + bound / 16);
  EXPECT_LE(peak, forecast.peak_bytes + bound);
  EXPECT_EQ(ForecastOf(*program, 1, /*has_variants=*/false).waiting_calls, 0);
}

TEST(WaitingCallsTest, LongRowsRunTogetherIfTheyShareMore) {
  BatchVariant variant;
  variant.has_same_bits = true;
  auto rows = [&](size_t bytes, size_t shared) {
    return PendingCalls::RowsThatFit(variant, {.bytes = bytes, .shared = shared, .tensors = 3});
  };
  EXPECT_EQ(rows(1000, 1 << 30), 261);
  EXPECT_EQ(rows(128'000, 1 << 20), 2);
  EXPECT_EQ(rows(128'000, 14'000'000), 16);
  EXPECT_EQ(rows(1'000'000, 100'000'000), 4);
  EXPECT_LT(rows(5'000'000, 1'000'000'000), 2);
}

TEST(WaitingCallsTest, ArrangedMatrices) {
  auto program = LinkRowKernels(R"(
    entry "main" = F0 ("a", "w")
    function F0 "main" params 2 result T0 {
      r0: T0  r1: Tensor[(2, 2), float32]  r2: T0
    code
      call_kernel [r2], N16, [r0!, r1!]
      return r2
    }
  )");
  // Four tensors of 16 bytes.
  EXPECT_GE(ForecastOf(*program).workspace_bytes, 4 * (16 + 64));
}

// Calls of unknown extents in a loop that data ends.
TEST(WaitingCallsTest, CallsOfOtherShapes) {
  auto program = LinkRowKernels(R"(
    entry "main" = F0 ("a", "n")
    function F0 "main" params 2 result T1 {
      r0: T1  r1: int32  r2: T1
    code
      retain r2, r0
    L0:
      call_kernel_dynamic [r2], N6, [r2!, K2]
      add_imm_i32 r1, r1, -1
      branch_ne_imm r1, 0, L0
      drop r0
      return r2
    }
  )");
  for (int64_t extent : {10, 1000}) {
    MemoryForecast forecast = ForecastOf(*program, extent);
    EXPECT_EQ(forecast.unbounded, "");
    EXPECT_TRUE(forecast.is_waiting_bound);
    EXPECT_GE(forecast.waiting_call_bytes, 2 * 4 * extent);
    int64_t bound = forecast.waiting_calls * forecast.waiting_call_bytes;
    std::vector<float> values(static_cast<size_t>(extent), 1.0F);
    EXPECT_LE(PeakOf(program, {Floats(values), Int(3000)}), forecast.peak_bytes + bound);
  }
}

TEST(WaitingCallsTest, ProgramsWithoutABound) {
  // A list grows as long as data says.
  constexpr char kText[] = R"(
    adt A0 "List[Row]" { "Nil" "Cons" (T1, adt A0) C0 }
    cell C0 = constructor adt A0 tag 1 (T1, adt A0)
    entry "main" = F0 ("a", "n")
    function F0 "main" params 2 result adt A0 {
      r0: T1  r1: int32  r2: adt A0  r3: T1
    code
      load_tag r2, 0
    L0:
      call_kernel_dynamic [r3], N6, [r0, K2]
      make_cell r2, C0, [r3, r2]
      add_imm_i32 r1, r1, -1
      branch_ne_imm r1, 0, L0
      drop r0
      return r2
    }
  )";
  MemoryForecast forecast = ForecastOf(*LinkRowKernels(kText), 10);
  EXPECT_NE(forecast.unbounded, "");
  EXPECT_FALSE(forecast.is_waiting_bound);
  EXPECT_GE(forecast.waiting_call_bytes, 2 * 4 * 10);
}

}  // namespace
}  // namespace rvm::vm
