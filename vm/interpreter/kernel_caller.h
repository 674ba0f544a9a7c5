// KernelCaller: calls the kernels of one machine. It binds arguments and symbols, makes results, and runs machine code
// or a recipe, leaves it to a device (device_caller.h), or notes it for later (kernel_caller_pending.cc). Nothing else
// in the VM calls a kernel.
//
// The common calls (machine code that gives one tensor, of a static shape or of extents that its arguments have) are
// made by handlers, step by step, with the inline functions here: exec_kernel.h. CallStatic and CallDynamic make all
// others, and find out what is wrong with a call.
#ifndef RVM_VM_INTERPRETER_KERNEL_CALLER_H_
#define RVM_VM_INTERPRETER_KERNEL_CALLER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/abi/kernel_abi.h"
#include "serialization/isa/isa.h"
#include "vm/interpreter/device_caller.h"
#include "vm/interpreter/device_tensors.h"
#include "vm/interpreter/kernel_call.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/interpreter/run_control.h"
#include "vm/interpreter/thread_pool.h"
#include "vm/link/link_info.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {

class KernelCaller {
 public:
  // All of these outlive the caller; `heap` and `control` need not be constructed yet. `profiler` may be null; if not,
  // `link` is what it attached to with ProbeKernel.
  // `memory_limit_bytes`: of the memory on a device. `share`: what it shares with other callers.
  KernelCaller(const Executable& executable, const LinkInfo& link, Heap& heap, const RunControl& control, int threads,
               Profiler* profiler, int64_t memory_limit_bytes, const QueueShare& share = {});
  KernelCaller(const KernelCaller&) = delete;
  KernelCaller& operator=(const KernelCaller&) = delete;

  // Replaces every kernel's entry point when profiling.
  static int32_t ProbeKernel(void* const* buffers, const int64_t* dims, RvmKernelContext* context);

  // Make any call: that of the instruction `pc` in the frame `r`. `window`: the activation's window of the arena, where
  // planned results lie. Give the next instruction; null: the run must end with TakeError().
  template <bool kIsPlanned>
  const uint16_t* CallStatic(const uint16_t* pc, Slot window, Slot* r);
  const uint16_t* CallDynamic(const uint16_t* pc, Slot* r);
  absl::Status TakeError() {
    error_place_ = nullptr;
    return std::exchange(error_, absl::OkStatus());
  }
  // Converts the return code of a kernel, or a pending stop, to the run's error.
  absl::Status KernelError(const KernelInfo& kernel, int32_t code) const;
  absl::Status OutOfMemory() const { return vm::OutOfMemory(heap_, control_); }
  // Before a run: kernels look at `signal`.
  void Begin(const StopSignal& signal) { context_.cancel = signal.word(); }
  // The heap was reset: the workspace is gone.
  void Reset();
  // After Reset: gives the memory on a device back.
  void Trim() {
    if (device_ != nullptr) device_->tensors().Trim();
  }

  // Null: the program uses no device.
  DeviceTensors* device() const { return device_ == nullptr ? nullptr : &device_->tensors(); }
  // Computes the elements of a tensor, or copies them from the device, unless the host has them: tensor->data is not
  // null then. False: the run must end with TakeError().
  bool FetchToHost(Tensor* tensor);
  // Returns whether calls wait; and runs them. False: the run must end with TakeError().
  bool has_pending() const { return num_pending_ > 0; }
  bool RunPending();
  // Returns whether the run, which shares a queue, was cancelled before it began.
  bool was_cancelled() const { return waiter_ != nullptr && waiter_->IsCancelled(); }
  // Returns the instruction whose call failed, if that was not the one which ran it; otherwise null. Until TakeError.
  const uint16_t* error_place() const { return error_place_; }

  // The tensor of a constant; immortal.
  Tensor* constant(uint32_t index) const { return constants_[index]; }
  RvmKernelContext* context() { return &context_; }
  // All constants, in order.
  void* const* constants() const { return reinterpret_cast<void* const*>(constants_.data()); }

  // ---- steps of the common calls

  const KernelInfo& kernel(uint32_t index) const { return kernels_[index]; }
  // Size of the scratch memory that kernels may use without a check.
  int64_t workspace_bytes() const { return workspace_bytes_; }
  const int64_t* symbols() const { return symbols_.data(); }
  // Returns whether the call consumes arguments that no result has reused yet.
  bool has_moved() const { return num_moved_ > 0; }

