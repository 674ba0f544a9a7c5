#include "compiler/passes/specialize/polymorphic_values.h"

#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/ir/match_types.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;
using ir::TypeArg;
using ir::TypeParam;

namespace {

// With more instances of one type, or longer arguments, there are assumed to be infinitely many.
constexpr size_t kMaxInstances = 1000;
constexpr size_t kMaxTypeText = size_t{16} << 10;

// The dim variables of a type, each once, in order.
class DimVars {
 public:
  void Collect(const TypeArg& arg) {
    if (arg.kind == ir::Kind::kType) return Collect(arg.type);
    if (arg.kind == ir::Kind::kShape) return Collect(arg.shape.dims);
    if (arg.kind == ir::Kind::kShapeVar) return Collect(arg.dim);
  }
  const std::vector<Dim>& found() const { return found_; }

 private:
  void Collect(const Dims& dims) {
    for (const Dim& dim : dims) Collect(dim);
  }
  void Collect(const Dim& dim) {
    if (dim.is_binary()) {
      Collect(dim.lhs());
      Collect(dim.rhs());
    } else if (dim.kind() == DimKind::kVar) {
      for (const Dim& known : found_) {
        if (known == dim) return;
      }
      found_.push_back(dim);
    }
  }
  void Collect(const ir::Type* type) {
    WithStack([&] {
      if (const auto* tensor = DynCast<ir::TensorType>(type)) return Collect(tensor->shape.dims);
      const auto* adt = DynCast<ir::AdtType>(type);
      if (adt == nullptr) return ir::ForEachPart(type, [&](const Type* part) { Collect(part); });
      for (const TypeArg& arg : adt->args) Collect(arg);
    });
  }

  std::vector<Dim> found_;
};

// Whether values of an ADT contain a polymorphic function, at any depth.
class PolymorphicFields {
 public:
  PolymorphicFields(ir::Arena& arena, const ir::AdtDef& adt) : arena_(arena) {
    for (const TypeParam* param : adt.type_params) {
      TypeArg other;
      other.kind = param->kind;
      other.type = arena.New<ir::HoleType>(0);
      params_.Add(param, std::move(other));
    }
  }
  void Visit(const ir::AdtDef* adt) {
    if (!visited_.insert(adt).second) return;
    for (const ir::Constructor* constructor : adt->constructors) {
      for (const Type* field : constructor->fields) Visit(field);
    }
  }
  bool found() const { return found_; }
  // Returns true for a type that names parameters of the ADT.
  bool names_params() const { return names_params_; }

 private:
  void Visit(const Type* type) {
    WithStack([&] {
      if (AsPolymorphic(type) != nullptr) {
        found_ = true;
        names_params_ = names_params_ || params_.Apply(arena_, type) != type;
      }
      ir::ForEachPart(type, [&](const Type* part) { Visit(part); });
      if (const auto* adt = DynCast<ir::AdtType>(type)) Visit(adt->adt);
    });
  }

  ir::Arena& arena_;
  ir::TypeSubstitution params_;
  absl::flat_hash_set<const ir::AdtDef*> visited_;
  bool found_ = false;
  bool names_params_ = false;
};

}  // namespace

bool IsPolymorphic(const std::vector<const TypeParam*>& params) {
  for (const TypeParam* param : params) {
    if (param->kind != ir::Kind::kShapeVar) return true;
  }
  return false;
}

const ir::FuncType* AsPolymorphic(const Type* type) {
  const auto* func = DynCast<ir::FuncType>(type);
  return func != nullptr && IsPolymorphic(func->type_params) ? func : nullptr;
}

std::vector<const TypeParam*> ShapeVars(const std::vector<const TypeParam*>& params) {
  std::vector<const TypeParam*> result;
  for (const TypeParam* param : params) {
    if (param->kind == ir::Kind::kShapeVar) result.push_back(param);
  }
  return result;
}

