#include "vm/values/convert_value.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "vm/interpreter/scalar_cast.h"
#include "vm/limits/stop_signal.h"

namespace rvm::vm {
namespace {

std::string DescribeValue(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kTensor: {
      const Literal& tensor = value.tensor();
      if (tensor.rank() == 0) return tensor.dtype().ToString();
      return absl::StrCat("Tensor[", ShapeToString(tensor.shape()), ", ", tensor.dtype().ToString(), "]");
    }
    case ValueKind::kTuple: return absl::StrCat("a tuple of ", value.fields().size());
    case ValueKind::kAdt: return absl::StrCat("`", value.name(), "` of ", value.fields().size(), " fields");
    case ValueKind::kRef: return "a reference";
    case ValueKind::kClosure: return "a function";
  }
  RVM_UNREACHABLE("a value of no kind");
}

// Works down from the root; cells are made before their fields.
class Importer {
 public:
  Importer(const Executable& executable, const LinkInfo& link, Heap& heap, FunctionConverter& functions, bool copies)
      : executable_(executable), link_(link), heap_(heap), functions_(functions), copies_(copies) {}

  absl::StatusOr<Slot> Import(const Value& value, TypeId type, absl::FunctionRef<absl::Status()> poll) {
    Slot result = 0;
    tasks_.push_back({&value, type, &result});
    for (int64_t steps = 1; !tasks_.empty(); ++steps) {
      if (steps % kStepsPerLook == 0) RVM_RETURN_IF_ERROR(poll());
      Task task = tasks_.back();
      tasks_.pop_back();
      RVM_RETURN_IF_ERROR(ImportOne(task));
    }
    return result;
  }

 private:
  struct Task {
    const Value* value;
    TypeId type;
    Slot* where;
  };

  absl::Status Mismatch(const Task& task) const {
    return absl::InvalidArgumentError(
        absl::StrCat("saw ", DescribeValue(*task.value), "; expected ", TypeToString(executable_, task.type)));
  }

  absl::Status ImportOne(const Task& task) {
    const TypeDesc& type = executable_.types[task.type.value];
    switch (type.kind) {
      case TypeDescKind::kScalar:
      case TypeDescKind::kTensor: return ImportTensor(task, type);
      case TypeDescKind::kTuple:
        if (task.value->kind() != ValueKind::kTuple) return Mismatch(task);
        return ImportCell(task, link_.layout_of_type[task.type.value], type.fields);
      case TypeDescKind::kRef:
        if (task.value->kind() != ValueKind::kRef) return Mismatch(task);
        return ImportCell(task, link_.layout_of_type[task.type.value], type.fields);
      case TypeDescKind::kAdt: return ImportAdt(task, executable_.adts[type.adt.value]);
      case TypeDescKind::kClosure: {
        if (task.value->kind() != ValueKind::kClosure) return Mismatch(task);
        RVM_ASSIGN_OR_RETURN(*task.where, functions_.Import(*task.value, task.type));
        return absl::OkStatus();
      }
      case TypeDescKind::kShell: break;  // of no parameter
    }
    RVM_UNREACHABLE("a type of no kind");
  }

  absl::Status ImportTensor(const Task& task, const TypeDesc& type) {
    if (task.value->kind() != ValueKind::kTensor) return Mismatch(task);
    const Literal& tensor = task.value->tensor();
    if (tensor.dtype() != type.dtype || tensor.shape().size() != type.dims.size()) return Mismatch(task);
    for (size_t i = 0; i < type.dims.size(); ++i) {
      if (type.dims[i] != TypeDesc::kUnknownDim && type.dims[i] != tensor.shape()[i]) return Mismatch(task);
    }
    if (type.kind == TypeDescKind::kScalar) {
      *task.where = LoadScalar(type.dtype, tensor.data());
      return absl::OkStatus();
    }
    std::span<const int64_t> dims = {tensor.shape().data(), tensor.shape().size()};
    Tensor* object = copies_ ? heap_.NewTensor(type.dtype, dims, tensor.bytes(), /*static_dims=*/false)
                             : heap_.NewBorrowed(type.dtype, dims, tensor.data());
    if (object == nullptr) return heap_.OutOfMemory();
    if (copies_ && tensor.bytes() > 0) std::memcpy(object->data, tensor.data(), static_cast<size_t>(tensor.bytes()));
    *task.where = AsSlot(object);
    return absl::OkStatus();
  }