  // Arguments of a kernel without scalars.
  void BindTensors(const uint16_t* args, uint32_t count, const Slot* r);
  // Arguments and symbols of a kernel with shape_code. Gives the code of the result; null if extents do not fit.
  const uint16_t* BindShapes(const KernelInfo& kernel, const uint16_t* args, uint32_t count, Slot* r);
  // Returns the memory of an argument that the call consumes and that nobody else has, as the result; null if there is
  // none.
  Tensor* ReuseArg(const KernelInfo::TensorInfo& result);
  // Null: no memory.
  Tensor* NewStaticResult(const KernelInfo::TensorInfo& result);
  static Tensor* PlaceTensor(Slot window, uint32_t offset, const KernelInfo::TensorInfo& info);
  // Runs machine code on what was bound, with `output` behind the arguments.
  int32_t RunCode(const KernelInfo& kernel, uint32_t num_args, void* output) {
    buffers_[num_args] = output;
    return RunCode(kernel);
  }
  // After the kernel ran: drops the arguments that the call consumes and no result reused.
  void DropMoved();

 private:
  friend PendingCalls;  // runs calls with the buffers of a caller

  using Call = KernelCall;

  // Returns the one place that calls machine code.
  int32_t RunCode(const KernelInfo& kernel) { return kernel.function(buffers_.data(), symbols_.data(), &context_); }
  int32_t RunRecipeOf(const KernelInfo& kernel, int64_t workspace_bytes);
  // Runs a kernel on what was bound. Gives its code, or kNoMemory.
  static constexpr int32_t kNoMemory = std::numeric_limits<int32_t>::min();
  int32_t RunBound(const KernelInfo& kernel, int64_t workspace_bytes);
  bool Run(const KernelInfo& kernel, int64_t workspace_bytes);

  // Notes a call that waits, and gives the next instruction; null: it has failed. Nothing: the call does not wait, and
  // its operands have their elements.
  std::optional<const uint16_t*> Defer(const Call& call, const uint16_t* pc, Slot* r);
  bool Waits(const Call& call, uint32_t level, const Slot* r) const;
  bool UpdatesMayWait(const Call& call, const Slot* r) const;
  // Returns the highest level of the calls that give the operands. `except`: a parameter that does not count.
  uint32_t PendingLevel(const Call& call, const Slot* r, std::optional<uint32_t> except) const;
  // These make a result of the call with the newest slots. Null: there is no memory, or the run is cancelled.
  Tensor* NewPendingResult(const Call& call, size_t index, Slot* slots, const Slot* r);
  // Makes a result that begins as a parameter: in its memory, if the call consumes it and nobody else has it, or else
  // with a copy of its elements. REQUIRES: UpdatesMayWait.
  Tensor* UpdatedResult(const Call& call, size_t index, Slot* slots, const Slot* r);
  bool NoteCall(const Call& call, const uint16_t* pc, uint32_t level, Slot* r);
  // Adds slots for a call, and writes its operands and symbols, without a count; HoldOperands takes one of each.
  Slot* NoteOperands(const Call& call, const Slot* r);
  void HoldOperands(const Call& call, const Slot* slots);
  // Returns whether the call, which has the newest slots, can be the next link of a chain.
  bool IsNextLink(const Call& call) const;
  bool FetchPending(Tensor* tensor);
  // Runs the kernel of a call of `owner`, which gets its error. False: there is one. `pc`: where it was noted, or null.
  bool RunForCall(const KernelInfo& kernel, int64_t workspace_bytes, KernelCaller& owner, const uint16_t* pc);
  bool GrowWorkspace(int64_t bytes);

  const uint16_t* CallOnDevice(const Call& call, Slot* r);
  // Fetches the arguments of a kernel that runs on the host; FetchValues those with symbols that are values, for any
  // kernel.
  bool FetchArgs(const Call& call, const Slot* r);
  bool FetchValues(const Call& call, const Slot* r);

  Tensor* ArgTensor(uint16_t arg, const Slot* r) const { return constants_.ArgTensor(arg, r); }
  void BindArgs(const Call& call, Slot* r);
  void NoteMoved(const uint16_t* args, uint32_t count, const Slot* r);
  bool BindSymbols(const Call& call, Slot* r);
  bool BindDims(const std::vector<KernelInfo::Bind>& binds, const Call& call, Slot* r);
  bool MakeDynamicResults(const Call& call, Slot* r);
  // Null: it has failed.
  Tensor* MakeDynamicResult(const Call& call, size_t index);
  // Returns a tensor for a result that grows. Takes the memory of the parameter that it begins as, if the call consumes
  // it, nobody else has it, and it has room; else, if the parameter could have been taken, has room for more to come.
  Tensor* MakeGrownResult(const KernelInfo::TensorInfo& result, const ResultShape& shape);
  // Returns whether a tensor, whose elements begin at `data`, has room for others.
  static bool HasRoom(const Tensor& tensor, const void* data, size_t rank, int64_t bytes) {
    return FitsGrown(tensor.block_bytes,
                     static_cast<const std::byte*>(data) - reinterpret_cast<const std::byte*>(&tensor), rank, bytes);
  }
  // Copies the elements with which a result begins, unless it has the memory of their parameter.
  bool BeginResult(const Call& call, size_t index, const Tensor& result, const Slot* r);
  void StoreScalars(const Call& call, Slot* r);
  // These set error_ and give false.
  bool Fail(absl::Status error) {
    error_ = std::move(error);
    return false;
  }

