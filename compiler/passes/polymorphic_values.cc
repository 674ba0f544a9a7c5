#include "compiler/passes/polymorphic_values.h"

#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
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

// More instances of one type, or longer arguments, are taken to have no end.
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
      if (const auto* tensor = DynCast<ir::TensorType>(type)) {
        Collect(tensor->shape.dims);
      } else if (const auto* tuple = DynCast<ir::TupleType>(type)) {
        for (const ir::Type* field : tuple->fields) Collect(field);
      } else if (const auto* func = DynCast<ir::FuncType>(type)) {
        for (const ir::Type* param : func->params) Collect(param);
        Collect(func->result);
      } else if (const auto* adt = DynCast<ir::AdtType>(type)) {
        for (const TypeArg& arg : adt->args) Collect(arg);
      } else if (const auto* ref = DynCast<ir::RefType>(type)) {
        Collect(ref->contents);
      }
    });
  }

  std::vector<Dim> found_;
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
  origins_.clear();
  definitions_.clear();
  constructors_.clear();
  new_adts_.clear();
}

void PolymorphicTypes::Refuse(ir::Span span, DiagnosticKind kind, std::string message) {
  if (!std::exchange(refused_, true)) diagnostics_.Error(span, kind, std::move(message));
}

std::optional<PolymorphicInstance> PolymorphicTypes::Solve(const ir::FuncType& type, const Type* instance) {
  absl::flat_hash_map<const TypeParam*, TypeArg> found;
  if (!MatchTypes(&type, instance, type.type_params, found)) return std::nullopt;
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

const Type* PolymorphicTypes::Lower(const Type* type) {
  auto known = lowered_.find(type);
  if (known != lowered_.end()) return known->second;
  const Type* result = WithStack([&] { return LowerOnThisStack(type); });
  lowered_[type] = result;
  lowered_[result] = result;
  return result;
}

TypeArg PolymorphicTypes::Lower(TypeArg arg) {
  if (arg.kind == ir::Kind::kType) arg.type = Lower(arg.type);
  return arg;
}

const ir::Constructor* PolymorphicTypes::Lower(const ir::Constructor* constructor) const {
  auto found = constructors_.find(constructor);
  return found == constructors_.end() ? constructor : found->second;
}

const Type* PolymorphicTypes::LowerOnThisStack(const Type* type) {
  switch (type->type_kind) {
    case ir::TypeKind::kTuple: {
      const auto& tuple = *DynCast<ir::TupleType>(type);
      std::vector<const Type*> fields;
      for (const Type* field : tuple.fields) fields.push_back(Lower(field));
      return fields == tuple.fields ? type : arena_.New<ir::TupleType>(std::move(fields));
    }
    case ir::TypeKind::kFunc: return LowerFunction(*DynCast<ir::FuncType>(type));
    case ir::TypeKind::kAdt: return LowerAdt(*DynCast<ir::AdtType>(type));
    case ir::TypeKind::kRef: {
      const auto& ref = *DynCast<ir::RefType>(type);
      const Type* contents = Lower(ref.contents);
      return contents == ref.contents ? type : arena_.New<ir::RefType>(contents);
    }
    case ir::TypeKind::kParam:
      Refuse(place_, DiagnosticKind::kOpenTypeParameter,
             absl::StrCat("the type parameter `", ir::TypeToString(type),
                          "` stands for nothing where this function becomes a value; expected it to be written at the "
                          "function: `fn [A](%x: A) ...`"));
      return type;
    case ir::TypeKind::kTensor:
    case ir::TypeKind::kHole: return type;
  }
  return type;
}

const Type* PolymorphicTypes::LowerFunction(const ir::FuncType& type) {
  if (!IsPolymorphic(type.type_params)) {
    std::vector<const Type*> params;
    for (const Type* param : type.params) params.push_back(Lower(param));
    const Type* result = Lower(type.result);
    if (params == type.params && result == type.result) return &type;
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), result);
  }
  std::string key = KeyOf(&type);
  auto [entry, added] = tuples_.try_emplace(key, nullptr);
  if (!added && entry->second == nullptr) {
    Refuse(place_, DiagnosticKind::kPolymorphicInItself,
           absl::StrCat("a function of type `", ir::TypeToString(&type), "` is used at a type that holds its own"));
    return &type;
  }
  if (!added) return entry->second;
  std::vector<const Type*> fields;
  std::vector<PolymorphicInstance> instances = instances_[key];
  for (const PolymorphicInstance& instance : instances) fields.push_back(InstanceType(type, instance));
  const Type* tuple = arena_.New<ir::TupleType>(std::move(fields));
  tuples_[key] = tuple;
  origins_[tuple] = &type;
  return tuple;
}