  absl::Status ImportCell(const Task& task, uint16_t layout, const std::vector<TypeId>& types) {
    const std::vector<Value>& fields = task.value->fields();
    if (fields.size() != types.size()) return Mismatch(task);
    Object* cell = heap_.NewCell(layout);
    if (cell == nullptr) return heap_.OutOfMemory();
    *task.where = AsSlot(cell);
    // The first field is pushed last: in a long list the tail is the last field, so the stack stays short.
    for (size_t i = 0; i < fields.size(); ++i) tasks_.push_back({&fields[i], types[i], &cell->fields()[i]});
    std::reverse(tasks_.end() - static_cast<ptrdiff_t>(fields.size()), tasks_.end());
    return absl::OkStatus();
  }

  absl::Status ImportAdt(const Task& task, const AdtDesc& adt) {
    if (task.value->kind() != ValueKind::kAdt) return Mismatch(task);
    for (size_t tag = 0; tag < adt.constructors.size(); ++tag) {
      const AdtDesc::Constructor& constructor = adt.constructors[tag];
      if (constructor.name != task.value->name()) continue;
      if (!constructor.fields.empty()) {
        return ImportCell(task, static_cast<uint16_t>(constructor.layout.value + 1), constructor.fields);
      }
      if (!task.value->fields().empty()) return Mismatch(task);
      *task.where = ImmediateOf(static_cast<uint16_t>(tag));
      return absl::OkStatus();
    }
    return Mismatch(task);
  }

  const Executable& executable_;
  const LinkInfo& link_;
  Heap& heap_;
  FunctionConverter& functions_;
  bool copies_;
  std::vector<Task> tasks_;
};

// Fields first: a task visits a slot, or builds a value from those that its fields produced.
class Exporter {
 public:
  Exporter(const Executable& executable, Heap& heap, absl::FunctionRef<absl::Status(Tensor*)> fetch,
           FunctionConverter& functions, bool is_shared, Profiler* profiler)
      : executable_(executable),
        heap_(heap),
        fetch_(fetch),
        functions_(functions),
        is_shared_(is_shared),
        profiler_(profiler) {}

  absl::StatusOr<Value> Export(Slot slot, TypeId type, absl::FunctionRef<absl::Status()> poll) {
    tasks_.push_back({slot, type, false, true});
    for (int64_t steps = 1; !tasks_.empty(); ++steps) {
      if (steps % kStepsPerLook == 0) RVM_RETURN_IF_ERROR(poll());
      Task task = tasks_.back();
      tasks_.pop_back();
      if (task.build) {
        Build(task);
        continue;
      }
      RVM_RETURN_IF_ERROR(Visit(task));
    }
    return std::move(values_.back());
  }

 private:
  struct Task {
    Slot slot;
    TypeId type;
    bool build;
    bool is_owned;  // what leads to the slot has no other owner
  };

