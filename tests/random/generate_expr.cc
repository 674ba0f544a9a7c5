// Expressions of a wanted type.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {

std::string Generator::NewName(const char* stem) { return absl::StrCat("%", stem, names_++); }

std::vector<std::string> Generator::VariablesOf(const TypeRef& type) const {
  std::vector<std::string> names;
  for (const Variable& variable : scope_) {
    if (Same(variable.type, type)) names.push_back(variable.name);
  }
  return names;
}

// Returns a type that something in reach can make use of: of a variable, or any.
TypeRef Generator::UsefulType(int depth) {
  if (!scope_.empty() && dice_.Chance(40)) return dice_.Of(scope_).type;
  return RandomType(depth);
}

std::string Generator::Expr(const TypeRef& type, int depth) {
  if (depth <= 0 || --budget_ <= 0) return Leaf(type);
  std::string text;
  int choice = dice_.Pick(100);
  if (choice < 6) return Leaf(type);
  if (choice < 16) return Let(type, depth);
  if (choice < 21) return LocalFunction(type, depth);
  if (choice < 27) {
    return absl::StrCat("if (", Expr(Scalar(kBool), depth - 1), ") { ", Expr(type, depth - 1), " } else { ",
                        Expr(type, depth - 1), " }");
  }
  if (choice < 36) return Match(type, depth);
  if (choice < 44) text = CallGlobal(type, depth);
  if (choice >= 44 && choice < 49) return CallClosure(type, depth);
  if (choice >= 49 && choice < 52) return Project(type, depth);
  // (What stands for a parameter that grows is not in a reference.)
  if (choice >= 52 && choice < 55 && !grows_)
    return absl::StrCat("ref_read(", Annotated(Expr(RefOf(type), depth - 1), RefOf(type)), ")");
  if (choice >= 55 && choice < 60) text = Effect(type, depth);
  if (choice >= 60 && choice < 74) text = CallRecursive(type, depth);
  return text.empty() ? OwnForm(type, depth) : text;
}

std::string Generator::Leaf(const TypeRef& type) {
  std::vector<std::string> variables = VariablesOf(type);
  if (!variables.empty() && dice_.Chance(type->form == TypeForm::kTensor && IsStaticTensor(type) ? 70 : 90)) {
    return dice_.Of(variables);
  }
  switch (type->form) {
    case TypeForm::kTensor: {
      if (IsStaticTensor(type)) return TensorConstant(type);
      if (!variables.empty()) return dice_.Of(variables);
      std::vector<std::string> dims = type->dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == "?") dims[i] = absl::StrCat(dice_.Chance(90) ? 2 + i : 1 + static_cast<size_t>(dice_.Pick(4)));
      }
      return absl::StrCat(OpenHelper(type), "(", TensorConstant(Tensor(type->dtype, dims)), ")");
    }
    case TypeForm::kTuple: {
      std::string text = "(";
      for (const TypeRef& part : type->parts) absl::StrAppend(&text, Leaf(part), ", ");
      return absl::StrCat(text, ")");
    }
    case TypeForm::kFunction: return FunctionLiteral(type, 0);
    case TypeForm::kAdt: return Construct(type, type->adt->constructors[0], 0);
    case TypeForm::kRef: return absl::StrCat("ref(", Leaf(type->parts[0]), ")");
    case TypeForm::kParam: break;
  }
  return variables.empty() ? "()" : dice_.Of(variables);
}

std::string Generator::Construct(const TypeRef& type, const Adt::Constructor& constructor, int depth) {
  if (constructor.fields.empty()) return constructor.name;
  std::vector<std::string> fields;
  for (const TypeRef& field : FieldTypes(type, constructor)) fields.push_back(Expr(field, depth - 1));
  return absl::StrCat(constructor.name, "(", absl::StrJoin(fields, ", "), ")");
}

