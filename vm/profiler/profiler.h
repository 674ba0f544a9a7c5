// Profiler: watches one Machine (MachineOptions::profiler), instruction by instruction.
//
// How. A profiled machine runs a copy of the program's code in which every instruction begins with
// kProbeCode in place of its own code. The handler of that code tells the profiler and goes on
// with the handler that the instruction has everywhere. Kernels are replaced by one function, which
// times the real one. So handlers exist once and hold nothing for the profiler: without one, a
// machine runs the same host instructions as if profilers did not exist.
//
// One machine per profiler, one thread at a time.
#ifndef RVM_VM_PROFILER_PROFILER_H_
#define RVM_VM_PROFILER_PROFILER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/abi/kernel_abi.h"
#include "serialization/isa/isa.h"
#include "vm/link/link_info.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profile.h"
#include "vm/profiler/result_sink.h"

namespace rvm::vm {

// No opcode has this code.
inline constexpr uint16_t kProbeCode = 0xff;

// A piece of work that was queued for a device, and on whose behalf.
struct DeviceWork {
  enum Kind : uint8_t { kLaunch, kCopyIn, kCopyOut };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  Kind kind;
  int64_t bytes;      // of a copy
  uint32_t function;  // kNone: arguments or results of the run
  uint32_t kernel;    // called then, or kNone
  uint32_t shape;     // of its call: index in KernelRow::shapes, or beyond them
};

class Profiler {
 public:
  // Keeps the first `max_trace_events` events for trace().
  explicit Profiler(int64_t max_trace_events = 0);

  // Returns the counts since the profiler was made, or since Clear.
  Profile Snapshot() const;
  void Clear();
  std::vector<TraceEvent> Trace() const;
  // Calls and kernels that the trace leaves out.
  int64_t dropped_trace_events() const { return dropped_events_; }

  // Gives `sink` the results of kernels and views from now on; null: none. It outlives the runs.
  void ShowResults(ResultSink* sink) { sink_ = sink; }

  // ---- for the machine

  // Returns the program as the machine must run it. `kernel_probe` is called in place of the machine code of every
  // kernel; it calls that between BeginKernel and EndKernel. The executable must live until the last Snapshot.
  const LinkInfo& Attach(const Executable& executable, const LinkInfo& link, RvmKernel kernel_probe);
  void WatchHeap(const Heap& heap) { heap_ = &heap; }
  void BeginPhase(ProfilePhase phase);
  void EndPhase(ProfilePhase phase);
  void CountExported(int64_t bytes, bool copied);

  using Ticks = uint64_t;
  static Ticks Now() {
#ifdef __x86_64__
    // The fences keep instructions on their side of the clock.
    __builtin_ia32_lfence();
    Ticks now = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return now;
#else
    return static_cast<Ticks>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }
  // Before the instruction `pc` of `fn`, `now`; gives the instruction's own code. Resume follows.
  uint16_t Before(const uint16_t* pc, const FunctionInfo* fn, Ticks now);
  // The instruction that has just ended, if a sink is to see its results; function and pc say where it is.
  struct Ended {
    const Instruction* instruction;
    uint32_t function, pc, kernel;
  };
  std::optional<Ended> EndedWithResults() const;
  ResultSink* sink() const { return sink_; }
  // The machine goes on.
  void Resume() { began_ = Now(); }
  // The instruction that is about to end will run again.
  void WillRetry() { retries_ = true; }
  // Around the kernel of the current instruction, on these values of its symbols. BeginKernel gives its machine code,
  // null if it has a recipe. `is_alone`: no other thread shares its work.
  RvmKernel BeginKernel(const int64_t* dims);
  void EndKernel(bool is_alone);
  // Around a wait of the host for a device, which ended at `ended`: what follows until EndWait is the profiler's time.
  void BeginWait();
  void EndWait(size_t device, Ticks ended);
  // Returns the work that the current instruction queues.
  DeviceWork WorkOfNow(DeviceWork::Kind kind, int64_t bytes) const;
  // The device did it. `latest_ns`: the end of the work that the host has just waited for. Times are of a clock of the
  // device's.
  void CountWork(size_t device, const DeviceWork& work, double begin_ns, double end_ns, double latest_ns);

