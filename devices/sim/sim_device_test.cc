// The simulated accelerator, alone and under programs; calls of it that fail.
#include "devices/sim/sim_device.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "base/value.h"
#include "gtest/gtest.h"
#include "serialization/assembler.h"
#include "serialization/verifier.h"
#include "vm/limits/limit.h"
#include "vm/link/device_program.h"
#include "vm/machine.h"

namespace rvm::vm {
namespace {

using device::Argument;
using device::SimCall;

// (s0, 4) by (3, 4)
constexpr char kProduct[] = R"(product k0_0
loops 3 2 0 1 2
extents a4 3 4
tensor 0 int8 0 2
axis a4 0 1 0 0
axis 4 0 0 0 1
tensor 1 int8 0 2
axis 3 0 0 1 0
axis 4 0 0 0 1
store
tensor 2 int32 0 2
axis a4 0 1 0 0
axis 3 0 0 1 0
)";

// The same with a bias of (3), a residual of (s0, 3) that may be broadcast, and a result of int8.
constexpr char kLayer[] = R"(product k0_0
loops 3 2 0 1 2
extents a6|2 3 4
tensor 0 int8 3 2
axis a6 0 1 0 0
axis 4 0 0 0 1
tensor 1 int8 0 2
axis 3 0 0 1 0
axis 4 0 0 0 1
add 1 0
tensor 2 int32 0 1
axis 3 0 0 1 0
wrap int32
multiply 1073741824 31 nearest
plus -1
clamp -100 100
add 1073741824 30
tensor 3 int8 1 2
broadcast a6 0 1 0 0
axis 3 0 0 1 0
divide 2
wrap int8
store
tensor 4 int8 0 2
axis a6|2 0 1 0 0
axis 3 0 0 1 0
)";

// dense(widen(dense(x, K0)), K0); "widen" has no code for the device.
constexpr char kProgram[] = R"(
class native
file "test.relay"
constant K0 = int8 (3, 4) [1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, -1]
kernel N0 "dense" "dense" ("n") { param int8 ($0, 4) param int8 (3, 4) result int32 ($0, 3) workspace 0 }
kernel N1 "widen" "widen" ("n") { param int32 ($0, 3) result int8 ($0, 4) workspace 0 }
entry "main" = F0 ("x")
function F0 "main" params 1 result Tensor[(?, 3), int32] {
  r0: Tensor[(?, 4), int8]  r1: Tensor[(?, 3), int32]
code
  at 0:3:5
  call_kernel_dynamic [r1], N0, [r0!, K0]
  call_kernel_dynamic [r0], N1, [r1!]
  call_kernel_dynamic [r1], N0, [r0!, K0]
  return r1
}
device "int8-tiles-16" "" required {
  N0 workspace 0 launches (1)
} x"HEX"
)";

std::string ProgramText() {
  std::string hex;
  for (const char* c = kProduct; *c != '\0'; ++c) {
    absl::StrAppend(&hex, absl::Hex(static_cast<uint8_t>(*c), absl::kZeroPad2));
  }
  std::string text = kProgram;
  return text.replace(text.find("HEX"), 3, hex);
}

int32_t OnlyOnDevice(void* const*, const int64_t*, RvmKernelContext*) {
  ADD_FAILURE() << "a kernel with code for the device ran on the host";
  return kRvmOk;
}

int32_t Widen(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  const auto* from = static_cast<const int32_t*>(buffers[0]);
  auto* to = static_cast<int8_t*>(buffers[1]);
  for (int64_t i = 0; i < dims[0]; ++i) {
    for (int64_t j = 0; j < 4; ++j) to[4 * i + j] = j < 3 ? static_cast<int8_t>(from[3 * i + j]) : int8_t{1};
  }
  return kRvmOk;
}

Value Bytes(const std::vector<int8_t>& values) {
  return Value::Tensor(
      Literal::FromBytes(kInt8, {static_cast<int64_t>(values.size()) / 4, 4}, std::as_bytes(std::span(values))));
}

class SimDeviceTest : public ::testing::Test {
 protected:
  SimDeviceTest() {
    absl::StatusOr<Executable> assembled = Assemble(ProgramText());
    EXPECT_TRUE(assembled.ok()) << assembled.status();
    absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(*std::move(assembled));
    EXPECT_TRUE(verified.ok()) << verified.status();
    executable_ = *std::move(verified);
  }

