// Functions that cross the border of a machine: those of the host, and closures that the host holds.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/codegen/kernel_compiler.h"
#include "native/control_compiler.h"
#include "serialization/assembler.h"
#include "vm/limits/limit.h"
#include "vm/machine.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {
namespace {

// count(emit, n): emits 0 .. n - 1, and gives n. ask(f, x) gives f(x). same(f) gives f. counter(x): a closure that adds
// its argument to what it holds, and gives the sum, which it holds from then on; x is a tensor. apply(f, x): f(x).
constexpr char kProgram[] = R"(
type T0 = int32
type T1 = ()
type T2 = fn (T0,) -> T1
type T3 = Tensor[(?), float32]
type T4 = fn (T3,) -> T3
type T5 = fn () -> T3
type T6 = ref(T3)
type T7 = int64
cell C0 = closure T2 F4 (T7,)
cell C1 = closure T4 F5 (T7,)
cell C2 = closure T5 F6 (T6,)
cell C3 = ref T6 (T3,)
cell C4 = closure T5 F9 (T7,)
entry "count" = F0 ("emit", "n")
entry "ask" = F1 ("f", "x")
entry "same" = F2 ("f")
entry "holder" = F3 ("x")
entry "swap" = F7 ("get", "x")
entry "fail" = F8 ("n")
function F0 "count" params 2 result int32 {
  r0: T2  r1: T0  r2: T0  r3: T1  r4: T2
code
  load_int r2, 0
L1:
  branch_eq_int r2, r1, L2
  retain r4, r0
  call_closure r3, r4, [r2]
  drop r3
  add_imm_i32 r2, r2, 1
  jump L1
L2:
  drop r0
  return r2
}
function F1 "ask" params 2 result T3 {
  r0: T4  r1: T3
code
  tail_call_closure r0, [r1]
}
function F2 "same" params 1 result T4 {
  r0: T4
code
  return r0
}
function F3 "holder" params 1 result T5 {
  r0: T3  r1: T6  r2: T5
code
  make_cell r1, C3, [r0]
  make_cell r2, C2, [r1]
  return r2
}
function F4 "function of the host" params 2 result T1 {
  r0: T2  r1: T0  r2: T1
code
  call_host r2, r0, [r1]
  drop r0
  return r2
}
function F5 "function of the host" params 2 result T3 {
  r0: T4  r1: T3  r2: T3
code
  call_host r2, r0, [r1]
  drop r0
  return r2
}
function F6 "holder.fn" params 1 result T3 {
  r0: T5  r1: T6  r2: T3
code
  get_field r1, r0, C2, 0
  ref_read r2, r1
  drop r1
  drop r0
  return r2
}
function F7 "swap" params 2 result T3 {
  r0: T5  r1: T3  r2: T3
code
  call_closure r2, r0, []
  drop r1
  return r2
}
function F8 "fail" params 1 result int32 {
  r0: T0
code
  fatal 0
}
function F9 "function of the host" params 1 result T3 {
  r0: T5  r1: T3
code
  call_host r1, r0, []
  drop r0
  return r1
}
)";

class CppFunction : public FunctionObject {
 public:
  using Body = std::function<absl::StatusOr<Value>(std::span<const Value> args)>;
  explicit CppFunction(Body body) : body_(std::move(body)) {}
  absl::StatusOr<Value> Call(std::span<const Value> args) override { return body_(args); }

 private:
  Body body_;
};

Value Function(CppFunction::Body body) {
  return Value::Function("test", std::make_shared<CppFunction>(std::move(body)));
}
Value Int(int64_t number) { return Value::Tensor(Literal::ScalarInt(kInt32, number)); }
Value Floats(const std::vector<float>& numbers) {
  return Value::Tensor(
      Literal::FromBytes(kFloat32, {static_cast<int64_t>(numbers.size())},
                         {reinterpret_cast<const std::byte*>(numbers.data()), numbers.size() * sizeof(float)}));
}

enum class Mode : uint8_t { kBytecode, kNative, kWatched };

