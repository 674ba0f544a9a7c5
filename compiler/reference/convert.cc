#include "compiler/reference/convert.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/ops/op_def.h"

namespace rvm::reference {
namespace {

std::string TensorText(const Literal& tensor) {
  if (tensor.rank() == 0) return tensor.dtype().ToString();
  return absl::StrCat("Tensor[", ShapeToString(tensor.shape()), ", ", tensor.dtype().ToString(), "]");
}

std::string Describe(const Value& value) {
  if (value.kind() == ValueKind::kTensor) return TensorText(value.tensor());
  std::string text = value.ToString();
  if (text.size() > 60) text = absl::StrCat(text.substr(0, 57), "...");
  return text;
}

absl::Status Mismatch(const Value& value, const ir::Type* type) {
  return absl::InvalidArgumentError(
      absl::StrCat("saw `", Describe(value), "`; expected `", ir::TypeToString(type), "`"));
}

// A node under construction, whose fields arrive from the left.
struct Pending {
  const Value* value;
  Handle handle;
  std::vector<const ir::Type*> field_types;
};

}  // namespace

std::string TensorMismatch(const Literal& tensor, const ir::TensorType& type,
                           absl::flat_hash_map<int64_t, int64_t>* dims) {
  bool agrees = !type.dtype.is_concrete() || type.dtype.dtype == tensor.dtype();
  if (type.shape.is_dims()) {
    agrees = agrees && type.shape.dims.size() == tensor.shape().size();
    for (size_t i = 0; agrees && i < tensor.shape().size(); ++i) {
      const Dim& dim = type.shape.dims[i];
      int64_t extent = tensor.shape()[i];
      if (dim.is_const()) {
        agrees = dim.constant() == extent;
      } else if (dims != nullptr && dim.kind() == DimKind::kVar) {
        agrees = dims->try_emplace(dim.id(), extent).first->second == extent;
        if (!agrees) {
          return absl::StrCat("saw `", TensorText(tensor), "`; expected `", ir::TypeToString(&type), "` where `",
                              dim.name(), "` is ", dims->at(dim.id()));
        }
      } else if (dims != nullptr) {
        std::optional<int64_t> expected = EvaluateDim(dim, [&](const Dim& leaf) -> std::optional<int64_t> {
          auto it = leaf.kind() == DimKind::kVar ? dims->find(leaf.id()) : dims->end();
          return it == dims->end() ? std::nullopt : std::optional(it->second);
        });
        agrees = !expected || *expected == extent;
      }
    }
  }
  if (agrees) return "";
  return absl::StrCat("saw `", TensorText(tensor), "`; expected `", ir::TypeToString(&type), "`");
}

absl::StatusOr<Handle> ArgumentReader::Read(const Value& root, const ir::Type* root_type) {
  std::vector<Pending> stack;
  const Value* value = &root;
  const ir::Type* type = root_type;
  while (true) {
    std::vector<const ir::Type*> field_types;
    // Extents inside of tuples are checked by the program itself (compiler/passes/check_extents.cc).
    RVM_ASSIGN_OR_RETURN(Handle handle, ReadNode(*value, type, stack.empty() ? &dims_ : nullptr, field_types));
    bool has_fields = value->kind() != ValueKind::kTensor && !value->fields().empty();
    if (has_fields) stack.push_back({value, std::move(handle), std::move(field_types)});
    // Complete nodes go to their parents.
    while (!has_fields || stack.back().handle->fields.size() == stack.back().value->fields().size()) {
      if (has_fields) {
        handle = std::move(stack.back().handle);
        stack.pop_back();
      }
      if (stack.empty()) return handle;
      stack.back().handle->fields.push_back(std::move(handle));
      has_fields = true;
    }
    size_t next = stack.back().handle->fields.size();
    value = &stack.back().value->fields()[next];
    type = stack.back().field_types[next];
  }
}

absl::StatusOr<Handle> ArgumentReader::ReadNode(const Value& value, const ir::Type* type,
                                                absl::flat_hash_map<int64_t, int64_t>* dims,
                                                std::vector<const ir::Type*>& field_types) {
  bool anything = type == nullptr || type->type_kind == ir::TypeKind::kParam || type->type_kind == ir::TypeKind::kHole;
  switch (value.kind()) {
    case ValueKind::kTensor: {
      const auto* tensor_type = ir::DynCast<ir::TensorType>(type);
      if (tensor_type == nullptr && !anything) return Mismatch(value, type);
      if (tensor_type != nullptr) {
        std::string mismatch = TensorMismatch(value.tensor(), *tensor_type, dims);
        if (!mismatch.empty()) return absl::InvalidArgumentError(mismatch);
      }
      Handle handle(new Object(ObjectKind::kTensor));
      handle->tensor = value.tensor();
      return handle;
    }
    case ValueKind::kTuple: {
      const auto* tuple = ir::DynCast<ir::TupleType>(type);
      if (tuple == nullptr && !anything) return Mismatch(value, type);
      if (tuple != nullptr && tuple->fields.size() != value.fields().size()) return Mismatch(value, type);
      field_types = tuple != nullptr ? tuple->fields : std::vector<const ir::Type*>(value.fields().size());
      return Handle(new Object(ObjectKind::kTuple));
    }
    case ValueKind::kAdt: {
      if (!anything && type->type_kind != ir::TypeKind::kAdt) return Mismatch(value, type);
      RVM_ASSIGN_OR_RETURN(const ir::Constructor* constructor, FindConstructor(value, anything ? nullptr : type));
      field_types = FieldTypes(constructor, anything ? nullptr : static_cast<const ir::AdtType*>(type));
      Handle handle(new Object(ObjectKind::kAdt));
      handle->constructor = constructor;
      return handle;
    }
    case ValueKind::kRef: {
      const auto* ref = ir::DynCast<ir::RefType>(type);
      if (ref == nullptr && !anything) return Mismatch(value, type);
      field_types = {ref != nullptr ? ref->contents : nullptr};
      Handle handle = refs_.New(Handle());
      handle->fields.clear();
      return handle;
    }
    case ValueKind::kClosure: {
      const auto* function = ir::DynCast<ir::FuncType>(type);
      if (function == nullptr) return Mismatch(value, type);
      if (value.function() == nullptr) break;
      Handle handle(new Object(ObjectKind::kHost));
      handle->host = value.function();
      handle->host_type = function;
      return handle;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("saw the text `", value.ToString(), "`; expected a function"));
}

// By name among the constructors of the expected type, or of the module.
absl::StatusOr<const ir::Constructor*> ArgumentReader::FindConstructor(const Value& value, const ir::Type* type) {
  const ir::Constructor* found = nullptr;
  if (type == nullptr) {
    found = module_.FindConstructor(value.name());
  } else {
    for (const ir::Constructor* constructor : static_cast<const ir::AdtType*>(type)->adt->constructors) {
      if (constructor->name == value.name()) found = constructor;
    }
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        type == nullptr ? absl::StrCat("`", value.name(), "` is no constructor of the program")
                        : absl::StrCat("`", value.name(), "` is no constructor of `", ir::TypeToString(type), "`"));
  }
  if (found->fields.size() != value.fields().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("saw ", value.fields().size(), " fields of `", found->name, "`; expected ", found->fields.size()));
  }
  return found;
}

