// Interpreter: runs functions of a linked program. One handler per opcode, each
// ending in a tail call of the next one, so that the machine's state stays in
// host registers: see dispatch.h.
//
// Frames. A function's registers are a window of the register stack; under it lies its link:
//
//   r[-3]  where the caller goes on        r[-1]  the caller's register for the result, or the address of those for
//                                                 its fields, in the caller's code
//   r[-2]  the caller's FunctionInfo       r[0..] registers, arena window, next link
//
// The window of a callee begins right after its caller's frame (frame_slots).
#ifndef RVM_VM_INTERPRETER_INTERPRETER_H_
#define RVM_VM_INTERPRETER_INTERPRETER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/abi/kernel_abi.h"
#include "serialization/executable.h"
#include "vm/interpreter/register_stack.h"
#include "vm/interpreter/thread_pool.h"
#include "vm/interpreter/watchdog.h"
#include "vm/link_info.h"
#include "vm/memory/arena.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profiler.h"
#include "vm/stop_signal.h"

namespace rvm::vm {

struct InterpreterLimits {
  int64_t memory_bytes;
  int64_t stack_bytes;
  int64_t fuel;             // -1: no limit
  double time_ms;           // -1: no limit
  int64_t fail_allocation;  // 0: none
  int threads;              // that run one kernel
};

class Interpreter {
 public:
  // `executable` (verified) and `link` outlive the interpreter, and so does `profiler`, which may be null.
  Interpreter(const Executable& executable, const LinkInfo& link, const InterpreterLimits& limits,
              Profiler* profiler = nullptr);

  // Runs `function` with arguments that it comes to own. An error has a backtrace, and leaves
  // objects behind: the caller resets.
  absl::StatusOr<Slot> Run(FunctionId function, std::span<const Slot> args);
  // Gives up everything on the heap.
  void Reset();
  // And all memory that waits for its next use. No run is under way.
  void Trim();
  // Between the two, the time that a run has goes by and it may be cancelled. Begin fails without a thread to watch.
  absl::Status Begin();
  void End();
  void Cancel() { stop_.Raise(StopSignal::kCancelled); }
  // Looks whether the run shall stop: the error that says why.
  absl::Status Poll() const;

  Heap& heap() { return heap_; }

  // ---- for the handlers only

  // Looks at fuel and cancellation, makes room on the stack. The new budget of calls and backward
  // jumps, and the frame in frame_after_poll_; 0: stopped.
  int64_t PollOrStop(const uint16_t* pc, Slot* r, const FunctionInfo* fn, int64_t budget);
  absl::Status RefillBudget(int64_t& budget);
  // Ends the run with an error at the instruction `pc` of the frame `r`.
  void Stop(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, absl::Status error);
  void StopOutOfMemory(const uint16_t* pc, const Slot* r, const FunctionInfo* fn);

  // Kernel calls (kernel_call.cc). Give what follows the instruction; null: the run has ended with an error.
  template <bool kIsPlanned>
  const uint16_t* CallStaticKernel(const uint16_t* pc, Slot* r, const FunctionInfo* fn);
  const uint16_t* CallDynamicKernel(const uint16_t* pc, Slot* r, const FunctionInfo* fn);

