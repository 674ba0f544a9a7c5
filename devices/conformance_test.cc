// Conformance suite of all kinds of devices. It runs on the first device of each kind that is found here. Those of
// accelerator libraries are found where RELAYVM_DEVICE_LIBRARIES names some; BUILD runs the suite with the simulated
// accelerator in both forms.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/abseil.h"
#include "base/literal.h"
#include "base/value.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "devices/device_kinds.h"
#include "gtest/gtest.h"
#include "vm/device/device.h"
#include "vm/machine.h"

namespace rvm {
namespace {

using device::Argument;
using device::Block;
using device::Device;
using device::Stream;

// Returns the first device of each kind, by the name of the kind.
std::vector<std::pair<std::string, std::shared_ptr<Device>>> Devices() {
  std::vector<std::pair<std::string, std::shared_ptr<Device>>> found;
  for (const std::shared_ptr<Device>& device : device::FindDevices().devices) {
    const std::string& id = device->info().id;
    if (id.ends_with(":0")) found.emplace_back(id.substr(0, id.size() - 2), device);
  }
  return found;
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const auto& [kind, device] : Devices()) names.push_back(kind);
  return names;
}

class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  Conformance() {
    for (auto& [kind, device] : Devices()) {
      if (kind == GetParam()) device_ = device;
    }
  }

  std::unique_ptr<Block> NewBlock(int64_t bytes) { return *device_->Allocate(bytes); }

  std::shared_ptr<Device> device_;
};

std::vector<std::byte> RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// ---- memory and streams

TEST_P(Conformance, DescribesItself) {
  const target::DeviceKind* kind = target::FindDeviceKind(GetParam());
  ASSERT_NE(kind, nullptr);
  EXPECT_EQ(device_->info().target, kind->target);
  EXPECT_FALSE(device_->info().name.empty());
  EXPECT_GT(device_->info().memory_bytes, 0);
}

TEST_P(Conformance, CopiesBytesInAndOut) {
  std::unique_ptr<Stream> stream = *device_->NewStream(false);
  for (size_t size : {1, 3, 256, 4097, 1 << 20}) {
    std::unique_ptr<Block> block = NewBlock(static_cast<int64_t>(size));
    std::vector<std::byte> from = RandomBytes(size, 1), to(size);
    ASSERT_TRUE(stream->CopyIn(*block, from).ok());
    ASSERT_TRUE(stream->CopyOut(to, *block).ok());
    EXPECT_EQ(from, to) << size << " bytes";
  }
}

TEST_P(Conformance, WorkIsDoneInTheOrderInWhichItWasQueued) {
  std::unique_ptr<Stream> stream = *device_->NewStream(false);
  std::unique_ptr<Block> block = NewBlock(1000);
  std::vector<std::vector<std::byte>> copies;
  for (uint32_t seed = 0; seed < 20; ++seed) copies.push_back(RandomBytes(1000, seed));
  for (const std::vector<std::byte>& from : copies) ASSERT_TRUE(stream->CopyIn(*block, from).ok());
  std::vector<std::byte> to(1000);
  ASSERT_TRUE(stream->CopyOut(to, *block).ok());
  EXPECT_EQ(to, copies.back());
}

TEST_P(Conformance, ABlockMayBeDestroyedWhileWorkUsesIt) {
  std::unique_ptr<Stream> stream = *device_->NewStream(false);
  std::vector<std::byte> from = RandomBytes(1 << 16, 2);
  for (int i = 0; i < 50; ++i) {
    std::unique_ptr<Block> block = NewBlock(1 << 16);
    ASSERT_TRUE(stream->CopyIn(*block, from).ok());
  }
  absl::StatusOr<bool> done = stream->WaitFor(Stream::kForever);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(*done);
}

TEST_P(Conformance, StreamsAreApart) {
  std::unique_ptr<Block> one = NewBlock(4096), other = NewBlock(4096);
  auto work = [&](const Block& block, uint32_t seed) {
    std::unique_ptr<Stream> stream = *device_->NewStream(false);
    for (int i = 0; i < 20; ++i) {
      std::vector<std::byte> from = RandomBytes(4096, seed + static_cast<uint32_t>(i)), to(4096);
      EXPECT_TRUE(stream->CopyIn(block, from).ok());
      EXPECT_TRUE(stream->CopyOut(to, block).ok());
      EXPECT_EQ(from, to);
    }
  };
  std::thread thread([&] { work(*one, 100); });
  work(*other, 200);
  thread.join();
}

TEST_P(Conformance, TooMuchMemoryIsExhausted) {
  absl::StatusOr<std::unique_ptr<Block>> block = device_->Allocate(int64_t{1} << 60);
  EXPECT_EQ(block.status().code(), absl::StatusCode::kResourceExhausted) << block.status();
  EXPECT_TRUE(device_->Allocate(256).ok());
}