TypeArg CanonicalArg(ir::Arena& arena, const TypeArg& arg, std::vector<const TypeParam*>& dims,
                     ir::TypeSubstitution& renaming) {
  DimVars vars;
  vars.Collect(arg);
  for (const Dim& var : vars.found()) {
    if (renaming.FindById(var.id()) != nullptr) continue;
    auto* param = arena.New<TypeParam>(arena.NextId(), absl::StrCat("d", dims.size()), ir::Kind::kShapeVar);
    dims.push_back(param);
    TypeArg renamed;
    renamed.kind = ir::Kind::kShapeVar;
    renamed.dim = Dim::Var(param->id, param->name);
    renaming.Add(arena.New<TypeParam>(var.id(), var.name(), ir::Kind::kShapeVar), renamed);
  }
  return renaming.Apply(arena, arg);
}

// ---- instances

void PolymorphicTypes::BeginRun() {
  grew_ = false;
  refused_ = false;
  lowered_.clear();
  tuples_.clear();
  lowering_.clear();
  origins_.clear();
  definitions_.clear();
  constructors_.clear();
  new_adts_.clear();
  open_params_.clear();
}

void PolymorphicTypes::Refuse(ir::Span span, DiagnosticKind kind, std::string message) {
  if (!std::exchange(refused_, true)) diagnostics_.Error(span, kind, std::move(message));
}

std::optional<PolymorphicInstance> PolymorphicTypes::Solve(const ir::FuncType& type, const Type* instance) {
  absl::flat_hash_map<const TypeParam*, TypeArg> found;
  if (!ir::MatchTypes(&type, instance, type.type_params, found)) return std::nullopt;
  PolymorphicInstance result;
  ir::TypeSubstitution renaming;
  for (const TypeParam* param : type.type_params) {
    TypeArg arg;
    arg.kind = ir::Kind::kShapeVar;
    arg.dim = Dim::Any();  // a dim stays a parameter
    if (param->kind != ir::Kind::kShapeVar) {
      auto known = found.find(param);
      if (known == found.end()) return std::nullopt;
      arg = CanonicalArg(arena_, Lower(known->second), result.dims, renaming);
    }
    result.args.push_back(std::move(arg));
  }
  return result;
}

size_t PolymorphicTypes::Demand(const ir::FuncType& type, PolymorphicInstance instance) {
  auto text = [](const PolymorphicInstance& of) {
    std::string result;
    for (const TypeArg& arg : of.args) absl::StrAppend(&result, ir::TypeArgToString(arg), ";");
    return result;
  };
  std::vector<PolymorphicInstance>& known = instances_[KeyOf(&type)];
  std::string wanted = text(instance);
  for (size_t i = 0; i < known.size(); ++i) {
    if (text(known[i]) == wanted) return i;
  }
  if (known.size() >= kMaxInstances || wanted.size() > kMaxTypeText) {
    Refuse(place_, DiagnosticKind::kEndlessInstances,
           absl::StrCat("a function of type `", ir::TypeToString(&type), "` is called with ever new type arguments"));
    return 0;
  }
  known.push_back(std::move(instance));
  grew_ = true;
  return known.size() - 1;
}

const std::vector<PolymorphicInstance>& PolymorphicTypes::InstancesOf(const ir::FuncType& type) {
  return instances_[KeyOf(&type)];
}

const Type* PolymorphicTypes::InstanceType(const ir::FuncType& type, const PolymorphicInstance& instance) {
  ir::TypeSubstitution substitution;
  for (size_t i = 0; i < type.type_params.size(); ++i) {
    if (type.type_params[i]->kind != ir::Kind::kShapeVar) substitution.Add(type.type_params[i], instance.args[i]);
  }
  std::vector<const TypeParam*> dims = ShapeVars(type.type_params);
  dims.insert(dims.end(), instance.dims.begin(), instance.dims.end());
  std::vector<const Type*> params;
  for (const Type* param : type.params) params.push_back(Lower(substitution.Apply(arena_, param)));
  const Type* result = Lower(substitution.Apply(arena_, type.result));
  return arena_.New<ir::FuncType>(std::move(dims), std::move(params), result);
}

