// Machine: runs a verified executable. The public API of the VM.
//
//   RVM_ASSIGN_OR_RETURN(auto program, vm::Program::LoadFile("model.rvm", {.allow_native = true}));
//   RVM_ASSIGN_OR_RETURN(auto machine, vm::Machine::Create(program, {}));
//   RVM_ASSIGN_OR_RETURN(Value result, machine->Invoke("main", {x}));
//
// Threads: a Program is immutable and may be shared by any number of threads; a Machine
// belongs to one thread at a time, except Cancel, which any thread may call. After a fork, the child may use the
// parent's programs but must create its own machines: those of the parent have lost their threads. They refuse to run
// there, and may be freed.
#ifndef RVM_VM_MACHINE_H_
#define RVM_VM_MACHINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "kernels/runtime/kernel_library.h"
#include "serialization/executable.h"
#include "serialization/signature.h"
#include "serialization/verifier.h"
#include "vm/device/device.h"

namespace rvm {
struct MappedFile;
}

namespace rvm::vm {

class Profiler;
struct DeviceProgram;
struct LinkInfo;
struct QueueShare;

struct LoadOptions {
  // Machine code is trusted: loading it means running it. Native executables are refused unless this is set. The
  // kernels of portable executables have none: any bytes may be loaded and run safely. Machine code of functions that
  // one has is then left alone, and their bytecode runs.
  bool allow_native = false;
  // Machine code of an executable signed by one of these keys is also accepted. Not for Link.
  std::vector<PublicKey> trusted_keys;
  // Devices that run the kernels of an executable with code for devices, by names between commas
  // (vm/device/choose_devices.h); "" for all devices of this machine, "host" for none. For each kind of code the first
  // of them that fits is used. kFailedPrecondition if one with such a name is not there, or if the executable requires
  // one and none fits.
  std::string device;
  bool host_fallback = false;  // then kernels without their device run on the host instead
};

// A verified executable with its kernels linked in.
class Program {
 public:
  // From bytes in memory / from a file (constants are mapped, not copied) / from one that is mapped already.
  // kUnauthenticated: machine code that `options` do not trust.
  static absl::StatusOr<std::shared_ptr<const Program>> Load(std::span<const uint8_t> bytes,
                                                             const LoadOptions& options);
  static absl::StatusOr<std::shared_ptr<const Program>> LoadFile(const std::string& path, const LoadOptions& options);
  static absl::StatusOr<std::shared_ptr<const Program>> LoadMapped(const MappedFile& file, const LoadOptions& options);
  static absl::StatusOr<std::shared_ptr<const Program>> Link(std::shared_ptr<const VerifiedExecutable> executable,
                                                             const LoadOptions& options);
  // With kernels from elsewhere: one function per descriptor of a native executable, none for a portable one. `library`
  // owns their code, if anything must. `control`: machine code of functions, or null.
  static absl::StatusOr<std::shared_ptr<const Program>> LinkWithKernels(
      std::shared_ptr<const VerifiedExecutable> executable, std::vector<RvmKernel> kernels,
      std::shared_ptr<const runtime::KernelLibrary> library = nullptr,
      std::shared_ptr<const DeviceProgram> device = nullptr, const ControlCode* control = nullptr);
  ~Program();

  const Executable& executable() const { return **executable_; }
  const VerifiedExecutable& verified() const { return *executable_; }
  const LinkInfo& link_info() const { return *link_; }

