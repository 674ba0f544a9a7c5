// PendingCalls: a queue of kernel calls that have not run yet, so that many calls of one kernel become one call of its
// variant for batches (BatchVariant).
//
// A call is noted with its level: one more than the highest of the calls that give its operands. Its results are
// tensors of their own whose elements are not there yet. When somebody needs elements, the queue runs: level by level,
// and in a level, the calls of one kernel together whose shared operands are the same tensors. Results of one
// heap lie one behind the other; rows of operands that do not are copied together. A row's bits do not depend on the
// others: the compiler makes variants so. Variants of which that is not known (BatchVariant::has_same_bits) are for
// queues of one run.
//
// Calls that each add to the result of the one before, which nobody else has, are a chain: their result is one tensor,
// and the chain runs as one call when all of the terms can be computed, whatever the number of its links.
//
// What control does is not changed by this: shapes are checked when a call is noted, and of several calls that fail,
// the one that was noted first gives the run's error.
//
// The idea is that of DyNet's batching by depth (Neubig et al., 2017) and of ACRoBat (Fegade et al., 2023), with
// operands and shapes that are known when a call is noted. One thread at a time.
#ifndef RVM_VM_INTERPRETER_PENDING_CALLS_H_
#define RVM_VM_INTERPRETER_PENDING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "vm/link/link_info.h"
#include "vm/memory/heap.h"
#include "vm/memory/object.h"

namespace rvm::vm {

class KernelCaller;
class PendingCalls;
class ThreadPool;

// Returns the result of a call that has not run, of which `tensor` is a view, or which it is; null if its elements are
// there. The tag of such a result is one more than the number of the call.
inline Tensor* PendingOf(Tensor* tensor) {
  while (tensor->data == nullptr && tensor->object.tag == 0 && tensor->storage == TensorStorage::kView) {
    tensor = reinterpret_cast<Tensor*>(tensor->owner);
  }
  return tensor->data == nullptr && tensor->object.tag != 0 ? tensor : nullptr;
}
// The elements of a tensor, which may be a view of a result of a call that has run since.
inline void* ElementsOf(Tensor* tensor) {
  while (tensor->data == nullptr && tensor->storage == TensorStorage::kView) {
    tensor = reinterpret_cast<Tensor*>(tensor->owner);
  }
  return tensor->data;
}

// Counts since a queue was made.
struct PendingStats {
  int64_t calls = 0;   // that waited
  int64_t groups = 0;  // calls of a level that may run as one
};

// Lets a run wait until the queue that it shares with others runs.
class QueueWaiter {
 public:
  virtual ~QueueWaiter() = default;
  // Returns when the calls that were pending have run.
  virtual void WaitForRun() = 0;
  // Returns whether the run that has just begun was cancelled before. On any thread.
  virtual bool IsCancelled() const = 0;
  // Returns where the pointer to the stack of the thread is kept while the run is on another one; null: it is on that.
  virtual void* const* HostStack() const = 0;
};

// Shared parts of machines whose calls run together. All outlive the machines.
struct QueueShare {
  PendingCalls* queue = nullptr;  // null: the machine has its own
  QueueWaiter* waiter = nullptr;
  ThreadPool* pool = nullptr;  // null: kernels run on one thread
  bool defers_all = false;     // calls of kernels without a variant wait, too, where they may
};

class PendingCalls {
 public:
  // Numbers of calls fit into the tag of a header.
  static constexpr uint32_t kMaxCalls = 4096;
  // Growth of blocks for rows of results, and so the maximum number of rows that there is memory for by result.
  static constexpr int64_t kBlockGrowth = 4;
  // Maximum number of matrices that one kernel has arranged at a time, for variants that read panels.
  static constexpr size_t kMaxPanels = 4;

  // Sizes of a call.
  struct CallSize {
    size_t bytes = 0;    // of its rows, without what calls share
    size_t shared = 0;   // bytes of that
    size_t tensors = 0;  // the number of its parameters and results
  };
  // Returns how many calls a variant makes at once; fewer than 2: none.
  static size_t RowsThatFit(const BatchVariant& variant, const CallSize& size);

  // `kernels`: of the linked program; outlive the queue. `is_for_one_run`: no other run shares the queue.
  PendingCalls(std::span<const KernelInfo> kernels, bool is_for_one_run);

  // Returns the variant that makes many calls of the kernel in this queue; null: there is none.
  const BatchVariant* VariantOf(const KernelInfo& kernel) const {
    return kernel.batch != nullptr && (kernel.batch->has_same_bits || is_for_one_run_) ? kernel.batch : nullptr;
  }