std::string Generator::OwnForm(const TypeRef& type, int depth) {
  switch (type->form) {
    case TypeForm::kTensor: return Operator(type, depth);
    case TypeForm::kTuple: {
      std::string text = "(";
      for (const TypeRef& part : type->parts) absl::StrAppend(&text, Expr(part, depth - 1), ", ");
      return absl::StrCat(text, ")");
    }
    case TypeForm::kFunction: return FunctionValue(type, depth);
    case TypeForm::kAdt: return Construct(type, dice_.Of(type->adt->constructors), depth);
    case TypeForm::kRef: return absl::StrCat("ref(", Expr(type->parts[0], depth - 1), ")");
    case TypeForm::kParam: break;
  }
  return IsAnyTensor(type->text) && dice_.Chance(60) ? AnyTensorOperator(type, depth) : Leaf(type);
}

std::string Generator::Let(const TypeRef& type, int depth) {
  TypeRef value_type = UsefulType(2);
  std::string value = Expr(value_type, depth - 1);
  size_t scope = scope_.size();
  bool is_pattern = value_type->form == TypeForm::kTuple && dice_.Chance(50) &&
                    std::all_of(value_type->parts.begin(), value_type->parts.end(),
                                [](const TypeRef& part) { return part->form == TypeForm::kTensor; });
  if (is_pattern) {
    Pattern tuple{.type = value_type, .is_leaf = false};
    for (const TypeRef& part : value_type->parts) tuple.fields.push_back({.type = part});
    std::string pattern = tuple.fields.empty() ? "()" : PatternText(tuple);
    std::string body = Expr(type, depth - 1);
    scope_.resize(scope);
    return absl::StrCat("{ let ", pattern, " = ", value, "; ", body, " }");
  }
  // Without annotation nothing would say what the `Nil` of an unused list holds.
  bool graph = value_type->form == TypeForm::kTensor && dice_.Chance(30);
  scope_.push_back({graph ? absl::StrCat("%", names_++) : NewName("v"), value_type});
  std::string name = scope_.back().name;
  std::string annotation =
      !graph && (value_type->form != TypeForm::kTensor || dice_.Chance(25)) ? absl::StrCat(": ", value_type->text) : "";
  std::string body = Expr(type, depth - 1);
  scope_.resize(scope);
  return absl::StrCat("{ ", graph ? "" : "let ", name, annotation, " = ", value, "; ", body, " }");
}

// `let %f = fn ...;`, half of them recursive with a counter.
std::string Generator::LocalFunction(const TypeRef& type, int depth) {
  Signature signature{.name = NewName("f")};
  bool counted = dice_.Chance(50);
  if (counted) signature.params.push_back(Scalar(kInt32));
  if (!counted && polymorphic_values_ && dice_.Chance(40)) {
    signature = FreshSignature(RandomPolymorphic());
    signature.name = NewName("f");
  } else {
    for (int i = dice_.Pick(3); i > 0; --i) signature.params.push_back(UsefulType(1));
    signature.result = dice_.Chance(50) ? type : UsefulType(1);
  }
  size_t scope = scope_.size();
  std::vector<std::string> params;
  for (const TypeRef& param : signature.params) {
    scope_.push_back({NewName("a"), param});
    params.push_back(absl::StrCat(scope_.back().name, ": ", param->text));
  }
  std::string body;
  if (counted) {
    std::string counter = scope_[scope].name;
    std::string end = Expr(signature.result, depth - 2);
    std::vector<Signature> outer = recursive_;
    recursive_ = {signature};
    recursive_[0].first_args = {absl::StrCat(counter, " - 1")};
    body = absl::StrCat("if (", counter, " <= 0) { ", end, " } else { ", Expr(signature.result, depth - 1), " }");
    recursive_ = std::move(outer);
    signature.first_args = {"0", "1", "2", "3"};
  } else {
    body = Expr(signature.result, depth - 1);
  }
  scope_.resize(scope);
  std::string declared =
      signature.type_params.empty() ? "" : absl::StrCat("[", Declarations(signature.type_params), "]");
  std::string text = absl::StrCat("{ let ", signature.name, " = fn ", declared, "(", absl::StrJoin(params, ", "),
                                  ") -> ", signature.result->text, " { ", body, " }; ");
  // In the rest it is called like a global function; without a counter it is a value as well.
  size_t functions = functions_.size();
  functions_.push_back(signature);
  if (!counted) scope_.push_back({signature.name, ValueType(signature)});
  std::string rest = Same(signature.result, type) ? CallWith(signature, {}, depth - 1) : Expr(type, depth - 1);
  if (Same(signature.result, type) && IsScalar(type) && type->dtype.is_integral() && !type->dtype.is_bool()) {
    rest = absl::StrCat("(", rest, " + ", Expr(type, depth - 1), ")");
  }
  functions_.resize(functions);
  scope_.resize(scope);
  return absl::StrCat(text, rest, " }");
}

