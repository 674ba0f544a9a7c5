// The types of a program for the C interface: tensors, tuples, ADTs, functions, and the entries that take and give
// them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "capi/handles.h"
#include "capi/sized_struct.h"
#include "capi/tensor.h"

namespace rvm::capi {
namespace {

rvm_kind KindOf(TypeDescKind kind) {
  switch (kind) {
    case TypeDescKind::kScalar:
    case TypeDescKind::kTensor: return RVM_TENSOR;
    case TypeDescKind::kTuple: return RVM_TUPLE;
    case TypeDescKind::kAdt: return RVM_ADT;
    case TypeDescKind::kClosure: return RVM_CLOSURE;
    case TypeDescKind::kRef: return RVM_REF;
    case TypeDescKind::kShell: return RVM_NONE;
  }
  return RVM_NONE;
}

// "`type` is 12; expected less than 7"
rvm_error* CheckIndex(const char* name, size_t index, size_t count) {
  if (index < count) return nullptr;
  std::string expected = count == 0 ? "there are none" : absl::StrCat("expected less than ", count);
  return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("`", name, "` is ", index, "; ", expected));
}

template <typename T>
rvm_error* CheckOut(const T* out, const char* type) {
  if (out == nullptr) return NullArgument("out", type);
  absl::Status status = CheckStructSize(out->struct_size, type);
  return status.ok() ? nullptr : ErrorOf(status, RVM_INVALID_ARGUMENT);
}

template <typename T>
rvm_error* Give(T info, T* out) {
  info.struct_size = sizeof(info);
  WriteStruct(info, out);
  return nullptr;
}

rvm_error* GetNamed(const std::vector<NamedType>& named, size_t index, rvm_named_type* out) {
  if (rvm_error* error = CheckIndex("index", index, named.size())) return error;
  if (rvm_error* error = CheckOut(out, "rvm_named_type")) return error;
  const NamedType& found = named[index];
  return Give({.struct_size = 0, .type = found.type.value, .name = found.name.c_str(), .text = found.text.c_str()},
              out);
}

// Null if there is no such entry.
const EntryInterface* EntryOf(const rvm_program* program, size_t entry) {
  if (!rvm_program::Is(program) || entry >= program->interface.entries.size()) return nullptr;
  return &program->interface.entries[entry];
}

rvm_error* CheckEntry(const rvm_program* program, size_t entry) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  return CheckIndex("entry", entry, program->interface.entries.size());
}

}  // namespace
}  // namespace rvm::capi

using rvm::capi::CheckIndex;
using rvm::capi::CheckOut;

size_t rvm_program_type_count(const rvm_program* program) {
  return rvm_program::Is(program) ? program->interface.types.size() : 0;
}

rvm_error* rvm_program_get_type(const rvm_program* program, size_t type, rvm_type_info* out) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  if (rvm_error* error = CheckIndex("type", type, program->interface.types.size())) return error;
  if (rvm_error* error = CheckOut(out, "rvm_type_info")) return error;
  const rvm::Executable& executable = program->program->executable();
  const rvm::TypeDesc& desc = executable.types[type];
  const rvm::capi::Interface::Type& shown = program->interface.types[type];
  rvm_type_info info = {};
  info.kind = rvm::capi::KindOf(desc.kind);
  info.text = shown.text.c_str();
  switch (info.kind) {
    case RVM_TENSOR:
      info.dtype = rvm::capi::FromDataType(desc.dtype);
      info.rank = static_cast<uint32_t>(desc.dims.size());
      info.shape = desc.dims.data();
      break;
    case RVM_ADT:
      info.constructor_count = static_cast<uint32_t>(executable.adts[desc.adt.value].constructors.size());
      break;
    case RVM_TUPLE:
    case RVM_REF:
    case RVM_CLOSURE:
      info.field_count = static_cast<uint32_t>(shown.fields.size());
      info.fields = shown.fields.data();
      if (info.kind == RVM_CLOSURE) info.result = desc.result.value;
      break;
    case RVM_NONE: break;
  }
  return rvm::capi::Give(info, out);
}

rvm_error* rvm_program_get_constructor(const rvm_program* program, size_t type, size_t tag, rvm_constructor_info* out) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  if (rvm_error* error = CheckIndex("type", type, program->interface.types.size())) return error;
  const rvm::Executable& executable = program->program->executable();
  const rvm::TypeDesc& desc = executable.types[type];
  bool is_adt = desc.kind == rvm::TypeDescKind::kAdt;
  if (rvm_error* error = CheckIndex("tag", tag, is_adt ? executable.adts[desc.adt.value].constructors.size() : 0)) {
    return error;
  }
  if (rvm_error* error = CheckOut(out, "rvm_constructor_info")) return error;
  const std::vector<uint32_t>& fields = program->interface.constructors[desc.adt.value][tag];
  return rvm::capi::Give({.struct_size = 0,
                          .field_count = static_cast<uint32_t>(fields.size()),
                          .fields = fields.data(),
                          .name = executable.adts[desc.adt.value].constructors[tag].name.c_str()},
                         out);
}

size_t rvm_program_parameter_count(const rvm_program* program, size_t entry) {
  const rvm::capi::EntryInterface* found = rvm::capi::EntryOf(program, entry);
  return found == nullptr ? 0 : found->parameters.size();
}

size_t rvm_program_result_count(const rvm_program* program, size_t entry) {
  const rvm::capi::EntryInterface* found = rvm::capi::EntryOf(program, entry);
  return found == nullptr ? 0 : found->results.size();
}

rvm_error* rvm_program_get_parameter(const rvm_program* program, size_t entry, size_t index, rvm_named_type* out) {
  if (rvm_error* error = rvm::capi::CheckEntry(program, entry)) return error;
  return rvm::capi::GetNamed(program->interface.entries[entry].parameters, index, out);
}

rvm_error* rvm_program_get_result(const rvm_program* program, size_t entry, size_t index, rvm_named_type* out) {
  if (rvm_error* error = rvm::capi::CheckEntry(program, entry)) return error;
  return rvm::capi::GetNamed(program->interface.entries[entry].results, index, out);
}
