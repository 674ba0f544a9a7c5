// KernelCaller: calls that wait, in programs with variants of kernels for batches (pending_calls.h).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/kernel_caller.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/interpreter/scalar_cast.h"

namespace rvm::vm {
namespace {

bool HasScalarResults(const KernelInfo& kernel) {
  return std::ranges::any_of(kernel.results, [](const KernelInfo::TensorInfo& result) { return result.scalar; });
}

}  // namespace

bool KernelCaller::RunPending() {
  if (num_pending_ == 0 && !pending_->is_full()) return true;
  if (waiter_ != nullptr) {
    waiter_->WaitForRun();
  } else {
    // The symbols of a call that is being made.
    saved_symbols_.assign(symbols_.begin(), symbols_.end());
    pending_->Run(*this);
    std::ranges::copy(saved_symbols_, symbols_.begin());
  }
  num_pending_ = 0;
  pending_bytes_ = 0;
  if (error_.ok() && control_.signal().attention() != 0) error_ = control_.Poll();
  return error_.ok();
}

bool KernelCaller::FetchPending(Tensor* tensor) {
  if (PendingOf(tensor) != nullptr && !RunPending()) return false;
  tensor->data = ElementsOf(tensor);
  return true;
}

uint32_t KernelCaller::PendingLevel(const Call& call, const Slot* r, std::optional<uint32_t> except) const {
  uint32_t level = 0;
  for (uint32_t i = 0; i < call.num_args; ++i) {
    if (call.kernel->params[i].scalar || i == except) continue;
    Tensor* tensor = ArgTensor(call.args[i], r);
    if (tensor->data == nullptr) level = std::max(level, pending_->LevelOf(tensor));
  }
  return level;
}

// A call waits if that may make a batch, or if it must. Results that control reads at once need the elements of all
// operands now.
bool KernelCaller::Waits(const Call& call, uint32_t level, const Slot* r) const {
  if (pending_->VariantOf(*call.kernel) != nullptr) return true;
  return (level > 0 || defers_all_) && !HasScalarResults(*call.kernel) && UpdatesMayWait(call, r);
}

// The elements with which a result begins are there, or the result takes the memory in which they will be. Of two
// results that begin as one parameter only one could have its memory.
bool KernelCaller::UpdatesMayWait(const Call& call, const Slot* r) const {
  const std::vector<KernelDesc::Update>& updates = call.kernel->desc->updates;
  return std::ranges::all_of(updates, [&](const KernelDesc::Update& update) {
    if (std::ranges::count(updates, update.param, &KernelDesc::Update::param) > 1) return false;
    Tensor* operand = ArgTensor(call.args[update.param], r);
    if (PendingOf(operand) == nullptr) return true;
    if (!IsMovedArg(call.args[update.param]) || !pending_->MayTakeResult(operand)) return false;
    const KernelInfo::TensorInfo& result = call.kernel->results[update.result];
    ResultShape shape;
    return !result.grows || (shape.Evaluate(result, symbols_) &&
                             HasRoom(*operand, pending_->ElementsToCome(operand), shape.rank, shape.bytes));
  });
}

std::optional<const uint16_t*> KernelCaller::Defer(const Call& call, const uint16_t* pc, Slot* r) {
  constexpr int64_t kShareOfLimit = 8;
  if ((pending_->is_full() || pending_bytes_ > heap_.limit_bytes() / kShareOfLimit) && !RunPending()) return nullptr;
  const KernelInfo& kernel = *call.kernel;
  uint32_t level = PendingLevel(call, r, std::nullopt);
  if (!Waits(call, level, r)) {
    if (!FetchArgs(call, r)) return nullptr;
    return std::nullopt;
  }
  if (!NoteCall(call, pc, level + 1, r)) return nullptr;
  if (HasScalarResults(kernel)) {
    if (!RunPending()) return nullptr;
    StoreScalars(call, r);
  }
  return call.args + call.num_args;
}

Tensor* KernelCaller::NewPendingResult(const Call& call, size_t index, Slot* slots, const Slot* r) {
  const KernelInfo::TensorInfo& result = call.kernel->results[index];
  if (result.begins_as >= 0) return UpdatedResult(call, index, slots, r);
  Tensor* tensor = nullptr;
  // Machines that share a queue have heaps of their own, in which their results lie.
  if (call.kernel->is_static && call.kernel->batch != nullptr && waiter_ == nullptr) {
    std::optional<Tensor*> row = pending_->NewRow(heap_, index, result);
    if (!row) return nullptr;
    tensor = *row;
  }
  if (tensor == nullptr) tensor = call.kernel->is_static ? NewStaticResult(result) : MakeDynamicResult(call, index);
  return tensor;
}

Tensor* KernelCaller::UpdatedResult(const Call& call, size_t index, Slot* slots, const Slot* r) {
  const KernelInfo::TensorInfo& result = call.kernel->results[index];
  const auto param = static_cast<uint32_t>(result.begins_as);
  // The kernel reads what the result begins with; the call does not hold the operand.
  const Slot slot = std::exchange(slots[param], Slot{0});
  Tensor* operand = AsTensor(slot);
  if (PendingOf(operand) != nullptr) pending_->TakeResult(operand);
  buffers_[param] = ElementsOf(operand);
  const bool is_consumed = IsMovedArg(call.args[param]) && operand->object.count < kImmortal;
  if (is_consumed) moved_[num_moved_++] = {param, slot};
  Tensor* tensor = nullptr;
  if (call.kernel->is_static) {
    tensor = NewStaticResult(result);
  } else {
    if (num_moved_ > 0) tensor = ReuseArg(result);
    if (tensor == nullptr) tensor = MakeDynamicResult(call, index);
  }
  num_moved_ = 0;
  if (tensor == nullptr || tensor == operand) return tensor;
  if (!BeginResult(call, index, *tensor, r)) return nullptr;
  if (is_consumed) heap_.Drop(slot);
  return tensor;
}

bool KernelCaller::NoteCall(const Call& call, const uint16_t* pc, uint32_t level, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  size_t params = call.num_args, results = kernel.results.size();
  Slot* slots = NoteOperands(call, r);
  if (IsNextLink(call)) {
    uint32_t accumulator = *kernel.batch->accumulator;
    Slot sum = slots[accumulator];
    pending_->NoteLink(*this, kernel, pc, PendingLevel(call, r, accumulator) + 1);
    HoldOperands(call, slots);
    ++num_pending_;
    r[call.dsts[0]] = sum;
    return true;
  }
  pending_->Begin(*this, kernel, pc, level);
  for (size_t i = 0; i < results; ++i) {
    if (kernel.results[i].scalar) continue;
    int64_t before = heap_.live_bytes();
    Tensor* tensor = NewPendingResult(call, i, slots, r);
    if (tensor == nullptr) [[unlikely]] {
      pending_->Abandon();
      return error_.ok() ? Fail(OutOfMemory()) : false;
    }
    pending_bytes_ += heap_.live_bytes() - before;
    pending_->SetResult(i, tensor);
  }
  HoldOperands(call, slots);
  pending_->Note();
  ++num_pending_;
  for (size_t i = 0; i < results; ++i) {
    if (!kernel.results[i].scalar) r[call.dsts[i]] = slots[params + i];
  }
  return true;
}

Slot* KernelCaller::NoteOperands(const Call& call, const Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  num_moved_ = 0;  // no result but one that updates it takes the memory of an operand, which is read later
  Slot* slots = pending_->NewSlots(kernel);
  for (uint32_t i = 0; i < call.num_args; ++i) {
    uint16_t arg = call.args[i];
    bool is_constant = (arg & kConstantArg) != 0;
    if (!kernel.params[i].scalar) {
      slots[i] = AsSlot(ArgTensor(arg, r));
    } else {
      slots[i] = is_constant ? LoadScalar(kernel.params[i].dtype, constants_[arg & ~kConstantArg]->data) : r[arg];
    }
  }
  std::copy_n(symbols_.begin(), kernel.desc->num_symbols, slots + call.num_args + 2 * kernel.results.size());
  return slots;
}

bool KernelCaller::IsNextLink(const Call& call) const {
  std::optional<uint32_t> accumulator = pending_->AccumulatorOf(*call.kernel);
  return accumulator && IsMovedArg(call.args[*accumulator]) && pending_->IsNextLink(*this, *call.kernel);
}

void KernelCaller::HoldOperands(const Call& call, const Slot* slots) {
  for (uint32_t i = 0; i < call.num_args; ++i) {
    if (call.kernel->params[i].scalar || slots[i] == 0) continue;
    const Tensor* tensor = AsTensor(slots[i]);
    if ((call.args[i] & (kConstantArg | kMovedArg)) == 0) Retain(slots[i]);
    // An operand that would be free after the call lives until the queue runs.
    if (IsMovedArg(call.args[i]) && tensor->data != nullptr) pending_bytes_ += ElementBytes(*tensor);
  }
}

}  // namespace rvm::vm
