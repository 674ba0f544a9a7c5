// Values of the C interface.
#include "base/value.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "capi/dlpack.h"
#include "capi/handles.h"
#include "capi/sized_struct.h"
#include "capi/tensor.h"
#include "vm/values/value_text.h"

namespace rvm::capi {
namespace {

rvm_error* Give(absl::StatusOr<Literal> tensor, rvm_value** out) {
  if (!tensor.ok()) return ErrorOf(tensor.status(), RVM_INVALID_ARGUMENT);
  *out = new rvm_value(Value::Tensor(*std::move(tensor)));
  return nullptr;
}

rvm_error* ReadFields(rvm_value* const* given, size_t count, const char* name, std::vector<Value>& fields) {
  if (given == nullptr && count > 0) return NullArgument(name, "array of rvm_value*");
  for (size_t i = 0; i < count; ++i) {
    if (rvm_error* error = rvm_value::Check(given[i], absl::StrCat(name, "[", i, "]"))) return error;
    fields.push_back(given[i]->value);
  }
  return nullptr;
}

const Literal* TensorOf(const rvm_value* value) {
  return rvm_value::Is(value) && value->value.kind() == ValueKind::kTensor ? &value->value.tensor() : nullptr;
}

// Returns the elements of a list, Cons(.., Nil).
absl::StatusOr<std::vector<const Value*>> ElementsOf(const Value& list) {
  std::vector<const Value*> elements;
  const Value* at = &list;
  for (; at->kind() == ValueKind::kAdt && at->name() == "Cons" && at->fields().size() == 2; at = &at->fields()[1]) {
    elements.push_back(at->fields().data());
  }
  if (at->kind() == ValueKind::kAdt && at->name() == "Nil") return elements;
  return absl::InvalidArgumentError("the value is no list; expected Cons(.., Nil)");
}

// Moves the elements into a list.
Value MakeList(std::vector<Value> elements) {
  Value list = Value::Adt("Nil", {});
  for (size_t i = elements.size(); i-- > 0;) {
    std::vector<Value> fields;  // from an initializer list they would be copied
    fields.reserve(2);
    fields.push_back(std::move(elements[i]));
    fields.push_back(std::move(list));
    list = Value::Adt("Cons", std::move(fields));
  }
  return list;
}

std::vector<Value> SlicesOf(const Literal& tensor) {
  Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
  int64_t count = tensor.shape()[0];
  std::vector<Value> slices;
  slices.reserve(static_cast<size_t>(count));
  int64_t bytes = count == 0 ? 0 : tensor.bytes() / count;
  std::shared_ptr<const Literal> owner;
  if (!shape.empty()) owner = std::make_shared<const Literal>(tensor);
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* data = tensor.data() + i * bytes;
    slices.push_back(Value::Tensor(shape.empty()
                                       ? Literal::FromBytes(tensor.dtype(), {}, {data, static_cast<size_t>(bytes)})
                                       : Literal(tensor.dtype(), shape, Buffer::Borrow(data, bytes, owner))));
  }
  return slices;
}

absl::StatusOr<Literal> Stack(const std::vector<const Value*>& elements) {
  if (elements.empty()) return absl::InvalidArgumentError("the list is empty: its elements have no dtype and no shape");
  auto describe = [](const Value& value) {
    if (value.kind() != ValueKind::kTensor) return std::string("no tensor");
    return absl::StrCat(value.tensor().dtype().ToString(), " of shape ", ShapeToString(value.tensor().shape()));
  };
  const Value& first = *elements[0];
  for (size_t i = 0; i < elements.size(); ++i) {
    const Value& element = *elements[i];
    if (element.kind() == ValueKind::kTensor && first.kind() == ValueKind::kTensor &&
        element.tensor().dtype() == first.tensor().dtype() && element.tensor().shape() == first.tensor().shape()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("element ", i, " is ", describe(element), ", element 0 is ",
                                                   describe(first), "; expected tensors of one dtype and shape"));
  }
  Shape shape = first.tensor().shape();
  shape.insert(shape.begin(), static_cast<int64_t>(elements.size()));
  int64_t bytes = first.tensor().bytes();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes * static_cast<int64_t>(elements.size()));
  std::byte* at = buffer->data();
  for (const Value* element : elements) {
    if (bytes > 0) std::memcpy(at, element->tensor().data(), static_cast<size_t>(bytes));
    at += bytes;
  }
  return Literal(first.tensor().dtype(), std::move(shape), std::move(buffer));
}

