#include "vm/interpreter/kernel_caller.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/scalar_cast.h"
#include "vm/limits/limit.h"
#include "vm/recipe/run_recipe.h"

namespace rvm::vm {
namespace {

static_assert(Heap::kTensorHeaderBytes == kPlannedHeaderBytes && sizeof(Tensor) <= kPlannedHeaderBytes);

}  // namespace

KernelCaller::KernelCaller(const Executable& executable, const LinkInfo& link, Heap& heap, const RunControl& control,
                           int threads, Profiler* profiler, int64_t memory_limit_bytes, const QueueShare& share)
    : kernels_(link.kernels.data()),
      buffers_(link.max_kernel_tensors + 1),
      symbols_(link.max_symbols),
      constants_(executable.constants),
      moved_(link.max_kernel_tensors + 1),
      scalars_(link.max_kernel_tensors + 1),
      results_(link.max_kernel_tensors + 1),
      heap_(heap),
      control_(control),
      profiler_(profiler),
      defers_all_(share.defers_all) {
  symbols_.insert(symbols_.end(), link.shape_constants.begin(), link.shape_constants.end());
  symbols_.push_back(0);
  pool_ = share.pool;
  if (pool_ == nullptr && threads > 1) {
    own_pool_ = std::make_unique<ThreadPool>(threads);
    pool_ = own_pool_.get();
  }
  if (pool_ != nullptr) context_.parallel_for = RunInPool;
  context_.runtime = this;
  if (link.device != nullptr) {
    device_ = std::make_unique<DeviceCaller>(*link.device, constants_, heap, control, profiler, memory_limit_bytes);
  }
  if (share.queue != nullptr) {
    pending_ = share.queue;
    waiter_ = share.waiter;
  } else if (link.has_batches) {
    own_pending_ = std::make_unique<PendingCalls>(link.kernels, /*is_for_one_run=*/true);
    pending_ = own_pending_.get();
  }
}

void KernelCaller::RunInPool(RvmKernelContext* context, int64_t count, int64_t grain, ThreadPool::Body body,
                             void* closure) {
  static_cast<KernelCaller*>(context->runtime)->pool_->For(count, grain, body, closure);
}

int32_t KernelCaller::ProbeKernel(void* const* buffers, const int64_t* dims, RvmKernelContext* context) {
  Profiler& profiler = *static_cast<KernelCaller*>(context->runtime)->profiler_;
  RvmKernel function = profiler.BeginKernel(dims);
  int32_t code = function(buffers, dims, context);
  profiler.EndKernel(/*is_alone=*/context->parallel_for == nullptr);
  return code;
}

void KernelCaller::BindArgs(const Call& call, Slot* r) {
  if (!call.kernel->has_scalars) return BindTensors(call.args, call.num_args, r);
  for (uint32_t i = 0; i < call.num_args; ++i) {
    uint16_t arg = call.args[i];
    buffers_[i] = call.IsInRegister(i) ? static_cast<void*>(&r[arg]) : ArgTensor(arg, r)->data;
  }
  NoteMoved(call.args, call.num_args, r);
}

// Immortal tensors cannot be reused and need not be dropped.
void KernelCaller::NoteMoved(const uint16_t* args, uint32_t count, const Slot* r) {
  num_moved_ = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsMovedArg(args[i])) continue;
    Slot slot = r[args[i] & ~kMovedArg];
    if (AsObject(slot)->count < kImmortal) moved_[num_moved_++] = {i, slot};
  }
}

Tensor* KernelCaller::ReuseArg(const KernelInfo::TensorInfo& result) {
  for (uint32_t param : result.may_take) {
    for (uint32_t m = 0; m < num_moved_; ++m) {
      Tensor* tensor = AsTensor(moved_[m].slot);
      if (moved_[m].param != param || tensor->object.count != 1 || tensor->storage != TensorStorage::kInline) continue;
      moved_[m] = moved_[--num_moved_];
      // The shape is the same, and so is the size of an element.
      tensor->dtype = result.dtype;
      return tensor;
    }
  }
  return nullptr;
}