  // From here on false means that error_ is set. `dsts`, `offsets` and `args` are operands in the code.
  struct KernelCall {
    const KernelInfo* kernel;
    const uint16_t* dsts;
    const uint16_t* offsets;  // null unless planned
    const uint16_t* args;
    uint32_t num_args;
  };
  void BindArgs(const KernelCall& call, Slot* r);
  void BindTensors(const uint16_t* args, uint32_t count, const Slot* r);
  void BindArgsAndScalars(const KernelCall& call, Slot* r);
  void NoteMoved(const uint16_t* args, uint32_t count, const Slot* r);
  // The memory of an argument that the call uses up and nobody else has, as the result; null if there is none.
  Tensor* TakeArg(const KernelInfo::TensorInfo& result);
  void DropMoved();
  static Tensor* PlaceTensor(Slot window, uint32_t offset, const KernelInfo::TensorInfo& info);
  // Null: no memory.
  Tensor* NewStaticResult(const KernelInfo::TensorInfo& result);
  // Of a kernel with shape_code: binds arguments and symbols; gives the code of the result, null where extents do not
  // fit.
  const uint16_t* BindShapes(const KernelInfo& kernel, const uint16_t* args, uint32_t count, Slot* r);
  // Null: that takes more than a look.
  Tensor* NewShapedResult(const KernelInfo& kernel, const uint16_t* code);
  // Runs machine code that gives one tensor, into `result`, on the arguments that were bound, and drops those it used
  // up. False: the program was stopped.
  bool RunKernel(const KernelInfo& kernel, uint32_t num_args, Tensor* result, const uint16_t* pc, Slot* r,
                 const FunctionInfo* fn);
  bool MakeDynamicResults(const KernelCall& call, Slot* r);
  bool MakeDynamicResult(const KernelCall& call, size_t index, Slot* r);
  bool BindSymbols(const KernelCall& call, Slot* r);
  bool BindDims(const std::vector<KernelInfo::Bind>& binds, const KernelCall& call, Slot* r);
  bool WrongExtent(const KernelCall& call, const KernelInfo::Bind& bind, int64_t extent,
                   std::optional<int64_t> expected);
  bool NoSuchShape(const KernelCall& call, size_t index);
  const Tensor* ArgTensor(uint16_t arg, const Slot* r) const;
  bool GrowWorkspace(int64_t bytes);
  bool RunKernel(const KernelInfo& kernel, int64_t workspace_bytes);
  bool KernelFailed(const KernelInfo& kernel, int32_t code);
  // As Stop, for a kernel that gave `code`.
  void StopInKernel(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, const KernelInfo& kernel, int32_t code);
  int32_t RunRecipeOf(const KernelInfo& kernel, int64_t workspace_bytes);
  void StoreScalars(const KernelCall& call, Slot* r);
  bool SetError(absl::Status error) {
    error_ = std::move(error);
    return false;
  }
  bool MakeView(const uint16_t* pc, Slot* r);
  bool CheckShape(const Tensor& tensor, TypeId type);
  bool CheckDims(int64_t a, int64_t b, DimRelation relation);
  // Why an allocation failed.
  absl::Status OutOfMemory() const;

  const Executable& executable_;
  const LinkInfo& link_;
  StopSignal stop_;
  Heap heap_;
  Arena arena_;
  RegisterStack stack_;
  Slot* stack_soft_end_ = nullptr;
  Slot* frame_after_poll_ = nullptr;
  uint32_t scratch_offset_;  // from a frame to headroom that no frame uses
  const FunctionInfo* functions_;
  const HeapLayout* layouts_;
  const KernelInfo* kernels_;
  Slot window_to_leave_ = 0;  // of a tail call on its way
  Slot result_ = 0;
  const FunctionInfo root_;  // what called the entry: its code halts
  int64_t fuel_limit_;
  int64_t fuel_ = -1;  // not yet handed out as budget
  double time_limit_ms_;
  Watchdog watchdog_{stop_};
  std::unique_ptr<ThreadPool> pool_;  // null: kernels run on this thread only

  std::vector<Tensor*> constants_;  // immortal headers over the executable's literals
  std::unique_ptr<Slot[]> constant_headers_;
  std::vector<void*> buffers_;  // of the kernel call being made
  std::vector<Slot> scalars_;   // its scalar results
  // Its arguments that it uses up and no result has taken.
  struct MovedArg {
    uint32_t param;
    Slot slot;
  };
  std::vector<MovedArg> moved_;  // as many as any call may have
  uint32_t num_moved_ = 0;
  std::vector<int64_t> symbols_;
  RvmKernelContext context_ = {};
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;

  absl::Status error_;
  Profiler* profiler_;  // null: none, and then no instruction has the probe's code
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_INTERPRETER_H_