  // Returns the parameter to which the kernel's calls add in this queue, one after another; nullopt: they are no chain.
  std::optional<uint32_t> AccumulatorOf(const KernelInfo& kernel) const {
    const BatchVariant* variant = VariantOf(kernel);
    return variant == nullptr ? std::nullopt : variant->accumulator;
  }

  bool is_full() const { return calls_.size() >= kMaxCalls; }

  // Returns the level of the call that gives a tensor; 0 if its elements are there.
  uint32_t LevelOf(Tensor* tensor) const {
    const Tensor* result = PendingOf(tensor);
    return result == nullptr ? 0 : calls_[result->object.tag - 1].level;
  }

  // Returns whether `tensor` is the result of a call that waits, in memory of its own, and nobody has it but that call
  // and one register: another call may update it in place.
  bool MayTakeResult(const Tensor* tensor) const;
  // Returns where the elements of such a result will be.
  void* ElementsToCome(const Tensor* result) { return reinterpret_cast<void*>(*SlotsOfResult(result).second); }
  // Gives such a result to its register, as if its elements were there. The call still writes them, and has no other
  // part in it.
  void TakeResult(Tensor* result);

  // Adds slots for a call, which the caller of this function writes before Note. They are, one behind the other: its
  // operands (a scalar, or a tensor, of which the call holds a count unless it is immortal), its results (tensors, of
  // which it holds a count), where their elements will be, and the values of the kernel's symbols.
  Slot* NewSlots(const KernelInfo& kernel);
  // Adds the call with the newest slots, without results, which the functions that follow make for it. `level` is one
  // more than that of its operands.
  void Begin(KernelCaller& caller, const KernelInfo& kernel, const uint16_t* pc, uint32_t level);
  // Returns whether the call with the newest slots can be the next link of the chain that gives its accumulator, of
  // which its register has the only count besides those of the chain.
  bool IsNextLink(const KernelCaller& caller, const KernelInfo& kernel);
  // Adds that call to the chain. Its accumulator, which the caller of this function keeps, is its result, too.
  void NoteLink(KernelCaller& caller, const KernelInfo& kernel, const uint16_t* pc, uint32_t level);
  // Makes the result `index` of that call a row of a block of its group. Null if it is none: there are too few rows
  // yet; false: there is no memory.
  std::optional<Tensor*> NewRow(Heap& heap, size_t index, const KernelInfo::TensorInfo& result);
  // Sets a tensor as that result, which has its elements once the call has run.
  void SetResult(size_t index, Tensor* tensor);
  // Notes the call; or does not, if there is no memory for its results.
  void Note();
  void Abandon();

  // Runs all calls; `runner` lends its buffers, its workspace and its threads. Callers one of whose calls has failed
  // have its error afterwards.
  void Run(KernelCaller& runner);
  // Forgets the calls of a caller whose heap is about to be reset.
  void Forget(const KernelCaller& caller);