void KernelCaller::DropMoved() {
  while (num_moved_ > 0) heap_.Drop(moved_[--num_moved_].slot);
}

// Kernels write scalars as elements; registers hold them extended to 8 bytes.
void KernelCaller::StoreScalars(const Call& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    if (kernel.results[i].scalar) r[call.dsts[i]] = LoadScalar(kernel.results[i].dtype, &scalars_[i]);
  }
}

bool KernelCaller::GrowWorkspace(int64_t bytes) {
  if (workspace_ != nullptr) heap_.GiveRaw(workspace_);
  bytes = std::max<int64_t>(bytes, kRvmMinWorkspaceBytes);
  workspace_ = bytes > heap_.limit_bytes() ? heap_.Refuse(bytes) : heap_.TakeRaw(bytes);
  workspace_bytes_ = workspace_ == nullptr ? 0 : bytes;
  context_.workspace = workspace_;
  return workspace_ != nullptr;
}

int32_t KernelCaller::RunRecipeOf(const KernelInfo& kernel, int64_t workspace_bytes) {
  if (profiler_ != nullptr) profiler_->BeginKernel(symbols_.data());
  int32_t code = RunRecipe(*kernel.recipe, buffers_.data(), symbols_, workspace_bytes, context_);
  if (profiler_ != nullptr) profiler_->EndKernel(/*is_alone=*/true);
  return code;
}

int32_t KernelCaller::RunBound(const KernelInfo& kernel, int64_t workspace_bytes) {
  int64_t needed = workspace_bytes;
  if (kernel.recipe != nullptr && __builtin_add_overflow(needed, kernel.recipe->scratch_bytes, &needed)) [[unlikely]]
    needed = Heap::kUncountable;
  if (needed > workspace_bytes_ && !GrowWorkspace(needed)) [[unlikely]]
    return kNoMemory;
  return kernel.recipe == nullptr ? RunCode(kernel) : RunRecipeOf(kernel, workspace_bytes);
}

bool KernelCaller::RunForCall(const KernelInfo& kernel, int64_t workspace_bytes, KernelCaller& owner,
                              const uint16_t* pc) {
  int32_t code = RunBound(kernel, workspace_bytes);
  // Calls of kernels are too few and too long for the budget of jumps and calls.
  if ((code | owner.control_.signal().attention()) == 0) [[likely]]
    return true;
  absl::Status status = code == kNoMemory ? OutOfMemory() : owner.KernelError(kernel, code);
  if (status.ok()) return true;
  owner.error_place_ = pc;
  return owner.Fail(std::move(status));
}

bool KernelCaller::Run(const KernelInfo& kernel, int64_t workspace_bytes) {
  return RunForCall(kernel, workspace_bytes, *this, /*pc=*/nullptr);
}

absl::Status KernelCaller::KernelError(const KernelInfo& kernel, int32_t code) const {
  // A kernel that says it was told to stop, and was not, has failed like any other.
  if (code == kRvmOk || code == kRvmCancelled) RVM_RETURN_IF_ERROR(control_.Poll());
  if (code == kRvmOk) return absl::OkStatus();
  if (code == kRvmIndexOutOfRange) {
    return absl::InvalidArgumentError(absl::StrCat("an index is out of range in ", Describe(kernel)));
  }
  if (code == kRecipeStoresOutside) {
    return absl::InvalidArgumentError(
        absl::StrCat("the recipe of ", Describe(kernel), " writes outside its results: the file is damaged"));
  }
  return absl::InternalError(absl::StrCat(Describe(kernel), " failed with code ", code));
}

void KernelCaller::Reset() {
  workspace_ = nullptr;
  workspace_bytes_ = 0;
  context_.workspace = nullptr;
  if (device_ != nullptr) device_->tensors().Reset();
  if (num_pending_ > 0) pending_->Forget(*this);
  num_pending_ = 0;
  pending_bytes_ = 0;
}

