// Programs whose kernels run on a device, here one in the memory of this process, whose calls can be made to fail.
#include "vm/device/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/literal.h"
#include "base/value.h"
#include "gtest/gtest.h"
#include "serialization/assembler.h"
#include "serialization/verifier.h"
#include "vm/interpreter/device_lane.h"
#include "vm/interpreter/run_control.h"
#include "vm/limits/limit.h"
#include "vm/link/device_program.h"
#include "vm/machine.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {
namespace {

using device::Argument;

// Calls of a device, and the one of them that fails.
struct Calls {
  int count = 0;
  int fails_at = 0;  // from 1; 0: none
  int blocks = 0;    // that exist
  size_t most_queued = 0;
  std::atomic<bool> stands_still = false;
  absl::Status Next(absl::StatusCode code = absl::StatusCode::kInternal) {
    return ++count == fails_at ? absl::Status(code, "device test:0 is lost") : absl::OkStatus();
  }
};

struct TestBlock : device::Block {
  TestBlock(Calls& of, int64_t bytes) : calls(of), memory(static_cast<size_t>(bytes), std::byte{0xcd}) {
    ++calls.blocks;
  }
  ~TestBlock() override {
    EXPECT_EQ(launches, 0) << "a launch that was not submitted uses the block";
    --calls.blocks;
  }
  Calls& calls;
  mutable std::vector<std::byte> memory;
  mutable int launches = 0;  // that use it and were not submitted
};

template <typename T>
T* ElementsOf(const Argument& argument) {
  return reinterpret_cast<T*>(static_cast<const TestBlock&>(*argument.block).memory.data());
}

using Function = std::function<void(std::span<const Argument> args, int64_t items)>;

struct TestCode : device::Code {
  std::vector<Function> functions;
};

// Runs what is queued when it must, as a device does: later than it was told.
struct TestStream : device::Stream {
  explicit TestStream(Calls& of) : calls(of) {}
  ~TestStream() override { SubmitAll(); }
  absl::Status CopyIn(const device::Block& to, std::span<const std::byte> from) override {
    SubmitAll();
    absl::Status status = calls.Next();
    queue.push_back({[&to, from] {
                       auto& memory = static_cast<const TestBlock&>(to).memory;
                       ASSERT_LE(from.size(), memory.size());
                       std::copy(from.begin(), from.end(), memory.begin());
                     },
                     10});
    return status;
  }
  absl::Status CopyOut(std::span<std::byte> to, const device::Block& from) override {
    SubmitAll();
    absl::Status status = calls.Next();
    if (!status.ok()) return status;
    Run();
    std::memcpy(to.data(), static_cast<const TestBlock&>(from).memory.data(), to.size());
    times.push_back({clock, clock + 10});
    clock += 10;
    return absl::OkStatus();
  }
  absl::Status Launch(const device::Code& code, uint32_t function, std::span<const Argument> args,
                      int64_t items) override {
    for (const Argument& arg : args) {
      if (arg.kind != Argument::Kind::kBlock || arg.block == nullptr) continue;
      kept_back.push_back(static_cast<const TestBlock*>(arg.block));
      ++kept_back.back()->launches;
    }
    queue.push_back({[run = static_cast<const TestCode&>(code).functions[function],
                      list = std::vector<Argument>(args.begin(), args.end()), items] { run(list, items); },
                     100});
    return calls.Next();
  }
  absl::Status Submit() override {
    SubmitAll();
    return calls.Next();
  }
  // Until the device stands still.
  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds) override {
    SubmitAll();
    if (absl::Status status = calls.Next(); !status.ok()) return status;
    if (calls.stands_still) return false;
    Run();
    return true;
  }
  absl::StatusOr<std::vector<device::WorkTime>> TakeTimes() override { return std::exchange(times, {}); }
  void SubmitAll() {
    for (const TestBlock* block : kept_back) --block->launches;
    kept_back.clear();
  }
  // A copy takes 10 ns, a function 100 ns.
  void Run() {
    calls.most_queued = std::max(calls.most_queued, queue.size());
    for (auto& [step, ns] : queue) {
      step();
      times.push_back({clock, clock + ns});
      clock += ns;
    }
    queue.clear();
  }
  Calls& calls;
  std::vector<const TestBlock*> kept_back;  // what launches use that were not submitted
  std::vector<std::pair<std::function<void()>, double>> queue;
  double clock = 0;
  std::vector<device::WorkTime> times;
};

