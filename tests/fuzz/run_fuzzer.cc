// Any executable that the verifier accepts runs: to a value or an error within its limits, with no error
// of memory and nothing left behind. Mutations change tables and instructions, not bytes.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/value.h"
#include "serialization/decoder.h"
#include "serialization/encoder.h"
#include "serialization/verifier.h"
#include "tests/fuzz/dice.h"
#include "tests/fuzz/executable_mutator.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/random_arguments.h"
#include "vm/machine.h"

namespace rvm::fuzz {
namespace {

// Cancels runs that take long: kernels of many elements. One thread for all machines, since making one for each takes
// longer than most runs do.
class Canceller {
 public:
  Canceller() {
    std::thread([this] {
      for (;; std::this_thread::sleep_for(kTime / 5)) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (machine_ != nullptr && std::chrono::steady_clock::now() > end_) machine_->Cancel();
      }
    }).detach();
  }

  // From now on `machine` runs, or nothing if null.
  void Watch(vm::Machine* machine) {
    std::lock_guard<std::mutex> lock(mutex_);
    machine_ = machine;
    end_ = std::chrono::steady_clock::now() + kTime;
  }

 private:
  static constexpr std::chrono::milliseconds kTime{50};
  std::mutex mutex_;
  vm::Machine* machine_ = nullptr;
  std::chrono::steady_clock::time_point end_;
};

void RunEntry(vm::Machine& machine, const Executable& executable, const Entry& entry, Dice& dice) {
  static Canceller* const canceller = new Canceller;
  std::optional<std::vector<Value>> args = RandomArguments(executable, entry, dice);
  if (!args) return;
  canceller->Watch(&machine);
  absl::StatusOr<Value> result = machine.Invoke(entry.name, *args);
  canceller->Watch(nullptr);
  if (result.ok()) result->ToString();
  RVM_CHECK(result.status().code() != absl::StatusCode::kInternal, result.status().ToString().c_str());
  RVM_CHECK(machine.stats().leaked_objects == 0, "objects are left behind");
}

// Returns whether the bytes are an executable that verifies.
bool RunBytes(const uint8_t* data, size_t size) {
  // Machine code is not for any bytes to bring.
  auto program = vm::Program::Load({data, size}, {});
  if (!program.ok()) return false;
  vm::MachineOptions limits{.memory_limit_bytes = 16 << 20, .stack_limit_bytes = 1 << 20, .fuel = 2000};
  auto machine = vm::Machine::Create(*program, limits);
  if (!machine.ok()) return true;
  Dice dice(size);
  for (const Entry& entry : (*program)->executable().entries) {
    for (int i = 0; i < 2; ++i) RunEntry(**machine, (*program)->executable(), entry, dice);
  }
  return true;
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
  rvm::fuzz::MutateExecutable(*executable, seed);
  std::vector<uint8_t> bytes = rvm::Encode(*executable);
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
