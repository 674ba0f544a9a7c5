// Polymorphic functions as values: their types, what has them, what they are called with.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {
namespace {

constexpr char kAnyTensor[] = "Tensor[S, U]";

Bindings Renaming(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  Bindings bindings;
  for (size_t i = 0; i < from.size(); ++i) bindings.types[from[i]] = Param(to[i]);
  return bindings;
}

}  // namespace

// Returns the type that a function with type parameters has as a value.
TypeRef Generator::ValueType(const Signature& signature) {
  if (signature.type_params.empty()) return FunctionOf(signature.params, signature.result);
  std::vector<std::string> names = {"P", "Q"};
  names.resize(signature.type_params.size());
  if (IsAnyTensor(signature.type_params[0])) names = {kAnyTensor};
  Bindings bindings = Renaming(signature.type_params, names);
  std::vector<TypeRef> params;
  for (const TypeRef& param : signature.params) params.push_back(Substitute(param, bindings));
  return FunctionOf(std::move(params), Substitute(signature.result, bindings), std::move(names));
}

Generator::Signature Generator::ConstructorSignature(const Adt& adt, const Adt::Constructor& constructor) {
  std::vector<TypeRef> args;
  for (const std::string& param : adt.params) args.push_back(Param(param));
  return {.name = constructor.name,
          .type_params = adt.params,
          .params = constructor.fields,
          .result = AdtOf(&adt, std::move(args))};
}

// Mostly one that is there, so that values of one type meet.
TypeRef Generator::RandomPolymorphic() {
  if (polymorphic_types_.empty() || dice_.Chance(30)) polymorphic_types_.push_back(NewPolymorphic());
  return dice_.Chance(50) ? polymorphic_types_.back() : dice_.Of(polymorphic_types_);
}

TypeRef Generator::NewPolymorphic() {
  if (dice_.Chance(20)) {
    TypeRef any = Param(kAnyTensor);
    std::vector<TypeRef> params = {any};
    if (dice_.Chance(40)) params.push_back(dice_.Chance(70) ? any : FunctionOf({any}, any));
    return FunctionOf(std::move(params), dice_.Chance(80) ? any : TupleOf({any, any}), {kAnyTensor});
  }
  if (dice_.Chance(25)) {
    const Adt& adt = dice_.Chance(60) ? adts_[static_cast<size_t>(dice_.Pick(3))] : adts_.back();
    // A value of each parameter is needed to make a result.
    for (const Adt::Constructor& constructor : adt.constructors) {
      size_t given = 0;
      for (const std::string& param : adt.params) {
        for (const TypeRef& field : constructor.fields) {
          if (field->text != param) continue;
          ++given;
          break;
        }
      }
      if (given > 0 && given == adt.params.size()) return ValueType(ConstructorSignature(adt, constructor));
    }
  }
  TypeRef p = Param("P"), q = dice_.Chance(30) ? Param("Q") : p;
  std::vector<TypeRef> params = {p};
  if (q != p) params.push_back(q);
  auto list_of = [&](const TypeRef& type) { return AdtOf(&adts_[static_cast<size_t>(dice_.Pick(3))], {type}); };
  for (int i = dice_.Pick(3); i > 0; --i) {
    std::vector<TypeRef> forms = {p, q, list_of(p), TupleOf({q, RandomScalar()}), FunctionOf({p}, q), RandomScalar()};
    params.push_back(dice_.Of(forms));
  }
  dice_.Shuffle(params);
  std::vector<TypeRef> results = {p, q, p, TupleOf({q, p}), list_of(q), FunctionOf({q}, p), RandomScalar()};
  std::vector<std::string> names = {"P"};
  if (q != p) names.push_back("Q");
  return FunctionOf(std::move(params), dice_.Of(results), std::move(names));
}

// `type` with names of its own for its parameters.
Generator::Signature Generator::FreshSignature(const TypeRef& type) {
  Signature fresh{.name = ""};
  for (const std::string& param : type->type_params) {
    int number = names_++;
    fresh.type_params.push_back(IsAnyTensor(param) ? absl::StrCat("Tensor[S", number, ", U", number, "]")
                                                   : absl::StrCat(param, number));
  }
  Bindings bindings = Renaming(type->type_params, fresh.type_params);
  for (const TypeRef& part : type->parts) fresh.params.push_back(Substitute(part, bindings));
  fresh.result = Substitute(type->result, bindings);
  return fresh;
}