struct TestDevice : device::Device {
  explicit TestDevice(Calls& of) : calls(of) {}
  const device::DeviceInfo& info() const override { return information; }
  absl::StatusOr<std::unique_ptr<device::Block>> Allocate(int64_t bytes) override {
    if (absl::Status status = calls.Next(absl::StatusCode::kResourceExhausted); !status.ok()) return status;
    return std::make_unique<TestBlock>(calls, bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Code>> Load(std::span<const uint8_t>,
                                                     std::span<const std::string> names) override {
    auto code = std::make_unique<TestCode>();
    for (const std::string& name : names) {
      if (!functions.contains(name)) return absl::InvalidArgumentError(absl::StrCat("no function ", name));
      code->functions.push_back(functions.at(name));
    }
    return code;
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(bool) override {
    if (absl::Status status = calls.Next(); !status.ok()) return status;
    return std::make_unique<TestStream>(calls);
  }
  Calls& calls;
  device::DeviceInfo information = {"test:0", "a device of tests", "test", "+fp64", 1 << 30};
  std::map<std::string, Function> functions = {
      // params, results, workspace, symbols
      {"k0_0",
       [](std::span<const Argument> a, int64_t n) {
         for (int64_t i = 0; i < n; ++i) ElementsOf<float>(a[1])[i] = ElementsOf<float>(a[0])[i] + 1;
       }},
      {"k2_0",
       [](std::span<const Argument> a, int64_t n) {
         EXPECT_EQ(a[4].number, static_cast<uint64_t>(n));
         for (int64_t i = 0; i < n; ++i) ElementsOf<float>(a[3])[i] = 2 * ElementsOf<float>(a[0])[i];
       }},
      {"k2_1",
       [](std::span<const Argument> a, int64_t) {
         float sum = 0;
         for (uint64_t i = 0; i < a[4].number; ++i) sum += ElementsOf<float>(a[3])[i];
         int32_t offset;
         std::memcpy(&offset, &a[1].number, sizeof(offset));
         *ElementsOf<int32_t>(a[2]) = static_cast<int32_t>(sum) + offset;
       }},
      {"k3_0",
       [](std::span<const Argument> a, int64_t n) {
         for (int64_t i = 0; i < n; ++i)
           ElementsOf<float>(a[2])[i] = ElementsOf<float>(a[0])[i] + ElementsOf<float>(a[1])[i];
       }},
      {"k4_0",
       [](std::span<const Argument> a, int64_t n) {
         for (int64_t i = 0; i < n; ++i) ElementsOf<int64_t>(a[1])[i] = ElementsOf<int64_t>(a[0])[i] + 1;
       }},
  };
};

// Kernel 1 has no code for the device.
constexpr char kProgram[] = R"(
class native
file "test.relay"
constant K0 = float32 (3) [10, 20, 30]
kernel N0 "inc" "inc" ("n") { param float32 ($0) result float32 ($0) workspace 0 }
kernel N1 "negative" "negative" ("n") { param float32 ($0) result float32 ($0) workspace 0 reuse 0 0 }
kernel N2 "twice_sum" "twice_sum" ("n") { param float32 ($0) param int32 () result int32 () workspace 0 }
kernel N3 "add" "add" () { param float32 (3) param float32 (3) result float32 (3) workspace 0 }
kernel N4 "next" "next" () { param int64 (2) result int64 (2) workspace 0 }
entry "chain" = F0 ("x")
entry "mixed" = F1 ("x")
entry "sum" = F2 ("x", "offset")
entry "weights" = F3 ("x")
entry "element" = F4 ("x")
entry "view" = F5 ("x")
entry "pair" = F6 ("x")
entry "loop" = F7 ("x", "n")
function F0 "chain" params 1 result Tensor[(?), float32] {
  r0: Tensor[(?), float32]
code
  at 0:7:3
  call_kernel_dynamic [r0], N0, [r0!]
  call_kernel_dynamic [r0], N0, [r0!]
  call_kernel_dynamic [r0], N0, [r0!]
  return r0
}
function F1 "mixed" params 1 result Tensor[(?), float32] {
  r0: Tensor[(?), float32]
code
  call_kernel_dynamic [r0], N0, [r0!]
  call_kernel_dynamic [r0], N1, [r0!]
  call_kernel_dynamic [r0], N1, [r0!]
  call_kernel_dynamic [r0], N0, [r0!]
  return r0
}
function F2 "sum" params 2 result int32 {
  r0: Tensor[(?), float32]  r1, r2: int32
code
  call_kernel_dynamic [r0], N0, [r0!]
  call_kernel_dynamic [r2], N2, [r0!, r1]
  return r2
}
function F3 "weights" params 1 result Tensor[(3), float32] {
  r0: Tensor[(3), float32]
code
  call_kernel [r0], N3, [r0!, K0]
  call_kernel [r0], N3, [r0!, K0]
  return r0
}
function F4 "element" params 1 result int64 {
  r0: Tensor[(2), int64]  r1, r2: int64
code
  call_kernel [r0], N4, [r0!]
  get_element r1, r0, 0
  get_element r2, r0, 1
  mul_int r1, r1, r2
  drop r0
  return r1
}
function F5 "view" params 1 result Tensor[(?), float32] {
  r0, r1: Tensor[(?), float32]  r2: Tensor[(?, 1), float32]  r3: int64
code
  call_kernel_dynamic [r0], N0, [r0!]
  get_dim r3, r0, 0
  view r2, r0, Tensor[(?, 1), float32], [r3]
  view r1, r2, Tensor[(?), float32], [r3]
  call_kernel_dynamic [r1], N0, [r1!]
  return r1
}
function F6 "pair" params 1 result (Tensor[(?), float32], Tensor[(?), float32]) {
  r0, r1: Tensor[(?), float32]  r2: (Tensor[(?), float32], Tensor[(?), float32])
code
  call_kernel_dynamic [r1], N0, [r0]
  make_cell r2, C0, [r0, r1]
  return r2
}
function F7 "loop" params 2 result Tensor[(?), float32] {
  r0: Tensor[(?), float32]  r1: int32
code
L0:
  call_kernel_dynamic [r0], N0, [r0!]
  add_imm_i32 r1, r1, -1
  branch_ne_imm r1, 0, L0
  return r0
}
cell C0 = tuple (Tensor[(?), float32], Tensor[(?), float32]) (Tensor[(?), float32], Tensor[(?), float32])
device "test" "+fp64" required {
  N0 workspace 0 launches ($0)
  N2 workspace ($0 * 4) launches ($0, 1)
  N3 workspace 0 launches (3)
  N4 workspace 0 launches (2)
} x""
)";

int32_t OnlyOnDevice(void* const*, const int64_t*, RvmKernelContext*) {
  ADD_FAILURE() << "a kernel with code for the device ran on the host";
  return kRvmOk;
}

int32_t Negative(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  for (int64_t i = 0; i < dims[0]; ++i) static_cast<float*>(buffers[1])[i] = -static_cast<const float*>(buffers[0])[i];
  return kRvmOk;
}

class DeviceTest : public ::testing::Test {
 protected:
  DeviceTest() {
    absl::StatusOr<Executable> assembled = Assemble(kProgram);
    EXPECT_TRUE(assembled.ok()) << assembled.status();
    absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(*std::move(assembled));
    EXPECT_TRUE(verified.ok()) << verified.status();
    executable_ = *std::move(verified);
    devices_.devices = {device_};
  }

  void Start(const MachineOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<const DeviceProgram>> loaded = LoadDeviceProgram(**executable_, devices_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    std::vector<RvmKernel> kernels = {OnlyOnDevice, Negative, OnlyOnDevice, OnlyOnDevice, OnlyOnDevice};
    absl::StatusOr<std::shared_ptr<const Program>> program =
        Program::LinkWithKernels(executable_, kernels, nullptr, *std::move(loaded));
    ASSERT_TRUE(program.ok()) << program.status();
    machine_ = *Machine::Create(*std::move(program), options);
  }

  static Value Floats(const std::vector<float>& values) {
    return Value::Tensor(
        Literal::FromBytes(kFloat32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values))));
  }
  std::string Run(const char* entry, const std::vector<Value>& args) {
    absl::StatusOr<Value> result = machine_->Invoke(entry, args);
    return result.ok() ? result->ToString() : std::string(result.status().message());
  }

  Calls calls_;
  std::shared_ptr<TestDevice> device_ = std::make_shared<TestDevice>(calls_);
  device::DeviceList devices_;
  std::shared_ptr<const VerifiedExecutable> executable_;
  std::unique_ptr<Machine> machine_;
};

TEST_F(DeviceTest, ValuesStayOnTheDevice) {
  Start();
  EXPECT_EQ(Run("chain", {Floats({1, 2})}), "[4f, 5f]");
  MachineStats stats = machine_->stats();
  EXPECT_EQ(stats.devices[0].launches, 3);
  EXPECT_EQ(stats.devices[0].copies_in, 1);
  EXPECT_EQ(stats.devices[0].copies_out, 1);
  EXPECT_EQ(stats.leaked_objects, 0);
}

TEST_F(DeviceTest, KernelsWithoutCodeRunOnTheHost) {
  Start();
  EXPECT_EQ(Run("mixed", {Floats({1, 2})}), "[3f, 4f]");
  EXPECT_EQ(machine_->stats().devices[0].copies_in, 2);
  EXPECT_EQ(machine_->stats().devices[0].copies_out, 2);
}

TEST_F(DeviceTest, ScalarsGoToAndFroAsNumbers) {
  Start();
  Value offset = Value::Tensor(Literal::FromBytes(kInt32, {}, std::as_bytes(std::span<const int32_t>({-5}))));
  EXPECT_EQ(Run("sum", {Floats({1, 2, 3}), offset}), "13");
}

TEST_F(DeviceTest, ConstantsAreCopiedOnce) {
  Start();
  EXPECT_EQ(Run("weights", {Floats({1, 2, 3})}), "[21f, 42f, 63f]");
  EXPECT_EQ(Run("weights", {Floats({1, 2, 3})}), "[21f, 42f, 63f]");
  EXPECT_EQ(machine_->stats().devices[0].copies_in, 3);
}

TEST_F(DeviceTest, TheHostReadsElementsAfterOneCopy) {
  Start();
  std::vector<int64_t> x = {2, 4};
  Value value = Value::Tensor(Literal::FromBytes(kInt64, {2}, std::as_bytes(std::span(x))));
  EXPECT_EQ(Run("element", {value}), "15i64");
  EXPECT_EQ(machine_->stats().devices[0].copies_out, 1);
}

TEST_F(DeviceTest, ViewsAndTuplesOfTensorsOnTheDevice) {
  Start();
  EXPECT_EQ(Run("view", {Floats({1, 2})}), "[3f, 4f]");
  EXPECT_EQ(Run("pair", {Floats({1, 2})}), "([1f, 2f], [2f, 3f])");
  EXPECT_EQ(Run("chain", {Floats({})}), "Constant([], (0), float32)");
  EXPECT_EQ(machine_->stats().leaked_objects, 0);
}

TEST_F(DeviceTest, MemoryIsReusedAndCounted) {
  Start();
  for (int i = 0; i < 100; ++i) Run("chain", {Floats(std::vector<float>(1000))});
  EXPECT_LE(machine_->stats().devices[0].peak_bytes, 4 * 4096);
  EXPECT_LE(calls_.blocks, 4);
  machine_.reset();
  EXPECT_EQ(calls_.blocks, 0);
}

TEST_F(DeviceTest, TheMemoryLimitHoldsOnTheDevice) {
  Start({.memory_limit_bytes = 100'000});
  absl::StatusOr<Value> result = machine_->Invoke("chain", std::vector<Value>{Floats(std::vector<float>(20'000))});
  EXPECT_EQ(ReachedLimit(result.status()), Limit::kMemory);
  EXPECT_NE(result.status().message().find("out of memory on device test:0: 80000 bytes were asked for"),
            absl::string_view::npos)
      << result.status();
  EXPECT_EQ(Run("chain", {Floats({1})}), "[4f]");
}

TEST_F(DeviceTest, EachFailingCallIsAnErrorAndLeavesTheMachineUsable) {
  Start();
  for (const char* entry : {"chain", "mixed", "weights", "pair"}) {
    std::string expected = Run(entry, {Floats({1, 2, 3})});
    int failures = 0;
    for (int at = 1; at <= 100; ++at) {
      machine_->Trim();
      EXPECT_EQ(calls_.blocks, 0);
      EXPECT_EQ(machine_->stats().devices[0].reserved_bytes, 0) << entry << " after call " << at - 1 << " failed";
      calls_.count = 0;
      calls_.fails_at = at;
      absl::StatusOr<Value> result = machine_->Invoke(entry, std::vector<Value>{Floats({1, 2, 3})});
      calls_.fails_at = 0;
      if (result.ok()) {
        EXPECT_EQ(result->ToString(), expected);
      } else {
        ++failures;
        EXPECT_NE(result.status().message().find("device test:0 is lost"), absl::string_view::npos) << result.status();
      }
      EXPECT_EQ(machine_->stats().leaked_objects, 0);
      EXPECT_EQ(Run(entry, {Floats({1, 2, 3})}), expected) << entry << " after call " << at << " failed";
    }
    EXPECT_GT(failures, 3) << entry;
  }
  machine_.reset();
  EXPECT_EQ(calls_.blocks, 0);
}

TEST_F(DeviceTest, ErrorsNameTheKernelAndTheLineOfTheProgram) {
  Start();
  calls_.fails_at = 5;  // the first launch: two blocks, a stream and a copy come before it
  std::string message = Run("chain", {Floats({1, 2})});
  EXPECT_NE(message.find("kernel `inc`: "), std::string::npos) << message;
  EXPECT_NE(message.find("test.relay:7:3"), std::string::npos) << message;
}

Value Int32(int32_t number) {
  return Value::Tensor(Literal::FromBytes(kInt32, {}, std::as_bytes(std::span<const int32_t>(&number, 1))));
}

TEST_F(DeviceTest, TheQueueIsBounded) {
  Start();
  EXPECT_EQ(Run("loop", {Floats({1}), Int32(10'000)}), "[10001f]");
  EXPECT_EQ(calls_.most_queued, DeviceLane::kMaxQueued);
  EXPECT_LE(calls_.blocks, 4);
}

TEST_F(DeviceTest, ARunThatWaitsForTheDeviceCanBeStopped) {
  for (const char* entry : {"chain", "loop"}) {  // that wait for the result, and for room in the queue
    Start({.time_limit_ms = 30});
    std::vector<Value> args = {Floats({1})};
    if (entry == std::string("loop")) args.push_back(Int32(1000));
    calls_.stands_still = true;
    EXPECT_EQ(machine_->Invoke(entry, args).status().code(), absl::StatusCode::kDeadlineExceeded) << entry;
    calls_.stands_still = false;
    EXPECT_EQ(Run("chain", {Floats({5})}), "[8f]") << "after the work that was left";

    Start();
    calls_.stands_still = true;
    std::atomic<bool> is_done = false;
    std::thread canceller([&] {
      while (!is_done) {
        machine_->Cancel();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_EQ(machine_->Invoke(entry, args).status().code(), absl::StatusCode::kCancelled) << entry;
    is_done = true;
    canceller.join();
    EXPECT_EQ(machine_->stats().leaked_objects, 0);
    machine_->Trim();
    EXPECT_EQ(calls_.blocks, 0);
    calls_.stands_still = false;
    EXPECT_EQ(Run("chain", {Floats({5})}), "[8f]");
  }
}

// Copies of 10 ns, functions of 100 ns.
TEST_F(DeviceTest, AProfileHasTheTimesOfTheDevice) {
  Profiler profiler(100);
  Start({.profiler = &profiler});
  EXPECT_EQ(Run("mixed", {Floats({1, 2})}), "[3f, 4f]");
  Value offset = Int32(-5);
  EXPECT_EQ(Run("sum", {Floats({1, 2, 3}), offset}), "13");
  Profile profile = profiler.Snapshot();
  ASSERT_EQ(profile.devices.size(), 1u);
  EXPECT_EQ(profile.devices[0].device, "test:0");
  const Profile::DeviceUse& all = profile.devices[0].use;
  EXPECT_EQ(all.launches.count, 5);
  EXPECT_EQ(all.launches.ns, 500);
  EXPECT_EQ(all.copies_in.count, 3);
  EXPECT_EQ(all.bytes_in, 8 + 8 + 12);
  EXPECT_EQ(all.copies_out.ns, 30);
  EXPECT_EQ(all.bytes_out, 8 + 8 + 4);
  EXPECT_EQ(all.waits.count, 3);
  ASSERT_EQ(profile.kernels.size(), 3u);
  const Profile::KernelRow &inc = profile.kernels[0], &negative = profile.kernels[1], &twice = profile.kernels[2];
  EXPECT_EQ(inc.device, "test:0");
  EXPECT_EQ(inc.use.launches.ns, 300);
  EXPECT_EQ(inc.use.copies_in.count, 3);
  ASSERT_EQ(inc.shapes.size(), 2u);
  EXPECT_EQ(inc.shapes[0].device_ns, 200);
  EXPECT_EQ(inc.shapes[1].device_ns, 100);
  EXPECT_EQ(negative.device, "") << "it runs on the host, and waits for its argument";
  EXPECT_EQ(negative.use.copies_out.count, 1);
  EXPECT_EQ(negative.use.waits.count, 1);
  EXPECT_EQ(twice.use.launches.count, 2);
  EXPECT_EQ(twice.use.copies_out.count, 1);
  ASSERT_EQ(profile.functions.size(), 2u);
  EXPECT_EQ(profile.functions[0].device.launches.count, 2) << "`mixed`; the copy of its result is of no function";
  EXPECT_EQ(profile.functions[0].device.copies_out.count, 1);
  EXPECT_EQ(profile.functions[1].device.launches.count, 3);
  int64_t on_device = 0;
  for (const TraceEvent& event : profiler.Trace()) {
    bool is_there = event.kind == TraceEvent::Kind::kLaunch || event.kind == TraceEvent::Kind::kCopyIn ||
                    event.kind == TraceEvent::Kind::kCopyOut;
    on_device += is_there ? 1 : 0;
  }
  EXPECT_EQ(on_device, 5 + 3 + 3);
}

// With code for kernel 1 on a second device.
class TwoDevicesTest : public DeviceTest {
 protected:
  TwoDevicesTest() {
    Executable executable = **executable_;
    executable.device_codes.push_back({.target = "other", .is_required = true, .kernels = {{KernelId(1), 0, {1}}}});
    absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(std::move(executable));
    EXPECT_TRUE(verified.ok()) << verified.status();
    executable_ = *std::move(verified);
    other_->information = {"other:0", "another device of tests", "other", "", 1 << 30};
    other_->functions = {{"k1_0", [](std::span<const Argument> a, int64_t) {
                            for (uint64_t i = 0; i < a[3].number; ++i) {
                              ElementsOf<float>(a[1])[i] = -ElementsOf<float>(a[0])[i];
                            }
                          }}};
    devices_.devices.push_back(other_);
  }

  std::shared_ptr<TestDevice> other_ = std::make_shared<TestDevice>(calls_);
};

TEST_F(TwoDevicesTest, TensorsGoFromOneToTheOtherByWayOfTheHost) {
  Start();
  EXPECT_EQ(Run("mixed", {Floats({1, 2})}), "[3f, 4f]");
  MachineStats stats = machine_->stats();
  ASSERT_EQ(stats.devices.size(), 2u);
  EXPECT_EQ(stats.devices[0].device, "test:0");
  EXPECT_EQ(stats.devices[1].device, "other:0");
  for (const device::DeviceUse& use : stats.devices) EXPECT_EQ(use.launches, 2) << use.device;
  EXPECT_EQ(stats.devices[0].copies_in, 2);   // the argument, what the other gave
  EXPECT_EQ(stats.devices[0].copies_out, 2);  // for the other, the result
  EXPECT_EQ(stats.devices[1].copies_in, 1);
  EXPECT_EQ(stats.devices[1].copies_out, 1);
  EXPECT_EQ(stats.leaked_objects, 0);
  machine_.reset();
  EXPECT_EQ(calls_.blocks, 0);
}

TEST_F(TwoDevicesTest, EachFailingCallIsAnErrorAndLeavesTheMachineUsable) {
  Start();
  int failures = 0;
  for (int at = 1; at <= 100; ++at) {
    machine_->Trim();
    EXPECT_EQ(calls_.blocks, 0);
    calls_.count = 0;
    calls_.fails_at = at;
    failures += Run("mixed", {Floats({1, 2})}) == "[3f, 4f]" ? 0 : 1;
    calls_.fails_at = 0;
    EXPECT_EQ(machine_->stats().leaked_objects, 0);
    EXPECT_EQ(Run("mixed", {Floats({1, 2})}), "[3f, 4f]") << "after call " << at << " failed";
  }
  EXPECT_GT(failures, 10);
}

TEST_F(TwoDevicesTest, EachRequiredDeviceMustBeThere) {
  devices_.devices = {device_};
  absl::Status status = LoadDeviceProgram(**executable_, devices_).status();
  EXPECT_EQ(status.message().find("the executable needs a device for other, and this machine has none"), 0u) << status;
  Executable executable = **executable_;
  executable.device_codes[1].is_required = false;
  absl::StatusOr<std::unique_ptr<const DeviceProgram>> loaded = LoadDeviceProgram(executable, devices_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->parts.size(), 1u);
  EXPECT_EQ((*loaded)->kernels[1], nullptr);
}

TEST_F(DeviceTest, MissingDevicesAreNamed) {
  devices_ = {{}, {"test: no driver"}};
  absl::Status status = LoadDeviceProgram(**executable_, devices_).status();
  EXPECT_EQ(status.message(),
            "the executable needs a device for test with +fp64, and this machine has none:\n  test: no driver\n"
            "run it on the host (`--device host` or `--host-fallback`; in Python `device=\"host\"` or "
            "`host_fallback=True`)");
  device_->information.features = "";
  devices_ = {{device_}, {}};
  status = LoadDeviceProgram(**executable_, devices_).status();
  EXPECT_NE(status.message().find("test:0 (a device of tests) lacks +fp64"), absl::string_view::npos) << status;
}

TEST(DeviceNumbersTest, CodesOfTheSameKernelsAreForOneDevice) {
  auto code = [](const char* target, uint32_t kernel) {
    return DeviceCode{.target = target, .kernels = {{KernelId(kernel), 0, {1}}}};
  };
  DeviceNumbers numbers;
  EXPECT_EQ(numbers.Of(code("ptx", 0)), 0u);
  EXPECT_EQ(numbers.Of(code("ptx", 0)), 0u);
  EXPECT_EQ(numbers.Of(code("ptx", 1)), 1u);
  EXPECT_EQ(numbers.Of(code("opencl", 1)), 0u);
  EXPECT_EQ(numbers.Of(code("ptx", 0)), 0u);
}

TEST_F(DeviceTest, ADeviceRunsTheFirstCodeThatItsFeaturesFit) {
  Executable executable = **executable_;
  DeviceCode later = executable.device_codes[0];
  later.features = "+fp64,+later";
  executable.device_codes.insert(executable.device_codes.begin(), later);
  for (const char* features : {"+fp64", "+fp64,+later"}) {
    device_->information.features = features;
    absl::StatusOr<std::unique_ptr<const DeviceProgram>> loaded = LoadDeviceProgram(executable, devices_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_EQ((*loaded)->parts.size(), 1u);
    EXPECT_EQ((*loaded)->parts[0].device, device_);
  }
  device_->information.features = "";
  absl::Status status = LoadDeviceProgram(executable, devices_).status();
  EXPECT_NE(status.message().find("test with +fp64,+later or test with +fp64, and"), absl::string_view::npos) << status;
}

class DeviceLaneTest : public ::testing::Test {
 protected:
  DeviceLaneTest() {
    auto code = std::make_unique<TestCode>();
    code->functions.push_back([](std::span<const Argument>, int64_t) {});
    part_ = {std::make_shared<TestDevice>(calls_), std::move(code)};
  }

  Calls calls_;
  LoadedCode part_;
  RunControl control_;
};

TEST_F(DeviceLaneTest, SubmitsLaunchesBeforeTheirMemoryGoes) {
  DeviceLane lane(part_, 0, /*limit_bytes=*/6000, control_, nullptr);
  std::unique_ptr<device::Block> block = *lane.TakeBlock(4096);
  EXPECT_TRUE(lane.Launch(0, std::array{Argument::Of(block.get())}, 1).ok());
  lane.GiveBlock(std::move(block), 4096);
  absl::StatusOr<std::unique_ptr<device::Block>> other = lane.TakeBlock(5000);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(calls_.blocks, 1);
  lane.GiveBlock(*std::move(other), 5000);
}

TEST_F(DeviceLaneTest, EachRunTakesFreeBlocksInOneOrder) {
  DeviceLane lane(part_, 0, /*limit_bytes=*/100'000, control_, nullptr);
  auto take = [&] {
    std::vector<std::unique_ptr<device::Block>> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(*lane.TakeBlock(i == 0 ? 1000 : 256));
    return blocks;
  };
  // The order in which the blocks are given back differs from run to run.
  auto give = [&](std::vector<std::unique_ptr<device::Block>> blocks, size_t first) {
    std::vector<const device::Block*> order;
    for (const auto& block : blocks) order.push_back(block.get());
    for (size_t i = 0; i < 4; ++i) {
      size_t next = (first + i) % 4;
      lane.GiveBlock(std::move(blocks[next]), next == 0 ? 1000 : 256);
    }
    EXPECT_TRUE(lane.EndRun());
    return order;
  };
  give(take(), 0);
  std::vector<const device::Block*> order = give(take(), 2);
  EXPECT_EQ(give(take(), 3), order);
  EXPECT_EQ(give(take(), 0), order);
}

TEST_F(DeviceTest, WithoutTheDeviceOptionalCodeIsIgnored) {
  Executable executable = **executable_;
  executable.device_codes[0].is_required = false;
  absl::StatusOr<std::unique_ptr<const DeviceProgram>> loaded = LoadDeviceProgram(executable, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, nullptr);
}

}  // namespace
}  // namespace rvm::vm