// A write to a reference in reach, then the value.
std::string Generator::Effect(const TypeRef& type, int depth) {
  std::vector<Variable> references;
  for (const Variable& variable : scope_) {
    if (variable.type->form == TypeForm::kRef) references.push_back(variable);
  }
  if (references.empty()) return "";
  Variable reference = dice_.Of(references);
  std::string value = Expr(reference.type->parts[0], depth - 1);
  return absl::StrCat("{ ref_write(", reference.name, ", ", value, "); ", Expr(type, depth - 1), " }");
}

std::string Generator::FunctionLiteral(const TypeRef& type, int depth) {
  size_t scope = scope_.size();
  std::vector<std::string> params;
  Signature own = FreshSignature(type);
  for (const TypeRef& param : own.params) {
    scope_.push_back({NewName("a"), param});
    params.push_back(absl::StrCat(scope_.back().name, ": ", param->text));
  }
  std::string body = depth <= 0 ? Leaf(own.result) : Expr(own.result, depth - 1);
  scope_.resize(scope);
  std::string declared = own.type_params.empty() ? "" : absl::StrCat("[", Declarations(own.type_params), "]");
  return absl::StrCat("fn ", declared, "(", absl::StrJoin(params, ", "), ") -> ", own.result->text, " { ", body, " }");
}

std::string Generator::FunctionValue(const TypeRef& type, int depth) {
  std::vector<std::string> values;
  const TypeRef& result = type->result;
  if (type->parts.size() == 2 && Same(type->parts[0], result) && Same(type->parts[1], result) &&
      type->type_params.empty() && IsStaticTensor(result)) {
    if (!result->dtype.is_bool() && !(smooth_ && result->dtype.is_float())) {
      values = {"add", "multiply", "subtract", "maximum"};
    } else if (result->dtype.is_bool()) {
      values = {"logical_and", "logical_or"};
    }
  }
  // Nothing else determines the types of the operands, so that annotations state them.
  for (std::string& op : values) {
    std::string name = NewName("o");
    op = absl::StrCat("{ let ", name, ": ", type->text, " = ", op, "; ", name, " }");
  }
  for (const std::string& name : NamesOf(type)) values.push_back(name);
  if (!values.empty() && dice_.Chance(type->type_params.empty() ? 60 : 80)) return dice_.Of(values);
  return FunctionLiteral(type, depth);
}

std::string Generator::CallClosure(const TypeRef& type, int depth) {
  if (polymorphic_values_ && dice_.Chance(50)) {
    std::string text = CallPolymorphic(type, depth);
    if (!text.empty()) return text;
  }
  std::vector<TypeRef> params;
  for (int i = dice_.Pick(3); i > 0; --i) params.push_back(UsefulType(1));
  TypeRef function = FunctionOf(params, type);
  for (const Variable& variable : scope_) {
    bool is_function = variable.type->form == TypeForm::kFunction && variable.type->type_params.empty();
    if (is_function && Same(variable.type->result, type) && dice_.Chance(50)) function = variable.type;
  }
  std::string callee = Expr(function, depth - 1);
  std::vector<std::string> args;
  for (const TypeRef& param : function->parts) args.push_back(Expr(param, depth - 1));
  return absl::StrCat("(", callee, ")(", absl::StrJoin(args, ", "), ")");
}

