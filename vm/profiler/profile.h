// Profile: what a profiled machine did: exact counts, and times in nanoseconds.
//
// Times exclude the clock and the book-keeping of the profiler, but not their effect on branch prediction and caches:
// shares are more reliable than sums. Counts are exact.
#ifndef RVM_VM_PROFILER_PROFILE_H_
#define RVM_VM_PROFILER_PROFILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "serialization/executable.h"
#include "serialization/isa/isa.h"

namespace rvm::vm {

// The phases of one Invoke, in order.
enum class ProfilePhase : uint8_t {
  kImport,  // arguments become objects of the heap
  kRun,
  kExport,   // the result becomes a Value and is dropped
  kCleanup,  // cycles of references are freed
};
inline constexpr size_t kProfilePhases = 4;

// Allocations of instructions besides cells.
enum class ProfileMemory : uint8_t {
  kTensor,   // a kernel's result in its own block
  kPlanned,  // a kernel's result in the window of its activation, without an allocation
  kView,     // a header over another tensor's elements
  kChunk,    // raw memory: arena windows and workspaces of kernels
};
inline constexpr size_t kProfileMemories = 4;

struct Profile {
  struct Sum {
    int64_t count = 0;
    double ns = 0;
  };
  struct Amount {
    int64_t count = 0;
    int64_t bytes = 0;
  };
  // Work of a device, by its own clock, and the time that the host waited for it. Both go on at the same time.
  struct DeviceUse {
    Sum launches;
    Sum copies_in;  // to the device
    Sum copies_out;
    int64_t bytes_in = 0;
    int64_t bytes_out = 0;
    Sum waits;
    double work_ns() const { return launches.ns + copies_in.ns + copies_out.ns; }
  };
  struct DeviceRow {
    std::string device;  // its id
    DeviceUse use;
  };
  struct OpcodeRow {
    Opcode opcode;
    int64_t count = 0;
    double ns = 0;  // without the kernels it calls
  };
  struct FunctionRow {
    FunctionId function;
    int64_t calls = 0;
    int64_t instructions = 0;
    double self_ns = 0;       // of its instructions, without kernels and waits
    double kernel_ns = 0;     // of the kernels it calls: on a device, of queueing them
    double inclusive_ns = 0;  // of its outermost activations, waits included
    DeviceUse device;         // work that its instructions queued, and their waits
  };
  struct ShapeRow {
    std::string shapes;  // "(5, 300) float32 -> (5) float32"
    int64_t calls = 0;
    double ns = 0;
    double device_ns = 0;
    std::vector<int64_t> symbols = {};  // of the kernel, as it was called
  };
  struct KernelRow {
    KernelId kernel;
    std::string device;  // where it runs; "" on the host
    int64_t calls = 0;
    double ns = 0;  // on the host: on a device, of queueing it
    double least_ns = 0;
    double most_ns = 0;
    int64_t bytes = 0;             // of arguments and results, of all calls
    std::vector<ShapeRow> shapes;  // in the order in which they were seen
    int64_t other_shapes = 0;      // calls with shapes beyond the first kMaxShapes
    DeviceUse use;                 // of devices, copies of its arguments and results included
  };
  struct CellRow {
    LayoutId layout;
    Amount made;         // in new memory
    int64_t reused = 0;  // made in the memory of a dead cell
  };
  static constexpr size_t kMaxShapes = 100;

  int64_t invokes = 0;
  std::array<Sum, kProfilePhases> phases;  // kRun: what is neither instruction nor kernel
  double away_ns = 0;                      // of no phase: the thread was not running
  Amount imported;                         // objects of arguments: cells and headers of tensors
  Amount exported_copied;                  // tensors of results that were copied
  Amount exported_moved;                   // tensors of results that left the heap with their memory
  std::array<Amount, kProfileMemories> memory;
  // Only what ran; in the order of codes and ids.
  std::vector<OpcodeRow> opcodes;
  std::vector<FunctionRow> functions;
  std::vector<KernelRow> kernels;
  std::vector<CellRow> cells;
  std::vector<DeviceRow> devices;  // all that the program uses
};

// An event on the machine's time line.
struct TraceEvent {
  // kWait: the host waits for a device; those after it happen on a device, some time before the host notices.
  enum class Kind : uint8_t { kEnter, kLeave, kKernel, kPhase, kWait, kLaunch, kCopyIn, kCopyOut };
  Kind kind;
  uint32_t id;          // of a function, kernel or device; the ProfilePhase
  uint32_t shape;       // kKernel, kLaunch: index in KernelRow::shapes, or beyond them
  double begin_ns;      // since the profiler was made
  double length_ns;     // not of kEnter and kLeave
  uint32_t device = 0;  // kLaunch, kCopyIn, kCopyOut: index in Profile::devices
  int64_t bytes = 0;    // kCopyIn, kCopyOut
};

}  // namespace rvm::vm

#endif  // RVM_VM_PROFILER_PROFILE_H_
