#include "compiler/builder/program_builder.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"

namespace rvm::builder {

// ---- Value

Value::Value(bool value) : literal_(Literal::ScalarInt(kBool, value)) {}
Value::Value(int value) : literal_(Literal::ScalarInt(kInt32, value)) {}
Value::Value(int64_t value) : literal_(Literal::ScalarInt(kInt64, value)) {}
Value::Value(float value) : literal_(Literal::Scalar(kFloat32, value)) {}
Value::Value(double value) : literal_(Literal::Scalar(kFloat64, value)) {}
Value::Value(Literal value) : literal_(std::move(value)) {}

Value Value::Call(std::vector<Value> args) const {
  ProgramBuilder* builder = builder_;
  for (const Value& arg : args) builder = builder == nullptr ? arg.builder_ : builder;
  RVM_CHECK(builder != nullptr, "a call of constants alone");
  return builder->Call(*this, args);
}

Value Value::Field(uint32_t index) const {
  RVM_CHECK(builder_ != nullptr, "a field of a constant");
  ir::Expr* project = builder_->arena().New<ir::Project>(builder_->Use(*this), index, builder_->origin_);
  return builder_->Bind(project, FieldType(type_, index));
}

Value Value::Named(std::string name) const {
  const auto* var = ir::DynCast<ir::VarExpr>(leaf_);
  RVM_CHECK(var != nullptr, "only the result of a step has a name");
  var->var->name = std::move(name);
  return *this;
}

Value Infix(std::string_view op, const Value& a, const Value& b) {
  ProgramBuilder* builder = a.builder_ != nullptr ? a.builder_ : b.builder_;
  RVM_CHECK(builder != nullptr, "an operator on constants alone");
  return builder->Op(ops::FindInfix(op)->name, {a, b});
}

Value operator+(const Value& a, const Value& b) { return Infix("+", a, b); }
Value operator-(const Value& a, const Value& b) { return Infix("-", a, b); }
Value operator*(const Value& a, const Value& b) { return Infix("*", a, b); }
Value operator/(const Value& a, const Value& b) { return Infix("/", a, b); }
Value operator<(const Value& a, const Value& b) { return Infix("<", a, b); }
Value operator<=(const Value& a, const Value& b) { return Infix("<=", a, b); }
Value operator>(const Value& a, const Value& b) { return Infix(">", a, b); }
Value operator>=(const Value& a, const Value& b) { return Infix(">=", a, b); }
Value operator==(const Value& a, const Value& b) { return Infix("==", a, b); }
Value operator!=(const Value& a, const Value& b) { return Infix("!=", a, b); }

ProgramBuilder::ProgramBuilder(ir::Module base) : module_(std::move(base)) {
  for (const ir::GlobalFunction& global : module_.functions) {
    const ir::Function& function = *global.function;
    std::vector<Type> params;
    for (const ir::Var* param : function.params) params.push_back(param->annotation);
    function_types_[global.name] =
        arena().New<ir::FuncType>(function.type_params, std::move(params), function.result_annotation);
  }
}

// ---- Types

Type ProgramBuilder::TypeOf(const Value& value) {
  if (value.leaf_ != nullptr) return value.type_;
  return Tensor(ToDims(value.literal_.shape()), value.literal_.dtype());
}

std::vector<Type> ProgramBuilder::TypesOf(const std::vector<Value>& values) {
  std::vector<Type> types;
  for (const Value& value : values) types.push_back(TypeOf(value));
  return types;
}

Type ProgramBuilder::Function(std::vector<Type> params, Type result) {
  return ir::MakeFuncType(arena(), std::move(params), result);
}

Dim ProgramBuilder::NamedDim(std::string name) {
  for (const ir::TypeParam* known : open_params_) {
    if (known->kind == ir::Kind::kShapeVar && known->name == name) return Dim::Var(known->id, known->name);
  }
  auto* param = arena().New<ir::TypeParam>(arena().NextId(), std::move(name), ir::Kind::kShapeVar, origin_);
  open_params_.push_back(param);
  return Dim::Var(param->id, param->name);
}

Type ProgramBuilder::TypeParameter(std::string name) {
  auto* param = arena().New<ir::TypeParam>(arena().NextId(), std::move(name), ir::Kind::kType, origin_);
  open_params_.push_back(param);
  return arena().New<ir::ParamType>(param);
}

DataTypeBuilder ProgramBuilder::NewType(std::string name, std::vector<std::string> params) {
  if (module_.FindAdt(name) != nullptr) Mistake(absl::StrCat("type `", name, "` is defined twice"));
  auto* adt = arena().New<ir::AdtDef>();
  adt->name = std::move(name);
  for (std::string& param : params) {
    adt->type_params.push_back(
        arena().New<ir::TypeParam>(arena().NextId(), std::move(param), ir::Kind::kType, origin_));
  }
  module_.adts.push_back(adt);
  return DataTypeBuilder(this, adt);
}

DataTypeBuilder ProgramBuilder::DataType(std::string_view name) {
  for (ir::AdtDef* adt : module_.adts) {
    if (adt->name == name) return DataTypeBuilder(this, adt);
  }
  std::vector<std::string_view> known;
  for (const ir::AdtDef* adt : module_.adts) known.push_back(adt->name);
  Mistake(absl::StrCat("no type is named `", Abseil(name), "`", DidYouMean(name, known)));
  return DataTypeBuilder(this, arena().New<ir::AdtDef>());
}

DataTypeBuilder& DataTypeBuilder::Constructor(std::string name, std::vector<Type> fields) {
  if (builder_->module_.FindConstructor(name) != nullptr) {
    builder_->Mistake(absl::StrCat("constructor `", name, "` is defined twice"));
  }
  auto* constructor = builder_->arena().New<ir::Constructor>();
  constructor->name = std::move(name);
  constructor->fields = std::move(fields);
  constructor->adt = adt_;
  constructor->tag = static_cast<uint32_t>(adt_->constructors.size());
  adt_->constructors.push_back(constructor);
  return *this;
}

Type DataTypeBuilder::Param(size_t i) const {
  RVM_CHECK(i < adt_->type_params.size(), "a type has fewer parameters");
  return builder_->arena().New<ir::ParamType>(adt_->type_params[i]);
}

Type DataTypeBuilder::Self() const {
  std::vector<Type> own;
  for (size_t i = 0; i < adt_->type_params.size(); ++i) own.push_back(Param(i));
  return Of(std::move(own));
}

Type DataTypeBuilder::Of(std::vector<Type> arguments) const {
  RVM_CHECK(arguments.size() == adt_->type_params.size(), "another number of type arguments");
  std::vector<ir::TypeArg> args;
  for (Type argument : arguments) args.push_back({ir::Kind::kType, argument, {}, {}, {}});
  return builder_->arena().New<ir::AdtType>(adt_, std::move(args));
}

// ---- Nodes

ir::Expr* ProgramBuilder::Use(const Value& value) {
  if (value.leaf_ == nullptr) return arena().New<ir::Constant>(value.literal_, origin_);
  RVM_CHECK(value.builder_ == this, "a value of another builder");
  if (const auto* var = ir::DynCast<ir::VarExpr>(value.leaf_)) return arena().New<ir::VarExpr>(var->var, origin_);
  if (const auto* global = ir::DynCast<ir::GlobalExpr>(value.leaf_)) {
    return arena().New<ir::GlobalExpr>(global->name, origin_);
  }
  if (const auto* op = ir::DynCast<ir::OpExpr>(value.leaf_)) return arena().New<ir::OpExpr>(op->op, origin_);
  if (const auto* constructor = ir::DynCast<ir::ConstructorExpr>(value.leaf_)) {
    return arena().New<ir::ConstructorExpr>(constructor->constructor, origin_);
  }
  // Placeholder for a mistake: the program is never typed.
  return arena().New<ir::Tuple>(std::vector<ir::Expr*>{}, origin_);
}

std::vector<ir::Expr*> ProgramBuilder::UseAll(const std::vector<Value>& values) {
  std::vector<ir::Expr*> exprs;
  for (const Value& value : values) exprs.push_back(Use(value));
  return exprs;
}

Value ProgramBuilder::Bind(ir::Expr* step, Type type) {
  RVM_CHECK(!blocks_.empty(), "a step outside of a function's body");
  auto* var = arena().New<ir::Var>(arena().NextId(), absl::StrCat("t", ++next_name_), nullptr, origin_);
  blocks_.back().push_back({var, step});
  return Leaf(arena().New<ir::VarExpr>(var, origin_), type);
}

Value ProgramBuilder::NoValue() { return Leaf(arena().New<ir::Tuple>(std::vector<ir::Expr*>{}, origin_), nullptr); }

ProgramBuilder::Built ProgramBuilder::Build(Block block) {
  blocks_.emplace_back();
  const Value value = block();
  ir::Expr* result = Use(value);
  std::vector<Binding> bindings = std::move(blocks_.back());
  blocks_.pop_back();
  // `let %t = e; %t` is e.
  const auto* last = ir::DynCast<ir::VarExpr>(result);
  if (last != nullptr && !bindings.empty() && bindings.back().var == last->var) {
    result = bindings.back().value;
    bool is_recursive = result->expr_kind == ir::ExprKind::kFunction;
    if (is_recursive) {
      result = arena().New<ir::VarExpr>(last->var, origin_);
    } else {
      bindings.pop_back();
    }
  }
  for (size_t i = bindings.size(); i-- > 0;) {
    const Binding& binding = bindings[i];
    result = arena().New<ir::Let>(binding.var, binding.value, result, binding.value->span);
  }
  return {result, TypeOf(value)};
}

ProgramBuilder::BuiltFunction ProgramBuilder::BuildFunction(const std::vector<Param>& params, Type result, Body body) {
  std::vector<ir::Var*> vars;
  std::vector<Value> values;
  for (const Param& param : params) {
    vars.push_back(arena().New<ir::Var>(arena().NextId(), param.name, param.type, origin_));
    values.push_back(Leaf(arena().New<ir::VarExpr>(vars.back(), origin_), param.type));
  }
  const ir::Span origin = origin_;
  Built built = Build([&] { return body(values); });
  auto* function =
      arena().New<ir::Function>(std::vector<const ir::TypeParam*>{}, std::move(vars), result, built.expr, origin);
  Type result_type = result != nullptr ? result : built.type;
  return {function, result_type == nullptr ? nullptr : Function(TypesOf(values), result_type)};
}

// ---- Functions and weights

Value ProgramBuilder::Define(std::string name, std::vector<Param> params, Type result, Body body) {
  if (module_.FindFunction(name) != nullptr) Mistake(absl::StrCat("function `@", name, "` is defined twice"));
  std::vector<const ir::TypeParam*> type_params = std::exchange(open_params_, {});
  std::vector<Type> param_types;
  for (const Param& param : params) param_types.push_back(param.type);
  auto note_type = [&](Type result_type) {
    function_types_[name] = arena().New<ir::FuncType>(type_params, param_types, result_type);
  };
  note_type(result);
  const ir::Span origin = origin_;
  BuiltFunction built = BuildFunction(params, result, body);
  if (built.type != nullptr) note_type(ir::DynCast<ir::FuncType>(built.type)->result);
  built.function->type_params = std::move(type_params);
  module_.functions.push_back({name, built.function, origin});
  return Global(std::move(name));
}

Value ProgramBuilder::Global(std::string name) {
  mentioned_.push_back(name);
  auto found = function_types_.find(name);
  Type type = found == function_types_.end() ? nullptr : found->second;
  return Leaf(arena().New<ir::GlobalExpr>(std::move(name), origin_), type);
}

Value ProgramBuilder::Weight(std::string name, Type type) {
  auto* var = arena().New<ir::Var>(arena().NextId(), std::move(name), type, origin_);
  module_.free_vars.push_back(var);
  return Leaf(arena().New<ir::VarExpr>(var, origin_), type);
}

// ---- Steps

Value ProgramBuilder::OpValue(std::string_view name) {
  if (const ops::OpDef* op = ops::FindOp(name)) return Leaf(arena().New<ir::OpExpr>(op, origin_), nullptr);
  std::vector<std::string_view> known;
  for (const ops::OpDef* op : ops::AllOps()) known.push_back(op->name);
  Mistake(absl::StrCat("no operator is named `", Abseil(name), "`", DidYouMean(name, known)));
  return NoValue();
}

Value ProgramBuilder::Constructor(std::string_view name) {
  if (const ir::Constructor* constructor = module_.FindConstructor(name)) {
    return Leaf(arena().New<ir::ConstructorExpr>(constructor, origin_), ConstructorType(arena(), *constructor));
  }
  std::vector<std::string_view> known;
  for (const ir::AdtDef* adt : module_.adts) {
    for (const ir::Constructor* constructor : adt->constructors) known.push_back(constructor->name);
  }
  Mistake(absl::StrCat("no constructor is named `", Abseil(name), "`", DidYouMean(name, known)));
  return NoValue();
}

Value ProgramBuilder::Op(std::string_view name, std::vector<Value> args, ir::Attrs attrs) {
  Value callee = OpValue(name);
  std::vector<const Literal*> literals;
  for (const Value& arg : args) literals.push_back(arg.leaf_ == nullptr ? &arg.literal_ : nullptr);
  const auto* op = ir::DynCast<ir::OpExpr>(callee.leaf_);
  Type type = op == nullptr ? nullptr : OpResult(arena(), *op->op, attrs, TypesOf(args), literals);
  return Bind(arena().New<ir::Call>(Use(callee), UseAll(args), std::move(attrs), origin_), type);
}

Value ProgramBuilder::Call(const Value& callee, const std::vector<Value>& args) {
  if (const auto* op = ir::DynCast<ir::OpExpr>(callee.leaf_)) return Op(op->op->name, args);
  Type type = CallResult(arena(), callee.type_, TypesOf(args));
  return Bind(arena().New<ir::Call>(Use(callee), UseAll(args), ir::Attrs{}, origin_), type);
}

Value ProgramBuilder::TupleOf(const std::vector<Value>& fields) {
  std::vector<Type> types = TypesOf(fields);
  bool all_known = std::find(types.begin(), types.end(), nullptr) == types.end();
  return Bind(arena().New<ir::Tuple>(UseAll(fields), origin_), all_known ? Tuple(std::move(types)) : nullptr);
}

Value ProgramBuilder::If(const Value& condition, Block then_block, Block else_block) {
  ir::Expr* test = Use(condition);
  const ir::Span origin = origin_;
  Built then_branch = Build(then_block);
  Built else_branch = Build(else_block);
  return Bind(arena().New<ir::If>(test, then_branch.expr, else_branch.expr, origin),
              JoinTypes(arena(), then_branch.type, else_branch.type));
}

ir::Pattern* ProgramBuilder::BuildPattern(const Pattern& pattern, Type type, std::vector<Value>& vars) {
  auto* built = arena().New<ir::Pattern>();
  built->kind = pattern.kind;
  if (pattern.kind == ir::PatternKind::kVar) {
    built->var = arena().New<ir::Var>(arena().NextId(), pattern.name, nullptr, origin_);
    vars.push_back(Leaf(arena().New<ir::VarExpr>(built->var, origin_), type));
  }
  if (pattern.kind == ir::PatternKind::kConstructor) {
    const Value constructor = Constructor(pattern.name);
    const auto* leaf = ir::DynCast<ir::ConstructorExpr>(constructor.leaf_);
    if (leaf != nullptr) built->constructor = leaf->constructor;
  }
  std::vector<Type> types;
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) types = tuple->fields;
  const auto* adt = ir::DynCast<ir::AdtType>(type);
  if (adt != nullptr && built->constructor != nullptr && built->constructor->adt == adt->adt) {
    types = ir::FieldTypes(arena(), *built->constructor, *adt);
  }
  for (size_t i = 0; i < pattern.fields.size(); ++i) {
    Type field = i < types.size() ? types[i] : nullptr;
    built->fields.push_back(WithStack([&] { return BuildPattern(pattern.fields[i], field, vars); }));
  }
  return built;
}