class HostFunctionsTest : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    auto executable = Assemble(kProgram);
    ASSERT_TRUE(executable.ok()) << executable.status();
    auto verified = Verify(*std::move(executable));
    ASSERT_TRUE(verified.ok()) << verified.status();
    auto control = native::CompileControl(**verified, *codegen::ParseHostTarget("host"), {});
    ASSERT_TRUE(control.ok()) << control.status();
    program_ = *Program::LinkWithKernels(*verified, {}, nullptr, nullptr, &control->code);
    machine_ = NewMachine(GetParam() == Mode::kWatched ? &profiler_ : nullptr);
  }

  std::unique_ptr<Machine> NewMachine(Profiler* profiler = nullptr) {
    return *Machine::Create(program_, {.runs_bytecode = GetParam() == Mode::kBytecode, .profiler = profiler});
  }

  // The error of a run.
  std::string ErrorOf(const absl::StatusOr<Value>& result, absl::StatusCode code) {
    EXPECT_EQ(result.status().code(), code) << result.status();
    return std::string(result.status().message());
  }

  std::shared_ptr<const Program> program_;
  Profiler profiler_;
  std::unique_ptr<Machine> machine_;
};

TEST_P(HostFunctionsTest, CallsAsTheProgramRuns) {
  std::vector<std::string> seen;
  Value emit = Function([&](std::span<const Value> args) {
    seen.push_back(args[0].ToString());
    return Value();
  });
  auto result = machine_->Invoke("count", std::vector<Value>{emit, Int(3)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ToString(), "3");
  EXPECT_EQ(seen, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(machine_->stats().leaked_objects, 0);
}

TEST_P(HostFunctionsTest, TensorsComeAndGo) {
  // The second is larger than a block of the pool, and leaves the heap with its memory if nothing else has it.
  for (size_t size : {3, 5000}) {
    std::vector<float> numbers(size, 1.5f);
    Value kept;
    Value twice = Function([&](std::span<const Value> args) {
      kept = args[0];
      std::vector<float> doubled(size, 3.f);
      return Floats(doubled);
    });
    auto result = machine_->Invoke("ask", std::vector<Value>{twice, Floats(numbers)});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(DiffValues(*result, Floats(std::vector<float>(size, 3.f))), "");
    EXPECT_EQ(DiffValues(kept, Floats(numbers)), "");
  }
}

TEST_P(HostFunctionsTest, ErrorsEndTheRun) {
  Value fails = Function([](std::span<const Value>) { return absl::AbortedError("no more paper"); });
  std::string message =
      ErrorOf(machine_->Invoke("count", std::vector<Value>{fails, Int(3)}), absl::StatusCode::kAborted);
  EXPECT_EQ(message.rfind("no more paper\n  in `function of the host`", 0), 0u) << message;
  EXPECT_NE(message.find("in `count`"), std::string::npos) << message;
  Value other = Function([](std::span<const Value>) { return Int(1); });
  message = ErrorOf(machine_->Invoke("count", std::vector<Value>{other, Int(3)}), absl::StatusCode::kAborted);
  EXPECT_EQ(message.rfind("the result of a function of the host: saw int32; expected ()", 0), 0u) << message;
  Value fine = Function([](std::span<const Value>) { return Value(); });
  EXPECT_TRUE(machine_->Invoke("count", std::vector<Value>{fine, Int(3)}).ok());
}

TEST_P(HostFunctionsTest, WrongArguments) {
  Value fine = Function([](std::span<const Value>) { return Value(); });
  EXPECT_EQ(ErrorOf(machine_->Invoke("count", std::vector<Value>{Int(3), Int(3)}), absl::StatusCode::kInvalidArgument),
            "argument 1 (`%emit`) of `count`: saw int32; expected fn (int32) -> ()");
  EXPECT_EQ(ErrorOf(machine_->Invoke("count", std::vector<Value>{fine, fine}), absl::StatusCode::kInvalidArgument),
            "argument 2 (`%n`) of `count`: saw a function; expected int32");
  EXPECT_EQ(
      ErrorOf(machine_->Invoke("count", std::vector<Value>{Value::Closure("x"), Int(1)}),
              absl::StatusCode::kInvalidArgument),
      "argument 1 (`%emit`) of `count`: saw the text of a closure, which cannot be called; expected fn (int32) -> ()");
}

TEST_P(HostFunctionsTest, CancelAndLimitsHold) {
  int calls = 0;
  Value cancels = Function([&](std::span<const Value>) {
    if (++calls == 2) machine_->Cancel();
    return Value();
  });
  ErrorOf(machine_->Invoke("count", std::vector<Value>{cancels, Int(1000)}), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 2);
  Value counts = Function([&](std::span<const Value>) {
    ++calls;
    return Value();
  });
  auto out_of_fuel = machine_->Invoke("count", std::vector<Value>{counts, Int(1000)}, {.fuel = 20});
  EXPECT_EQ(ReachedLimit(out_of_fuel.status()), Limit::kFuel);
  EXPECT_LT(calls, 22);
  Value sleeps = Function([&](std::span<const Value>) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return Value();
  });
  auto late = machine_->Invoke("count", std::vector<Value>{sleeps, Int(1000)}, {.time_limit_ms = 20});
  EXPECT_EQ(ReachedLimit(late.status()), Limit::kTime);
}

TEST_P(HostFunctionsTest, TheMachineOfARunIsTaken) {
  absl::Status inner;
  Value calls_back = Function([&](std::span<const Value> args) -> absl::StatusOr<Value> {
    machine_->Trim();  // does nothing
    inner = machine_->Invoke("fail", args).status();
    return Value();
  });
  EXPECT_TRUE(machine_->Invoke("count", std::vector<Value>{calls_back, Int(1)}).ok());
  EXPECT_NE(inner.message().find("the machine is running"), std::string::npos) << inner;
}

TEST_P(HostFunctionsTest, AnotherMachineMayRunBelow) {
  auto other = NewMachine();
  std::string seen;
  Value inner = Function([&](std::span<const Value> args) {
    seen += args[0].ToString();
    return Value();
  });
  Value outer = Function([&](std::span<const Value> args) -> absl::StatusOr<Value> {
    auto result = other->Invoke("count", std::vector<Value>{inner, args[0]});
    return result.ok() ? absl::StatusOr<Value>(Value()) : result.status();
  });
  EXPECT_TRUE(machine_->Invoke("count", std::vector<Value>{outer, Int(4)}).ok());
  EXPECT_EQ(seen, "001012");
}

TEST_P(HostFunctionsTest, HostFunctionsComeBackAsTheyAre) {
  Value f = Function([](std::span<const Value> args) { return args[0]; });
  auto result = machine_->Invoke("same", std::vector<Value>{f});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->function(), f.function());
  EXPECT_EQ(machine_->stats().leaked_objects, 0);
}

