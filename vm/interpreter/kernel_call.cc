// Kernel calls: buffers, shapes, outputs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "serialization/isa/isa.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/interpreter.h"
#include "vm/interpreter/scalar_cast.h"
#include "vm/recipe/run_recipe.h"

namespace rvm::vm {
namespace {

std::string Describe(const KernelInfo& kernel) { return absl::StrCat("kernel `", kernel.desc->name, "`"); }

absl::Status TooLarge(const KernelInfo& kernel) {
  return absl::InvalidArgumentError(absl::StrCat("an extent of ", Describe(kernel), " is too large"));
}

// In place, over a header made for the executable's lifetime.
Tensor* PlaceTensor(std::byte* place, const KernelInfo::TensorInfo& info) {
  auto* tensor = reinterpret_cast<Tensor*>(place);
  tensor->object = {kImmortal, 0, kTensorLayout};
  tensor->dtype = info.dtype;
  tensor->rank = static_cast<uint16_t>(info.dims.size());
  tensor->storage = TensorStorage::kBorrowed;
  tensor->inline_dims = false;
  tensor->data = place + kPlannedHeaderBytes;
  tensor->owner = nullptr;
  tensor->dims = info.dims.data();
  return tensor;
}
static_assert(sizeof(Tensor) <= kPlannedHeaderBytes);

}  // namespace

const Tensor* Interpreter::ArgTensor(uint16_t arg, const Slot* r) const {
  if ((arg & kConstantArg) != 0) return constants_[arg & ~kConstantArg];
  return AsTensor(r[arg & ~kMovedArg]);
}

void Interpreter::BindArgs(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  const uint16_t* args = call.args + 1;
  void** buffers = buffers_.data();
  auto count = static_cast<uint32_t>(kernel.params.size());
  moved_.clear();
  auto note_moved = [&](uint32_t i) {
    if ((args[i] & (kConstantArg | kMovedArg)) == kMovedArg) moved_.push_back({i, r[args[i] & ~kMovedArg]});
  };
  if (!kernel.has_scalars) [[likely]] {
#pragma clang loop unroll(disable)  // a few arguments
    for (uint32_t i = 0; i < count; ++i) {
      buffers[i] = ArgTensor(args[i], r)->data;
      note_moved(i);
    }
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    bool in_register = kernel.params[i].scalar && (args[i] & kConstantArg) == 0;
    buffers[i] = in_register ? static_cast<void*>(&r[args[i]]) : ArgTensor(args[i], r)->data;
    note_moved(i);
  }
}

Tensor* Interpreter::TakeArg(const KernelInfo::TensorInfo& result) {
  for (uint32_t param : result.may_take) {
    for (MovedArg& moved : moved_) {
      Tensor* tensor = AsTensor(moved.slot);
      if (moved.param != param || tensor->object.count != 1 || tensor->storage != TensorStorage::kInline) continue;
      moved = moved_.back();
      moved_.pop_back();
      // The shape is the same, and so is the size of an element.
      tensor->dtype = result.dtype;
      return tensor;
    }
  }
  return nullptr;
}

void Interpreter::DropMoved() {
  for (const MovedArg& moved : moved_) heap_.Drop(moved.slot);
}

// Kernels write scalars as elements; registers hold them extended to 8 bytes.
void Interpreter::StoreScalars(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    if (kernel.results[i].scalar) r[call.dsts[1 + i]] = LoadScalar(kernel.results[i].dtype, &scalars_[i]);
  }
}

bool Interpreter::GrowWorkspace(int64_t bytes) {
  if (workspace_ != nullptr) heap_.GiveRaw(workspace_);
  workspace_ = bytes > heap_.limit_bytes() ? nullptr : heap_.TakeRaw(std::max<int64_t>(bytes, 4096));
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
    return SetError(OutOfMemory());
  if (needed > workspace_bytes_ && !GrowWorkspace(needed)) [[unlikely]]
    return SetError(OutOfMemory());
  int32_t code = kernel.recipe == nullptr ? kernel.function(buffers_.data(), symbols_.data(), &context_)
                                          : RunRecipeOf(kernel, workspace_bytes);
  switch (code) {
    [[likely]] case kRvmOk:
      // Calls of kernels are too few and too long for the budget of jumps and calls.
      if (stop_.load(std::memory_order_relaxed) != 0) [[unlikely]]
        return SetError(Stopped());
      return true;
    case kRvmCancelled: return SetError(Stopped());
    case kRvmIndexOutOfRange:
      return SetError(absl::InvalidArgumentError(absl::StrCat("an index is out of range in ", Describe(kernel))));
    case kRecipeStoresOutside:
      return SetError(absl::InvalidArgumentError(
          absl::StrCat("the recipe of ", Describe(kernel), " writes outside its results: the file is damaged")));
    default: return SetError(absl::InternalError(absl::StrCat(Describe(kernel), " failed with code ", code)));
  }
}