Tensor* KernelCaller::NewStaticResult(const KernelInfo::TensorInfo& result) {
  if (num_moved_ > 0) {
    if (Tensor* taken = ReuseArg(result); taken != nullptr) return taken;
  }
  if (Tensor* tensor = heap_.TryNewTensor(result.heap_header); tensor != nullptr) [[likely]]
    return tensor;
  return heap_.NewTensor(result.dtype, result.dims, result.bytes, true);
}

bool KernelCaller::FetchToHost(Tensor* tensor) {
  if (tensor->data != nullptr) return true;
  if (pending_ != nullptr) return FetchPending(tensor);
  if (device_ == nullptr) return true;  // a tensor without elements
  absl::Status status = device_->tensors().FetchToHost(tensor);
  return status.ok() || Fail(std::move(status));
}

bool KernelCaller::FetchArgs(const Call& call, const Slot* r) {
  // The devices work while the host does; kernels of scalars take no time.
  auto is_scalar = [](const KernelInfo::TensorInfo& info) { return info.scalar; };
  if (device_ != nullptr &&
      (!std::ranges::all_of(call.kernel->params, is_scalar) || !std::ranges::all_of(call.kernel->results, is_scalar))) {
    if (absl::Status status = device_->tensors().Submit(); !status.ok()) return Fail(std::move(status));
  }
  for (uint32_t i = 0; i < call.num_args; ++i) {
    if (!call.IsInRegister(i) && !FetchToHost(ArgTensor(call.args[i], r))) return false;
  }
  return true;
}

bool KernelCaller::FetchValues(const Call& call, const Slot* r) {
  for (const KernelInfo::ValueBind& value : call.kernel->values) {
    if (!call.IsInRegister(value.param) && !FetchToHost(ArgTensor(call.args[value.param], r))) return false;
  }
  return true;
}

const uint16_t* KernelCaller::CallOnDevice(const Call& call, Slot* r) {
  NoteMoved(call.args, call.num_args, r);
  absl::Status status = device_->Call(call, symbols_, scalars_, r);
  if (!status.ok()) {
    error_ = WithMessage(status, absl::StrCat(Describe(*call.kernel), ": ", status.message()));
    return nullptr;
  }
  if (num_moved_ > 0) DropMoved();
  if (call.kernel->has_scalars) StoreScalars(call, r);
  return call.args + call.num_args;
}

template <bool kIsPlanned>
const uint16_t* KernelCaller::CallStatic(const uint16_t* pc, Slot window, Slot* r) {
  const uint16_t* dsts = pc + 2;
  const uint16_t* offsets = dsts + pc[1] + 1;
  const uint16_t* index = kIsPlanned ? offsets + 2 * offsets[-1] : offsets - 1;
  const KernelInfo& kernel = kernels_[Read32(index)];
  Call call = {&kernel, dsts, index + 3, index[2]};
  if (kernel.device != nullptr) return CallOnDevice(call, r);
  if (device_ != nullptr && !FetchArgs(call, r)) return nullptr;
  if (pending_ != nullptr) {
    if (std::optional<const uint16_t*> next = Defer(call, pc, r); next) return *next;
  }
  BindArgs(call, r);
  void** outputs = buffers_.data() + call.num_args;
  for (uint32_t i = 0; i < pc[1]; ++i) {
    const KernelInfo::TensorInfo& result = kernel.results[i];
    if (result.scalar) {
      outputs[i] = &scalars_[i];
      continue;
    }
    uint32_t offset = kIsPlanned ? Read32(offsets + 2 * i) : kNoOffset;
    Tensor* tensor = offset == kNoOffset ? NewStaticResult(result) : PlaceTensor(window, offset, result);
    if (tensor == nullptr) [[unlikely]] {
      error_ = OutOfMemory();
      return nullptr;
    }
    outputs[i] = tensor->data;
    if (result.begins_as >= 0 && !BeginResult(call, i, *tensor, r)) [[unlikely]]
      return nullptr;
    results_[i] = tensor;
  }
  // The register of a result owns nothing, since moved_ holds what the call consumes; no argument is read any more.
  for (uint32_t i = 0; i < pc[1]; ++i) {
    if (!kernel.results[i].scalar) r[dsts[i]] = AsSlot(results_[i]);
  }
  if (!Run(kernel, kernel.static_workspace)) [[unlikely]]
    return nullptr;
  if (num_moved_ > 0) DropMoved();
  if (kernel.has_scalars) StoreScalars(call, r);
  return call.args + call.num_args;
}

