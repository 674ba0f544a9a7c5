// The interpreter finds what the threads of a block may do wrong together. Faulty code is a correct sum over a block
// with one instruction changed.
#include "tests/cuda/ptx.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ptx {
namespace {

// Each of 64 threads leaves its number in shared memory; the first one stores what thread 63 left.
constexpr char kLast[] = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry last(
.param .u64 last_0
)
.reqntid 64, 1, 1
{
.reg .pred %p<3>;
.reg .b32 %r<4>;
.reg .b64 %rd<6>;
.shared .align 4 .b8 values[256];
ld.param.u64 %rd1, [last_0];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
mov.u64 %rd3, values;
add.s64 %rd4, %rd3, %rd2;
st.shared.u32 [%rd4], %r1;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $done;
ld.shared.u32 %r2, [values+252];
st.global.u32 [%rd1], %r2;
$done:
ret;
}
)";

constexpr char kSum[] = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry sum(
.param .u64 sum_0
)
{
.reg .pred %p<3>;
.reg .b32 %r<6>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [sum_0];
mov.u32 %r1, %tid.x;
shfl.sync.bfly.b32 %r2|%p1, %r1, 16, 31, -1;
add.s32 %r3, %r1, %r2;
shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;
setp.ne.u32 %p2, %r1, 0;
@%p2 bra $done;
st.global.u32 [%rd1], %r4;
$done:
ret;
}
)";

std::string With(std::string text, const std::string& old, const std::string& now) {
  size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

struct Outcome {
  std::string fault;
  uint32_t value = 0;
};

Outcome RunText(const std::string& text, uint32_t threads, uint32_t seed) {
  Module module;
  std::string problem = Parse(text, module);
  EXPECT_EQ(problem, "");
  if (!problem.empty()) return {problem};
  Memory memory;
  uint64_t address = memory.Allocate(4);
  Outcome outcome;
  outcome.fault = Run(module.entries.begin()->second, {1, threads}, {address}, seed, memory);
  std::memcpy(&outcome.value, memory.At(address, 4, problem), 4);
  return outcome;
}

void ExpectFault(const std::string& text, const std::string& says, uint32_t threads = 64) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::string fault = RunText(text, threads, seed).fault;
    EXPECT_NE(fault.find(says), std::string::npos) << "seed " << seed << ": " << fault;
  }
}

TEST(PtxTest, ThreadsOfABlockShareMemory) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Outcome outcome = RunText(kLast, 64, seed);
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.value, 63u);
  }
}

TEST(PtxTest, FindsMissingBarriers) { ExpectFault(With(kLast, "bar.sync 0;", ""), "shared memory"); }

TEST(PtxTest, FindsRaces) {
  ExpectFault(With(kLast, "add.s64 %rd4, %rd3, %rd2;", "mov.u64 %rd4, values;"), "without a barrier in between");
  // Reads of several threads, then a write of one of them.
  ExpectFault(With(kLast, "@%p1 bra $done;", "ld.shared.u32 %r3, [values];\nst.shared.u32 [%rd4], %r3;"),
              "without a barrier in between");
}

TEST(PtxTest, FindsSharedMemoryThatWasNeverWritten) {
  ExpectFault(With(kLast, "st.shared.u32 [%rd4], %r1;", ""), "shared memory that was never written");
  ExpectFault(With(kLast, "values+252", "values+256"), "shared memory that was never written");
  ExpectFault(With(kLast, "values+252", "values+4096"), "shared memory beyond its end");
}

TEST(PtxTest, FindsDivergentBarriers) {
  ExpectFault(With(kLast, "bar.sync 0;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $done;",
                   "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $done;\nbar.sync 0;"),
              "1 of 64 threads wait at a barrier, and the others have ended");
  ExpectFault(With(kLast, "bar.sync 0;",
                   "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $other;\nbar.sync 0;\nbra $join;\n$other:\nbar.sync 0;\n$join:"),
              "threads wait at different barriers");
}

TEST(PtxTest, FindsBlocksOfAnotherSize) { ExpectFault(kLast, "runs in blocks of 64 threads", 32); }

TEST(PtxTest, LanesOfAWarpExchangeValues) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Outcome outcome = RunText(kSum, 32, seed);
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.value, 1u + 17u);
  }
}

TEST(PtxTest, FindsLanesThatDoNotExchange) {
  std::string text =
      With(kSum, "shfl.sync.bfly.b32 %r4", "setp.ne.u32 %p2, %r1, 3;\n@!%p2 bra $done;\nshfl.sync.bfly.b32 %r4");
  ExpectFault(text, "exchange values without the others", 32);
  ExpectFault(kSum, "exchange values without the others", 16);  // a warp that is not whole
}

}  // namespace
}  // namespace ptx