// Names of what has the type, an instance of what is polymorphic included, where the context says the type.
std::vector<std::string> Generator::NamesOf(const TypeRef& type) {
  std::vector<std::string> names;
  auto add = [&](const Signature& signature) {
    if (!signature.first_args.empty()) return;
    if (!type->type_params.empty() || signature.type_params.empty()) {
      if (Same(ValueType(signature), type)) names.push_back(signature.name);
      return;
    }
    Bindings bindings;
    TypeRef own = FunctionOf(signature.params, signature.result);
    if (random_programs::Match(own, type, signature.type_params, true, bindings) && MayInstantiate(bindings))
      names.push_back(signature.name);
  };
  if (HasOpenDims(type)) return names;
  for (const Signature& function : functions_) {
    if (function.name[0] == '@') add(function);
  }
  for (const Variable& variable : scope_) {
    if (variable.type->type_params.empty()) continue;
    Signature signature = FreshSignature(variable.type);
    signature.name = variable.name;
    add(signature);
  }
  for (const Adt& adt : adts_) {
    for (const Adt::Constructor& constructor : adt.constructors) {
      if (!constructor.fields.empty()) add(ConstructorSignature(adt, constructor));
    }
  }
  if (type->type_params.size() != 1 || !IsAnyTensor(type->type_params[0])) return names;
  std::vector<TypeRef> any(type->parts.size(), Param(kAnyTensor));
  if (!Same(FunctionOf(any, any[0], {kAnyTensor}), type)) return names;
  const std::vector<std::string> ops[] = {{"copy", "zeros_like", "ones_like"}, {"maximum", "minimum"}};
  if (any.size() <= 2) names.insert(names.end(), ops[any.size() - 1].begin(), ops[any.size() - 1].end());
  if (any.size() == 1) names.push_back(GenericHelper(smooth_ ? dice_.Pick(2) : 4 + dice_.Pick(2)));
  return names;
}

bool Generator::MayInstantiate(const Bindings& bindings) const {
  for (const auto& [param, type] : bindings.types) {
    if (polymorphic_values_ && !MayStandForParam(param, type)) return false;
  }
  return true;
}

// Returns a type for a type parameter that nothing determines.
TypeRef Generator::TypeArgument(const std::string& param) {
  if (IsAnyTensor(param)) return dice_.Chance(50) ? RandomScalar() : RandomTensor();
  TypeRef type = UsefulType(1);
  return !polymorphic_values_ || MayStandForParam(param, type) ? type : RandomScalar();
}

// Returns a call of a polymorphic value: of a variable, or of what stands there.
std::string Generator::CallPolymorphic(const TypeRef& type, int depth) {
  std::vector<std::pair<Signature, Bindings>> callees;
  auto add = [&](const std::string& name, const TypeRef& callee) {
    Signature signature = FreshSignature(callee);
    signature.name = name;
    Bindings bindings;
    if (random_programs::Match(signature.result, type, signature.type_params, true, bindings) &&
        MayInstantiate(bindings)) {
      callees.emplace_back(std::move(signature), std::move(bindings));
    }
  };
  for (const Variable& variable : scope_) {
    if (!variable.type->type_params.empty()) add(variable.name, variable.type);
  }
  if (callees.empty() || dice_.Chance(40)) {
    TypeRef callee = RandomPolymorphic();
    size_t before = callees.size();
    add("", callee);
    if (callees.size() > before) {
      auto [signature, bindings] = callees.back();
      std::string name = NewName("o");
      signature.name = name;
      std::string value = Expr(callee, depth - 1);
      return absl::StrCat("{ let ", name, ": ", callee->text, " = ", value, "; ",
                          CallWith(signature, bindings, depth - 1), " }");
    }
  }
  if (callees.empty()) return "";
  auto [signature, bindings] = dice_.Of(callees);
  return CallWith(signature, bindings, depth);
}

// Returns an operator on tensors of any type, the parameter `type`.
std::string Generator::AnyTensorOperator(const TypeRef& type, int depth) {
  std::string first = Expr(type, depth - 1);
  switch (dice_.Pick(smooth_ ? 3 : 4)) {
    case 0: return absl::StrCat("copy(", first, ")");
    case 1: return absl::StrCat("maximum(", first, ", ", Expr(type, depth - 1), ")");
    case 2: return absl::StrCat(GenericHelper(dice_.Pick(2)), "(", first, ")");
    default: {
      std::string name = NewName("w");
      return absl::StrCat("{ let ", name, " = ", first, "; where(", name, " == ", Expr(type, depth - 1), ", ", name,
                          ", ", Expr(type, depth - 1), ") }");
    }
  }
}

// `text` where nothing around it says its type, and where a polymorphic function in it would become one instance.
std::string Generator::Annotated(const std::string& text, const TypeRef& type) {
  if (!polymorphic_values_ || type->form == TypeForm::kTensor) return text;
  std::string name = NewName("t");
  return absl::StrCat("{ let ", name, ": ", type->text, " = ", text, "; ", name, " }");
}

}  // namespace rvm::random_programs
