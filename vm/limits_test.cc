// Tests of the ends of runs before their end: limits, another thread, failing allocations; and of memory that never
// grows.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "serialization/encoder.h"
#include "vm/limits/limit.h"
#include "vm/machine.h"
#include "vm/testing/program_builder.h"

namespace rvm::vm {
namespace {

using std::chrono::milliseconds;
using testing::Code;
using testing::Int;
using testing::ProgramBuilder;
using Clock = std::chrono::steady_clock;

// ---- kernels

int32_t SpinUntilStopped(void* const*, const int64_t*, RvmKernelContext* context) {
  while (__atomic_load_n(context->cancel, __ATOMIC_RELAXED) == 0) std::this_thread::yield();
  return kRvmCancelled;
}
// Looks at nothing, and takes a millisecond.
int32_t Nap(void* const* buffers, const int64_t*, RvmKernelContext*) {
  std::this_thread::sleep_for(milliseconds(1));
  *static_cast<int32_t*>(buffers[1]) = *static_cast<int32_t*>(buffers[0]);
  return kRvmOk;
}
struct Ranges {
  const float* in;
  float* out;
};
void SquareRange(int64_t begin, int64_t end, void* closure) {
  auto* ranges = static_cast<Ranges*>(closure);
  for (int64_t i = begin; i < end; ++i) ranges->out[i] = ranges->in[i] * ranges->in[i];
}
int32_t Square(void* const* buffers, const int64_t* dims, RvmKernelContext* context) {
  std::memset(context->workspace, 1, static_cast<size_t>(4 * dims[0]));
  Ranges ranges = {static_cast<const float*>(buffers[0]), static_cast<float*>(buffers[1])};
  if (context->parallel_for == nullptr) {
    SquareRange(0, dims[0], &ranges);
  } else {
    context->parallel_for(context, dims[0], 100, SquareRange, &ranges);
  }
  return kRvmOk;
}

// ---- programs

// Endless in six ways; `one` ends.
std::shared_ptr<const Program> EndlessProgram() {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  TypeId fn = b.ClosureOf({i32}, i32);
  for (const char* name : {"spin", "nap"}) {
    KernelDesc desc;
    desc.name = desc.symbol = name;
    desc.params = desc.results = {{kInt32, {}}};
    b.executable().kernels.push_back(desc);
  }
  auto define = [&](const std::string& name, const std::function<void(FunctionId, Code&)>& write,
                    std::vector<TypeId> locals = {}) {
    FunctionId function = b.Declare(name, {i32}, i32);
    Code c;
    write(function, c);
    b.Define(function, std::move(locals), c);
    b.Export(function);
  };
  define("one", [&](FunctionId, Code& c) { c.Return(0); });
  define("jumps", [&](FunctionId, Code& c) {
    int l = c.NewLabel();
    c.Place(l).Branch(Opcode::kJump, {}, l);
  });
  define("branches", [&](FunctionId, Code& c) {
    int l = c.NewLabel();
    c.Place(l).Branch(Opcode::kBranchEqInt, {0, 0}, l).Return(0);
  });
  define("tail_calls", [&](FunctionId self, Code& c) { c.TailCall(self, {0}); });
  define("calls", [&](FunctionId, Code& c) {
    int l = c.NewLabel();
    c.Place(l).Call(0, FunctionId(0), {0}).Branch(Opcode::kJump, {}, l);
  });
  define("kernel", [&](FunctionId, Code& c) { c.CallKernel({0}, 0, {0}).Return(0); });
  define("kernels", [&](FunctionId, Code& c) {
    int l = c.NewLabel();
    c.Place(l).CallKernel({0}, 1, {0}).Branch(Opcode::kJump, {}, l);
  });
  FunctionId body = b.Declare("again", {fn, i32}, i32);
  LayoutId layout = b.Layout(CellKind::kClosure, fn, {}, body);
  Code c;
  c.TailCallClosure(0, {1});
  b.Define(body, {}, c);
  define("closures", [&](FunctionId, Code& code) { code.MakeCell(1, layout, {}).TailCallClosure(1, {0}); }, {fn});
  return b.Build({SpinUntilStopped, Nap});
}

constexpr const char* kEndless[] = {"jumps", "branches", "tail_calls", "calls", "kernel", "kernels", "closures"};

// main(x) = x * x
std::shared_ptr<const Program> SquareProgram() {
  ProgramBuilder b;
  TypeId x = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
  KernelDesc desc;
  desc.name = desc.symbol = "square";
  desc.num_symbols = 1;
  desc.params = desc.results = {{kFloat32, {Dim::Var(0, "n")}}};
  desc.workspace = Dim::Var(0, "n") * Dim(4);
  b.executable().kernels.push_back(desc);
  FunctionId main = b.Declare("main", {x}, x);
  Code c;
  c.CallKernel({1}, 0, {0}, Opcode::kCallKernelDynamic).Op(Opcode::kDrop, {0}).Return(1);
  b.Define(main, {x}, c);
  b.Export(main);
  return b.Build({Square});
}

Value Numbers(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1000);
  return testing::Floats(numbers);
}

void ExpectUsable(Machine& machine) {
  EXPECT_EQ(machine.stats().leaked_objects, 0);
  EXPECT_EQ(machine.Invoke("one", std::vector<Value>{Int(1)})->ToString(), "1");
}

// ---- time

// How soon runs stop is measured by benchmarks/stop. These tests wait as long as a busy machine needs.

TEST(LimitsTest, ATimeLimitStopsEverything) {
  auto machine = *Machine::Create(EndlessProgram(), {.time_limit_ms = 15});
  for (const char* entry : kEndless) {
    std::string where = entry == std::string("closures") ? "again" : entry;
    // The time may be over before the program has begun; then another run shows where it was stopped.
    for (bool has_begun = false; !has_begun;) {
      auto start = Clock::now();
      auto result = machine->Invoke(entry, std::vector<Value>{Int(1)});
      EXPECT_GE(Clock::now() - start, milliseconds(15)) << entry;
      ASSERT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << entry << result.status();
      EXPECT_EQ(ReachedLimit(result.status()), Limit::kTime);
      std::string text(result.status().message());
      has_begun = text.starts_with("the time limit of 15 ms is over\n  in `");
      if (has_begun) EXPECT_NE(text.find("in `" + where + "`"), std::string::npos) << text;
      ExpectUsable(*machine);
    }
  }
}

// The time is each run's own: what other runs took does not count.
TEST(LimitsTest, RunsWithinTheirTimeAreNotStopped) {
  auto machine = *Machine::Create(EndlessProgram(), {.time_limit_ms = 100});
  auto end = Clock::now() + milliseconds(250);
  // A run that waits for a processor for longer than its limit is stopped rightly: another one follows.
  bool ok = false;
  while (!ok || Clock::now() < end) ok = machine->Invoke("one", std::vector<Value>{Int(1)}).ok();
}

TEST(LimitsTest, AnotherThreadStopsEverything) {
  auto machine = *Machine::Create(EndlessProgram(), {});
  for (const char* entry : kEndless) {
    std::atomic<bool> done = false;
    std::thread other([&] {
      // A Cancel before the run begins has no effect.
      while (!done) {
        std::this_thread::sleep_for(milliseconds(5));
        machine->Cancel();
      }
    });
    auto result = machine->Invoke(entry, std::vector<Value>{Int(1)});
    done = true;
    other.join();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << entry << result.status();
    ExpectUsable(*machine);
  }
}

TEST(LimitsTest, AKernelThatStopsUnaskedHasFailed) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  KernelDesc desc;
  desc.name = desc.symbol = "quit";
  desc.params = desc.results = {{kInt32, {}}};
  b.executable().kernels.push_back(desc);
  FunctionId main = b.Declare("main", {i32}, i32);
  Code c;
  c.CallKernel({0}, 0, {0}).Return(0);
  b.Define(main, {}, c);
  b.Export(main);
  RvmKernel quit = [](void* const*, const int64_t*, RvmKernelContext*) -> int32_t { return kRvmCancelled; };
  auto machine = *Machine::Create(b.Build({quit}), {});
  absl::Status status = machine->Invoke("main", std::vector<Value>{Int(1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

TEST(LimitsTest, FuelEndsAnythingThatJumpsOrCalls) {
  auto machine = *Machine::Create(EndlessProgram(), {.fuel = 100});
  for (const char* entry : kEndless) {
    if (entry == std::string("kernel")) continue;
    auto result = machine->Invoke(entry, std::vector<Value>{Int(1)});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << entry << result.status();
    ExpectUsable(*machine);
  }
}

TEST(LimitsTest, OptionsAreChecked) {
  auto program = EndlessProgram();
  for (const MachineOptions& options :
       {MachineOptions{.memory_limit_bytes = -1}, MachineOptions{.stack_limit_bytes = -1}, MachineOptions{.threads = 0},
        MachineOptions{.threads = 1 << 20}}) {
    EXPECT_EQ(Machine::Create(program, options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// ---- threads

constexpr double kEnough = 3.6e6;  // milliseconds, on any machine

TEST(LimitsTest, ThreadsDoNotChangeResults) {
  auto program = SquareProgram();
  Value x = Numbers(100'000);
  Value expected = *(*Machine::Create(program, {}))->Invoke("main", std::vector<Value>{x});
  EXPECT_EQ(expected.tensor().DoubleAt(999), 999.0 * 999.0);
  for (int threads : {2, 3, 8}) {
    auto machine = *Machine::Create(program, {.threads = threads});
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(DiffValues(*machine->Invoke("main", std::vector<Value>{x}), expected), "");
    }
  }
}

TEST(LimitsTest, MachinesWithThreadsOfTheirOwnShareAProgram) {
  auto program = SquareProgram();
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i) {
    threads.emplace_back([&, i] {
      auto machine = *Machine::Create(program, {.time_limit_ms = kEnough, .threads = i});
      Value x = Numbers(10'000 * i);
      for (int round = 0; round < 50; ++round) {
        auto result = machine->Invoke("main", std::vector<Value>{x});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->tensor().DoubleAt(7), 49.0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LimitsTest, AForkedChildLoadsAndRuns) {
  auto program = EndlessProgram();
  ProgramBuilder b;
  FunctionId main = b.Declare("main", {b.Scalar(kInt32)}, b.Scalar(kInt32));
  Code c;
  c.Op(Opcode::kAddImmI32, {0, 0, 1}).Return(0);
  b.Define(main, {}, c);
  b.Export(main);
  b.executable().executable_class = ExecutableClass::kPortable;
  std::vector<uint8_t> bytes = Encode(b.executable());
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto loaded = Program::Load(bytes, {});
    auto machine = loaded.ok() ? Machine::Create(*loaded, {.time_limit_ms = kEnough, .threads = 2}) : loaded.status();
    bool ok = machine.ok() && (*machine)->Invoke("main", std::vector<Value>{Int(41)})->ToString() == "42";
    // The parent's program is good here too.
    auto other = Machine::Create(program, {.time_limit_ms = 10});
    ok = ok && !(*other)->Invoke("jumps", std::vector<Value>{Int(1)}).ok();
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// ---- memory

TEST(LimitsTest, EveryAllocationOfAKernelCallMayFail) {
  auto program = SquareProgram();
  Value x = Numbers(5000);
  int64_t failed = 0;
  for (int64_t n = 1; n < 20; ++n) {
    auto machine = *Machine::Create(program, {.threads = 2, .fail_allocation = n});
    auto result = machine->Invoke("main", std::vector<Value>{x});
    if (!result.ok()) {
      ++failed;
      EXPECT_EQ(n, failed);
      EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
      EXPECT_EQ(machine->stats().leaked_objects, 0);
      result = machine->Invoke("main", std::vector<Value>{x});
    }
    ASSERT_TRUE(result.ok()) << n << result.status();
    EXPECT_EQ(result->tensor().DoubleAt(3), 9.0);
  }
  EXPECT_EQ(failed, 3);  // the argument's header, the result, the workspace
}

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kGivesMemoryBack = false;  // they keep what is freed for a while, and notes on each byte
#else
constexpr bool kGivesMemoryBack = true;
#endif

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(LimitsTest, TenThousandShapesTakeNoMoreMemoryThanAThousand) {
  auto machine = *Machine::Create(SquareProgram(), {});
  uint32_t state = 1;
  auto run = [&](int times) {
    for (int i = 0; i < times; ++i) {
      state = state * 1664525 + 1013904223;
      int64_t count = 1 + (state >> 8) % 50'000;
      auto result = machine->Invoke("main", std::vector<Value>{Numbers(count)});
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_EQ(result->tensor().shape()[0], count);
    }
  };
  run(1000);
  int64_t before = ResidentBytes();
  run(9000);
  if (kGivesMemoryBack) EXPECT_LT(ResidentBytes() - before, 4 << 20);
  EXPECT_GT(before, 0);
  EXPECT_EQ(machine->stats().live_bytes, 0);
}

// The second result lives on while it is a Value; what else the runs took goes back.
TEST(LimitsTest, TrimGivesEverythingBack) {
  auto machine = *Machine::Create(SquareProgram(), {});
  for (int64_t count : {5000, 100'000}) {
    auto result = machine->Invoke("main", std::vector<Value>{Numbers(count)});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(machine->stats().reserved_bytes, 0);
    machine->Trim();
    EXPECT_EQ(machine->stats().reserved_bytes, 0);
    EXPECT_EQ(machine->stats().pooled_bytes, 0);
    EXPECT_EQ(result->tensor().DoubleAt(3), 9.0);
  }
}

// A list that is an argument and the result: the time that it takes to come in and go out counts.
TEST(LimitsTest, TimeEndsValuesOnTheirWay) {
  ProgramBuilder b;
  auto [list, cons] = b.IntList();
  FunctionId main = b.Declare("main", {list}, list);
  Code c;
  c.Return(0);
  b.Define(main, {}, c);
  b.Export(main);
  auto program = b.Build();
  Value value = Value::Adt("Nil", {});
  for (int i = 0; i < 100'000; ++i) value = Value::Adt("Cons", {Int(i), std::move(value)});
  const std::vector<Value> args = {std::move(value)};
  bool is_argument = false, is_result = false;
  for (int64_t ms = 0; !(is_argument && is_result); ms = ms < 2000 ? ms + 1 + ms / 20 : 0) {
    auto machine = *Machine::Create(program, {.time_limit_ms = static_cast<double>(ms)});
    absl::Status status = machine->Invoke("main", args).status();
    EXPECT_EQ(machine->stats().leaked_objects, 0);
    if (status.ok()) continue;  // the time was enough
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    is_argument |= absl::StrContains(status.message(), "argument 1 (`%p0`) of `main`: the time limit of ");
    is_result |= absl::StrContains(status.message(), "the result of `main`: the time limit of ");
  }
}

// main(n) = if n = 0 then 0 else main(n - 1) + 1
TEST(LimitsTest, TrimGivesTheStackBack) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  FunctionId main = b.Declare("main", {i32}, i32);
  Code c;
  int more = c.NewLabel();
  c.Branch(Opcode::kBranchNeImm, {0, 0}, more).Return(0);
  c.Place(more).Op(Opcode::kAddImmI32, {0, 0, 0xffff}).Call(0, main, {0}).Op(Opcode::kAddImmI32, {0, 0, 1}).Return(0);
  b.Define(main, {}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build(), {});
  constexpr int kDepth = 1'000'000;
  int64_t before = ResidentBytes();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(machine->Invoke("main", std::vector<Value>{Int(kDepth)})->ToString(), std::to_string(kDepth));
    EXPECT_GT(ResidentBytes() - before, kDepth * int64_t{sizeof(int64_t)});
    machine->Trim();
    if (kGivesMemoryBack) EXPECT_LT(ResidentBytes() - before, 4 << 20);
  }
}

// Blocks that wait count against the limit, and make room before it is reached.
TEST(LimitsTest, ThePoolStaysWithinTheLimit) {
  constexpr int64_t kLimit = 4 << 20;
  auto machine = *Machine::Create(SquareProgram(), {.memory_limit_bytes = kLimit});
  for (int64_t count = 2000; count < 200'000; count += 2500) {
    auto result = machine->Invoke("main", std::vector<Value>{Numbers(count)});
    ASSERT_TRUE(result.ok()) << count << result.status();
    EXPECT_LE(machine->stats().reserved_bytes, kLimit);
  }
  EXPECT_GT(machine->stats().trims, 0);
}

}  // namespace
}  // namespace rvm::vm