template const uint16_t* KernelCaller::CallStatic<false>(const uint16_t* pc, Slot window, Slot* r);
template const uint16_t* KernelCaller::CallStatic<true>(const uint16_t* pc, Slot window, Slot* r);

[[gnu::always_inline]] inline bool KernelCaller::BindDims(const std::vector<KernelInfo::Bind>& binds, const Call& call,
                                                          Slot* r) {
  for (const KernelInfo::Bind& bind : binds) {
    int64_t extent = ArgTensor(call.args[bind.param], r)->dims[bind.axis];
    if (bind.symbol >= 0) {
      symbols_[static_cast<size_t>(bind.symbol)] = extent;
      continue;
    }
    std::optional<int64_t> expected = bind.expected.Evaluate(symbols_);
    if (!expected || *expected != extent) [[unlikely]]
      return Fail(ExtentError(*call.kernel, bind, extent, expected));
  }
  return true;
}

bool KernelCaller::BindSymbols(const Call& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  if (!BindDims(kernel.binds, call, r)) return false;
  for (const KernelInfo::ValueBind& value : kernel.values) {
    uint16_t arg = call.args[value.param];
    const KernelInfo::TensorInfo& param = kernel.params[value.param];
    symbols_[value.symbol] = static_cast<int64_t>(
        call.IsInRegister(value.param)
            ? r[arg]
            : LoadScalar(param.dtype, static_cast<const std::byte*>(ArgTensor(arg, r)->data) + value.offset));
  }
  if (!BindDims(kernel.expectations, call, r)) return false;
  for (const KernelInfo::Check& check : kernel.checks) {
    std::optional<int64_t> a = check.a.Evaluate(symbols_);
    std::optional<int64_t> b = check.b.Evaluate(symbols_);
    if (!a || !b) return Fail(TooLarge(kernel));
    if (Holds(check.relation, *a, *b)) continue;
    return Fail(absl::InvalidArgumentError(absl::StrCat(*check.what, ": ", FailureText(check.relation, *a, *b))));
  }
  return true;
}

Tensor* KernelCaller::MakeDynamicResult(const Call& call, size_t index) {
  const KernelInfo::TensorInfo& result = call.kernel->results[index];
  ResultShape shape;
  if (!shape.Evaluate(result, symbols_)) [[unlikely]] {
    Fail(ShapeError(*call.kernel, index, symbols_));
    return nullptr;
  }
  Tensor* tensor = result.grows && num_moved_ > 0 ? MakeGrownResult(result, shape)
                                                  : heap_.NewTensor(result.dtype, shape.extents(), shape.bytes, false);
  if (tensor == nullptr) [[unlikely]]
    Fail(OutOfMemory());
  return tensor;
}