Value ProgramBuilder::Match(const Value& value, std::initializer_list<Clause> clauses, bool partial) {
  const ir::Span origin = origin_;
  std::vector<ir::Clause> built;
  Type type = nullptr;
  for (const Clause& clause : clauses) {
    std::vector<Value> vars;
    ir::Pattern* pattern = BuildPattern(clause.pattern, TypeOf(value), vars);
    Built body = Build([&] { return clause.body(vars); });
    built.push_back({pattern, body.expr, origin});
    type = JoinTypes(arena(), type, body.type);
  }
  return Bind(arena().New<ir::Match>(Use(value), std::move(built), !partial, origin), type);
}

Value ProgramBuilder::Lambda(std::string name, std::vector<Param> params, Type result,
                             absl::FunctionRef<Value(const Value& self, Values params)> body) {
  auto* var = arena().New<ir::Var>(arena().NextId(), std::move(name), nullptr, origin_);
  std::vector<Type> types;
  for (const Param& param : params) types.push_back(param.type);
  Value self = Leaf(arena().New<ir::VarExpr>(var, origin_), Function(std::move(types), result));
  BuiltFunction built = BuildFunction(params, result, [&](Values own) { return body(self, own); });
  RVM_CHECK(!blocks_.empty(), "a function value outside of a function's body");
  blocks_.back().push_back({var, built.function});
  if (built.type != nullptr) self.type_ = built.type;
  return self;
}