bool HasFields(const Value& value) {
  return value.kind() == ValueKind::kTuple || value.kind() == ValueKind::kAdt || value.kind() == ValueKind::kRef;
}

rvm_error* CheckScalar(const rvm_value* value, bool is_integer) {
  if (rvm_error* error = rvm_value::Check(value, "value")) return error;
  const Literal* tensor = TensorOf(value);
  if (tensor == nullptr) return NewError(RVM_INVALID_ARGUMENT, "the value is no tensor; expected a scalar");
  if (tensor->rank() != 0) {
    return NewError(RVM_INVALID_ARGUMENT,
                    absl::StrCat("saw a tensor of shape ", ShapeToString(tensor->shape()), "; expected a scalar"));
  }
  if (is_integer && !tensor->dtype().is_integral()) {
    return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("saw ", tensor->dtype().ToString(), "; expected an integer"));
  }
  return nullptr;
}

// ---- functions

// A function of the host, in C.
class HostFunction : public FunctionObject {
 public:
  HostFunction(rvm_function function, void (*release)(void*), void* context)
      : function_(function), release_(release), context_(context) {}
  ~HostFunction() override {
    if (release_ != nullptr) release_(context_);
  }

  absl::StatusOr<Value> Call(std::span<const Value> args) override {
    std::vector<rvm_value*> handles;
    for (const Value& arg : args) handles.push_back(new rvm_value(arg));
    rvm_value* result = nullptr;
    rvm_error* error = function_(context_, handles.data(), handles.size(), &result);
    for (rvm_value* handle : handles) rvm_value::Release(handle);
    if (error != nullptr) {
      // The run ends with it, so its message is this run's, and its backtrace that of another run.
      std::string message = rvm_error_message(error);
      rvm_error::Release(error);
      if (rvm_value::Is(result)) rvm_value::Release(result);
      return absl::AbortedError(message);
    }
    if (result == nullptr) return Value();
    if (!rvm_value::Is(result)) {
      return absl::AbortedError("a function of the host gave something that is no value");
    }
    Value value = result->value;
    rvm_value::Release(result);
    return value;
  }

 private:
  rvm_function function_;
  void (*release_)(void*);
  void* context_;
};

// ---- DLPack

template <typename Managed>
rvm_error* FromDlpack(Managed* managed, rvm_value** out) {
  if (managed == nullptr) return NullArgument("tensor", "DLManagedTensor");
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.type != kHostDevice) {
    return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("the tensor is on device type ", tensor.device.type,
                                                       "; expected 1, memory of the host: copy it there first"));
  }
  if (tensor.ndim < 0) return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("saw rank ", tensor.ndim));
  ForeignTensor foreign = {tensor.dtype, tensor.shape, static_cast<size_t>(tensor.ndim), tensor.strides,
                           static_cast<const std::byte*>(tensor.data) + tensor.byte_offset};
  if (tensor.data == nullptr) foreign.data = nullptr;
  // Checked first: after an error the tensor stays the caller's.
  absl::StatusOr<Shape> shape = CheckShape(foreign);
  if (!shape.ok()) return ErrorOf(shape.status(), RVM_INVALID_ARGUMENT);
  std::shared_ptr<const void> owner(managed, [](Managed* m) {
    if (m->deleter != nullptr) m->deleter(m);
  });
  return Give(ShareTensor(foreign, std::move(owner)), out);
}

template <typename Managed>
struct Exported {
  Managed managed = {};
  Literal tensor;
};

