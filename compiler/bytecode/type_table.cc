#include "compiler/bytecode/type_table.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/stack_guard.h"

namespace rvm::bytecode {
namespace {

// Ids that a u16 operand can name, and a bound on types, of which polymorphic ADTs make many.
constexpr size_t kMaxLayouts = 0xffff;
constexpr size_t kMaxTypes = size_t{1} << 22;

std::string KeyOf(const TypeDesc& desc) {
  std::string key = absl::StrCat(static_cast<int>(desc.kind), ":", static_cast<int>(desc.dtype.code), ".",
                                 static_cast<int>(desc.dtype.bits), ":", desc.result.value, ":", desc.adt.value, ":");
  for (int64_t dim : desc.dims) absl::StrAppend(&key, dim, ",");
  absl::StrAppend(&key, ":");
  for (TypeId field : desc.fields) absl::StrAppend(&key, field.value, ",");
  return key;
}

int64_t Erased(const Dim& dim) { return dim.is_const() ? dim.constant() : TypeDesc::kUnknownDim; }

}  // namespace

TypeId TypeTable::Intern(TypeDesc desc) {
  std::string key = KeyOf(desc);
  auto [it, added] = by_key_.try_emplace(std::move(key), TypeId(static_cast<uint32_t>(executable_.types.size())));
  if (added) {
    if (executable_.types.size() >= kMaxTypes && status_.ok()) {
      status_ = absl::ResourceExhaustedError(absl::StrCat("the program has more than ", kMaxTypes, " types"));
    }
    executable_.types.push_back(std::move(desc));
  }
  return it->second;
}

TypeId TypeTable::Scalar(DataType dtype) {
  TypeDesc desc;
  desc.kind = TypeDescKind::kScalar;
  desc.dtype = dtype;
  return Intern(std::move(desc));
}

TypeId TypeTable::Tensor(DataType dtype, const Dims& dims) {
  if (dims.empty()) return Scalar(dtype);
  TypeDesc desc;
  desc.kind = TypeDescKind::kTensor;
  desc.dtype = dtype;
  for (const Dim& dim : dims) desc.dims.push_back(Erased(dim));
  return Intern(std::move(desc));
}

TypeId TypeTable::Shell(size_t fields) {
  TypeDesc desc;
  desc.kind = TypeDescKind::kShell;
  desc.dims = {static_cast<int64_t>(fields)};
  return Intern(std::move(desc));
}

TypeId TypeTable::Lower(const ir::Type* type) {
  // Nodes are shared: without this, each of the types nested in one another would be walked to its end.
  if (auto known = by_type_.find(type); known != by_type_.end()) return known->second;
  TypeId id = WithStack([&] { return LowerOnThisStack(type); });
  by_type_.emplace(type, id);
  FillConstructors();
  return id;
}

TypeId TypeTable::LowerOnThisStack(const ir::Type* type) {
  switch (type->type_kind) {
    case ir::TypeKind::kTensor: {
      const auto& tensor = *ir::DynCast<ir::TensorType>(type);
      RVM_CHECK(tensor.shape.is_dims() && tensor.dtype.is_concrete(), "a tensor type reached lowering unsolved");
      return Tensor(tensor.dtype.dtype, tensor.shape.dims);
    }
    case ir::TypeKind::kTuple: {
      TypeDesc desc;
      desc.kind = TypeDescKind::kTuple;
      for (const ir::Type* field : ir::DynCast<ir::TupleType>(type)->fields) desc.fields.push_back(Lower(field));
      return Intern(std::move(desc));
    }
    case ir::TypeKind::kFunc: {
      const auto& func = *ir::DynCast<ir::FuncType>(type);
      TypeDesc desc;
      desc.kind = TypeDescKind::kClosure;
      for (const ir::Type* param : func.params) desc.fields.push_back(Lower(param));
      desc.result = Lower(func.result);
      return Intern(std::move(desc));
    }
    case ir::TypeKind::kRef: {
      TypeDesc desc;
      desc.kind = TypeDescKind::kRef;
      desc.fields.push_back(Lower(ir::DynCast<ir::RefType>(type)->contents));
      return Intern(std::move(desc));
    }
    case ir::TypeKind::kAdt: return LowerAdt(*ir::DynCast<ir::AdtType>(type));
    case ir::TypeKind::kParam:
    case ir::TypeKind::kHole: break;
  }
  RVM_UNREACHABLE("a polymorphic type reached lowering");
}

TypeId TypeTable::LowerAdt(const ir::AdtType& adt) {
  std::string key = absl::StrCat(reinterpret_cast<uintptr_t>(adt.adt), "<");
  std::string name = adt.adt->name;
  const char* separator = "[";
  for (const ir::TypeArg& arg : adt.args) {
    std::string text;
    switch (arg.kind) {
      case ir::Kind::kType: {
        TypeId id = Lower(arg.type);
        absl::StrAppend(&key, id.value, ";");
        text = TypeToString(executable_, id);
        break;
      }
      case ir::Kind::kBaseType: text = arg.dtype.dtype.ToString(); break;
      case ir::Kind::kShape: {
        Dims erased;
        for (const Dim& dim : arg.shape.dims) erased.push_back(dim.is_const() ? dim : Dim::Any());
        text = DimsToString(erased);
        break;
      }
      case ir::Kind::kShapeVar:
      case ir::Kind::kConstraint:
      case ir::Kind::kAdtHandle: text = arg.dim.is_const() ? arg.dim.ToString() : "?"; break;
    }
    absl::StrAppend(&key, text, ";");
    absl::StrAppend(&name, separator, text);
    separator = ", ";
  }
  if (!adt.args.empty()) name += "]";
  auto found = adt_by_key_.find(key);
  if (found != adt_by_key_.end()) return found->second;

  AdtId id(static_cast<uint32_t>(executable_.adts.size()));
  executable_.adts.push_back({std::move(name), {}});
  TypeDesc desc;
  desc.kind = TypeDescKind::kAdt;
  desc.adt = id;
  TypeId type = Intern(std::move(desc));
  adt_by_key_.emplace(std::move(key), type);
  pending_.push_back({id, type, &adt});
  return type;
}

// Constructors are filled in a loop: an ADT may mention itself and others.
void TypeTable::FillConstructors() {
  if (filling_) return;
  filling_ = true;
  while (!pending_.empty() && status_.ok()) {
    PendingAdt pending = pending_.back();
    pending_.pop_back();
    ir::TypeSubstitution substitution;
    const ir::AdtDef& def = *pending.source->adt;
    for (size_t i = 0; i < def.type_params.size(); ++i) substitution.Add(def.type_params[i], pending.source->args[i]);
    std::vector<AdtDesc::Constructor> constructors;
    for (const ir::Constructor* constructor : def.constructors) {
      AdtDesc::Constructor desc;
      desc.name = constructor->name;
      for (const ir::Type* field : constructor->fields) desc.fields.push_back(Lower(substitution.Apply(arena_, field)));
      if (!desc.fields.empty()) {
        desc.layout =
            AddLayout({CellKind::kAdt, pending.type, static_cast<uint16_t>(constructor->tag), {}, desc.fields});
      }
      constructors.push_back(std::move(desc));
    }
    executable_.adts[pending.id.value].constructors = std::move(constructors);
  }
  filling_ = false;
}

LayoutId TypeTable::AddLayout(CellLayout layout) {
  if (executable_.layouts.size() >= kMaxLayouts) {
    if (status_.ok()) {
      status_ =
          absl::ResourceExhaustedError(absl::StrCat("the program needs more than ", kMaxLayouts, " cell layouts"));
    }
    return LayoutId(0);
  }
  executable_.layouts.push_back(std::move(layout));
  return LayoutId(static_cast<uint32_t>(executable_.layouts.size() - 1));
}

LayoutId TypeTable::TupleLayout(TypeId tuple) {
  auto found = layout_of_type_.find(tuple.value);
  if (found != layout_of_type_.end()) return found->second;
  LayoutId layout = AddLayout({CellKind::kTuple, tuple, 0, {}, desc(tuple).fields});
  layout_of_type_.emplace(tuple.value, layout);
  return layout;
}

LayoutId TypeTable::RefLayout(TypeId ref) {
  auto found = layout_of_type_.find(ref.value);
  if (found != layout_of_type_.end()) return found->second;
  LayoutId layout = AddLayout({CellKind::kRef, ref, 0, {}, desc(ref).fields});
  layout_of_type_.emplace(ref.value, layout);
  return layout;
}

LayoutId TypeTable::ConstructorLayout(TypeId adt, uint32_t tag) const {
  return executable_.adts[desc(adt).adt.value].constructors[tag].layout;
}

const std::vector<TypeId>& TypeTable::ConstructorFields(TypeId adt, uint32_t tag) const {
  return executable_.adts[desc(adt).adt.value].constructors[tag].fields;
}

LayoutId TypeTable::ClosureLayout(TypeId closure, FunctionId function, std::vector<TypeId> captures) {
  return AddLayout({CellKind::kClosure, closure, 0, function, std::move(captures)});
}

}  // namespace rvm::bytecode