  void Connect(int64_t memory_bytes = 1 << 20) {
    device_ = device::MakeSimDevice(
        {memory_bytes, [this](SimCall call) { return fault_ ? fault_(call) : absl::OkStatus(); }});
  }

  std::unique_ptr<Machine> NewMachine() {
    absl::StatusOr<std::unique_ptr<const DeviceProgram>> loaded = LoadDeviceProgram(**executable_, {{device_}, {}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    std::vector<RvmKernel> kernels = {OnlyOnDevice, Widen};
    absl::StatusOr<std::shared_ptr<const Program>> program =
        Program::LinkWithKernels(executable_, kernels, nullptr, *std::move(loaded));
    EXPECT_TRUE(program.ok()) << program.status();
    return *Machine::Create(*std::move(program), {});
  }

  static std::string Run(Machine& machine) {
    absl::StatusOr<Value> result = machine.Invoke("main", std::vector<Value>{Bytes({1, 2, 3, 4, -1, -2, -3, -4})});
    return result.ok() ? result->ToString() : std::string(result.status().message());
  }
  static constexpr char kRight[] = "[[1, 2, 4], [-1, -2, -6]]";

  // Returns whether all memory of the device is free.
  bool IsEmpty() const { return device_->Allocate(device_->info().memory_bytes).ok(); }

  std::function<absl::Status(SimCall)> fault_;
  std::shared_ptr<device::Device> device_;
  std::shared_ptr<const VerifiedExecutable> executable_;
};

TEST_F(SimDeviceTest, RunsProducts) {
  Connect();
  std::unique_ptr<Machine> machine = NewMachine();
  EXPECT_EQ(Run(*machine), kRight);
  EXPECT_EQ(machine->stats().devices[0].launches, 2);
  EXPECT_EQ(machine->stats().devices[0].copies_in, 3);  // the argument, the constant, the result of `widen`
  EXPECT_EQ(machine->stats().devices[0].copies_out, 2);
  machine.reset();
  EXPECT_TRUE(IsEmpty());
}

TEST_F(SimDeviceTest, EachFailingCallIsAnErrorAndLeavesTheMachineUsable) {
  Connect();
  std::unique_ptr<Machine> machine = NewMachine();
  for (SimCall kind : {SimCall::kAllocate, SimCall::kNewStream, SimCall::kCopyIn, SimCall::kCopyOut, SimCall::kLaunch,
                       SimCall::kRun}) {
    int failures = 0;
    for (int at = 1; at <= 10; ++at) {
      machine->Trim();
      EXPECT_TRUE(IsEmpty());
      int count = 0;
      fault_ = [&](SimCall call) {
        return call == kind && ++count == at ? absl::InternalError("device sim:0: a fault") : absl::OkStatus();
      };
      std::string result = Run(*machine);
      fault_ = nullptr;
      if (result != kRight) {
        ++failures;
        EXPECT_TRUE(absl::StrContains(result, "a fault")) << result;
        EXPECT_TRUE(absl::StrContains(result, "test.relay:3:5") || kind == SimCall::kCopyOut || kind == SimCall::kRun)
            << result;
      }
      EXPECT_EQ(machine->stats().leaked_objects, 0);
      EXPECT_EQ(Run(*machine), kRight) << "after call " << at << " of kind " << static_cast<int>(kind);
    }
    EXPECT_GE(failures, 1) << "calls of kind " << static_cast<int>(kind);
  }
  machine.reset();
  EXPECT_TRUE(IsEmpty());
}

// The copy of the constant is under way when the run fails for another reason, and fails then.
TEST_F(SimDeviceTest, ACopyThatFailsLateIsMadeAgain) {
  Connect();
  std::unique_ptr<Machine> machine = NewMachine();
  int allocations = 0;
  fault_ = [&](SimCall call) {
    bool fails = call == SimCall::kRun || (call == SimCall::kAllocate && ++allocations == 3);
    return fails ? absl::InternalError("device sim:0: a fault") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::StrContains(Run(*machine), "a fault"));
  fault_ = nullptr;
  EXPECT_EQ(Run(*machine), kRight);
}

TEST_F(SimDeviceTest, ALostDeviceFailsEveryMachineUntilItIsBack) {
  Connect();
  std::unique_ptr<Machine> first = NewMachine(), second = NewMachine();
  EXPECT_EQ(Run(*second), kRight);
  int runs = 0;
  bool is_lost = false;
  fault_ = [&](SimCall call) {
    is_lost |= call == SimCall::kRun && ++runs == 3;
    return is_lost ? absl::UnavailableError("device sim:0 is lost") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::StrContains(Run(*first), "device sim:0 is lost"));
  EXPECT_TRUE(absl::StrContains(Run(*second), "device sim:0 is lost"));
  EXPECT_TRUE(absl::StrContains(Run(*first), "device sim:0 is lost"));
  fault_ = nullptr;
  EXPECT_EQ(Run(*first), kRight);
  EXPECT_EQ(Run(*second), kRight);
  EXPECT_EQ(first->stats().leaked_objects, 0);
  first.reset();
  second.reset();
  EXPECT_TRUE(IsEmpty());
}

TEST_F(SimDeviceTest, TooLittleMemoryIsALimit) {
  Connect(600);  // two blocks of 256 bytes
  std::unique_ptr<Machine> machine = NewMachine();
  std::string result = Run(*machine);
  EXPECT_TRUE(absl::StrContains(result, "out of memory on device sim:0")) << result;
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  machine.reset();
  EXPECT_TRUE(IsEmpty());
}

absl::Status Load(device::Device& device, const std::string& text) {
  std::vector<std::string> functions = {"k0_0"};
  return device.Load({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, functions).status();
}

// Code in which `from` is replaced, and what the device says of it.
struct Damage {
  const char *from, *to, *message;
};

void CheckRefusals(device::Device& device, const std::string& code, std::initializer_list<Damage> damages) {
  EXPECT_TRUE(Load(device, code).ok());
  for (const Damage& damage : damages) {
    std::string text = code;
    text.replace(text.find(damage.from), std::string(damage.from).size(), damage.to);
    absl::Status status = Load(device, text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << damage.to;
    EXPECT_TRUE(absl::StrContains(status.message(), damage.message)) << status;
  }
}

TEST_F(SimDeviceTest, MalformedCodeIsRefused) {
  Connect();
  CheckRefusals(*device_, kProduct,
                {{"product", "quotient", "saw `quotient`; expected `product`"},
                 {"k0_0", "k9_0", "the code has no function `k0_0`"},
                 {"loops 3", "loops 99", "saw `99`; expected a number from 3 to 16"},
                 {"2 0 1 2", "2 1 1 2", "expected columns that are not the rows"},
                 {"2 0 1 2", "2 0 1 1", "expected a number from 2 to 2"},
                 {"int32", "int64", "saw `int64`; expected one of `int8`, `uint8`, `int32`, `float32`"},
                 {"a4 0 1 0 0", "a4 0 1 5 0", "saw `5`; expected a number from 0 to 0"},
                 {"a4 0 1 0 0", "a4 0 1 0", "expected a number"},
                 {"axis 3 0 0 1 0\n", "", "saw `store`; expected `axis`"}});
  EXPECT_TRUE(absl::StrContains(Load(*device_, "product k0_0 loops").message(), "saw its end"));
}

TEST_F(SimDeviceTest, MalformedStepsAreRefused) {
  Connect();
  CheckRefusals(*device_, kLayer,
                {{"divide 2", "divide 0", "saw `0`; expected a number from 1"},
                 {"divide 2", "double 2", "saw `double`; expected a step or `store`"},
                 {"nearest", "away", "saw `away`; expected `up`"},
                 {"clamp -100 100", "clamp 100 -100", "saw `-100`; expected a number from 100"},
                 {"31 nearest", "63 nearest", "saw `63`; expected a number from 1 to 62"},
                 {"wrap int32", "wrap float32", "expected one of `int8`, `uint8`, `int32`"},
                 {"wrap int8", "scale 0", "expected `scale` as the last step of a product of float32"},
                 {"divide 2", "scale 0", "expected `store` behind `scale`"},
                 {"tensor 4 int8", "tensor 4 float32", "expected `scale` as the last step"},
                 {"broadcast a6 0 1 0 0", "broadcast a6 0 1 0 1", "saw `1`; expected a number from 0 to 0"},
                 {"a6|2 3 4", "a6| 3 4", "saw `a6|`; expected a number from 0"},
                 {"a6|2 3 4", "6|a 3 4", "saw `6|a`; expected a number from 0"}});
}

// A residual of one row serves each row of the result.
TEST_F(SimDeviceTest, StepsFinishSums) {
  Connect();
  std::vector<std::string> functions = {"k0_0"};
  auto code = device_->Load({reinterpret_cast<const uint8_t*>(kLayer), sizeof(kLayer) - 1}, functions);
  ASSERT_TRUE(code.ok()) << code.status();
  auto block = [&](int64_t bytes) { return *device_->Allocate(bytes); };
  std::unique_ptr<device::Block> x = block(4), w = block(12), bias = block(12), residual = block(3), y = block(6);
  std::unique_ptr<device::Stream> stream = *device_->NewStream(false);
  const int8_t x_data[] = {4, 5, 6, 7}, w_data[] = {1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 127}, residual_data[] = {5, 6, 7};
  const int32_t bias_data[] = {0, -5, 1};
  auto copy = [&](const device::Block& to, const auto& from) {
    EXPECT_TRUE(stream->CopyIn(to, std::as_bytes(std::span(from))).ok());
  };
  copy(*x, x_data);
  copy(*w, w_data);
  copy(*bias, bias_data);
  copy(*residual, residual_data);
  Argument args[] = {Argument::Of(x.get()),        Argument::Of(w.get()), Argument::Of(bias.get()),
                     Argument::Of(residual.get()), Argument::Of(y.get()), Argument::Of(nullptr),
                     Argument::Of(uint64_t{1})};
  ASSERT_TRUE(stream->Launch(**code, 0, args, 1).ok());
  int8_t result[6];
  ASSERT_TRUE(stream->CopyOut(std::as_writable_bytes(std::span(result)), *y).ok());
  // x - 3 is (1, 2, 3, 4); sums 1, 2, 514; biased 1, -3, 515; halved, away from 0: 1, -2, 258; less 1, clamped: 0, -3,
  // 100; with residuals less 1: 4, 2, 106; halved. The second row lies outside of x, and has sums of 0.
  EXPECT_EQ(std::vector<int8_t>(result, result + 3), (std::vector<int8_t>{2, 1, 53}));
  // Biased 0, -5, 1; halved: 0, -3, 1; less 1: -1, -4, 0; with residuals: 3, 1, 6; halved.
  EXPECT_EQ(std::vector<int8_t>(result + 3, result + 6), (std::vector<int8_t>{1, 0, 3}));
}

TEST_F(SimDeviceTest, LoopsWithoutEndAreRefused) {
  Connect();
  std::string text = kProduct;
  text.replace(text.find("a4 3 4"), 6, "a4 2000000000 2000000000");
  std::vector<std::string> functions = {"k0_0"};
  auto code = device_->Load({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, functions);
  ASSERT_TRUE(code.ok()) << code.status();
  std::unique_ptr<device::Block> a = *device_->Allocate(4), b = *device_->Allocate(12), c = *device_->Allocate(12);
  std::unique_ptr<device::Stream> stream = *device_->NewStream(false);
  Argument args[] = {Argument::Of(a.get()), Argument::Of(b.get()), Argument::Of(c.get()), Argument::Of(nullptr),
                     Argument::Of(uint64_t{1})};
  absl::Status status = stream->Launch(**code, 0, args, 1);
  EXPECT_TRUE(absl::StrContains(status.message(), "`k0_0` has 15625000000000000 tiles; expected at most 68719476736"))
      << status;
}

// Whatever the code is: an error, or a product that stays within its tensors.
TEST_F(SimDeviceTest, MutatedCodeStaysWithinItsTensors) {
  Connect();
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    bool is_layer = i % 2 == 1;
    std::string text = is_layer ? kLayer : kProduct;
    for (uint32_t n = 0; n <= random() % 3; ++n) text[random() % text.size()] = "0123456789 -aint\n"[random() % 17];
    std::vector<std::string> functions = {"k0_0"};
    auto code = device_->Load({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, functions);
    if (!code.ok()) continue;
    std::unique_ptr<device::Block> a = *device_->Allocate(8), b = *device_->Allocate(12), c = *device_->Allocate(24),
                                   d = *device_->Allocate(6), e = *device_->Allocate(6);
    std::unique_ptr<device::Stream> stream = *device_->NewStream(false);
    std::vector<Argument> args = {Argument::Of(a.get()), Argument::Of(b.get()), Argument::Of(c.get())};
    if (is_layer) args.insert(args.end(), {Argument::Of(d.get()), Argument::Of(e.get())});
    args.insert(args.end(), {Argument::Of(nullptr), Argument::Of(uint64_t{2})});
    if (stream->Launch(**code, 0, args, 1).ok() && stream->WaitFor(device::Stream::kForever).ok()) ++accepted;
  }
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace rvm::vm
