// The objects behind the handles of relayvm.h, and how its functions check and report.
#ifndef RVM_CAPI_HANDLES_H_
#define RVM_CAPI_HANDLES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/value.h"
#include "capi/interface.h"
#include "include/relayvm/relayvm.h"
#include "vm/batch.h"
#include "vm/machine.h"
#include "vm/profiler/profiler.h"

namespace rvm::capi {

// The first word of every object; another number once it is released.
enum class Kind : uint32_t {
  kError = 0x52564531,
  kProgram = 0x52565031,
  kMachine = 0x52564d31,
  kValue = 0x52565631,
  kBatch = 0x52564231,
  kReleased = 0x5256dead,
};

// "rvm_value", or "a released object", "something else".
std::string_view KindName(Kind kind);

rvm_error* NewError(rvm_code code, std::string_view message);
// Returns the error of a status; `invalid` is the code for kInvalidArgument.
rvm_error* ErrorOf(const absl::Status& status, rvm_code invalid);
// "argument `program`: saw NULL; expected an rvm_program". `expected` has no article.
rvm_error* WrongArgument(std::string_view name, std::string_view saw, std::string_view expected);
inline rvm_error* NullArgument(std::string_view name, std::string_view expected) {
  return WrongArgument(name, "NULL", expected);
}

// A counted object; its memory shows its kind as long as it is not reused.
template <typename T, Kind kKind>
struct Object {
  std::atomic<Kind> kind = kKind;
  std::atomic<int64_t> count = 1;

  static bool Is(const T* object) {
    return object != nullptr && reinterpret_cast<uintptr_t>(object) % alignof(T) == 0 && object->kind == kKind;
  }
  // Null if `object` is one; otherwise what is wrong with the argument `name`.
  static rvm_error* Check(const T* object, std::string_view name) {
    if (Is(object)) return nullptr;
    if (object == nullptr) return NullArgument(name, KindName(kKind));
    bool is_aligned = reinterpret_cast<uintptr_t>(object) % alignof(T) == 0;
    Kind kind = is_aligned ? object->kind.load() : Kind{};
    return WrongArgument(name, KindName(kind), KindName(kKind));
  }
  static T* Retain(T* object) {
    if (Is(object)) object->count.fetch_add(1, std::memory_order_relaxed);
    return object;
  }
  static void Release(T* object) {
    if (!Is(object) || object->count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    object->kind = Kind::kReleased;
    delete object;
  }
};

// Counts of the runs of a program, which its machines add to.
struct RunCounts {
  static constexpr size_t kCodes = 16;
  std::atomic<int64_t> runs = 0;
  std::array<std::atomic<int64_t>, kCodes> errors = {};  // by rvm_code
  std::atomic<int64_t> nanoseconds = 0;
  std::atomic<int64_t> peak_bytes = 0;  // the largest of a machine

  // `code` is RVM_OK for a run with a result.
  void Add(rvm_code code, int64_t nanoseconds_of_run, int64_t peak_bytes_of_machine);
};

// State of a machine that its runs use: outlives the handle if it is freed meanwhile.
struct MachineState {
  std::shared_ptr<RunCounts> counts;       // of its program
  std::unique_ptr<vm::Profiler> profiler;  // null: none; outlives the machine
  std::unique_ptr<vm::Machine> machine;
  std::string entry;  // of the latest run
  double run_ns = 0;
  std::atomic<bool> is_busy = false;
};

// State of a batch, which outlives the handle if that is freed while a thread drives it.
struct BatchState {
  std::shared_ptr<RunCounts> counts;  // of its program
  std::unique_ptr<vm::Batch> batch;
  std::atomic<bool> is_busy = false;
};

}  // namespace rvm::capi

struct rvm_error : rvm::capi::Object<rvm_error, rvm::capi::Kind::kError> {
  rvm_code code = RVM_INTERNAL;
  std::string message, backtrace, limit;
};

struct rvm_program : rvm::capi::Object<rvm_program, rvm::capi::Kind::kProgram> {
  std::shared_ptr<const rvm::vm::Program> program;
  rvm::capi::Interface interface;
  std::string signature;
  std::vector<std::string> entry_types;
  std::shared_ptr<rvm::capi::RunCounts> counts = std::make_shared<rvm::capi::RunCounts>();
};

struct rvm_machine : rvm::capi::Object<rvm_machine, rvm::capi::Kind::kMachine> {
  std::shared_ptr<rvm::capi::MachineState> state;
};

struct rvm_batch : rvm::capi::Object<rvm_batch, rvm::capi::Kind::kBatch> {
  std::shared_ptr<rvm::capi::BatchState> state;
};

struct rvm_value : rvm::capi::Object<rvm_value, rvm::capi::Kind::kValue> {
  explicit rvm_value(rvm::Value v) : value(std::move(v)) {}
  const rvm::Value value;
};

#endif  // RVM_CAPI_HANDLES_H_
