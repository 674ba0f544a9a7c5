// Kernel calls: buffers, shapes, outputs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "serialization/isa/isa.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/exec_kernel.h"
#include "vm/interpreter/interpreter.h"
#include "vm/interpreter/scalar_cast.h"
#include "vm/recipe/run_recipe.h"

namespace rvm::vm {
namespace {

std::string Describe(const KernelInfo& kernel) { return absl::StrCat("kernel `", kernel.desc->name, "`"); }

absl::Status TooLarge(const KernelInfo& kernel) {
  return absl::InvalidArgumentError(absl::StrCat("an extent of ", Describe(kernel), " is too large"));
}

static_assert(Heap::kTensorHeaderBytes == kPlannedHeaderBytes && sizeof(Tensor) <= kPlannedHeaderBytes);

}  // namespace

void Interpreter::BindArgs(const KernelCall& call, Slot* r) {
  call.kernel->has_scalars ? BindArgsAndScalars(call, r) : BindTensors(call.args, call.num_args, r);
}

void Interpreter::BindArgsAndScalars(const KernelCall& call, Slot* r) {
  for (uint32_t i = 0; i < call.num_args; ++i) {
    uint16_t arg = call.args[i];
    bool in_register = call.kernel->params[i].scalar && (arg & kConstantArg) == 0;
    buffers_[i] = in_register ? static_cast<void*>(&r[arg]) : ArgTensor(arg, r)->data;
  }
  NoteMoved(call.args, call.num_args, r);
}

// What is immortal is no result's to take, and need not be dropped.
void Interpreter::NoteMoved(const uint16_t* args, uint32_t count, const Slot* r) {
  num_moved_ = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if ((args[i] & (kConstantArg | kMovedArg)) != kMovedArg) continue;
    Slot slot = r[args[i] & ~kMovedArg];
    if (AsObject(slot)->count < kImmortal) moved_[num_moved_++] = {i, slot};
  }
}

Tensor* Interpreter::TakeArg(const KernelInfo::TensorInfo& result) {
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

void Interpreter::DropMoved() {
  while (num_moved_ > 0) heap_.Drop(moved_[--num_moved_].slot);
}

// Kernels write scalars as elements; registers hold them extended to 8 bytes.
void Interpreter::StoreScalars(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    if (kernel.results[i].scalar) r[call.dsts[i]] = LoadScalar(kernel.results[i].dtype, &scalars_[i]);
  }
}

bool Interpreter::GrowWorkspace(int64_t bytes) {
  if (workspace_ != nullptr) heap_.GiveRaw(workspace_);
  workspace_ = bytes > heap_.limit_bytes() ? heap_.Refuse(bytes) : heap_.TakeRaw(std::max<int64_t>(bytes, 4096));
  workspace_bytes_ = workspace_ == nullptr ? 0 : bytes;
  context_.workspace = workspace_;
  return workspace_ != nullptr;
}

int32_t Interpreter::RunRecipeOf(const KernelInfo& kernel, int64_t workspace_bytes) {
  if (profiler_ != nullptr) profiler_->BeginKernel(symbols_.data());
  int32_t code = RunRecipe(*kernel.recipe, buffers_.data(), symbols_, workspace_bytes, context_);
  if (profiler_ != nullptr) profiler_->EndKernel(/*is_alone=*/true);
  return code;
}

bool Interpreter::RunKernel(const KernelInfo& kernel, int64_t workspace_bytes) {
  int64_t needed = workspace_bytes;
  if (kernel.recipe != nullptr && __builtin_add_overflow(needed, kernel.recipe->scratch_bytes, &needed)) [[unlikely]]
    needed = Heap::kUncountable;
  if (needed > workspace_bytes_ && !GrowWorkspace(needed)) [[unlikely]]
    return SetError(OutOfMemory());
  int32_t code = kernel.recipe == nullptr ? kernel.function(buffers_.data(), symbols_.data(), &context_)
                                          : RunRecipeOf(kernel, workspace_bytes);
  // Calls of kernels are too few and too long for the budget of jumps and calls.
  return (code | stop_.reason()) == 0 || KernelFailed(kernel, code);
}

