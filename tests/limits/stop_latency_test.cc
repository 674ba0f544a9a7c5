// A run of any kind of control flow ends within a millisecond of its processor after it was cancelled, at the median;
// one of any operator within 50, which is far below the time of one that does not poll.
#include "tests/limits/stop_latency.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/long_tests.h"
#include "tests/limits/long_operators.h"

namespace rvm::limits {
namespace {

TEST(StopLatencyTest, ControlFlowEndsSoon) {
  for (const LongControl& control : LongControls()) {
    auto program = CompileLongControl(control);
    ASSERT_TRUE(program.ok()) << program.status();
    std::vector<Value> args = {Value::Tensor(Literal::ScalarInt(kInt64, control.size))};
    for (bool runs_bytecode : {false, true}) {
      auto latencies = StopLatencies(*program, args, runs_bytecode, /*count=*/15);
      ASSERT_TRUE(latencies.ok()) << control.name << ": " << latencies.status();
      // The median: on a busy machine the time of a processor has what interrupts leave behind, such as cold caches.
      EXPECT_LT((*latencies)[7], 1.0) << control.name << (runs_bytecode ? " as bytecode" : " as machine code");
    }
  }
}

TEST(StopLatencyTest, OperatorsEndSoon) {
  KeptMemory kept;
  Sample sample(3);
  for (const LongOperator& op : LongOperators()) {
    if (!sample.Takes()) continue;
    auto program = CompileLongOperator(op, "host");
    ASSERT_TRUE(program.ok()) << program.status();
    auto stops = StopLongRuns(*program, MakeArguments(op), /*longest_ms=*/200, /*count=*/9);
    ASSERT_TRUE(stops.ok()) << op.name << ": " << stops.status();
    // Far above what stops take, and far below a run that does not poll: on a busy machine a run may get to pages that
    // no run before it has touched.
    if (!stops->latencies.empty()) EXPECT_LT(stops->latencies[stops->latencies.size() / 2], 50.0) << op.name;
  }
}

}  // namespace
}  // namespace rvm::limits