std::string Generator::CallGlobal(const TypeRef& type, int depth) {
  std::vector<std::pair<const Signature*, Bindings>> callees;
  for (const Signature& function : functions_) {
    Bindings bindings;
    // The types of a local function are those of the function around it, but for its own parameters.
    bool is_local = function.name[0] == '%';
    bool fits = random_programs::Match(function.result, type, function.type_params, is_local, bindings);
    if (fits && MayInstantiate(bindings)) callees.push_back({&function, bindings});
  }
  if (callees.empty()) return "";
  auto [callee, bindings] = dice_.Of(callees);
  Signature signature = *callee;
  return CallWith(signature, bindings, depth);
}

std::string Generator::CallRecursive(const TypeRef& type, int depth) {
  std::vector<Signature> callees;
  for (const Signature& function : recursive_) {
    if (Same(function.result, type)) callees.push_back(function);
  }
  if (callees.empty()) return "";
  // At its own type and dim parameters: each instance calls only itself.
  Signature callee = dice_.Of(callees);
  Bindings own;
  for (const std::string& param : callee.type_params) own.types[param] = Param(param);
  own.dims = {{"n", "n"}, {"m", "m"}};
  // Or at larger types, if it counts its calls and its result does not tell.
  if (grows_ && !callee.type_params.empty() && IsScalar(callee.params[0]) && dice_.Chance(80)) {
    Bindings larger = own;
    TypeRef& type_of_param = larger.types[dice_.Of(callee.type_params)];
    if (!IsAnyTensor(type_of_param->text)) type_of_param = Larger(type_of_param);
    if (Same(Substitute(callee.result, larger), type)) own = larger;
  }
  // One call in a body is enough for most; more make trees of calls.
  std::vector<Signature> outer = recursive_;
  if (dice_.Chance(70)) recursive_.clear();
  std::string text = CallWith(callee, own, depth);
  if (dice_.Chance(30)) recursive_ = std::move(outer);
  return text;
}

std::string Generator::CallWith(const Signature& signature, Bindings bindings, int depth) {
  for (const std::string& param : signature.type_params) {
    if (!bindings.types.contains(param)) bindings.types[param] = TypeArgument(param);
  }
  // In a local function `n` is the caller's own.
  bool is_global = signature.name[0] == '@';
  for (const TypeRef& param : is_global ? signature.params : std::vector<TypeRef>()) {
    for (const std::string& dim : param->dims) {
      if (dim == "n" || dim == "m") bindings.dims.try_emplace(dim, absl::StrCat(1 + dice_.Pick(3)));
    }
  }
  std::vector<std::string> args;
  for (const TypeRef& param : signature.params) {
    if (args.empty() && !signature.first_args.empty()) {
      args.push_back(dice_.Of(signature.first_args));
    } else {
      TypeRef type = Substitute(param, bindings);
      if (args.size() < signature.own_params.size() && Same(type, param) && dice_.Chance(75)) {
        args.push_back(signature.own_params[args.size()]);
        continue;
      }
      std::string arg = Expr(type, depth - 1);
      // In the place of a parameter nothing says at what type a polymorphic function is meant.
      bool is_open = type->form == TypeForm::kFunction && param->form != TypeForm::kFunction;
      args.push_back(is_open ? Annotated(arg, type) : arg);
    }
  }
  return absl::StrCat(signature.name, "(", absl::StrJoin(args, ", "), ")");
}

std::string Generator::Project(const TypeRef& type, int depth) {
  // Half of the time a tuple that is there.
  for (const Variable& variable : scope_) {
    if (variable.type->form != TypeForm::kTuple) continue;
    for (size_t i = 0; i < variable.type->parts.size(); ++i) {
      if (Same(variable.type->parts[i], type) && dice_.Chance(50)) return absl::StrCat(variable.name, ".", i);
    }
  }
  std::vector<TypeRef> fields = {type, RandomType(1)};
  size_t index = static_cast<size_t>(dice_.Pick(2));
  if (index == 1) std::swap(fields[0], fields[1]);
  TypeRef tuple = TupleOf(fields);
  return absl::StrCat("(", Annotated(Expr(tuple, depth - 1), tuple), ").", index);
}

}  // namespace rvm::random_programs
