// Limits stop long operators on their way, and the machine may be used again.
#include "tests/limits/long_operators.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/status/status.h"

namespace rvm::limits {
namespace {

using std::chrono::milliseconds;

void ExpectUsable(vm::Machine& machine) {
  EXPECT_EQ(machine.stats().leaked_objects, 0);
  absl::StatusOr<Value> one = machine.Invoke("one", std::vector<Value>{Value::Tensor(Literal::ScalarInt(kInt32, 7))});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->ToString(), "7");
}

absl::StatusOr<Value> Cancelled(vm::Machine& machine, const std::vector<Value>& args) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    // A cancellation before the run begins has no effect.
    while (!done) {
      std::this_thread::sleep_for(milliseconds(5));
      machine.Cancel();
    }
  });
  absl::StatusOr<Value> result = machine.Invoke("main", args);
  done = true;
  other.join();
  return result;
}

void CheckTarget(const LongOperator& op, const std::string& target, const std::vector<Value>& args) {
  SCOPED_TRACE(target);
  absl::StatusOr<std::shared_ptr<const vm::Program>> program = CompileLongOperator(op, target);
  ASSERT_TRUE(program.ok()) << program.status();
  auto limited = vm::Machine::Create(*program, {.time_limit_ms = 5, .threads = 2});
  auto free = vm::Machine::Create(*program, {});
  ASSERT_TRUE(limited.ok() && free.ok());
  absl::Status late, cancelled;
  // On a busy machine a run may end before the thread that stops it gets a processor: then another one follows.
  while (late.ok()) late = (*limited)->Invoke("main", args).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  ExpectUsable(**limited);
  while (cancelled.ok()) cancelled = Cancelled(**free, args).status();
  EXPECT_EQ(cancelled.code(), absl::StatusCode::kCancelled) << cancelled;
  ExpectUsable(**free);
}

TEST(LongOperatorsTest, LimitsStopThem) {
  for (const LongOperator& op : LongOperators()) {
    SCOPED_TRACE(op.name);
    std::vector<Value> args = MakeArguments(op);
    CheckTarget(op, "host", args);
    CheckTarget(op, "portable", args);
  }
}

}  // namespace
}  // namespace rvm::limits