TEST_P(HostFunctionsTest, ClosuresKeepWhatTheyCaptured) {
  Value held;
  {
    // The caller's tensor dies before the closure is called.
    Value x = Floats(std::vector<float>(5000, 2.f));
    auto result = machine_->Invoke("holder", std::vector<Value>{x});
    ASSERT_TRUE(result.ok()) << result.status();
    held = *result;
  }
  EXPECT_GT(machine_->stats().live_bytes, 20000);
  for (int i = 0; i < 3; ++i) {
    auto result = machine_->Call(held, {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(DiffValues(*result, Floats(std::vector<float>(5000, 2.f))), "");
    // Other runs in between leave it alone.
    Value fine = Function([](std::span<const Value>) { return Value(); });
    EXPECT_TRUE(machine_->Invoke("count", std::vector<Value>{fine, Int(3)}).ok());
  }
  auto as_argument = machine_->Invoke("swap", std::vector<Value>{held, Floats({1})});
  EXPECT_TRUE(as_argument.ok()) << as_argument.status();
  machine_->Trim();
  EXPECT_TRUE(machine_->Call(held, {}).ok());
  EXPECT_TRUE(held.function()->Call({}).ok());
  held = Value();
  machine_->Trim();
  EXPECT_EQ(machine_->stats().leaked_objects, 0);
}

TEST_P(HostFunctionsTest, ClosuresEndWithTheHeap) {
  auto held = machine_->Invoke("holder", std::vector<Value>{Floats({1})});
  ASSERT_TRUE(held.ok()) << held.status();
  // A wrong argument is no run.
  EXPECT_FALSE(machine_->Invoke("count", std::vector<Value>{Int(3), Int(3)}).ok());
  EXPECT_TRUE(machine_->Call(*held, {}).ok());
  EXPECT_EQ(ErrorOf(machine_->Call(*held, std::vector<Value>{Int(1)}), absl::StatusCode::kInvalidArgument),
            "`fn () -> Tensor[(?), float32]` takes 0 arguments; saw 1");
  auto other = NewMachine();
  ErrorOf(other->Call(*held, {}), absl::StatusCode::kInvalidArgument);
  // For another machine it is a function of the host.
  auto result = other->Invoke("swap", std::vector<Value>{*held, Floats({2})});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ToString(), "[1f]");
  EXPECT_FALSE(machine_->Invoke("fail", std::vector<Value>{Int(1)}).ok());
  std::string gone = ErrorOf(machine_->Call(*held, {}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(gone.rfind("the function is gone", 0), 0u) << gone;
  EXPECT_FALSE(machine_->Invoke("swap", std::vector<Value>{*held, Floats({2})}).ok());
  machine_ = nullptr;
  gone = ErrorOf(held->function()->Call({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(gone, "the machine of the function was freed");
}

TEST_P(HostFunctionsTest, AnyThreadMayLetAFunctionGo) {
  std::vector<Value> held;
  for (int i = 0; i < 100; ++i) {
    auto result = machine_->Invoke("holder", std::vector<Value>{Floats({float(i)})});
    ASSERT_TRUE(result.ok()) << result.status();
    held.push_back(*result);
  }
  Value last = held[99];
  std::thread([&] { held.clear(); }).join();
  auto result = machine_->Call(last, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ToString(), "[99f]");
  EXPECT_LT(machine_->stats().live_objects, 10);
}

// Hands texts of a run to another thread: the run waits until each was taken.
class Handover {
 public:
  void Give(std::string text) {
    std::unique_lock lock(mutex_);
    text_ = std::move(text);
    changed_.notify_all();
    changed_.wait(lock, [&] { return text_.empty() || is_closed_; });
  }
  std::string Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !text_.empty(); });
    std::string text = std::exchange(text_, "");
    changed_.notify_all();
    return text;
  }
  // Nobody takes any more.
  void Close() {
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool is_closed_ = false;
};

TEST_P(HostFunctionsTest, MachinesStreamAtOnce) {
  constexpr int kTokens = 50;
  struct Stream {
    std::unique_ptr<Machine> machine;
    Handover handover;
    absl::StatusOr<Value> result;
    std::thread thread;
  };
  Stream streams[2];
  for (int i = 0; i < 2; ++i) {
    Stream& stream = streams[i];
    stream.machine = NewMachine();
    stream.thread = std::thread([&stream, count = i == 0 ? kTokens : 1'000'000'000] {
      Value emit = Function([&](std::span<const Value> args) {
        stream.handover.Give(args[0].ToString());
        return Value();
      });
      stream.result = stream.machine->Invoke("count", std::vector<Value>{emit, Int(count)});
    });
  }
  for (int token = 0; token < kTokens; ++token) {
    for (Stream& stream : streams) EXPECT_EQ(stream.handover.Take(), std::to_string(token));
  }
  // The second is cancelled while it computes or waits.
  streams[1].machine->Cancel();
  streams[1].handover.Close();
  for (Stream& stream : streams) stream.thread.join();
  ASSERT_TRUE(streams[0].result.ok()) << streams[0].result.status();
  EXPECT_EQ(streams[0].result->ToString(), std::to_string(kTokens));
  ErrorOf(streams[1].result, absl::StatusCode::kCancelled);
  for (Stream& stream : streams) EXPECT_EQ(stream.machine->stats().leaked_objects, 0);
}

std::string NameOf(const ::testing::TestParamInfo<Mode>& info) {
  if (info.param == Mode::kBytecode) return "Bytecode";
  return info.param == Mode::kNative ? "Native" : "Watched";
}
INSTANTIATE_TEST_SUITE_P(Modes, HostFunctionsTest, ::testing::Values(Mode::kBytecode, Mode::kNative, Mode::kWatched),
                         NameOf);

}  // namespace
}  // namespace rvm::vm