 private:
  // Times on devices, in nanoseconds; of waits, in ticks.
  struct Use {
    std::array<int64_t, 3> counts = {};  // by DeviceWork::Kind
    std::array<double, 3> ns = {};
    std::array<int64_t, 3> bytes = {};
    int64_t waits = 0;
    double wait_ticks = 0;
  };
  // Sums of times are in ticks, too; each time is less by what looking at the clock costs, be it below zero.
  struct Function {
    int64_t calls = 0;
    int64_t instructions = 0;
    double self = 0;
    double kernels = 0;
    double inclusive = 0;
    int64_t active = 0;  // activations now
    double entered = 0;  // on the machine's own clock, when it was the first
    Use use;
  };
  struct ShapeSeen {
    std::string text;
    int64_t bytes = 0;
    int64_t calls = 0;
    double ticks = 0;
    double device_ns = 0;
    std::vector<int64_t> symbols;
  };
  struct Kernel {
    RvmKernel function = nullptr;
    int64_t calls = 0;
    double ticks = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    int64_t bytes = 0;
    int64_t other_shapes = 0;
    std::vector<ShapeSeen> shapes;
    absl::flat_hash_map<std::vector<int64_t>, uint32_t> shape_of_symbols;
    Use use;
  };
  struct Device {
    Use use;
    double clock_offset = std::numeric_limits<double>::infinity();  // from its clock to that of the trace
  };
  struct OpcodeSum {
    int64_t count = 0;
    double ticks = 0;
  };
  struct Cell {
    int64_t made = 0;
    int64_t reused = 0;
  };
  struct Event {
    TraceEvent::Kind kind;
    uint32_t id;
    uint32_t shape;
    Ticks begin;
    Ticks length;
  };

  double NanosecondsPerTick() const;
  // Time less that in which the thread did not run, which long times are looked through for.
  double WithoutAbsence(double ticks);
  void NoteClocks();
  // Ends the instruction, or what else ran since `began_`.
  void Close(Ticks now);
  void CountMemory(const Instruction& instruction);
  void NoteHeap();
  void Enter(uint32_t function, Ticks now);
  void Leave(uint32_t function, Ticks now);
  void LeaveAll(Ticks now);
  // Enters and leaves functions: the instruction that just ended led to one of `function`.
  void FollowFlow(uint32_t function, Ticks now);
  uint32_t ShapeOf(Kernel& kernel, const KernelInfo& info, const int64_t* dims);
  bool Record(const Event& event);
  bool HasRoomForEvent();
  const std::string& DeviceName(size_t device) const;
  Profile::DeviceUse UseOf(const Use& use, double ns_per_tick) const;

  const Executable* executable_ = nullptr;
  ResultSink* sink_ = nullptr;
  const Heap* heap_ = nullptr;
  std::unique_ptr<LinkInfo> link_;
  std::vector<std::vector<uint16_t>> code_;  // of link_
  std::vector<Function> functions_;
  std::vector<Kernel> kernels_;
  std::vector<Cell> cells_;
  std::vector<Device> devices_;
  std::array<OpcodeSum, 256> opcodes_ = {};

  std::optional<Instruction> now_;  // the instruction that runs
  uint32_t function_now_ = 0;
  uint32_t pc_now_ = 0;
  uint32_t kernel_now_ = DeviceWork::kNone;
  bool retries_ = false;
  Ticks began_ = 0;
  uint32_t shape_now_ = 0;  // of the kernel
  Ticks kernel_came_ = 0;
  Ticks kernel_began_ = 0;
  bool is_in_kernel_ = false;
  double waits_in_kernel_ = 0;  // with what the profiler did there
  Ticks wait_began_ = 0;
  // Time of the running instruction or phase spent elsewhere: in its kernel, its waits, and the profiler itself.
  double elsewhere_ = 0;
  int64_t wall_before_ = 0;  // nanoseconds of the clock and of the processor when they were last compared
  int64_t processor_before_ = 0;
  double away_ = 0;
  double machine_ = 0;  // all time but the profiler's own
  double clock_cost_;   // on average between two looks at the clock with nothing between: clocks are coarse
  int64_t allocations_before_ = 0;
  int64_t objects_before_ = 0;
  int64_t bytes_before_ = 0;
  int64_t objects_made_ = 0;  // by a kernel call
  int64_t bytes_made_ = 0;

  int64_t invokes_ = 0;
  std::array<double, kProfilePhases> phase_ticks_ = {};
  std::array<int64_t, kProfilePhases> phase_counts_ = {};
  Profile::Amount imported_, copied_, moved_;
  std::array<Profile::Amount, kProfileMemories> memory_ = {};

  size_t max_events_;
  std::vector<Event> events_;
  std::vector<TraceEvent> device_events_;
  int64_t open_events_ = 0;   // functions entered and not left
  int64_t open_dropped_ = 0;  // the innermost of them, of which the trace has no beginning
  int64_t dropped_events_ = 0;
  Ticks made_at_;
  int64_t made_at_ns_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_PROFILER_PROFILER_H_
