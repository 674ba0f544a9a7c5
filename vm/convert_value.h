// Converts values into and out of a machine. Both functions call `poll` regularly; its error ends the conversion.
#ifndef RVM_VM_CONVERT_VALUE_H_
#define RVM_VM_CONVERT_VALUE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "serialization/executable.h"
#include "vm/link_info.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {

// The value as a register of `type` holds it. Tensors point to the value's elements, so the
// value must outlive them. kInvalidArgument: "saw ...; expected ..."; kResourceExhausted.
absl::StatusOr<Slot> ImportValue(const Executable& executable, const LinkInfo& link, Heap& heap, const Value& value,
                                 TypeId type, absl::FunctionRef<absl::Status()> poll);

// The value in a register of `type`. Big tensors leave the heap with their memory, others are copied. The slot keeps
// its count and must be dropped. Shared parts stay shared. kInvalidArgument for a cycle of references, which a Value
// cannot represent. `fetch` gives a tensor its elements, if it has none on the host. `profiler`, if not null, counts
// each tensor.
absl::StatusOr<Value> ExportValue(const Executable& executable, const LinkInfo& link, Heap& heap, Slot slot,
                                  TypeId type, absl::FunctionRef<absl::Status()> poll,
                                  absl::FunctionRef<absl::Status(Tensor*)> fetch, Profiler* profiler = nullptr);

}  // namespace rvm::vm

#endif  // RVM_VM_CONVERT_VALUE_H_