bool Interpreter::CallStaticKernel(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  BindArgs(call, r);
  void** outputs = buffers_.data() + kernel.params.size();
  for (size_t i = 0, count = kernel.results.size(); i < count; ++i) {
    const KernelInfo::TensorInfo& result = kernel.results[i];
    if (result.scalar) {
      outputs[i] = &scalars_[i];
      continue;
    }
    uint32_t offset = call.offsets == nullptr ? kNoOffset : Read32(call.offsets + 2 * i);
    Tensor* tensor = offset != kNoOffset ? PlaceTensor(call.window + offset, result) : TakeArg(result);
    if (tensor == nullptr) tensor = heap_.NewTensor(result.dtype, result.dims, result.bytes, true);
    if (tensor == nullptr) [[unlikely]]
      return SetError(OutOfMemory());
    outputs[i] = tensor->data;
    // An output's register owns nothing, now that moved_ holds what the call uses up: it can be written before it.
    r[call.dsts[1 + i]] = AsSlot(tensor);
  }
  if (!RunKernel(kernel, kernel.static_workspace)) [[unlikely]]
    return false;
  DropMoved();
  if (kernel.has_scalars) StoreScalars(call, r);
  return true;
}

bool Interpreter::BindDims(const std::vector<KernelInfo::Bind>& binds, const KernelCall& call, Slot* r) {
  for (const KernelInfo::Bind& bind : binds) {
    int64_t extent = ArgTensor(call.args[1 + bind.param], r)->dims[bind.axis];
    if (bind.symbol >= 0) {
      symbols_[static_cast<size_t>(bind.symbol)] = extent;
      continue;
    }
    std::optional<int64_t> expected = bind.expected.Evaluate(symbols_);
    if (!expected) return SetError(TooLarge(*call.kernel));
    if (extent != *expected) {
      return SetError(absl::InvalidArgumentError(absl::StrCat("argument ", bind.param + 1, " of ",
                                                              Describe(*call.kernel), " has extent ", extent,
                                                              " on axis ", bind.axis, "; expected ", *expected)));
    }
  }
  return true;
}

bool Interpreter::BindSymbols(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  if (!BindDims(kernel.binds, call, r)) return false;
  for (const KernelInfo::ValueBind& value : kernel.values) {
    uint16_t arg = call.args[1 + value.param];
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

bool Interpreter::CallDynamicKernel(const KernelCall& call, Slot* r) {
  const KernelInfo& kernel = *call.kernel;
  if (!BindSymbols(call, r)) [[unlikely]]
    return false;
  BindArgs(call, r);
  void** outputs = buffers_.data() + kernel.params.size();
  for (size_t i = 0; i < kernel.results.size(); ++i) {
    const KernelInfo::TensorInfo& result = kernel.results[i];
    if (result.scalar) {
      outputs[i] = &scalars_[i];
      continue;
    }
    if (Tensor* taken = TakeArg(result); taken != nullptr) {
      outputs[i] = taken->data;
      r[call.dsts[1 + i]] = AsSlot(taken);
      continue;
    }
    Shape shape;
    int64_t bytes = result.dtype.bytes();
    bool too_big = false;
    bool empty = false;
    for (const DimProgram& program : result.programs) {
      std::optional<int64_t> extent = program.Evaluate(symbols_);
      if (!extent) return SetError(TooLarge(kernel));
      shape.push_back(*extent);
      empty |= shape.back() == 0;
      too_big |= __builtin_mul_overflow(bytes, shape.back(), &bytes);
    }
    if (empty) {
      bytes = 0;
      too_big = false;
    }
    if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; })) {
      return SetError(absl::InvalidArgumentError(
          absl::StrCat("result ", i + 1, " of ", Describe(kernel), " would have the shape ", ShapeToString(shape))));
    }
    Tensor* tensor = too_big ? nullptr : heap_.NewTensor(result.dtype, {shape.data(), shape.size()}, bytes, false);
    if (tensor == nullptr) [[unlikely]]
      return SetError(OutOfMemory());
    outputs[i] = tensor->data;
    r[call.dsts[1 + i]] = AsSlot(tensor);
  }
  std::optional<int64_t> workspace = kernel.workspace.Evaluate(symbols_);
  if (!workspace || *workspace < 0) return SetError(OutOfMemory());
  if (!RunKernel(kernel, *workspace)) [[unlikely]]
    return false;
  DropMoved();
  StoreScalars(call, r);
  return true;
}

}  // namespace rvm::vm
