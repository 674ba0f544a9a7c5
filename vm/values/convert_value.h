// Converts values into and out of a machine. Both functions call `poll` regularly; its error ends the conversion.
#ifndef RVM_VM_VALUES_CONVERT_VALUE_H_
#define RVM_VM_VALUES_CONVERT_VALUE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "serialization/executable.h"
#include "vm/link/link_info.h"
#include "vm/memory/heap.h"
#include "vm/profiler/profiler.h"

namespace rvm::vm {

// Converts the functions that values contain.
class FunctionConverter {
 public:
  virtual ~FunctionConverter() = default;
  // Returns a closure of that type. kInvalidArgument: "saw ...; expected ..."; kResourceExhausted.
  virtual absl::StatusOr<Slot> Import(const Value& function, TypeId type) = 0;
  virtual Value Export(Slot closure, TypeId type) = 0;
};

// Returns the value as a register of `type` holds it. Tensors are copied if `copies`; otherwise they point to the
// value's elements, and the value must outlive them. kInvalidArgument: "saw ...; expected ..."; kResourceExhausted.
absl::StatusOr<Slot> ImportValue(const Executable& executable, const LinkInfo& link, Heap& heap, const Value& value,
                                 TypeId type, absl::FunctionRef<absl::Status()> poll, FunctionConverter& functions,
                                 bool copies);

// Returns the value in a register of `type`. Big tensors leave the heap with their memory, others are copied. The slot
// keeps its count and must be dropped. Shared parts stay shared. kInvalidArgument for a cycle of references, which a
// Value cannot represent. `is_shared`: the heap also has objects that are not in the slot; tensors that these may own
// are copied. `fetch` gives a tensor its elements, if it has none on the host. `profiler`, if not null, counts each
// tensor.
absl::StatusOr<Value> ExportValue(const Executable& executable, Heap& heap, Slot slot, TypeId type,
                                  absl::FunctionRef<absl::Status()> poll,
                                  absl::FunctionRef<absl::Status(Tensor*)> fetch, FunctionConverter& functions,
                                  bool is_shared, Profiler* profiler = nullptr);

}  // namespace rvm::vm

#endif  // RVM_VM_VALUES_CONVERT_VALUE_H_