  static void RunInPool(RvmKernelContext* context, int64_t count, int64_t grain, ThreadPool::Body body, void* closure);

  // An argument that the call consumes and no result has reused.
  struct MovedArg {
    uint32_t param;
    Slot slot;
  };

  const KernelInfo* kernels_;
  std::vector<void*> buffers_;    // of the call being made: arguments, then results
  std::vector<int64_t> symbols_;  // their values, then the constants of shape_code
  ConstantTensors constants_;
  uint32_t num_moved_ = 0;
  int64_t workspace_bytes_ = 0;
  RvmKernelContext context_ = {};
  std::vector<MovedArg> moved_;   // as many as any call may have
  std::vector<Slot> scalars_;     // results
  std::vector<Tensor*> results_;  // of the call being made, before registers get them
  void* workspace_ = nullptr;
  Heap& heap_;
  const RunControl& control_;
  Profiler* profiler_;  // null: none
  std::unique_ptr<ThreadPool> own_pool_;
  ThreadPool* pool_ = nullptr;  // null: kernels run on the machine's thread only
  absl::Status error_;
  const uint16_t* error_place_ = nullptr;
  std::unique_ptr<PendingCalls> own_pending_;
  PendingCalls* pending_ = nullptr;  // null: no call waits
  std::vector<int64_t> saved_symbols_;
  bool defers_all_;
  QueueWaiter* waiter_ = nullptr;         // null: the queue is this caller's own
  uint32_t num_pending_ = 0;              // of this caller
  int64_t pending_bytes_ = 0;             // of their results
  std::unique_ptr<DeviceCaller> device_;  // null: no device is used
};

inline void KernelCaller::BindTensors(const uint16_t* args, uint32_t count, const Slot* r) {
  void** buffers = buffers_.data();
  uint32_t bits = 0;
#pragma clang loop unroll(disable)  // a few arguments
  for (uint32_t i = 0; i < count; ++i) {
    bits |= args[i];
    buffers[i] = ArgTensor(args[i], r)->data;
  }
  num_moved_ = 0;
  if ((bits & kMovedArg) != 0) NoteMoved(args, count, r);
}

inline const uint16_t* KernelCaller::BindShapes(const KernelInfo& kernel, const uint16_t* args, uint32_t count,
                                                Slot* r) {
  const uint16_t* code = kernel.shape_code.data();
  void** buffers = buffers_.data();
  int64_t* symbols = symbols_.data();
  uint32_t bits = 0;
#pragma clang loop unroll(disable)  // a few arguments
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t arg = args[i];
    uint32_t rank = *code++;
    if (rank == 0 && (arg & kConstantArg) == 0) {
      buffers[i] = &r[arg];
      continue;
    }
    const Tensor* tensor = ArgTensor(arg, r);
    const int64_t* dims = tensor->dims;
    bits |= arg;
    buffers[i] = tensor->data;
#pragma clang loop unroll(disable) vectorize(disable)  // a few dims
    for (uint32_t axis = 0; axis < rank; ++axis) {
      uint16_t place = *code++;
      int64_t extent = dims[axis];
      if ((place & kBindsSymbol) != 0) {
        symbols[place & ~kBindsSymbol] = extent;
      } else if (extent != symbols[place]) [[unlikely]] {
        return nullptr;
      }
    }
  }
  num_moved_ = 0;
  if ((bits & kMovedArg) != 0) NoteMoved(args, count, r);
  return code;
}

inline Tensor* KernelCaller::PlaceTensor(Slot window, uint32_t offset, const KernelInfo::TensorInfo& info) {
  std::byte* place = reinterpret_cast<std::byte*>(window) + offset;
  auto* tensor = reinterpret_cast<Tensor*>(place);
  *tensor = info.planned_header;
  tensor->data = place + kPlannedHeaderBytes;
  return tensor;
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_KERNEL_CALLER_H_