bool Interpreter::KernelFailed(const KernelInfo& kernel, int32_t code) {
  // A kernel that says it was told to stop, and was not, has failed like any other.
  if (absl::Status stopped = Poll(); !stopped.ok() && (code == kRvmOk || code == kRvmCancelled)) {
    return SetError(std::move(stopped));
  }
  switch (code) {
    case kRvmIndexOutOfRange:
      return SetError(absl::InvalidArgumentError(absl::StrCat("an index is out of range in ", Describe(kernel))));
    case kRecipeStoresOutside:
      return SetError(absl::InvalidArgumentError(
          absl::StrCat("the recipe of ", Describe(kernel), " writes outside its results: the file is damaged")));
    default: return SetError(absl::InternalError(absl::StrCat(Describe(kernel), " failed with code ", code)));
  }
}

void Interpreter::StopInKernel(const uint16_t* pc, const Slot* r, const FunctionInfo* fn, const KernelInfo& kernel,
                               int32_t code) {
  KernelFailed(kernel, code);
  Stop(pc, r, fn, std::move(error_));
}

Tensor* Interpreter::NewStaticResult(const KernelInfo::TensorInfo& result) {
  if (num_moved_ > 0) {
    if (Tensor* taken = TakeArg(result); taken != nullptr) return taken;
  }
  if (Tensor* tensor = heap_.TryNewTensor(result.heap_header); tensor != nullptr) [[likely]]
    return tensor;
  return heap_.NewTensor(result.dtype, result.dims, result.bytes, true);
}

template <bool kIsPlanned>
const uint16_t* Interpreter::CallStaticKernel(const uint16_t* pc, Slot* r, const FunctionInfo* fn) {
  const uint16_t* dsts = pc + 2;
  const uint16_t* offsets = dsts + pc[1] + 1;
  const uint16_t* index = kIsPlanned ? offsets + 2 * offsets[-1] : offsets - 1;
  const KernelInfo& kernel = kernels_[Read32(index)];
  KernelCall call = {&kernel, dsts, offsets, index + 3, index[2]};
  BindArgs(call, r);
  void** outputs = buffers_.data() + call.num_args;
  for (uint32_t i = 0; i < pc[1]; ++i) {
    const KernelInfo::TensorInfo& result = kernel.results[i];
    Tensor* tensor;
    if (result.scalar) {
      outputs[i] = &scalars_[i];
      continue;
    }
    if (uint32_t offset = kIsPlanned ? Read32(offsets + 2 * i) : kNoOffset; offset != kNoOffset) {
      tensor = PlaceTensor(r[fn->num_registers], offset, result);
    } else if (tensor = NewStaticResult(result); tensor == nullptr) [[unlikely]] {
      StopOutOfMemory(pc, r, fn);
      return nullptr;
    }
    outputs[i] = tensor->data;
    // An output's register owns nothing, now that moved_ holds what the call uses up: it can be written before it.
    r[dsts[i]] = AsSlot(tensor);
  }
  if (!RunKernel(kernel, kernel.static_workspace)) [[unlikely]] {
    Stop(pc, r, fn, std::move(error_));
    return nullptr;
  }
  if (num_moved_ > 0) DropMoved();
  if (kernel.has_scalars) StoreScalars(call, r);
  return call.args + call.num_args;
}

template const uint16_t* Interpreter::CallStaticKernel<false>(const uint16_t* pc, Slot* r, const FunctionInfo* fn);
template const uint16_t* Interpreter::CallStaticKernel<true>(const uint16_t* pc, Slot* r, const FunctionInfo* fn);

[[gnu::always_inline]] inline bool Interpreter::BindDims(const std::vector<KernelInfo::Bind>& binds,
                                                         const KernelCall& call, Slot* r) {
  for (const KernelInfo::Bind& bind : binds) {
    int64_t extent = ArgTensor(call.args[bind.param], r)->dims[bind.axis];
    if (bind.symbol >= 0) {
      symbols_[static_cast<size_t>(bind.symbol)] = extent;
      continue;
    }
    std::optional<int64_t> expected = bind.expected.Evaluate(symbols_);
    if (!expected || *expected != extent) [[unlikely]]
      return WrongExtent(call, bind, extent, expected);
  }
  return true;
}

bool Interpreter::WrongExtent(const KernelCall& call, const KernelInfo::Bind& bind, int64_t extent,
                              std::optional<int64_t> expected) {
  if (!expected) return SetError(TooLarge(*call.kernel));
  return SetError(absl::InvalidArgumentError(absl::StrCat("argument ", bind.param + 1, " of ", Describe(*call.kernel),
                                                          " has extent ", extent, " on axis ", bind.axis, "; expected ",
                                                          *expected)));
}