// Types are made once per type of cell, not once per cell.
const std::vector<const ir::Type*>& ArgumentReader::FieldTypes(const ir::Constructor* constructor,
                                                               const ir::AdtType* type) {
  const ir::Type* key = type == nullptr ? nullptr : Unique(type);
  auto [it, is_new] = field_types_.try_emplace({constructor, key});
  if (!is_new) return it->second;
  std::vector<const ir::Type*> types;
  ir::TypeSubstitution substitution;
  const std::vector<const ir::TypeParam*>& params = constructor->adt->type_params;
  for (size_t i = 0; type != nullptr && i < params.size() && i < type->args.size(); ++i) {
    substitution.Add(params[i], type->args[i]);
  }
  for (const ir::Type* field : constructor->fields) {
    types.push_back(type == nullptr ? nullptr : Unique(substitution.Apply(arena_, field)));
  }
  it->second = std::move(types);
  return it->second;
}

const ir::Type* ArgumentReader::Unique(const ir::Type* type) {
  std::vector<const ir::Type*>& bucket = unique_types_[ir::HashType(type)];
  for (const ir::Type* known : bucket) {
    if (known == type || ir::TypesEqual(known, type)) return known;
  }
  bucket.push_back(type);
  return type;
}

absl::StatusOr<Value> ToValue(const Handle& root) {
  // Shared objects are converted once. An entry without value is being converted.
  absl::flat_hash_map<const Object*, std::optional<Value>> done;
  struct Visit {
    const Object* object;
    bool fields_done;
  };
  std::vector<Visit> stack = {{root.get(), false}};
  while (!stack.empty()) {
    auto [object, fields_done] = stack.back();
    stack.pop_back();
    auto [it, is_new] = done.try_emplace(object);
    if (!fields_done && !is_new) {
      if (it->second) continue;
      return absl::InvalidArgumentError("the result has a cycle of references, and so no end");
    }
    bool is_data =
        object->kind == ObjectKind::kTuple || object->kind == ObjectKind::kAdt || object->kind == ObjectKind::kRef;
    if (!fields_done && is_data) {
      stack.push_back({object, true});
      for (size_t i = object->fields.size(); i-- > 0;) stack.push_back({object->fields[i].get(), false});
      continue;
    }
    std::vector<Value> fields;
    if (is_data) {
      for (const Handle& field : object->fields) fields.push_back(*done.at(field.get()));
    }
    std::optional<Value>& value = done.at(object);
    switch (object->kind) {
      case ObjectKind::kTensor: value = Value::Tensor(object->tensor); break;
      case ObjectKind::kTuple: value = Value::Tuple(std::move(fields)); break;
      case ObjectKind::kAdt: value = Value::Adt(object->constructor->name, std::move(fields)); break;
      case ObjectKind::kRef: value = Value::Ref(std::move(fields[0])); break;
      case ObjectKind::kClosure: value = Value::Closure(std::string(object->name)); break;
      case ObjectKind::kOp: value = Value::Closure(std::string(object->op->name)); break;
      case ObjectKind::kConstructor: value = Value::Closure(object->constructor->name); break;
      case ObjectKind::kHost: value = Value::Function("function of the host", object->host); break;
    }
  }
  return *done.at(root.get());
}

}  // namespace rvm::reference