Value ProgramBuilder::NewRef(const Value& contents) {
  Type type = TypeOf(contents);
  return Bind(arena().New<ir::RefCreate>(Use(contents), origin_), type == nullptr ? nullptr : Ref(type));
}
Value ProgramBuilder::Read(const Value& ref) {
  const auto* type = ir::DynCast<ir::RefType>(ref.type_);
  return Bind(arena().New<ir::RefRead>(Use(ref), origin_), type == nullptr ? nullptr : type->contents);
}
void ProgramBuilder::Write(const Value& ref, const Value& value) {
  ir::Expr* target = Use(ref);
  Bind(arena().New<ir::RefWrite>(target, Use(value), origin_), Tuple({})).Named("_");
}

absl::StatusOr<ir::Module> ProgramBuilder::Finish() && {
  std::vector<std::string_view> known;
  for (const ir::GlobalFunction& function : module_.functions) known.push_back(function.name);
  absl::flat_hash_set<std::string_view> defined(known.begin(), known.end());
  for (const std::string& name : mentioned_) {
    if (defined.insert(name).second)
      Mistake(absl::StrCat("no function is named `@", name, "`", DidYouMean(name, known)));
  }
  if (!mistakes_.empty()) return absl::InvalidArgumentError(absl::StrJoin(mistakes_, "\n"));
  return std::move(module_);
}

}  // namespace rvm::builder