template <typename Managed>
rvm_error* ToDlpack(rvm_value* value, Managed** out) {
  if (rvm_error* error = rvm_value::Check(value, "value")) return error;
  if (out == nullptr) return NullArgument("out", "DLManagedTensor*");
  const Literal* tensor = TensorOf(value);
  if (tensor == nullptr) return NewError(RVM_INVALID_ARGUMENT, "the value is no tensor; only tensors go to DLPack");
  auto* exported = new Exported<Managed>{.tensor = *tensor};
  const Literal& shared = exported->tensor;
  exported->managed.dl_tensor = {.data = const_cast<std::byte*>(shared.data()),
                                 .device = {kHostDevice, 0},
                                 .ndim = static_cast<int32_t>(shared.rank()),
                                 .dtype = FromDataType(shared.dtype()),
                                 .shape = const_cast<int64_t*>(shared.shape().data()),
                                 .strides = nullptr,
                                 .byte_offset = 0};
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  *out = &exported->managed;
  return nullptr;
}

}  // namespace
}  // namespace rvm::capi

using rvm::Literal;
using rvm::Value;
using rvm::ValueKind;
using rvm::capi::ErrorOf;
using rvm::capi::NewError;
using rvm::capi::NullArgument;

rvm_error* rvm_value_tensor_copy(rvm_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                 rvm_value** out) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  return rvm::capi::Give(rvm::capi::CopyTensor({dtype, shape, rank, nullptr, data}), out);
}

rvm_error* rvm_value_tensor_borrow(rvm_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                   void (*release)(void* context), void* context, rvm_value** out) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  rvm::capi::ForeignTensor tensor = {dtype, shape, rank, nullptr, data};
  absl::StatusOr<rvm::Shape> checked = rvm::capi::CheckShape(tensor);
  if (!checked.ok()) return ErrorOf(checked.status(), RVM_INVALID_ARGUMENT);
  // Not the context: it may be NULL.
  std::shared_ptr<const void> owner(data, [release, context](const void*) {
    if (release != nullptr) release(context);
  });
  return rvm::capi::Give(rvm::capi::ShareTensor(tensor, std::move(owner)), out);
}

rvm_error* rvm_value_scalar_int(rvm_dtype dtype, int64_t number, rvm_value** out) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  absl::StatusOr<rvm::DataType> type = rvm::capi::ToDataType(dtype);
  if (!type.ok()) return ErrorOf(type.status(), RVM_INVALID_ARGUMENT);
  return rvm::capi::Give(Literal::ScalarInt(*type, number), out);
}

rvm_error* rvm_value_scalar_float(rvm_dtype dtype, double number, rvm_value** out) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  absl::StatusOr<rvm::DataType> type = rvm::capi::ToDataType(dtype);
  if (!type.ok()) return ErrorOf(type.status(), RVM_INVALID_ARGUMENT);
  return rvm::capi::Give(Literal::Scalar(*type, number), out);
}

rvm_error* rvm_value_from_dlpack(DLManagedTensorVersioned* tensor, rvm_value** out) {
  if (tensor != nullptr && tensor->major > rvm::capi::kDlpackMajor) {
    return NewError(RVM_INVALID_ARGUMENT,
                    absl::StrCat("the tensor is of DLPack ", tensor->major, ".", tensor->minor, "; expected 1"));
  }
  return rvm::capi::FromDlpack(tensor, out);
}

rvm_error* rvm_value_from_dlpack_unversioned(DLManagedTensor* tensor, rvm_value** out) {
  return rvm::capi::FromDlpack(tensor, out);
}

rvm_error* rvm_value_to_dlpack(rvm_value* value, DLManagedTensorVersioned** out) {
  rvm_error* error = rvm::capi::ToDlpack(value, out);
  if (error != nullptr) return error;
  (*out)->major = rvm::capi::kDlpackMajor;
  (*out)->flags = rvm::capi::kReadOnly;
  return nullptr;
}

rvm_error* rvm_value_to_dlpack_unversioned(rvm_value* value, DLManagedTensor** out) {
  return rvm::capi::ToDlpack(value, out);
}

rvm_error* rvm_value_tuple(rvm_value* const* fields, size_t count, rvm_value** out) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  std::vector<Value> values;
  if (rvm_error* error = rvm::capi::ReadFields(fields, count, "fields", values)) return error;
  *out = new rvm_value(Value::Tuple(std::move(values)));
  return nullptr;
}

