// Any executable with code for devices that the verifier accepts is refused, or runs on devices within its limits: it
// breaks no rule of a device's interface, leaves no memory taken there, and takes no more than was foreseen. The
// accelerator is the simulated one; the GPUs run nothing. Mutations change the sections of devices, and other tables.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/value.h"
#include "devices/sim/sim_device.h"
#include "kernels/abi/kernel_abi.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "serialization/format.h"
#include "serialization/verifier.h"
#include "tests/fuzz/checked_device.h"
#include "tests/fuzz/device_mutator.h"
#include "tests/fuzz/dice.h"
#include "tests/fuzz/executable_mutator.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/random_arguments.h"
#include "tests/fuzz/sections.h"
#include "vm/forecast/memory_forecast.h"
#include "vm/link/device_program.h"
#include "vm/link/link_info.h"
#include "vm/machine.h"

namespace rvm::fuzz {
namespace {

constexpr int64_t kMemory = int64_t{16} << 20;

device::DeviceList Devices() {
  device::DeviceList list;
  list.devices.push_back(MakeCheckedDevice({"cuda:0", "", "ptx", "+sm_75", kMemory}));
  list.devices.push_back(MakeCheckedDevice({"cuda:1", "", "ptx", "+sm_75,+sm_80", kMemory}));
  for (const char* id : {"opencl:0", "opencl:1"}) {
    list.devices.push_back(MakeCheckedDevice({id, "", "opencl-c-1.2", "+fp64", kMemory}));
  }
  list.devices.push_back(device::MakeSimDevice({.memory_bytes = kMemory, .fault = {}, .most_tiles = 1 << 10}));
  return list;
}

// Machine code is not for any bytes to bring: a kernel on the host ends the run.
int32_t HostKernel(void* const*, const int64_t*, RvmKernelContext*) { return kRvmIndexOutOfRange; }

void CheckForecast(const vm::Program& program, const Entry& entry, const std::vector<Value>& args,
                   const vm::MachineStats& stats) {
  auto extent = [&](size_t param, size_t axis) -> std::optional<int64_t> {
    if (param >= args.size() || args[param].kind() != ValueKind::kTensor) return std::nullopt;
    return args[param].tensor().shape()[axis];
  };
  absl::StatusOr<vm::MemoryForecast> forecast =
      vm::ForecastMemory(program.verified(), entry, extent, program.link_info().device);
  if (!forecast.ok() || !forecast->unbounded.empty()) return;
  for (size_t i = 0; i < stats.devices.size(); ++i) {
    RVM_CHECK(stats.devices[i].peak_bytes <= forecast->devices[i].reserved_bytes, "more memory than was foreseen");
  }
}

void RunEntry(const std::shared_ptr<const vm::Program>& program, const Entry& entry, Dice& dice) {
  vm::MachineOptions limits{.memory_limit_bytes = kMemory, .stack_limit_bytes = 1 << 20, .fuel = 2000};
  auto machine = vm::Machine::Create(program, limits);
  if (!machine.ok()) return;
  for (int i = 0; i < 2; ++i) {
    std::optional<std::vector<Value>> args = RandomArguments(program->executable(), entry, dice);
    if (!args) return;
    absl::StatusOr<Value> result = (*machine)->Invoke(entry.name, *args);
    if (result.ok()) result->ToString();
    RVM_CHECK(result.status().code() != absl::StatusCode::kInternal, result.status().ToString().c_str());
    RVM_CHECK((*machine)->stats().leaked_objects == 0, "objects are left behind");
    // A run that ends within its fuel is mostly short to follow.
    if (i == 0 && result.ok()) CheckForecast(*program, entry, *args, (*machine)->stats());
  }
  (*machine)->Trim();
  for (const device::DeviceUse& use : (*machine)->stats().devices) {
    RVM_CHECK(use.reserved_bytes == 0, "memory of a device stays taken");
  }
}

// Returns whether the bytes are an executable that verifies and has code for devices.
bool RunBytes(const uint8_t* data, size_t size) {
  static const bool has_small_products = setenv("RELAYVM_CUBLASLT", "always", 1) == 0;
  RVM_CHECK(has_small_products, "products keep their own functions");
  absl::StatusOr<Executable> decoded = Decode({data, size}, {.check_constants = true});
  if (!decoded.ok()) return false;
  absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(*std::move(decoded));
  if (!verified.ok() || (**verified)->device_codes.empty()) return false;
  auto device = vm::LoadDeviceProgram(***verified, Devices(), /*host_fallback=*/true);
  if (!device.ok()) {
    RVM_CHECK(device.status().code() != absl::StatusCode::kInternal, device.status().ToString().c_str());
    return true;
  }
  std::vector<RvmKernel> kernels((**verified)->kernels.size(), HostKernel);
  auto program = vm::Program::LinkWithKernels(*verified, std::move(kernels), nullptr, *std::move(device));
  if (!program.ok()) return true;
  Dice dice(size);
  for (const Entry& entry : (*program)->executable().entries) RunEntry(*program, entry, dice);
  return true;
}

// Returns the bytes of a section, laid out with right checksums.
std::vector<uint8_t> MutateSection(std::span<const uint8_t> file, Dice& dice) {
  std::vector<Section> sections = Split(file);
  std::vector<Section*> of_devices;
  for (Section& section : sections) {
    for (format::Section id :
         {format::Section::kDeviceCode, format::Section::kDeviceProducts, format::Section::kDeviceCalls}) {
      if (section.id == static_cast<uint16_t>(id)) of_devices.push_back(&section);
    }
  }
  if (of_devices.empty()) return {file.begin(), file.end()};
  Section& section = *of_devices[dice.Pick(of_devices.size())];
  if (dice.Chance(10)) {
    std::swap(section.contents, of_devices[dice.Pick(of_devices.size())]->contents);
  } else if (dice.Chance(5)) {
    section.flags ^= 1;
  }
  for (size_t i = dice.Pick(3); i > 0; --i) {
    // Mostly the tables in front of the code.
    size_t front = std::min<size_t>(section.contents.size(), dice.Chance(70) ? 80 : section.contents.size());
    std::vector<uint8_t> changed(section.contents.begin(), section.contents.begin() + static_cast<ptrdiff_t>(front));
    MutateSomeBytes(changed, dice);
    changed.insert(changed.end(), section.contents.begin() + static_cast<ptrdiff_t>(front), section.contents.end());
    section.contents = std::move(changed);
  }
  return Join(sections, /*file_class=*/1, format::kMinor);
}

}  // namespace
}  // namespace rvm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Programs that do not verify stay out of the corpus: their mutations would hardly ever run.
  return rvm::fuzz::RunBytes(data, size) ? 0 : -1;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  absl::StatusOr<rvm::Executable> executable = rvm::Decode({data, size});
  if (!executable.ok()) return rvm::fuzz::MutateBytes(data, size, max_size);
  rvm::fuzz::Dice dice(seed);
  std::vector<uint8_t> bytes;
  // Small files are quick, and nothing runs machine code.
  executable->code_objects.clear();
  if (dice.Chance(30)) {
    bytes = rvm::fuzz::MutateSection(rvm::Encode(*executable), dice);
  } else {
    if (dice.Chance(80)) rvm::fuzz::MutateDeviceCodes(*executable, dice);
    if (dice.Chance(25)) rvm::fuzz::MutateExecutable(*executable, seed);
    bytes = rvm::Encode(*executable);
  }
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
