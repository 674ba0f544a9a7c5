#include "vm/interpreter/pending_calls.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "absl/hash/hash.h"
#include "vm/interpreter/kernel_caller.h"

namespace rvm::vm {
namespace {

constexpr size_t RoundUp(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

int64_t BytesOf(const Tensor& tensor) {
  int64_t bytes = tensor.dtype.bytes();
  for (uint16_t axis = 0; axis < tensor.rank; ++axis) bytes *= tensor.dims[axis];
  return bytes;
}

}  // namespace

PendingCalls::PendingCalls(std::span<const KernelInfo> kernels) : kernels_(kernels), table_(kTableSize, kNone) {}

Slot* PendingCalls::NewSlots(const KernelInfo& kernel) {
  size_t begin = slots_.size();
  slots_.resize(begin + kernel.params.size() + 2 * kernel.results.size() + kernel.desc->num_symbols);
  return slots_.data() + begin;
}

void PendingCalls::Note(KernelCaller& caller, const KernelInfo& kernel, const uint16_t* pc, uint32_t level) {
  size_t slots = kernel.params.size() + 2 * kernel.results.size() + kernel.desc->num_symbols;
  calls_.push_back({&caller, &kernel, pc, static_cast<uint32_t>(slots_.size() - slots), level, kNone});
  Join(static_cast<uint32_t>(calls_.size() - 1));
}

Slot PendingCalls::KeyOfShared(const Call& call, const Slot* slots, uint32_t param) {
  if (call.kernel->params[param].scalar) return slots[param];
  const Tensor* root = RootOf(AsTensor(slots[param]));
  return AsSlot(root->data != nullptr ? root->data : root);
}

uint64_t PendingCalls::HashOf(const Call& call) {
  size_t hash = absl::HashOf(call.kernel, call.level);
  if (call.kernel->batch == nullptr) return hash;
  const Slot* slots = SlotsOf(call);
  for (uint32_t param : call.kernel->batch->shared) hash = absl::HashOf(hash, KeyOfShared(call, slots, param));
  const Slot* symbols = slots + call.kernel->params.size() + 2 * call.kernel->results.size();
  for (uint32_t s = 0; s < call.kernel->desc->num_symbols; ++s) hash = absl::HashOf(hash, symbols[s]);
  return hash;
}

bool PendingCalls::AreAlike(const Call& a, const Call& b) {
  if (a.kernel != b.kernel || a.level != b.level) return false;
  if (a.kernel->batch == nullptr) return true;
  const Slot* of_a = SlotsOf(a);
  const Slot* of_b = SlotsOf(b);
  for (uint32_t param : a.kernel->batch->shared) {
    if (KeyOfShared(a, of_a, param) != KeyOfShared(b, of_b, param)) return false;
  }
  size_t symbols = a.kernel->params.size() + 2 * a.kernel->results.size();
  return std::equal(of_a + symbols, of_a + symbols + a.kernel->desc->num_symbols, of_b + symbols);
}

void PendingCalls::Join(uint32_t number) {
  Call& call = calls_[number];
  size_t place = HashOf(call) % kTableSize;
  while (table_[place] != kNone && !AreAlike(calls_[groups_[table_[place]].first], call)) {
    place = (place + 1) % kTableSize;
  }
  if (table_[place] == kNone) {
    table_[place] = static_cast<uint32_t>(groups_.size());
    groups_.push_back({call.level, number, number, 1, static_cast<uint32_t>(place)});
    return;
  }
  Group& group = groups_[table_[place]];
  calls_[group.last].next = number;
  group.last = number;
  ++group.count;
}

void PendingCalls::Clear() {
  for (const Group& group : groups_) table_[group.place] = kNone;
  groups_.clear();
  calls_.clear();
  slots_.clear();
}

void PendingCalls::Forget(const KernelCaller& caller) {
  bool is_left = false;
  for (Call& call : calls_) {
    if (call.caller == &caller) call.caller = nullptr;
    is_left |= call.caller != nullptr;
  }
  if (!is_left) Clear();
}

void PendingCalls::Run(KernelCaller& runner) {
  stats_.calls += static_cast<int64_t>(calls_.size());
  stats_.groups += static_cast<int64_t>(groups_.size());
  ++stats_.runs;
  order_.resize(groups_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::stable_sort(order_, {}, [&](uint32_t group) { return groups_[group].level; });
  bool succeeds = true;
  for (size_t g = 0; g < order_.size() && succeeds; ++g) succeeds = RunGroup(groups_[order_[g]], runner);
  if (!succeeds) RunInOrder(runner);
  Clear();
}

bool PendingCalls::RunGroup(const Group& group, KernelCaller& runner) {
  batch_.clear();
  for (uint32_t number = group.first; number != kNone; number = calls_[number].next) {
    if (calls_[number].caller != nullptr) batch_.push_back(number);
  }
  size_t rows = 1;
  if (batch_.size() > 1 && calls_[group.first].kernel->batch != nullptr) rows = SizeRows(calls_[group.first]);
  for (size_t first = 0; first < batch_.size();) {
    size_t count = std::min(rows, batch_.size() - first);
    bool runs_together = count > 1 && RunRows(runner, first, count);
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
  Slot* slots = SlotsOf(call);
  size_t params = kernel.params.size(), results = kernel.results.size();
  void** buffers = runner.buffers_.data();
  for (size_t p = 0; p < params; ++p) {
    buffers[p] = kernel.params[p].scalar ? static_cast<void*>(&slots[p]) : RootOf(AsTensor(slots[p]))->data;
  }
  for (size_t i = 0; i < results; ++i) {
    buffers[params + i] = kernel.results[i].scalar ? static_cast<void*>(&call.caller->scalars_[i])
                                                   : reinterpret_cast<void*>(slots[params + results + i]);
  }
  const Slot* symbols = slots + params + 2 * results;
  std::copy(symbols, symbols + kernel.desc->num_symbols, runner.symbols_.begin());
  std::optional<int64_t> workspace =
      kernel.is_static ? kernel.static_workspace : kernel.workspace.Evaluate(runner.symbols_);
  if (!runner.RunForCall(kernel, workspace.value_or(Heap::kUncountable), *call.caller, call.pc)) return false;
  Finish(call);
  return true;
}

size_t PendingCalls::SizeRows(const Call& call) {
  const KernelInfo& kernel = *call.kernel;
  const Slot* slots = SlotsOf(call);
  rows_.clear();
  size_t bytes = 0;
  auto add = [&](const KernelInfo::TensorInfo& info, Slot slot, bool is_shared) {
    int64_t row = is_shared ? 0 : info.scalar ? info.dtype.bytes() : BytesOf(*AsTensor(slot));
    rows_.push_back({row, nullptr});
    bytes += static_cast<size_t>(row);
  };
  for (uint32_t p = 0; p < kernel.params.size(); ++p) {
    add(kernel.params[p], slots[p], std::ranges::binary_search(kernel.batch->shared, p));
  }
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    add(kernel.results[i], slots[kernel.params.size() + i], false);
  }
  size_t ends = 64 * rows_.size();  // each block begins at a multiple of 64 bytes
  if (bytes == 0 || kStagingBytes - ends < 2 * bytes) return 1;
  if (staging_ == nullptr) {
    staging_.reset(new (std::align_val_t{64}, std::nothrow) std::byte[kStagingBytes]);
    if (staging_ == nullptr) return 1;
  }
  return (kStagingBytes - ends) / bytes;
}

bool PendingCalls::BindVariant(const KernelInfo& variant, const Call& call, int64_t count, KernelCaller& runner) {
  const Slot* slots = SlotsOf(call);
  const std::vector<uint32_t>& shared = call.kernel->batch->shared;
  std::vector<int64_t>& symbols = runner.symbols_;
  auto bind_all = [&](const std::vector<KernelInfo::Bind>& binds) {
    return std::ranges::all_of(binds, [&](const KernelInfo::Bind& bind) {
      bool is_shared = std::ranges::binary_search(shared, bind.param);
      int64_t extent = count;
      if (is_shared) {
        extent = AsTensor(slots[bind.param])->dims[bind.axis];
      } else if (bind.axis > 0) {
        extent = AsTensor(slots[bind.param])->dims[bind.axis - 1];
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
    if (dims[0].Evaluate(symbols) != count) return false;
    for (size_t axis = 1; axis < dims.size(); ++axis) {
      if (row.scalar || dims[axis].Evaluate(symbols) != AsTensor(result)->dims[axis - 1]) return false;
    }
  }
  return true;
}

bool PendingCalls::RunRows(KernelCaller& runner, size_t first, size_t count) {
  const Call& call = calls_[batch_[first]];
  const KernelInfo& kernel = *call.kernel;
  const KernelInfo& variant = kernels_[kernel.batch->variant.value];
  if (!BindVariant(variant, call, static_cast<int64_t>(count), runner)) return false;
  std::optional<int64_t> workspace = variant.workspace.Evaluate(runner.symbols_);
  if (!workspace || *workspace < 0) return false;
  size_t params = kernel.params.size();
  std::byte* block = staging_.get();
  void** buffers = runner.buffers_.data();
  for (size_t i = 0; i < rows_.size(); ++i) {
    bool is_shared = i < params && std::ranges::binary_search(kernel.batch->shared, static_cast<uint32_t>(i));
    if (is_shared) {
      Slot& slot = SlotsOf(call)[i];
      buffers[i] = kernel.params[i].scalar ? static_cast<void*>(&slot) : RootOf(AsTensor(slot))->data;
      continue;
    }
    rows_[i].block = block;
    block += RoundUp(static_cast<size_t>(rows_[i].row_bytes) * count);
    buffers[i] = rows_[i].block;
    if (i < params) Gather(i, first, count);
  }
  if (runner.RunBound(variant, *workspace) != kRvmOk) return false;
  for (size_t i = 0; i < kernel.results.size(); ++i) Scatter(i, first, count);
  for (size_t i = first; i < first + count; ++i) Finish(calls_[batch_[i]]);
  return true;
}

void PendingCalls::Gather(size_t param, size_t first, size_t count) {
  auto bytes = static_cast<size_t>(rows_[param].row_bytes);
  bool is_scalar = calls_[batch_[first]].kernel->params[param].scalar;
  std::byte* to = rows_[param].block;
  for (size_t i = first; i < first + count; ++i, to += bytes) {
    const Slot& slot = SlotsOf(calls_[batch_[i]])[param];
    std::memcpy(to, is_scalar ? static_cast<const void*>(&slot) : RootOf(AsTensor(slot))->data, bytes);
  }
}

void PendingCalls::Scatter(size_t result, size_t first, size_t count) {
  const KernelInfo& kernel = *calls_[batch_[first]].kernel;
  const Rows& rows = rows_[kernel.params.size() + result];
  auto bytes = static_cast<size_t>(rows.row_bytes);
  const std::byte* from = rows.block;
  for (size_t i = first; i < first + count; ++i, from += bytes) {
    Call& call = calls_[batch_[i]];
    void* to = kernel.results[result].scalar
                   ? static_cast<void*>(&call.caller->scalars_[result])
                   : reinterpret_cast<void*>(SlotsOf(call)[kernel.params.size() + kernel.results.size() + result]);
    std::memcpy(to, from, bytes);
  }
}

void PendingCalls::Finish(Call& call) {
  const KernelInfo& kernel = *call.kernel;
  const Slot* slots = SlotsOf(call);
  size_t params = kernel.params.size(), results = kernel.results.size();
  Heap& heap = call.caller->heap_;
  for (size_t i = 0; i < results; ++i) {
    if (kernel.results[i].scalar) continue;
    Tensor* tensor = AsTensor(slots[params + i]);
    tensor->data = reinterpret_cast<void*>(slots[params + results + i]);
    tensor->object.tag = 0;
    heap.Drop(AsSlot(tensor));
  }
  for (size_t p = 0; p < params; ++p) {
    if (!kernel.params[p].scalar) heap.Drop(slots[p]);
  }
  call.caller = nullptr;
}

}  // namespace rvm::vm