  absl::Status Visit(const Task& task) {
    const TypeDesc& type = executable_.types[task.type.value];
    if (type.kind == TypeDescKind::kScalar) {
      values_.push_back(Value::Tensor(ScalarLiteral(type.dtype, task.slot)));
      return absl::OkStatus();
    }
    if (IsImmediate(task.slot)) {
      const AdtDesc& adt = executable_.adts[type.adt.value];
      values_.push_back(Value::Adt(adt.constructors[TagOf(task.slot)].name, {}));
      return absl::OkStatus();
    }
    Object* object = AsObject(task.slot);
    if (object->count > 1) {
      if (auto done = shared_.find(object); done != shared_.end()) {
        values_.push_back(done->second);
        return absl::OkStatus();
      }
    }
    if (type.kind == TypeDescKind::kTensor) {
      if (AsTensor(task.slot)->data == nullptr) RVM_RETURN_IF_ERROR(fetch_(AsTensor(task.slot)));
      values_.push_back(ExportTensor(*AsTensor(task.slot), !is_shared_ || (task.is_owned && object->count == 1)));
      Remember(object);
      return absl::OkStatus();
    }
    if (type.kind == TypeDescKind::kClosure) {
      values_.push_back(functions_.Export(task.slot, task.type));
      Remember(object);
      return absl::OkStatus();
    }
    if (type.kind == TypeDescKind::kRef && !open_refs_.insert(object).second) {
      return absl::InvalidArgumentError("the result has a cycle of references, and so no end");
    }
    tasks_.push_back({task.slot, task.type, true, task.is_owned});
    const std::vector<TypeId>& fields = FieldTypes(type, object);
    bool is_owned = task.is_owned && object->count == 1;
    for (size_t i = fields.size(); i-- > 0;) tasks_.push_back({object->fields()[i], fields[i], false, is_owned});
    return absl::OkStatus();
  }

  const std::vector<TypeId>& FieldTypes(const TypeDesc& type, const Object* object) const {
    if (type.kind != TypeDescKind::kAdt) return type.fields;
    return executable_.adts[type.adt.value].constructors[object->tag].fields;
  }

  void Build(const Task& task) {
    const TypeDesc& type = executable_.types[task.type.value];
    Object* object = AsObject(task.slot);
    auto first = values_.end() - static_cast<ptrdiff_t>(FieldTypes(type, object).size());
    std::vector<Value> fields(std::make_move_iterator(first), std::make_move_iterator(values_.end()));
    values_.erase(first, values_.end());
    if (type.kind == TypeDescKind::kRef) {
      open_refs_.erase(object);
      values_.push_back(Value::Ref(std::move(fields[0])));
    } else if (type.kind == TypeDescKind::kTuple) {
      values_.push_back(Value::Tuple(std::move(fields)));
    } else {
      const AdtDesc& adt = executable_.adts[type.adt.value];
      values_.push_back(Value::Adt(adt.constructors[object->tag].name, std::move(fields)));
    }
    Remember(object);
  }

  void Remember(const Object* object) {
    if (object->count > 1) shared_.emplace(object, values_.back());
  }

  Value ExportTensor(Tensor& tensor, bool may_detach) {
    int64_t bytes = ElementBytes(tensor);
    std::shared_ptr<const void> owner = may_detach ? heap_.Detach(&tensor) : nullptr;
    if (profiler_ != nullptr) profiler_->CountExported(bytes, /*copied=*/owner == nullptr);
    if (owner == nullptr) return Value::Tensor(CopyElements(tensor));
    return Value::Tensor(Literal(tensor.dtype, Shape(tensor.dims, tensor.dims + tensor.rank),
                                 Buffer::Borrow(tensor.data, bytes, std::move(owner))));
  }

  const Executable& executable_;
  Heap& heap_;
  absl::FunctionRef<absl::Status(Tensor*)> fetch_;
  FunctionConverter& functions_;
  bool is_shared_;
  Profiler* profiler_;
  std::vector<Task> tasks_;
  std::vector<Value> values_;
  absl::flat_hash_map<const Object*, Value> shared_;
  absl::flat_hash_set<const Object*> open_refs_;
};

}  // namespace

absl::StatusOr<Slot> ImportValue(const Executable& executable, const LinkInfo& link, Heap& heap, const Value& value,
                                 TypeId type, absl::FunctionRef<absl::Status()> poll, FunctionConverter& functions,
                                 bool copies) {
  return Importer(executable, link, heap, functions, copies).Import(value, type, poll);
}

absl::StatusOr<Value> ExportValue(const Executable& executable, Heap& heap, Slot slot, TypeId type,
                                  absl::FunctionRef<absl::Status()> poll,
                                  absl::FunctionRef<absl::Status(Tensor*)> fetch, FunctionConverter& functions,
                                  bool is_shared, Profiler* profiler) {
  return Exporter(executable, heap, fetch, functions, is_shared, profiler).Export(slot, type, poll);
}

}  // namespace rvm::vm