const ir::FuncType* PolymorphicTypes::Origin(const Type* lowered) const {
  auto found = origins_.find(lowered);
  return found == origins_.end() ? nullptr : found->second;
}

// ---- lowering

const Type* PolymorphicTypes::MapType(const Type* type) {
  auto known = lowered_.find(type);
  if (known != lowered_.end()) return known->second;
  const Type* result = LowerNew(type);
  lowered_[type] = result;
  lowered_[result] = result;
  return result;
}

const ir::Constructor* PolymorphicTypes::Lower(const ir::Constructor* constructor) const {
  auto found = constructors_.find(constructor);
  return found == constructors_.end() ? constructor : found->second;
}

const Type* PolymorphicTypes::LowerNew(const Type* type) {
  if (type->type_kind == ir::TypeKind::kTensor) return type;
  if (const ir::FuncType* polymorphic = AsPolymorphic(type)) return LowerFunction(*polymorphic);
  if (const auto* adt = DynCast<ir::AdtType>(type)) return LowerAdt(*adt);
  const auto* param = DynCast<ir::ParamType>(type);
  if (param != nullptr && !open_params_.contains(param->param)) {
    Refuse(place_, DiagnosticKind::kOpenTypeParameter,
           absl::StrCat("the type parameter `", ir::TypeToString(type),
                        "` stands for nothing where this function becomes a value; expected it to be written at the "
                        "function: `fn [A](%x: A) ...`"));
  }
  return MapParts(type);
}

const Type* PolymorphicTypes::LowerFunction(const ir::FuncType& type) {
  std::string key = KeyOf(&type);
  for (const auto& [known, tuple] : tuples_[key]) {
    if (ir::TypesEqual(known, &type)) return tuple;
  }
  if (!lowering_.insert(key).second) {
    Refuse(place_, DiagnosticKind::kPolymorphicInItself,
           absl::StrCat("a function of type `", ir::TypeToString(&type), "` is used at a type that holds its own"));
    return &type;
  }
  std::vector<const Type*> fields;
  std::vector<PolymorphicInstance> instances = instances_[key];
  for (const PolymorphicInstance& instance : instances) fields.push_back(InstanceType(type, instance));
  const Type* tuple = arena_.New<ir::TupleType>(std::move(fields));
  lowering_.erase(key);
  tuples_[key].emplace_back(&type, tuple);
  origins_[tuple] = &type;
  return tuple;
}

const Type* PolymorphicTypes::LowerAdt(const ir::AdtType& type) {
  const auto* mapped = DynCast<ir::AdtType>(MapParts(&type));
  const ir::AdtDef* adt = LowerDefinition(type.adt);
  return adt == type.adt ? mapped : arena_.New<ir::AdtType>(adt, mapped->args);
}

// A definition with polymorphic functions in its fields is replaced by one with their instances.
const ir::AdtDef* PolymorphicTypes::LowerDefinition(const ir::AdtDef* adt) {
  auto known = definitions_.find(adt);
  if (known != definitions_.end()) return known->second;
  // Instances from an earlier run refer to that run's replacement of the definition.
  if (auto original = originals_.find(adt); original != originals_.end()) return LowerDefinition(original->second);
  definitions_[adt] = adt;
  PolymorphicFields fields(arena_, *adt);
  fields.Visit(adt);
  if (fields.names_params()) {
    Refuse(adt->span, DiagnosticKind::kPolymorphicField,
           absl::StrCat("the type `", adt->name,
                        "` has a field that is a polymorphic function of the type's own parameters; expected one "
                        "that does not name them"));
  }
  if (!fields.found() || refused_) return adt;
  auto* copy = arena_.New<ir::AdtDef>(*adt);
  definitions_[adt] = copy;
  definitions_[copy] = copy;
  originals_[copy] = adt;
  new_adts_.push_back(copy);
  for (ir::Constructor*& constructor : copy->constructors) {
    auto* lowered = arena_.New<ir::Constructor>(*constructor);
    lowered->adt = copy;
    constructors_[constructor] = lowered;
    constructor = lowered;
  }
  open_params_.insert(adt->type_params.begin(), adt->type_params.end());
  for (ir::Constructor* constructor : copy->constructors) {
    for (const Type*& field : constructor->fields) field = Lower(field);
  }
  return copy;
}

