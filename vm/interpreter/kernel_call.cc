#include "vm/interpreter/kernel_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace rvm::vm {
namespace {

size_t HeaderSlots(const Literal& literal) { return sizeof(Tensor) / sizeof(Slot) + literal.shape().size(); }

}  // namespace

ConstantTensors::ConstantTensors(const std::vector<Literal>& constants) {
  size_t slots = 0;
  for (const Literal& literal : constants) slots += HeaderSlots(literal);
  headers_ = std::make_unique<Slot[]>(slots + 1);
  Slot* place = headers_.get();
  for (const Literal& literal : constants) {
    auto* tensor = reinterpret_cast<Tensor*>(place);
    tensor->object = {kImmortal, 0, kTensorLayout};
    tensor->dtype = literal.dtype();
    tensor->rank = static_cast<uint16_t>(literal.rank());
    tensor->storage = TensorStorage::kBorrowed;
    tensor->inline_dims = true;
    tensor->data = const_cast<std::byte*>(literal.data());  // never an output
    tensor->owner = nullptr;
    tensor->dims = tensor->dims_after_header();
    std::copy(literal.shape().begin(), literal.shape().end(), tensor->dims_after_header());
    tensors_.push_back(tensor);
    place += HeaderSlots(literal);
  }
}

bool ResultShape::Evaluate(const KernelInfo::TensorInfo& result, std::span<const int64_t> symbols) {
  rank = 0;
  bytes = result.dtype.bytes();
  bool too_big = false;
  bool empty = false;
  for (const DimProgram& program : result.programs) {
    std::optional<int64_t> extent = program.Evaluate(symbols);
    if (!extent || *extent < 0) [[unlikely]]
      return false;
    dims[rank++] = *extent;
    empty |= *extent == 0;
    too_big |= __builtin_mul_overflow(bytes, *extent, &bytes);
  }
  if (empty) {
    bytes = 0;
  } else if (too_big) {
    bytes = Heap::kUncountable;
  }
  return true;
}

std::string Describe(const KernelInfo& kernel) { return absl::StrCat("kernel `", kernel.desc->name, "`"); }

absl::Status OutOfMemory(const Heap& heap, const RunControl& control) {
  RVM_RETURN_IF_ERROR(control.Poll());
  return heap.OutOfMemory();
}

absl::Status TooLarge(const KernelInfo& kernel) {
  return absl::InvalidArgumentError(absl::StrCat("an extent of ", Describe(kernel), " is too large"));
}

absl::Status ShapeError(const KernelInfo& kernel, size_t result, std::span<const int64_t> symbols) {
  Shape shape;
  for (const DimProgram& program : kernel.results[result].programs) {
    std::optional<int64_t> extent = program.Evaluate(symbols);
    if (!extent) return TooLarge(kernel);
    shape.push_back(*extent);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("result ", result + 1, " of ", Describe(kernel), " would have the shape ", ShapeToString(shape)));
}

absl::Status ExtentError(const KernelInfo& kernel, const KernelInfo::Bind& bind, int64_t extent,
                         std::optional<int64_t> expected) {
  if (!expected) return TooLarge(kernel);
  return absl::InvalidArgumentError(absl::StrCat("argument ", bind.param + 1, " of ", Describe(kernel), " has extent ",
                                                 extent, " on axis ", bind.axis, "; expected ", *expected));
}

}  // namespace rvm::vm