rvm_error* rvm_value_adt(const char* constructor, rvm_value* const* fields, size_t count, rvm_value** out) {
  if (constructor == nullptr) return NullArgument("constructor", "name of a constructor");
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  std::vector<Value> values;
  if (rvm_error* error = rvm::capi::ReadFields(fields, count, "fields", values)) return error;
  *out = new rvm_value(Value::Adt(constructor, std::move(values)));
  return nullptr;
}

rvm_error* rvm_value_list(rvm_value* const* elements, size_t count, rvm_value** out) {
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  std::vector<Value> values;
  if (rvm_error* error = rvm::capi::ReadFields(elements, count, "elements", values)) return error;
  *out = new rvm_value(rvm::capi::MakeList(std::move(values)));
  return nullptr;
}

rvm_error* rvm_value_list_from_tensor(const rvm_value* tensor, rvm_value** out) {
  if (rvm_error* error = rvm_value::Check(tensor, "tensor")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  const Literal* literal = rvm::capi::TensorOf(tensor);
  if (literal == nullptr || literal->rank() == 0) {
    return NewError(RVM_INVALID_ARGUMENT, "argument `tensor`: saw a value without an axis; expected a tensor with one");
  }
  *out = new rvm_value(rvm::capi::MakeList(rvm::capi::SlicesOf(*literal)));
  return nullptr;
}

rvm_error* rvm_value_list_to_tensor(const rvm_value* list, rvm_value** out) {
  if (rvm_error* error = rvm_value::Check(list, "list")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  absl::StatusOr<std::vector<const Value*>> elements = rvm::capi::ElementsOf(list->value);
  if (!elements.ok()) return ErrorOf(elements.status(), RVM_INVALID_ARGUMENT);
  return rvm::capi::Give(rvm::capi::Stack(*elements), out);
}

rvm_error* rvm_value_ref(rvm_value* contents, rvm_value** out) {
  if (rvm_error* error = rvm_value::Check(contents, "contents")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  *out = new rvm_value(Value::Ref(contents->value));
  return nullptr;
}

rvm_error* rvm_value_function(rvm_function function, void (*release)(void* context), void* context, rvm_value** out) {
  if (function == nullptr) return NullArgument("function", "rvm_function");
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  auto object = std::make_shared<rvm::capi::HostFunction>(function, release, context);
  *out = new rvm_value(Value::Function("function of the host", std::move(object)));
  return nullptr;
}

int64_t rvm_value_function_type(const rvm_value* value) {
  if (!rvm_value::Is(value) || value->value.kind() != ValueKind::kClosure) return -1;
  const std::shared_ptr<rvm::FunctionObject>& function = value->value.function();
  return function == nullptr ? -1 : function->type_index();
}

rvm_error* rvm_value_parse(const rvm_program* program, const char* entry_name, size_t parameter, const char* text,
                           rvm_value** out) {
  if (rvm_error* error = rvm_program::Check(program, "program")) return error;
  if (entry_name == nullptr) return NullArgument("entry", "name of an entry");
  if (text == nullptr) return NullArgument("text", "text of a value");
  if (out == nullptr) return NullArgument("out", "rvm_value*");
  const rvm::Executable& executable = program->program->executable();
  const rvm::Entry* entry = executable.FindEntry(entry_name);
  if (entry == nullptr)
    return NewError(RVM_INVALID_ARGUMENT, absl::StrCat("the program has no entry `", entry_name, "`"));
  const rvm::FunctionDesc& function = executable.functions[entry->function.value];
  if (parameter >= function.num_params) {
    return NewError(RVM_INVALID_ARGUMENT,
                    absl::StrCat("saw parameter ", parameter, "; `", entry_name, "` takes ", function.num_params));
  }
  absl::StatusOr<Value> value = rvm::vm::ParseValueText(executable, function.registers[parameter].type, text);
  if (!value.ok()) return ErrorOf(value.status(), RVM_INVALID_ARGUMENT);
  *out = new rvm_value(*std::move(value));
  return nullptr;
}

rvm_value* rvm_value_retain(rvm_value* value) { return rvm_value::Retain(value); }
void rvm_value_release(rvm_value* value) { rvm_value::Release(value); }

rvm_kind rvm_value_kind(const rvm_value* value) {
  if (!rvm_value::Is(value)) return RVM_NONE;
  switch (value->value.kind()) {
    case ValueKind::kTensor: return RVM_TENSOR;
    case ValueKind::kTuple: return RVM_TUPLE;
    case ValueKind::kAdt: return RVM_ADT;
    case ValueKind::kRef: return RVM_REF;
    case ValueKind::kClosure: return RVM_CLOSURE;
  }
  return RVM_NONE;
}

const char* rvm_value_constructor(const rvm_value* value) {
  return rvm_value_kind(value) == RVM_ADT ? value->value.name().c_str() : nullptr;
}

size_t rvm_value_field_count(const rvm_value* value) {
  return rvm_value::Is(value) && rvm::capi::HasFields(value->value) ? value->value.fields().size() : 0;
}

rvm_value* rvm_value_field(const rvm_value* value, size_t index) {
  return index < rvm_value_field_count(value) ? new rvm_value(value->value.fields()[index]) : nullptr;
}

rvm_error* rvm_value_list_elements(const rvm_value* value, rvm_value** out, size_t capacity, size_t* count) {
  if (rvm_error* error = rvm_value::Check(value, "value")) return error;
  if (out == nullptr && capacity > 0) return NullArgument("out", "array for rvm_value*");
  if (count == nullptr) return NullArgument("count", "size_t");
  absl::StatusOr<std::vector<const Value*>> elements = rvm::capi::ElementsOf(value->value);
  if (!elements.ok()) return ErrorOf(elements.status(), RVM_INVALID_ARGUMENT);
  for (size_t i = 0; i < elements->size() && i < capacity; ++i) out[i] = new rvm_value(*(*elements)[i]);
  *count = elements->size();
  return nullptr;
}

rvm_dtype rvm_value_dtype(const rvm_value* value) {
  const Literal* tensor = rvm::capi::TensorOf(value);
  return tensor == nullptr ? rvm_dtype{} : rvm::capi::FromDataType(tensor->dtype());
}

size_t rvm_value_rank(const rvm_value* value) {
  const Literal* tensor = rvm::capi::TensorOf(value);
  return tensor == nullptr ? 0 : tensor->shape().size();
}

const int64_t* rvm_value_shape(const rvm_value* value) {
  const Literal* tensor = rvm::capi::TensorOf(value);
  return tensor == nullptr ? nullptr : tensor->shape().data();
}

const void* rvm_value_data(const rvm_value* value) {
  const Literal* tensor = rvm::capi::TensorOf(value);
  return tensor == nullptr ? nullptr : tensor->data();
}

rvm_error* rvm_value_get_info(const rvm_value* value, rvm_value_info* out) {
  if (rvm_error* error = rvm_value::Check(value, "value")) return error;
  if (out == nullptr) return NullArgument("out", "rvm_value_info");
  absl::Status status = rvm::capi::CheckStructSize(out->struct_size, "rvm_value_info");
  if (!status.ok()) return ErrorOf(status, RVM_INVALID_ARGUMENT);
  rvm_value_info all = {.struct_size = sizeof(all),
                        .kind = rvm_value_kind(value),
                        .dtype = rvm_value_dtype(value),
                        .rank = static_cast<uint32_t>(rvm_value_rank(value)),
                        .shape = rvm_value_shape(value),
                        .data = rvm_value_data(value),
                        .constructor = rvm_value_constructor(value),
                        .field_count = rvm_value_field_count(value)};
  rvm::capi::WriteStruct(all, out);
  return nullptr;
}

rvm_error* rvm_value_get_int(const rvm_value* value, int64_t* out) {
  if (rvm_error* error = rvm::capi::CheckScalar(value, true)) return error;
  if (out == nullptr) return NullArgument("out", "int64_t");
  *out = value->value.tensor().IntAt(0);
  return nullptr;
}

rvm_error* rvm_value_get_float(const rvm_value* value, double* out) {
  if (rvm_error* error = rvm::capi::CheckScalar(value, false)) return error;
  if (out == nullptr) return NullArgument("out", "double");
  *out = value->value.tensor().DoubleAt(0);
  return nullptr;
}

char* rvm_value_to_string(const rvm_value* value) {
  return rvm_value::Is(value) ? strdup(value->value.ToString().c_str()) : nullptr;
}