 private:
  Program();
  std::shared_ptr<const VerifiedExecutable> executable_;
  std::shared_ptr<const runtime::KernelLibrary> library_;
  std::shared_ptr<const DeviceProgram> device_;
  std::unique_ptr<const LinkInfo> link_;
};

struct MachineOptions {
  int64_t memory_limit_bytes = int64_t{8} << 30;   // heap cells and tensors; as much again on each device
  int64_t stack_limit_bytes = int64_t{512} << 20;  // frames of Relay calls: some ten million of them
  int64_t fuel = -1;                               // calls and back-edges of one Invoke; -1: no limit
  double time_limit_ms = -1;                       // of one Invoke, values in and out included; -1: none
  int threads = 1;                                 // that share one kernel's work; results do not depend on it
  bool runs_bytecode = false;    // functions run as bytecode, even if the program has machine code for them
  bool defers_calls = false;     // for tests: in programs with variants for batches, all calls of kernels wait that may
  int64_t fail_allocation = 0;   // for tests: the allocation with this number fails; 0: none
  Profiler* profiler = nullptr;  // sees every instruction: vm/profiler; outlives the machine
};

// Options of one Invoke.
struct RunOptions {
  int64_t fuel = -1;          // as in MachineOptions; -1: that of the machine
  double time_limit_ms = -1;  // likewise
  // Called on the thread of the run, between two of its instructions, about every 50 ms; not 0 ends the run with
  // kCancelled. A kernel is not interrupted by it. Null: never.
  int (*poll)(void* context) = nullptr;
  void* poll_context = nullptr;
};

struct MachineStats {
  int64_t live_bytes = 0;  // cells and tensors now
  int64_t peak_bytes = 0;
  int64_t reserved_bytes =
      0;  // taken from the system, including arenas, workspace and free memory: what the limit bounds
  int64_t pooled_bytes = 0;  // those of them that are cached, in big blocks, for tensors of the same size
  int64_t live_objects = 0;
  int64_t allocations = 0;                 // of cells and tensors, since the machine was made
  int64_t trims = 0;                       // how often cached blocks were given back to the system
  int64_t cyclic_objects = 0;              // freed because only cycles of references owned them
  int64_t leaked_objects = 0;              // that runs with a result left behind, by a fault of the compiler or the VM
  std::vector<device::DeviceUse> devices;  // in use
};

class Machine {
 public:
  static absl::StatusOr<std::unique_ptr<Machine>> Create(std::shared_ptr<const Program> program,
                                                         const MachineOptions& options);
  // In the child of a fork, leaves the memory of the parent's machine as it is: its threads are not there.
  ~Machine();

  // Runs an entry to its value. Arguments are checked against the entry's types and the extents that they share:
  // kInvalidArgument says which argument, what was seen and what is expected. Errors of the
  // program (failed match, shape check) carry a Relay backtrace; kResourceExhausted for limits of
  // memory, stack and fuel, kDeadlineExceeded for time (vm/limits/limit.h tells which), kCancelled after Cancel or by
  // `options.poll`; kInvalidArgument in the child of a fork. After any error the machine is empty and may be used
  // again, but the functions that earlier runs gave are gone.
  //
  // Functions of the host among the arguments (FunctionObject) are called on this thread while the run waits;
  // an error of one ends the run. They cannot use the machine, but may Cancel it.
  absl::StatusOr<Value> Invoke(std::string_view entry, std::span<const Value> args, const RunOptions& options = {});

  // Runs a function that is, or is part of, a result of an earlier run. What it captured stays in the machine's heap,
  // as long as a Value has the function; the memory is freed by the next run, or by Trim. FunctionObject::Call does the
  // same. kInvalidArgument for a function of another machine or of a batch, and for one that is gone; otherwise as
  // Invoke.
  absl::StatusOr<Value> Call(const Value& function, std::span<const Value> args, const RunOptions& options = {});

  // Stops a running Invoke soon. Callable from any thread.
  void Cancel();

  // Gives cached memory back to the system, including the stack unless the host holds functions of the machine.
  // Does nothing while a run is under way.
  void Trim();

  MachineStats stats() const;
  const Program& program() const;

 private:
  friend class Batch;
  struct Impl;
  explicit Machine(std::unique_ptr<Impl> impl);
  // kInvalidArgument if a limit or the number of threads is out of range.
  static absl::Status Check(const MachineOptions& options);
  // Returns a machine of a batch.
  static absl::StatusOr<std::unique_ptr<Machine>> Create(std::shared_ptr<const Program> program,
                                                         const MachineOptions& options, const QueueShare& share);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_MACHINE_H_