// ---- keys: the same for types that differ in names of parameters and in dims

std::string PolymorphicTypes::KeyOf(const Type* type) {
  std::string key;
  AppendKey(type, key);
  return key;
}

void PolymorphicTypes::AppendKey(const Type* type, std::string& key) {
  if (const ir::FuncType* origin = Origin(type)) type = origin;
  WithStack([&] {
    switch (type->type_kind) {
      case ir::TypeKind::kTensor: {
        const auto& tensor = *DynCast<ir::TensorType>(type);
        std::string rank = tensor.shape.is_dims() ? absl::StrCat(tensor.shape.dims.size()) : tensor.shape.param->name;
        std::string dtype = tensor.dtype.is_concrete() ? tensor.dtype.dtype.ToString() : tensor.dtype.param->name;
        absl::StrAppend(&key, dtype, "^", rank);
        return;
      }
      case ir::TypeKind::kTuple:
        absl::StrAppend(&key, "(");
        for (const Type* field : DynCast<ir::TupleType>(type)->fields) {
          AppendKey(field, key);
          absl::StrAppend(&key, ",");
        }
        absl::StrAppend(&key, ")");
        return;
      case ir::TypeKind::kFunc: return AppendFunctionKey(*DynCast<ir::FuncType>(type), key);
      case ir::TypeKind::kAdt: {
        const auto& adt = *DynCast<ir::AdtType>(type);
        absl::StrAppend(&key, adt.adt->name, "[");
        for (const TypeArg& arg : adt.args) {
          if (arg.kind == ir::Kind::kType) {
            AppendKey(arg.type, key);
          } else if (arg.kind == ir::Kind::kBaseType) {
            absl::StrAppend(&key, ir::TypeArgToString(arg));
          } else if (arg.kind == ir::Kind::kShape) {
            absl::StrAppend(&key, arg.shape.is_dims() ? absl::StrCat(arg.shape.dims.size()) : arg.shape.param->name);
          }
          absl::StrAppend(&key, ",");
        }
        absl::StrAppend(&key, "]");
        return;
      }
      case ir::TypeKind::kRef:
        absl::StrAppend(&key, "ref ");
        return AppendKey(DynCast<ir::RefType>(type)->contents, key);
      case ir::TypeKind::kParam: absl::StrAppend(&key, DynCast<ir::ParamType>(type)->param->name); return;
      case ir::TypeKind::kHole: absl::StrAppend(&key, "_"); return;
    }
  });
}

// Parameters are named by nesting depth and position.
void PolymorphicTypes::AppendFunctionKey(const ir::FuncType& type, std::string& key) {
  absl::StrAppend(&key, "fn ");
  ir::TypeSubstitution renaming;
  ++key_depth_;
  for (size_t i = 0; i < type.type_params.size(); ++i) {
    const TypeParam* param = type.type_params[i];
    if (param->kind == ir::Kind::kShapeVar) continue;
    auto* named = arena_.New<TypeParam>(arena_.NextId(), absl::StrCat("'", key_depth_, ".", i), param->kind);
    TypeArg arg;
    arg.kind = param->kind;
    arg.type = arena_.New<ir::ParamType>(named);
    arg.dtype = ir::DTypeTerm::OfParam(named);
    arg.shape = ir::ShapeTerm::OfParam(named);
    renaming.Add(param, std::move(arg));
    absl::StrAppend(&key, named->name, ir::KindName(param->kind) == "Type" ? "" : "!", " ");
  }
  absl::StrAppend(&key, "(");
  for (const Type* param : type.params) {
    AppendKey(renaming.empty() ? param : renaming.Apply(arena_, param), key);
    absl::StrAppend(&key, ",");
  }
  absl::StrAppend(&key, ")->");
  AppendKey(renaming.empty() ? type.result : renaming.Apply(arena_, type.result), key);
  --key_depth_;
}

}  // namespace rvm::passes