const Type* PolymorphicTypes::LowerAdt(const ir::AdtType& type) {
  std::vector<TypeArg> args;
  bool same = true;
  for (const TypeArg& arg : type.args) {
    args.push_back(Lower(arg));
    same = same && args.back().type == arg.type;
  }
  const ir::AdtDef* adt = LowerDefinition(type.adt);
  return same && adt == type.adt ? &type : arena_.New<ir::AdtType>(adt, std::move(args));
}

// A definition with polymorphic functions in its fields gets another with their instances.
const ir::AdtDef* PolymorphicTypes::LowerDefinition(const ir::AdtDef* adt) {
  auto known = definitions_.find(adt);
  if (known != definitions_.end()) return known->second;
  // Instances that an earlier run asked for hold what it made of the definition.
  if (auto original = originals_.find(adt); original != originals_.end()) return LowerDefinition(original->second);
  definitions_[adt] = adt;
  bool holds = false;
  for (const ir::Constructor* constructor : adt->constructors) {
    for (const Type* field : constructor->fields) holds = holds || AsPolymorphic(field) != nullptr;
  }
  if (!holds) return adt;
  if (!adt->type_params.empty()) {
    Refuse(adt->span, DiagnosticKind::kPolymorphicField,
           absl::StrCat("the type `", adt->name,
                        "` has type parameters and a field that is a polymorphic function; expected one of the two"));
    return adt;
  }
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

// Parameters get names by how many function types are around and by position.
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

// ---- FitValues

namespace {

class Fitter : public Rewriter {
 public:
  Fitter(ir::Arena& arena, PolymorphicTypes& types) : Rewriter(arena), types_(types) {}

  ir::Function* FitFunction(const ir::Function& function) {
    ir::Function* copy = RewriteFunction(function);
    copy->body = Fit(copy->body, TypeOf(*copy).result);
    return copy;
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Rewriter::RewriteLet(let, chain);
    chain.back().value = Fit(chain.back().value, let.var->type);
  }

  Expr* RewriteNode(Expr* expr) override {
    if (expr->expr_kind == ExprKind::kFunction) return FitFunction(*Cast<ir::Function>(expr));
    Expr* copy = RewriteChildren(expr);
    if (auto* call = DynCast<ir::Call>(copy)) {
      const auto* type = DynCast<ir::FuncType>(call->callee->type);
      bool is_op = call->callee->expr_kind == ExprKind::kOp;
      for (size_t i = 0; type != nullptr && !is_op && i < call->args.size(); ++i) {
        call->args[i] = Fit(call->args[i], type->params[i]);
      }
    } else if (auto* conditional = DynCast<ir::If>(copy)) {
      conditional->then_branch = Fit(conditional->then_branch, copy->type);
      conditional->else_branch = Fit(conditional->else_branch, copy->type);
    } else if (auto* match = DynCast<ir::Match>(copy)) {
      for (ir::Clause& clause : match->clauses) clause.body = Fit(clause.body, copy->type);
    } else if (auto* create = DynCast<ir::RefCreate>(copy)) {
      create->value = Fit(create->value, DynCast<ir::RefType>(copy->type)->contents);
    } else if (auto* write = DynCast<ir::RefWrite>(copy)) {
      write->value = Fit(write->value, DynCast<ir::RefType>(write->ref->type)->contents);
    }
    return copy;
  }

 private:
  Expr* Fit(Expr* value, const Type* place) {
    if (types_.SameValues(value->type, place)) return value;
    const ir::FuncType* origin = types_.Origin(value->type);
    std::optional<PolymorphicInstance> instance;
    if (origin != nullptr) instance = types_.Solve(*origin, place);
    if (!instance) {
      types_.Refuse(value->span, DiagnosticKind::kPolymorphicInData,
                    absl::StrCat("this value comes to a place of type `", ir::TypeToString(place),
                                 "`; the polymorphic functions in it would have to become others"));
      return value;
    }
    size_t index = types_.Demand(*origin, *instance);
    auto* project = arena_.New<ir::Project>(value, static_cast<uint32_t>(index), value->span);
    project->type = types_.InstanceType(*origin, *instance);
    return project;
  }

  PolymorphicTypes& types_;
};

}  // namespace

ir::Module FitValues(const ir::Module& module, PolymorphicTypes& types) {
  Fitter fitter(*module.arena, types);
  std::vector<ir::GlobalFunction> functions;
  for (const ir::GlobalFunction& global : module.functions) {
    functions.push_back({global.name, fitter.FitFunction(*global.function), global.span});
  }
  return WithFunctions(module, std::move(functions));
}

}  // namespace rvm::passes
