// Views and checks of shapes.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/execution.h"

namespace rvm::vm {
namespace {

std::string TensorText(const Tensor& tensor) {
  return absl::StrCat("Tensor[", ShapeToString(Shape(tensor.dims, tensor.dims + tensor.rank)), ", ",
                      tensor.dtype.ToString(), "]");
}

// nullopt on overflow or a negative extent.
std::optional<int64_t> CountElements(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool empty = false;
  bool overflow = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    empty |= d == 0;
    overflow |= __builtin_mul_overflow(count, d, &count);
  }
  if (empty) return 0;
  return overflow ? std::nullopt : std::optional<int64_t>(count);
}

}  // namespace

bool Execution::MakeView(const uint16_t* pc, Slot* r) {
  Tensor* source = AsTensor(r[pc[2]]);
  const TypeDesc& type = executable.types[Read32(pc + 3)];
  const uint16_t* unknown = pc + 6;
  Shape shape;
  for (int64_t d : type.dims) {
    shape.push_back(d == TypeDesc::kUnknownDim ? static_cast<int64_t>(r[*unknown++]) : d);
  }
  std::span<const int64_t> dims(shape.data(), shape.size());
  std::optional<int64_t> have = CountElements({source->dims, source->rank});
  if (CountElements(dims) != have) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("a ", TensorText(*source), " has no view of the shape ", ShapeToString(shape))));
  }
  if (source->object.count == 1 && source->inline_dims && source->rank == dims.size()) {
    std::copy(dims.begin(), dims.end(), source->dims_after_header());
    r[pc[1]] = AsSlot(source);
    return true;
  }
  Tensor* view = heap.NewView(source, dims);
  if (view == nullptr) return Fail(caller.OutOfMemory());
  r[pc[1]] = AsSlot(view);
  return true;
}

bool Execution::CheckShape(const Tensor& tensor, TypeId type) {
  const TypeDesc& expected = executable.types[type.value];
  bool agrees = tensor.rank == expected.dims.size();
  for (size_t i = 0; agrees && i < expected.dims.size(); ++i) {
    agrees = expected.dims[i] == TypeDesc::kUnknownDim || expected.dims[i] == tensor.dims[i];
  }
  if (agrees) return true;
  return Fail(absl::InvalidArgumentError(
      absl::StrCat("saw ", TensorText(tensor), "; expected ", TypeToString(executable, type))));
}

bool Execution::CheckDims(int64_t a, int64_t b, DimRelation relation) {
  if (Holds(relation, a, b)) return true;
  const char* subject = relation == DimRelation::kAtLeast ? "" : "the extent ";
  return Fail(absl::InvalidArgumentError(absl::StrCat(subject, FailureText(relation, a, b))));
}

}  // namespace rvm::vm
