#include "vm/interpreter/pending_calls.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "vm/interpreter/kernel_caller.h"

namespace rvm::vm {
namespace {

constexpr size_t RoundUp(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// Slots of a call in front of the values of its symbols, and all of them.
size_t SymbolsAt(const KernelInfo& kernel) { return kernel.params.size() + 2 * kernel.results.size(); }
size_t NumSlots(const KernelInfo& kernel) { return SymbolsAt(kernel) + kernel.desc->num_symbols; }

}  // namespace

PendingCalls::PendingCalls(std::span<const KernelInfo> kernels, bool is_for_one_run)
    : kernels_(kernels), is_for_one_run_(is_for_one_run), table_(kTableSize, kNone) {}

Slot* PendingCalls::NewSlots(const KernelInfo& kernel) {
  size_t begin = slots_.size();
  slots_.resize(begin + NumSlots(kernel));
  return slots_.data() + begin;
}

void PendingCalls::Begin(KernelCaller& caller, const KernelInfo& kernel, const uint16_t* pc, uint32_t level) {
  new_call_ = {&caller, &kernel, pc, static_cast<uint32_t>(slots_.size() - NumSlots(kernel)), level, kNone, kNone};
  new_call_.group = AccumulatorOf(kernel) ? NewGroup(new_call_, kNone) : FindGroup(new_call_);
}

bool PendingCalls::IsNextLink(const KernelCaller& caller, const KernelInfo& kernel) {
  auto slots = static_cast<uint32_t>(slots_.size() - NumSlots(kernel));
  const Tensor* sum = AsTensor(slots_[slots + *kernel.batch->accumulator]);
  if (sum->data != nullptr || sum->object.tag == 0) return false;
  const Call& first = calls_[sum->object.tag - 1];
  return first.kernel == &kernel && first.caller == &caller && sum->object.count == groups_[first.group].count + 1 &&
         ShareOperands(first, {nullptr, &kernel, nullptr, slots, 0, kNone, kNone});
}

void PendingCalls::NoteLink(KernelCaller& caller, const KernelInfo& kernel, const uint16_t* pc, uint32_t level) {
  auto slots = static_cast<uint32_t>(slots_.size() - NumSlots(kernel));
  Slot& accumulator = slots_[slots + *kernel.batch->accumulator];
  Tensor* sum = AsTensor(accumulator);
  Call& first = calls_[sum->object.tag - 1];
  Slot* result = slots_.data() + slots + kernel.params.size();
  result[0] = std::exchange(accumulator, Slot{0});
  result[1] = SlotsOf(first)[kernel.params.size() + 1];
  Retain(result[0]);
  // Who needs the sum comes after all links.
  first.level = groups_[first.group].level = std::max(first.level, level);
  Append({&caller, &kernel, pc, slots, level, kNone, first.group});
}

std::optional<Tensor*> PendingCalls::NewRow(Heap& heap, size_t index, const KernelInfo::TensorInfo& result) {
  const Group& group = groups_[new_call_.group];
  if (group.count == 0) return nullptr;
  Block& block = blocks_[group.blocks + index];
  if (block.left == 0) {
    int64_t rows = std::min(kBlockRows, std::max(kFirstBlockRows, kBlockGrowth * block.rows));
    rows = std::min(rows, kBlockBytes / std::max<int64_t>(result.bytes, 1));
    if (rows < kFirstBlockRows) return nullptr;
    int64_t elements = rows * result.bytes / result.dtype.bytes();
    Tensor* tensor = heap.NewTensor(result.dtype, {&elements, 1}, rows * result.bytes, false);
    if (tensor == nullptr) return std::nullopt;
    if (block.tensor != nullptr) heap.Drop(AsSlot(block.tensor));
    block = {tensor, static_cast<std::byte*>(tensor->data), rows, rows};
  }
  Tensor* row = heap.NewView(block.tensor, result.dims);
  if (row == nullptr) return std::nullopt;
  Retain(AsSlot(block.tensor));
  row->data = block.next;
  block.next += result.bytes;
  --block.left;
  return row;
}

bool PendingCalls::MayTakeResult(const Tensor* tensor) const {
  return tensor->object.tag != 0 && tensor->object.count == 2 && tensor->storage == TensorStorage::kInline &&
         calls_[tensor->object.tag - 1].kernel->batch == nullptr;
}

std::pair<Slot*, Slot*> PendingCalls::SlotsOfResult(const Tensor* result) {
  const Call& call = calls_[result->object.tag - 1];
  const size_t results = call.kernel->results.size();
  Slot* slot = SlotsOf(call) + call.kernel->params.size();
  while (*slot != AsSlot(result)) ++slot;
  return {slot, slot + results};
}

void PendingCalls::TakeResult(Tensor* result) {
  const auto [slot, elements] = SlotsOfResult(result);
  *slot = 0;
  result->data = reinterpret_cast<void*>(*elements);
  result->object.tag = 0;
  --result->object.count;
}

void PendingCalls::SetResult(size_t index, Tensor* tensor) {
  Slot* results = SlotsOf(new_call_) + new_call_.kernel->params.size();
  results[index] = AsSlot(tensor);
  results[new_call_.kernel->results.size() + index] = AsSlot(tensor->data);
  tensor->data = nullptr;
  tensor->object.count = 2;  // one is the call's
  tensor->object.tag = static_cast<uint16_t>(calls_.size() + 1);
}

void PendingCalls::Note() { Append(new_call_); }

void PendingCalls::Append(const Call& call) {
  auto number = static_cast<uint32_t>(calls_.size());
  calls_.push_back(call);
  Group& group = groups_[call.group];
  (group.count++ == 0 ? group.first : calls_[group.last].next) = number;
  group.last = number;
}

void PendingCalls::Abandon() {
  const Group& group = groups_[new_call_.group];
  if (group.count > 0) return;
  // It was made for this call, and is the last.
  if (group.place != kNone) table_[group.place] = kNone;
  blocks_.resize(group.blocks);
  groups_.pop_back();
}

Slot PendingCalls::KeyOfShared(const Call& call, const Slot* slots, uint32_t param) {
  if (call.kernel->params[param].scalar) return slots[param];
  Tensor* tensor = AsTensor(slots[param]);
  const Tensor* pending = PendingOf(tensor);
  return pending == nullptr ? AsSlot(ElementsOf(tensor)) : AsSlot(pending);
}

uint64_t PendingCalls::HashOf(const Call& call) {
  size_t hash = absl::HashOf(call.kernel, call.level);
  const BatchVariant* variant = VariantOf(*call.kernel);
  if (variant == nullptr) return hash;
  const Slot* slots = SlotsOf(call);
  for (uint32_t param : variant->shared) hash = absl::HashOf(hash, KeyOfShared(call, slots, param));
  const Slot* symbols = slots + SymbolsAt(*call.kernel);
  for (uint32_t s = 0; s < call.kernel->desc->num_symbols; ++s) hash = absl::HashOf(hash, symbols[s]);
  return hash;
}

bool PendingCalls::AreAlike(const Call& a, const Call& b) {
  if (a.caller == nullptr) return false;  // a request that has ended has no operands
  if (a.kernel != b.kernel || a.level != b.level) return false;
  return VariantOf(*a.kernel) == nullptr || ShareOperands(a, b);
}

bool PendingCalls::ShareOperands(const Call& a, const Call& b) {
  const BatchVariant& variant = *a.kernel->batch;
  const Slot* of_a = SlotsOf(a);
  const Slot* of_b = SlotsOf(b);
  for (uint32_t param : variant.shared) {
    if (param != variant.accumulator && KeyOfShared(a, of_a, param) != KeyOfShared(b, of_b, param)) return false;
  }
  size_t symbols = SymbolsAt(*a.kernel);
  return std::equal(of_a + symbols, of_a + symbols + a.kernel->desc->num_symbols, of_b + symbols);
}

uint32_t PendingCalls::FindGroup(const Call& call) {
  auto place = static_cast<uint32_t>(HashOf(call) % kTableSize);
  while (table_[place] != kNone && !AreAlike(calls_[groups_[table_[place]].first], call)) {
    place = (place + 1) % kTableSize;
  }
  if (table_[place] == kNone) table_[place] = NewGroup(call, place);
  return table_[place];
}

uint32_t PendingCalls::NewGroup(const Call& call, uint32_t place) {
  auto number = static_cast<uint32_t>(groups_.size());
  groups_.push_back({call.level, kNone, kNone, 0, place, static_cast<uint32_t>(blocks_.size())});
  blocks_.resize(blocks_.size() + call.kernel->results.size());
  return number;
}

void PendingCalls::Clear(Heap* heap) {
  for (const Group& group : groups_) {
    if (group.place != kNone) table_[group.place] = kNone;
  }
  for (const Block& block : blocks_) {
    if (block.tensor != nullptr && heap != nullptr) heap->Drop(AsSlot(block.tensor));
  }
  for (const Panels& panels : panels_) {
    if (heap != nullptr) heap->Drop(AsSlot(panels.tensor));
  }
  panels_.clear();
  groups_.clear();
  blocks_.clear();
  calls_.clear();
  slots_.clear();
}

void PendingCalls::Forget(const KernelCaller& caller) {
  bool is_left = false;
  for (Call& call : calls_) {
    if (call.caller == &caller) call.caller = nullptr;
    is_left |= call.caller != nullptr;
  }
  if (!is_left) Clear(nullptr);
}

void PendingCalls::Run(KernelCaller& runner) {
  stats_.calls += static_cast<int64_t>(calls_.size());
  stats_.groups += static_cast<int64_t>(groups_.size());
  order_.resize(groups_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::stable_sort(order_, {}, [&](uint32_t group) { return groups_[group].level; });
  bool succeeds = true;
  for (size_t g = 0; g < order_.size() && succeeds; ++g) succeeds = RunGroup(groups_[order_[g]], runner);
  if (!succeeds) RunInOrder(runner);
  Clear(&runner.heap_);
}

bool PendingCalls::RunGroup(const Group& group, KernelCaller& runner) {
  batch_.clear();
  for (uint32_t number = group.first; number != kNone; number = calls_[number].next) {
    if (calls_[number].caller != nullptr) batch_.push_back(number);
  }
  const BatchVariant* variant = VariantOf(*calls_[group.first].kernel);
  size_t rows = batch_.size() > 1 && variant != nullptr ? SizeRows(calls_[batch_[0]]) : 1;
  for (size_t first = 0; first < batch_.size();) {
    size_t count = rows > 1 ? NextCount(*variant, first, rows) : 1;
    size_t least = rows > 1 && !variant->has_same_bits ? kMinOtherRows : 2;
    bool runs_together = count >= least && RunRows(runner, first, count);
    if (!runs_together) {
      for (size_t i = first; i < first + count; ++i) {
        if (!RunAlone(calls_[batch_[i]], runner)) return false;
      }
    }
    first += count;
  }
  return true;
}

void PendingCalls::RunInOrder(KernelCaller& runner) {
  for (Call& call : calls_) {
    if (call.caller == nullptr || RunAlone(call, runner)) continue;
    KernelCaller* caller = call.caller;
    for (Call& other : calls_) {
      if (other.caller == caller) other.caller = nullptr;
    }
  }
}

bool PendingCalls::RunAlone(Call& call, KernelCaller& runner) {
  const KernelInfo& kernel = *call.kernel;
  for (size_t i = 0; i < kernel.params.size() + kernel.results.size(); ++i) runner.buffers_[i] = RowOf(call, i);
  std::copy_n(SlotsOf(call) + SymbolsAt(kernel), kernel.desc->num_symbols, runner.symbols_.begin());
  int64_t workspace = WorkspaceBytes(kernel.workspace, runner.symbols_);
  if (!runner.RunForCall(kernel, workspace, *call.caller, call.pc)) return false;
  Finish(call);
  return true;
}

size_t PendingCalls::NextCount(const BatchVariant& variant, size_t first, size_t limit) {
  return variant.accumulator ? std::min(limit, batch_.size() - first) : NextRows(first, limit);
}

size_t PendingCalls::RowsThatFit(const BatchVariant& variant, const CallSize& size) {
  const size_t ends = 64 * size.tensors;  // each block begins at a multiple of 64 bytes
  auto fit = [&](size_t room) { return size.bytes == 0 || room < ends ? 1 : (room - ends) / size.bytes; };
  const size_t usual = fit(variant.has_same_bits ? kStagingOfSameBits : kStagingBytes);
  if (usual >= kMinRows || size.bytes > size.shared / kMinSharedByRow) return usual;
  return std::max(usual, std::min(kMinRows, fit(kMaxStagingBytes)));
}

size_t PendingCalls::SizeRows(const Call& call) {
  const KernelInfo& kernel = *call.kernel;
  const BatchVariant& variant = *kernel.batch;
  const Slot* slots = SlotsOf(call);
  rows_.clear();
  CallSize size;
  auto add = [&](const KernelInfo::TensorInfo& info, Slot slot, bool is_shared) {
    const int64_t bytes = info.scalar ? info.dtype.bytes() : ElementBytes(*AsTensor(slot));
    rows_.push_back({is_shared ? 0 : bytes, nullptr});
    (is_shared ? size.shared : size.bytes) += static_cast<size_t>(bytes);
  };
  for (uint32_t p = 0; p < kernel.params.size(); ++p) {
    // The accumulator of a link is its result.
    const Slot slot = slots[p] == 0 && p == variant.accumulator ? slots[kernel.params.size()] : slots[p];
    add(kernel.params[p], slot, variant.IsShared(p));
  }
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    add(kernel.results[i], slots[kernel.params.size() + i], variant.accumulator.has_value());
  }
  size.tensors = rows_.size();
  const size_t rows = RowsThatFit(variant, size);
  if (rows < 2) return 1;
  const size_t needed = std::max(kStagingBytes, rows * size.bytes + 64 * size.tensors);
  if (needed > staging_bytes_) {
    staging_.reset(new (std::align_val_t{64}, std::nothrow) std::byte[needed]);
    staging_bytes_ = staging_ == nullptr ? 0 : needed;
    if (staging_ == nullptr) return 1;
  }
  return rows;
}

bool PendingCalls::BindVariant(const KernelInfo& variant, const Call& call, int64_t count, KernelCaller& runner) {
  const Slot* slots = SlotsOf(call);
  const BatchVariant& batch = *call.kernel->batch;
  std::vector<int64_t>& symbols = runner.symbols_;
  // The accumulator of a link is its result.
  auto tensor_of = [&](uint32_t param) {
    return AsTensor(param == batch.accumulator ? slots[call.kernel->params.size()] : slots[param]);
  };
  auto bind_all = [&](const std::vector<KernelInfo::Bind>& binds) {
    return std::ranges::all_of(binds, [&](const KernelInfo::Bind& bind) {
      if (batch.FindArranged(bind.param) != nullptr) return true;  // known: their kernel has fixed extents
      int64_t extent = count;
      if (batch.IsShared(bind.param)) {
        extent = tensor_of(bind.param)->dims[bind.axis];
      } else if (bind.axis > 0) {
        extent = tensor_of(bind.param)->dims[bind.axis - 1];
      }
      if (bind.symbol >= 0) {
        symbols[static_cast<size_t>(bind.symbol)] = extent;
        return true;
      }
      return bind.expected.Evaluate(symbols) == extent;
    });
  };
  if (!bind_all(variant.binds) || !bind_all(variant.expectations)) return false;
  for (const KernelInfo::Check& check : variant.checks) {
    std::optional<int64_t> a = check.a.Evaluate(symbols), b = check.b.Evaluate(symbols);
    if (!a || !b || !Holds(check.relation, *a, *b)) return false;
  }
  for (size_t i = 0; i < variant.results.size(); ++i) {
    const KernelInfo::TensorInfo& row = call.kernel->results[i];
    const Slot result = slots[call.kernel->params.size() + i];
    const std::vector<DimProgram>& dims = variant.results[i].programs;
    size_t outer = batch.accumulator ? 0 : 1;  // axes of the variant in front of those of a call
    if (outer == 1 && dims[0].Evaluate(symbols) != count) return false;
    for (size_t axis = outer; axis < dims.size(); ++axis) {
      if (row.scalar || dims[axis].Evaluate(symbols) != AsTensor(result)->dims[axis - outer]) return false;
    }
  }
  return true;
}

const PendingCalls::Panels* PendingCalls::FindPanels(const KernelInfo& kernel, const std::byte* elements) const {
  auto found = std::ranges::find_if(
      panels_, [&](const Panels& panels) { return panels.kernel == &kernel && panels.elements == elements; });
  return found == panels_.end() ? nullptr : &*found;
}

bool PendingCalls::Arrange(KernelCaller& runner, const Call& call) {
  const std::vector<BatchVariant::Arranged>& all = call.kernel->batch->arranged;
  return all.size() <= kMaxPanels && std::ranges::all_of(all, [&](const BatchVariant::Arranged& arranged) {
           const KernelInfo& kernel = kernels_[arranged.kernel.value];
           std::byte* elements = RowOf(call, arranged.param);
           return FindPanels(kernel, elements) != nullptr || AddPanels(runner, kernel, elements);
         });
}

bool PendingCalls::AddPanels(KernelCaller& runner, const KernelInfo& kernel, std::byte* elements) {
  Heap& heap = runner.heap_;
  auto is_of_kernel = [&](const Panels& panels) { return panels.kernel == &kernel; };
  if (std::ranges::count_if(panels_, is_of_kernel) >= static_cast<ptrdiff_t>(kMaxPanels)) {
    auto oldest = std::ranges::find_if(panels_, is_of_kernel);
    heap.Drop(AsSlot(oldest->tensor));
    panels_.erase(oldest);
  }
  const KernelInfo::TensorInfo& result = kernel.results[0];
  Tensor* made = heap.NewTensor(result.dtype, result.dims, result.bytes, true);
  if (made == nullptr) return false;
  runner.buffers_[0] = elements;
  runner.buffers_[1] = made->data;
  if (runner.RunBound(kernel, kernel.static_workspace) != kRvmOk) {
    heap.Drop(AsSlot(made));
    return false;
  }
  panels_.push_back({&kernel, elements, made});
  return true;
}

std::byte* PendingCalls::SharedOf(const Call& call, size_t index) {
  const BatchVariant::Arranged* arranged = call.kernel->batch->FindArranged(static_cast<uint32_t>(index));
  std::byte* elements = RowOf(call, index);
  if (arranged == nullptr) return elements;
  return static_cast<std::byte*>(FindPanels(kernels_[arranged->kernel.value], elements)->tensor->data);
}

bool PendingCalls::RunRows(KernelCaller& runner, size_t first, size_t count) {
  const Call& call = calls_[batch_[first]];
  const KernelInfo& kernel = *call.kernel;
  const KernelInfo& variant = kernels_[kernel.batch->variant.value];
  if (!Arrange(runner, call) || !BindVariant(variant, call, static_cast<int64_t>(count), runner)) return false;
  int64_t workspace = WorkspaceBytes(variant.workspace, runner.symbols_);
  if (workspace == Heap::kUncountable) return false;
  size_t params = kernel.params.size();
  std::byte* block = staging_.get();
  void** buffers = runner.buffers_.data();
  for (size_t i = 0; i < rows_.size(); ++i) {
    bool is_shared =
        i < params ? kernel.batch->IsShared(static_cast<uint32_t>(i)) : kernel.batch->accumulator.has_value();
    if (is_shared) {
      buffers[i] = SharedOf(call, i);
      continue;
    }
    bool is_in_place = AreTogether(i, first, count);
    buffers[i] = rows_[i].block = is_in_place ? RowOf(call, i) : block;
    if (is_in_place) continue;
    block += RoundUp(static_cast<size_t>(rows_[i].row_bytes) * count);
    if (i < params) Gather(i, first, count);
  }
  if (runner.RunBound(variant, workspace) != kRvmOk) return false;
  if (!kernel.batch->accumulator) {
    for (size_t i = 0; i < kernel.results.size(); ++i) Scatter(i, first, count);
  }
  for (size_t i = first; i < first + count; ++i) Finish(calls_[batch_[i]]);
  return true;
}

std::byte* PendingCalls::RowOf(const Call& call, size_t index) {
  const KernelInfo& kernel = *call.kernel;
  Slot& slot = SlotsOf(call)[index];
  if (index < kernel.params.size()) {
    // A link adds to what the chain has, and an update reads what its result begins with.
    if (kernel.batch != nullptr && index == kernel.batch->accumulator && slot == 0)
      return RowOf(call, kernel.params.size());
    if (slot == 0 && !kernel.params[index].scalar) {
      auto result = std::ranges::find(kernel.results, static_cast<int32_t>(index), &KernelInfo::TensorInfo::begins_as);
      return RowOf(call, kernel.params.size() + static_cast<size_t>(result - kernel.results.begin()));
    }
    return kernel.params[index].scalar ? reinterpret_cast<std::byte*>(&slot)
                                       : static_cast<std::byte*>(ElementsOf(AsTensor(slot)));
  }
  size_t result = index - kernel.params.size();
  return kernel.results[result].scalar ? reinterpret_cast<std::byte*>(&call.caller->scalars_[result])
                                       : reinterpret_cast<std::byte*>(*(&slot + kernel.results.size()));
}

size_t PendingCalls::RowsTogether(size_t first) {
  size_t result = calls_[batch_[first]].kernel->params.size();
  if (result == rows_.size()) return 1;
  const std::byte* row = RowOf(calls_[batch_[first]], result);
  size_t count = 1;
  while (first + count < batch_.size() &&
         RowOf(calls_[batch_[first + count]], result) == row + static_cast<int64_t>(count) * rows_[result].row_bytes) {
    ++count;
  }
  return count;
}

size_t PendingCalls::NextRows(size_t first, size_t limit) {
  size_t count = 0;
  while (first + count < batch_.size()) {
    size_t more = RowsTogether(first + count);
    if (more >= kRowsTogether) return std::min(limit, count == 0 ? more : count);
    count += more;
  }
  return std::min(limit, count);
}

bool PendingCalls::AreTogether(size_t index, size_t first, size_t count) {
  const std::byte* row = RowOf(calls_[batch_[first]], index);
  for (size_t i = 1; i < count; ++i) {
    if (RowOf(calls_[batch_[first + i]], index) != row + static_cast<int64_t>(i) * rows_[index].row_bytes) return false;
  }
  return true;
}

void PendingCalls::Gather(size_t param, size_t first, size_t count) {
  auto bytes = static_cast<size_t>(rows_[param].row_bytes);
  std::byte* to = rows_[param].block;
  for (size_t i = first; i < first + count; ++i, to += bytes) std::memcpy(to, RowOf(calls_[batch_[i]], param), bytes);
}

void PendingCalls::Scatter(size_t result, size_t first, size_t count) {
  size_t index = calls_[batch_[first]].kernel->params.size() + result;
  auto bytes = static_cast<size_t>(rows_[index].row_bytes);
  const std::byte* from = rows_[index].block;
  if (from == RowOf(calls_[batch_[first]], index)) return;
  for (size_t i = first; i < first + count; ++i, from += bytes)
    std::memcpy(RowOf(calls_[batch_[i]], index), from, bytes);
}

void PendingCalls::Finish(Call& call) {
  const KernelInfo& kernel = *call.kernel;
  const Slot* slots = SlotsOf(call);
  size_t params = kernel.params.size(), results = kernel.results.size();
  Heap& heap = call.caller->heap_;
  for (size_t i = 0; i < results; ++i) {
    if (kernel.results[i].scalar || slots[params + i] == 0) continue;
    Tensor* tensor = AsTensor(slots[params + i]);
    tensor->data = reinterpret_cast<void*>(slots[params + results + i]);
    tensor->object.tag = 0;
    heap.Drop(AsSlot(tensor));
  }
  for (size_t p = 0; p < params; ++p) {
    if (!kernel.params[p].scalar && slots[p] != 0) heap.Drop(slots[p]);
  }
  call.caller = nullptr;
}

}  // namespace rvm::vm