Tensor* KernelCaller::MakeGrownResult(const KernelInfo::TensorInfo& result, const ResultShape& shape) {
  std::span<const int64_t> dims = shape.extents();
  int64_t bytes = shape.bytes;
  int64_t capacity = bytes;
  for (uint32_t m = 0; m < num_moved_; ++m) {
    Tensor* tensor = AsTensor(moved_[m].slot);
    if (moved_[m].param != static_cast<uint32_t>(result.begins_as) || tensor->object.count != 1 ||
        tensor->storage != TensorStorage::kInline)
      continue;
    if (HasRoom(*tensor, tensor->data, dims.size(), bytes)) {
      moved_[m] = moved_[--num_moved_];
      std::copy(dims.begin(), dims.end(), tensor->dims_after_header());
      tensor->dims = tensor->dims_after_header();
      tensor->inline_dims = true;
      return tensor;
    }
    int64_t in_use = heap_.reserved_bytes() - heap_.pooled_bytes();
    if (bytes < (heap_.limit_bytes() - in_use) / 2) capacity = GrownCapacity(bytes);
    break;
  }
  return heap_.NewTensor(result.dtype, dims, capacity, false);
}

bool KernelCaller::BeginResult(const Call& call, size_t index, const Tensor& result, const Slot* r) {
  constexpr int64_t kPiece = 1 << 20;
  const KernelInfo::TensorInfo& info = call.kernel->results[index];
  const auto* from = static_cast<const std::byte*>(buffers_[static_cast<size_t>(info.begins_as)]);
  auto* to = static_cast<std::byte*>(result.data);
  if (from == to) return true;
  // A result that grows has at least as many elements in the files that the compiler makes.
  auto bytes_of = [&](const Tensor& tensor) {
    int64_t bytes = info.dtype.bytes();
    for (uint16_t axis = 0; axis < tensor.rank; ++axis) bytes *= tensor.dims[axis];
    return bytes;
  };
  int64_t bytes = bytes_of(result);
  if (info.grows) bytes = std::min(bytes, bytes_of(*ArgTensor(call.args[info.begins_as], r)));
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    if (control_.signal().reason() != 0) return Fail(control_.Poll());
    std::memcpy(to + begin, from + begin, static_cast<size_t>(std::min(kPiece, bytes - begin)));
  }
  return true;
}

// The registers of results may be those of arguments, which are read until all results have begun: they are written
// last.
bool KernelCaller::MakeDynamicResults(const Call& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    const KernelInfo::TensorInfo& result = kernel.results[i];
    if (result.scalar) {
      buffers_[call.num_args + i] = &scalars_[i];
      continue;
    }
    Tensor* tensor = num_moved_ > 0 ? ReuseArg(result) : nullptr;
    bool is_taken = tensor != nullptr;
    if (!is_taken) tensor = MakeDynamicResult(call, i);
    if (tensor == nullptr) [[unlikely]]
      return false;
    if (!is_taken && result.begins_as >= 0 && !BeginResult(call, i, *tensor, r)) [[unlikely]]
      return false;
    buffers_[call.num_args + i] = tensor->data;
    results_[i] = tensor;
  }
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    if (!kernel.results[i].scalar) r[call.dsts[i]] = AsSlot(results_[i]);
  }
  return true;
}

const uint16_t* KernelCaller::CallDynamic(const uint16_t* pc, Slot* r) {
  const uint16_t* dsts = pc + 2;
  const uint16_t* index = dsts + pc[1];
  const KernelInfo& kernel = kernels_[Read32(index)];
  Call call = {&kernel, dsts, index + 3, index[2]};
  bool may_wait = pending_ != nullptr || kernel.device != nullptr;
  if (may_wait ? !FetchValues(call, r) : device_ != nullptr && !FetchArgs(call, r)) return nullptr;
  if (!BindSymbols(call, r)) return nullptr;
  if (kernel.device != nullptr) return CallOnDevice(call, r);
  if (pending_ != nullptr) {
    if (std::optional<const uint16_t*> next = Defer(call, pc, r); next) return *next;
  }
  BindArgs(call, r);
  if (!MakeDynamicResults(call, r)) return nullptr;
  if (!Run(kernel, WorkspaceBytes(kernel.workspace, symbols_))) return nullptr;
  if (num_moved_ > 0) DropMoved();
  if (kernel.has_scalars) StoreScalars(call, r);
  return call.args + call.num_args;
}

}  // namespace rvm::vm