  const PendingStats& stats() const { return stats_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr size_t kTableSize = 2 * kMaxCalls;
  // Bytes for rows that are copied together: a variant runs on as many rows as fit. Those that arrange their operands
  // first, which is as much work for a few rows, have more.
  static constexpr size_t kStagingBytes = 1 << 20, kStagingOfSameBits = 1 << 18;
  // Rows that fit in any case, up to kMaxStagingBytes, if calls share kMinSharedByRow times as much as one row has.
  // Logits are such rows: to copy them takes less time than to read again the weights that they are made with.
  static constexpr size_t kMinRows = 16, kMinSharedByRow = 16, kMaxStagingBytes = 4 << 20;
  // Sizes of blocks grow from the first to the last by a factor; shorter runs of rows are copied.
  static constexpr int64_t kFirstBlockRows = 4, kBlockRows = 64;
  static constexpr int64_t kBlockBytes = 1 << 18;
  static constexpr size_t kRowsTogether = 16;
  // Fewer calls run alone where a variant gives other bits: it arranges its operands first.
  static constexpr size_t kMinOtherRows = 4;

  struct Call {
    KernelCaller* caller;  // null: there is nothing to do any more
    const KernelInfo* kernel;
    const uint16_t* pc;
    uint32_t slots;
    uint32_t level;
    uint32_t next;  // of its group
    uint32_t group;
  };
  // Calls that may run as one.
  struct Group {
    uint32_t level;
    uint32_t first, last;
    uint32_t count;
    uint32_t place;   // in the table; kNone: it is not there
    uint32_t blocks;  // index of the first of its blocks, one for each result
  };
  // Memory for results of calls of a group, one behind the other, so that a variant may write them where they stay.
  struct Block {
    Tensor* tensor = nullptr;  // of which the queue holds a count
    std::byte* next = nullptr;
    int64_t left = 0;  // rows
    int64_t rows = 0;
  };
  // A matrix as a kernel has arranged it. No call that waits writes its elements once they are there, and their memory
  // is not free while calls wait that were noted with it: the copy is good until the queue has run.
  struct Panels {
    const KernelInfo* kernel;
    const std::byte* elements;
    Tensor* tensor;  // of which the queue holds a count
  };
  // A parameter or a result of a group, as the variant sees it.
  struct Rows {
    int64_t row_bytes;
    std::byte* block;  // of the staging memory
  };
  struct AlignedDelete {
    void operator()(std::byte* memory) const { operator delete[](memory, std::align_val_t{64}); }
  };

  // Returns the slots, of the call that gives `result`, with that tensor and with where its elements will be.
  std::pair<Slot*, Slot*> SlotsOfResult(const Tensor* result);
  Slot* SlotsOf(const Call& call) { return slots_.data() + call.slots; }
  // Returns what equal shared operands have in common: their elements, if these are there; otherwise the tensor.
  static Slot KeyOfShared(const Call& call, const Slot* slots, uint32_t param);
  uint64_t HashOf(const Call& call);
  bool AreAlike(const Call& a, const Call& b);
  // Returns whether the calls have the same shared operands, but for accumulators, and the same extents.
  bool ShareOperands(const Call& a, const Call& b);
  uint32_t FindGroup(const Call& call);
  uint32_t NewGroup(const Call& call, uint32_t place);
  void Append(const Call& call);
  // `heap`: null, if it is reset.
  void Clear(Heap* heap);

  // These return false if a call has failed; the group's calls that have run are finished.
  bool RunGroup(const Group& group, KernelCaller& runner);
  bool RunAlone(Call& call, KernelCaller& runner);
  // Runs all calls that are left one by one, in the order in which they were noted.
  void RunInOrder(KernelCaller& runner);
  // Returns how many calls of batch_ from `first` on run as one, at most `limit`.
  size_t NextCount(const BatchVariant& variant, size_t first, size_t limit);
  // Runs as one the `count` calls that batch_ holds from `first` on. False: the variant does not fit them, or has
  // failed.
  bool RunRows(KernelCaller& runner, size_t first, size_t count);
  // Sets sizes of rows for calls like `call`, and returns how many fit into the staging memory.
  size_t SizeRows(const Call& call);
  // Returns where the elements of a parameter or result of a call are, or will be.
  std::byte* RowOf(const Call& call, size_t index);
  // Returns how many rows of the first result, from a call of batch_ on, lie one behind the other.
  size_t RowsTogether(size_t first);
  // Returns how many calls of batch_ from `first` on the variant makes at once.
  size_t NextRows(size_t first, size_t limit);
  bool AreTogether(size_t index, size_t first, size_t count);
  bool BindVariant(const KernelInfo& variant, const Call& call, int64_t count, KernelCaller& runner);
  // Arranges the matrices that the variant of the call's kernel reads as panels, unless it is done. False: a kernel has
  // failed, there is no memory, or there are more than kMaxPanels.
  bool Arrange(KernelCaller& runner, const Call& call);
  bool AddPanels(KernelCaller& runner, const KernelInfo& kernel, std::byte* elements);
  // Returns the panels that Arrange has made, or null.
  const Panels* FindPanels(const KernelInfo& kernel, const std::byte* elements) const;
  // Returns what the variant has as a shared parameter or result of the call. REQUIRES: Arrange.
  std::byte* SharedOf(const Call& call, size_t index);
  void Gather(size_t param, size_t first, size_t count);
  void Scatter(size_t result, size_t first, size_t count);
  // Gives results their elements, and drops what the call holds.
  void Finish(Call& call);

  std::span<const KernelInfo> kernels_;
  bool is_for_one_run_;
  std::vector<Call> calls_;
  std::vector<Slot> slots_;
  Call new_call_ = {};  // from Begin to Note
  std::vector<Group> groups_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> table_;  // of groups, by hash
  std::vector<uint32_t> order_;  // of groups, by level
  std::vector<uint32_t> batch_;  // calls of the group that runs
  std::vector<Rows> rows_;       // of its parameters, then of its results
  std::vector<Panels> panels_;   // while the queue runs
  std::unique_ptr<std::byte[], AlignedDelete> staging_;
  size_t staging_bytes_ = 0;
  PendingStats stats_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_PENDING_CALLS_H_