TEST_P(Conformance, TimesAreInOrder) {
  std::unique_ptr<Stream> stream = *device_->NewStream(true);
  std::unique_ptr<Block> block = NewBlock(4096);
  std::vector<std::byte> bytes = RandomBytes(4096, 3);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->CopyIn(*block, bytes).ok());
  ASSERT_TRUE(stream->CopyOut(bytes, *block).ok());
  absl::StatusOr<std::vector<device::WorkTime>> times = stream->TakeTimes();
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 6u);
  for (size_t i = 0; i < times->size(); ++i) {
    EXPECT_LE((*times)[i].begin_ns, (*times)[i].end_ns);
    if (i > 0) EXPECT_LE((*times)[i - 1].begin_ns, (*times)[i].begin_ns);
  }
  EXPECT_EQ(stream->TakeTimes()->size(), 0u);
}

TEST_P(Conformance, MalformedCodeIsRefused) {
  for (std::string_view text : {"no code", "\xff\xfe"}) {
    std::vector<std::string> functions = {"k0_0"};
    auto code = device_->Load({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, functions);
    EXPECT_EQ(code.status().code(), absl::StatusCode::kInvalidArgument) << code.status();
    EXPECT_GT(code.status().message().size(), 10u);
  }
}

// ---- programs

constexpr char kParams[] =
    "%x: Tensor[(?, 4, 6, 6), int8], %w: Tensor[(4, 4, 3, 3), int8], %b: Tensor[(4), int32], "
    "%r: Tensor[(?, 4, 6, 6), int8], %d: Tensor[(5, 144), int8], %e: Tensor[(5), int32]";
constexpr char kConvolution[] =
    "qnn.conv2d(%x, %w, -3, 5, 0.05f, 0.01f, padding=[1, 1], channels=4, kernel_size=[3, 3])";
// Bodies of functions with these parameters, $ stands for the convolution. An accelerator computes each by one
// function.
constexpr const char* kBodies[] = {
    "$",
    "nn.dense(nn.batch_flatten(%x), %d, out_dtype=\"int32\")",
    "nn.bias_add($, %b)",
    "$ + 2000000000",
    "qnn.requantize($, 0.0005f, 0, 0.05f, -3)",
    "qnn.requantize(nn.bias_add($, %b), 0.0005f, 11, 0.03f, 7, rounding=\"TONEAREST\", out_dtype=\"uint8\")",
    "qnn.requantize($, 3f, 0, 0.001f, 0, out_dtype=\"int32\")",
    "maximum(qnn.requantize(nn.bias_add($, %b), 0.0005f, 0, 0.05f, -3), -3i8)",
    "minimum(9i8, maximum(-3i8, qnn.requantize($, 0.0005f, 0, 0.05f, -3)))",
    "clip(qnn.requantize($, 0.0005f, 0, 0.05f, -3), a_min=-20f, a_max=30f)",
    "nn.relu(nn.bias_add($, %b))",
    "qnn.add(qnn.requantize($, 0.0005f, 0, 0.05f, -3), %r, 0.05f, -3, 0.02f, 4, 0.04f, 1)",
    "nn.relu(qnn.add(%r, qnn.requantize($, 0.0005f, 0, 0.05f, -3), 0.05f, -3, 0.02f, 4, 0.04f, 1))",
    "qnn.dequantize(nn.bias_add($, %b), 0.0005f, 3)",
    "cast(nn.global_avg_pool2d(cast(%x, dtype=\"int32\")), dtype=\"int8\")",
    "qnn.requantize(nn.batch_flatten(nn.global_avg_pool2d(cast(%x, dtype=\"int32\"))), 0.5f, 1, 0.7f, -2)",
    "nn.global_avg_pool2d(cast(%x, dtype=\"int32\"), layout=\"NHWC\")",
};

struct Compiled {
  std::shared_ptr<const VerifiedExecutable> executable;
  std::string message;
};

Compiled CompileFor(const std::string& kind, int level) {
  std::string text = "#[version = \"0.0.5\"]\n";
  for (size_t i = 0; i < std::size(kBodies); ++i) {
    absl::StrAppend(&text, "def @f", i, "(", kParams, ") { ", absl::StrReplaceAll(kBodies[i], {{"$", kConvolution}}),
                    " }\n");
  }
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  uint32_t source = sources.Add("conformance.relay", text);
  driver::CompileOptions options;
  options.opt_level = level;
  options.devices = {kind};
  absl::StatusOr<driver::CompiledProgram> compiled = driver::Compile(source, diagnostics, std::move(options));
  if (!compiled.ok()) return {nullptr, absl::StrCat(compiled.status().ToString(), diagnostics.Render())};
  return {compiled->executable, ""};
}

template <typename T>
Value RandomTensor(DataType dtype, Shape shape, int32_t most, std::mt19937& random) {
  std::vector<T> values(static_cast<size_t>(*NumElements(shape)));
  std::uniform_int_distribution<int32_t> element(-most - 1, most);
  for (T& value : values) value = static_cast<T>(element(random));
  return Value::Tensor(Literal::FromValues<T>(dtype, std::move(shape), values));
}

std::vector<Value> RandomArguments(int64_t batch, int64_t batch_of_r) {
  std::mt19937 random(4);
  auto bytes = [&](Shape shape) { return RandomTensor<int8_t>(kInt8, std::move(shape), 127, random); };
  auto ints = [&](Shape shape) { return RandomTensor<int32_t>(kInt32, std::move(shape), 9000, random); };
  return {bytes({batch, 4, 6, 6}),      bytes({4, 4, 3, 3}), ints({4}),
          bytes({batch_of_r, 4, 6, 6}), bytes({5, 144}),     ints({5})};
}

std::unique_ptr<vm::Machine> MachineOn(const std::string& device, const Compiled& compiled) {
  auto program = vm::Program::Link(compiled.executable, {.allow_native = true, .device = device});
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *vm::Machine::Create(*program, {}) : nullptr;
}

std::string ResultOf(vm::Machine& machine, size_t function, const std::vector<Value>& args) {
  absl::StatusOr<Value> result = machine.Invoke(absl::StrCat("f", function), args);
  return result.ok() ? result->ToString() : result.status().ToString();
}

// Bit for bit, as everything is computed in integers, or by one multiplication in floats.
TEST_P(Conformance, ProgramsGiveWhatTheHostGives) {
  bool is_accelerator = target::FindDeviceKind(GetParam())->accelerator != nullptr;
  // A composite is one function at each level.
  for (int level : is_accelerator ? std::vector<int>{0, 2} : std::vector<int>{2}) {
    Compiled compiled = CompileFor(GetParam(), level);
    ASSERT_NE(compiled.executable, nullptr) << compiled.message;
    std::unique_ptr<vm::Machine> on_device = MachineOn(GetParam(), compiled), on_host = MachineOn("host", compiled);
    ASSERT_TRUE(on_device != nullptr && on_host != nullptr);
    for (auto [batch, of_r] : {std::pair(2, 2), std::pair(1, 3), std::pair(3, 1)}) {
      std::vector<Value> args = RandomArguments(batch, of_r);
      for (size_t i = 0; i < std::size(kBodies); ++i) {
        bool reads_r = absl::StrContains(kBodies[i], "%r");
        if (batch != of_r && !reads_r) continue;
        int64_t before = on_device->stats().devices[0].launches;
        std::string result = ResultOf(*on_device, i, args);
        EXPECT_EQ(result, ResultOf(*on_host, i, args)) << kBodies[i] << " at level " << level;
        int64_t launches = on_device->stats().devices[0].launches - before;
        EXPECT_GE(launches, 1) << kBodies[i];
        if (is_accelerator) EXPECT_EQ(launches, 1) << kBodies[i] << " at level " << level;
      }
    }
    EXPECT_EQ(on_device->stats().leaked_objects, 0);
  }
}

TEST_P(Conformance, MachinesShareADevice) {
  Compiled compiled = CompileFor(GetParam(), 2);
  ASSERT_NE(compiled.executable, nullptr) << compiled.message;
  std::vector<Value> args = RandomArguments(2, 2);
  std::unique_ptr<vm::Machine> on_host = MachineOn("host", compiled);
  std::string right = ResultOf(*on_host, 11, args);
  auto program = vm::Program::Link(compiled.executable, {.allow_native = true, .device = GetParam()});
  ASSERT_TRUE(program.ok()) << program.status();
  auto run = [&] {
    std::unique_ptr<vm::Machine> machine = *vm::Machine::Create(*program, {});
    for (int i = 0; i < 10; ++i) EXPECT_EQ(ResultOf(*machine, 11, args), right);
  };
  std::thread thread(run);
  run();
  thread.join();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Conformance, ::testing::ValuesIn(KindNames()),
                         [](const auto& info) { return info.param; });

TEST(ConformanceSuite, RunsOnTheSimulatedAccelerator) {
  std::vector<std::string> names = KindNames();
  EXPECT_NE(std::find(names.begin(), names.end(), "sim"), names.end());
  if (std::getenv("RELAYVM_DEVICE_LIBRARIES") != nullptr) {
    EXPECT_NE(std::find(names.begin(), names.end(), "sim_plugin"), names.end());
  }
}

}  // namespace
}  // namespace rvm