bool Interpreter::BindSymbols(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  if (!BindDims(kernel.binds, call, r)) return false;
  for (const KernelInfo::ValueBind& value : kernel.values) {
    uint16_t arg = call.args[value.param];
    const KernelInfo::TensorInfo& param = kernel.params[value.param];
    bool in_register = param.scalar && (arg & kConstantArg) == 0;
    symbols_[value.symbol] = static_cast<int64_t>(
        in_register ? r[arg]
                    : LoadScalar(param.dtype, static_cast<const std::byte*>(ArgTensor(arg, r)->data) + value.offset));
  }
  if (!BindDims(kernel.expectations, call, r)) return false;
  for (const KernelInfo::Check& check : kernel.checks) {
    std::optional<int64_t> a = check.a.Evaluate(symbols_);
    std::optional<int64_t> b = check.b.Evaluate(symbols_);
    if (!a || !b) return SetError(TooLarge(kernel));
    if (Holds(check.relation, *a, *b)) continue;
    return SetError(absl::InvalidArgumentError(absl::StrCat(*check.what, ": ", FailureText(check.relation, *a, *b))));
  }
  return true;
}

bool Interpreter::NoSuchShape(const KernelCall& call, size_t index) {
  Shape shape;
  for (const DimProgram& program : call.kernel->results[index].programs) {
    std::optional<int64_t> extent = program.Evaluate(symbols_);
    if (!extent) return SetError(TooLarge(*call.kernel));
    shape.push_back(*extent);
  }
  return SetError(absl::InvalidArgumentError(absl::StrCat("result ", index + 1, " of ", Describe(*call.kernel),
                                                          " would have the shape ", ShapeToString(shape))));
}

bool Interpreter::MakeDynamicResult(const KernelCall& call, size_t index, Slot* r) {
  const KernelInfo::TensorInfo& result = call.kernel->results[index];
  int64_t dims[kMaxRank];
  size_t rank = 0;
  int64_t bytes = result.dtype.bytes();
  bool too_big = false;
  bool empty = false;
  for (const DimProgram& program : result.programs) {
    std::optional<int64_t> extent = program.Evaluate(symbols_);
    if (!extent || *extent < 0) [[unlikely]]
      return NoSuchShape(call, index);
    dims[rank++] = *extent;
    empty |= *extent == 0;
    too_big |= __builtin_mul_overflow(bytes, *extent, &bytes);
  }
  if (empty) {
    bytes = 0;
    too_big = false;
  }
  if (too_big) bytes = Heap::kUncountable;
  Tensor* tensor = heap_.NewTensor(result.dtype, {dims, rank}, bytes, false);
  if (tensor == nullptr) [[unlikely]]
    return SetError(OutOfMemory());
  buffers_[call.num_args + index] = tensor->data;
  r[call.dsts[index]] = AsSlot(tensor);
  return true;
}

bool Interpreter::MakeDynamicResults(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    const KernelInfo::TensorInfo& result = kernel.results[i];
    if (result.scalar) {
      buffers_[call.num_args + i] = &scalars_[i];
    } else if (Tensor* taken = num_moved_ > 0 ? TakeArg(result) : nullptr; taken != nullptr) {
      buffers_[call.num_args + i] = taken->data;
      r[call.dsts[i]] = AsSlot(taken);
    } else if (!MakeDynamicResult(call, i, r)) {
      return false;
    }
  }
  return true;
}

const uint16_t* Interpreter::CallDynamicKernel(const uint16_t* pc, Slot* r, const FunctionInfo* fn) {
  const uint16_t* index = pc + 2 + pc[1];
  const KernelInfo& kernel = kernels_[Read32(index)];
  KernelCall call = {&kernel, pc + 2, nullptr, index + 3, index[2]};
  auto make = [&] {
    if (!BindSymbols(call, r)) return false;
    BindArgs(call, r);
    if (!MakeDynamicResults(call, r)) return false;
    std::optional<int64_t> workspace = kernel.workspace.Evaluate(symbols_);
    return RunKernel(kernel, workspace && *workspace >= 0 ? *workspace : Heap::kUncountable);
  };
  if (!make()) [[unlikely]] {
    Stop(pc, r, fn, std::move(error_));
    return nullptr;
  }
  if (num_moved_ > 0) DropMoved();
  if (kernel.has_scalars) StoreScalars(call, r);
  return call.args + call.num_args;
}

}  // namespace rvm::vm
