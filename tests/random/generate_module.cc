// Functions and whole programs.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {

Program Generate(uint64_t seed) { return Generator(seed).Run(); }
Program GenerateTensorWork(uint64_t seed) { return Generator(seed, Generator::Flavor::kTensorWork).Run(); }
Program GenerateProducts(uint64_t seed) { return Generator(seed, Generator::Flavor::kProducts).Run(); }
Program GenerateDifferentiable(uint64_t seed) { return Generator(seed, Generator::Flavor::kDifferentiable).Run(); }

namespace {

bool HasNamedDims(const std::vector<TypeRef>& types) {
  for (const TypeRef& type : types) {
    for (const std::string& dim : type->dims) {
      if (dim == "n" || dim == "m") return true;
    }
  }
  return false;
}

}  // namespace

Program Generator::Run() {
  MakeAdts();
  for (int i = 1 + dice_.Pick(4); i > 0; --i) {
    if (dice_.Chance(12)) {
      MakeMutualPair();
    } else {
      MakeFunction();
    }
  }
  return differentiable_ ? MakeDifferentiableProgram() : MakeProgram();
}

// Returns a function that makes every `?` of its parameter's type unknown to its caller.
std::string Generator::OpenHelper(const TypeRef& type) {
  auto [it, is_new] = open_helpers_.try_emplace(type->text, absl::StrCat("@open", open_helpers_.size()));
  if (is_new) {
    definitions_.push_back(absl::StrCat("def ", it->second, "(%x: ", type->text, ") -> ", type->text, " { %x }"));
  }
  return it->second;
}

Generator::Signature Generator::RandomSignature(const std::string& name, bool is_entry) {
  Signature signature{.name = name};
  if (!is_entry && polymorphic_values_ && dice_.Chance(30)) {
    signature = FreshSignature(RandomPolymorphic());
    signature.name = name;
    return signature;
  }
  if (!is_entry && dice_.Chance(grows_ ? 70 : 35)) {
    signature.type_params = {"A"};
    if (dice_.Chance(30)) signature.type_params.push_back("B");
    // A value of each, so that a result can be made.
    for (const std::string& param : signature.type_params) signature.params.push_back(Param(param));
    TypeRef a = Param("A"), last = Param(signature.type_params.back());
    if (dice_.Chance(50)) signature.params.push_back(FunctionOf({a}, last));
    if (dice_.Chance(40)) signature.params.push_back(AdtOf(&adts_[static_cast<size_t>(dice_.Pick(3))], {last}));
  } else if (dice_.Chance(12)) {
    std::vector<std::string> dims = {"n"};
    if (dice_.Chance(50)) dims.push_back(dice_.Chance(50) ? "m" : "2");
    for (int i = 1 + dice_.Pick(2); i > 0; --i) signature.params.push_back(Tensor(dice_.Of(dtypes_), dims));
  }
  for (int i = dice_.Pick(3); i > 0; --i) signature.params.push_back(is_entry ? RandomDataType(2) : RandomType(2));
  dice_.Shuffle(signature.params);
  std::vector<TypeRef> results = signature.params;
  for (const TypeRef& param : signature.params) {
    if (param->form == TypeForm::kFunction && param->type_params.empty()) results.push_back(param->result);
  }
  bool from_param = !results.empty() && dice_.Chance(45);
  signature.result = from_param ? dice_.Of(results) : is_entry ? RandomDataType(2) : RandomType(2);
  if (!IsData(signature.result) && is_entry) signature.result = RandomDataType(2);
  return signature;
}

std::string Generator::Header(const Signature& signature) {
  std::vector<std::string> params;
  for (const TypeRef& type : signature.params) {
    scope_.push_back({NewName("p"), type});
    params.push_back(absl::StrCat(scope_.back().name, ": ", type->text));
  }
  std::string type_params =
      signature.type_params.empty() ? "" : absl::StrCat("[", Declarations(signature.type_params), "]");
  return absl::StrCat("def ", signature.name, type_params, "(", absl::StrJoin(params, ", "), ") -> ",
                      signature.result->text, " {\n  ");
}

std::string Generator::Body(const Signature& signature, int depth) {
  budget_ = 40;
  return Expr(signature.result, depth);
}

// Names of the parameters of the function whose body begins: nothing else was added to the scope.
std::vector<std::string> Generator::ParamNames(const Signature& signature) const {
  std::vector<std::string> names;
  for (size_t i = scope_.size() - signature.params.size(); i < scope_.size(); ++i) names.push_back(scope_[i].name);
  return names;
}

// The first parameter counts down to 0.
std::string Generator::CountedBody(Signature& signature, const std::vector<Signature>& recursive) {
  const size_t first = scope_.size() - signature.params.size();
  std::string counter = scope_[first].name;
  std::string end = Body(signature, 2);
  recursive_ = recursive;
  for (Signature& callee : recursive_) {
    callee.first_args = {absl::StrCat(counter, " - 1")};
    if (callee.name == signature.name) callee.own_params = ParamNames(signature);
  }
  const size_t scope = scope_.size();
  Invariant invariant = dice_.Chance(70) ? MakeInvariant(signature) : Invariant();
  std::string step;
  if (invariant.variable.type != nullptr) {
    signature.has_invariant = true;
    scope_.push_back(invariant.variable);
    budget_ = 40;
    if (dice_.Chance(60)) step = CallRecursive(signature.result, 4);
  }
  if (step.empty()) step = Body(signature, 4);
  scope_.resize(scope);
  recursive_.clear();
  if (invariant.variable.type != nullptr) step = WithInvariant(invariant, step, end, signature.result);
  return absl::StrCat("if (", counter, " <= 0) { ", end, " } else { ", step, " }");
}

// The first parameter is an ADT; calls of itself take parts of it.
std::string Generator::StructuralBody(const Signature& signature) {
  Variable first = scope_[scope_.size() - signature.params.size()];
  std::string text = absl::StrCat("match (", first.name, ") {");
  const std::vector<std::string> own_params = ParamNames(signature);
  for (const Adt::Constructor& constructor : first.type->adt->constructors) {
    size_t scope = scope_.size();
    Signature self = signature;
    self.own_params = own_params;
    std::vector<std::string> fields;
    for (const TypeRef& type : FieldTypes(first.type, constructor)) {
      fields.push_back(NewName("m"));
      scope_.push_back({fields.back(), type});
      if (Same(type, first.type)) self.first_args.push_back(fields.back());
    }
    if (!self.first_args.empty()) recursive_ = {self};
    std::string pattern =
        fields.empty() ? constructor.name : absl::StrCat(constructor.name, "(", absl::StrJoin(fields, ", "), ")");
    absl::StrAppend(&text, " ", pattern, " => ", Body(signature, 3), ",");
    recursive_.clear();
    scope_.resize(scope);
  }
  return absl::StrCat(text, " }");
}

void Generator::MakeFunction() {
  Signature signature = RandomSignature(absl::StrCat("@f", functions_.size()), false);
  // Half of the polymorphic ones keep their type, which others may have as well.
  bool keeps_type = !signature.type_params.empty() && dice_.Chance(50);
  int form = keeps_type ? 9 : dice_.Pick(10);
  // Counting functions may call themselves at larger types.
  if (grows_ && !signature.type_params.empty()) form = 0;
  if (form < 3 && signature.type_params.empty() && dice_.Chance(60)) signature.params.push_back(RandomTensor());
  if (form < 3) signature.params.insert(signature.params.begin(), Scalar(kInt32));
  if (form >= 3 && form < 6) {
    TypeRef recursive = RandomAdtType(1);
    if (!signature.type_params.empty()) recursive = AdtOf(&adts_[0], {Param(signature.type_params[0])});
    signature.params.insert(signature.params.begin(), recursive);
  }
  std::string text = Header(signature);
  std::string body = form < 3   ? CountedBody(signature, {signature})
                     : form < 6 ? StructuralBody(signature)
                                : Body(signature, 4);
  definitions_.push_back(absl::StrCat(text, body, "\n}"));
  if (form < 3) signature.first_args = {"0", "1", "2", "3"};
  scope_.clear();
  functions_.push_back(std::move(signature));
}

void Generator::MakeMutualPair() {
  Signature pair[2];
  for (int i = 0; i < 2; ++i) {
    do {
      pair[i] = RandomSignature(absl::StrCat("@f", functions_.size(), i == 0 ? "a" : "b"), false);
    } while (!pair[i].type_params.empty() || HasNamedDims(pair[i].params));
    pair[i].params.insert(pair[i].params.begin(), Scalar(kInt32));
  }
  for (Signature& signature : pair) {
    std::string text = Header(signature);
    definitions_.push_back(absl::StrCat(text, CountedBody(signature, {pair[0], pair[1]}), "\n}"));
    scope_.clear();
  }
  for (Signature& signature : pair) {
    signature.first_args = {"0", "1", "2"};
    functions_.push_back(std::move(signature));
  }
}

Program Generator::MakeProgram() {
  Program program;
  if (smooth_) program.tolerance = 2e-3;
  for (DataType dtype : dtypes_) {
    if (smooth_ && dtype.is_small_float()) program.tolerance = 0.1;
  }
  int entries = 1 + dice_.Pick(2);
  for (int i = 0; i < entries; ++i) {
    Signature signature = RandomSignature(i == 0 ? "@main" : absl::StrCat("@entry", i), true);
    TypeRef work = for_device() ? AddDeviceWork(signature) : nullptr;
    TypeRef result = signature.result;
    GraphWork graph = flavor_ == Flavor::kAny && i == 0 ? AddGraphWork(signature) : GraphWork();
    std::string text = Header(signature);
    std::string body =
        work != nullptr ? DeviceBody(signature, work, 5) : WithGraphWork(graph, Body({.result = result}, 5));
    definitions_.push_back(absl::StrCat(text, body, "\n}"));
    scope_.clear();
    for (int call = 0; call < 2; ++call) {
      std::map<std::string, int64_t> dims;
      EntryCall made{signature.name.substr(1), {}};
      for (const TypeRef& param : signature.params) made.args.push_back(RandomValue(param, 3, dims));
      program.calls.push_back(std::move(made));
    }
  }
  program.text = absl::StrCat(absl::StrJoin(definitions_, "\n"), "\n");
  return program;
}

Program Generator::MakeDifferentiableProgram() {
  Program program;
  program.tolerance = 1e-8;
  Signature value;
  do {
    value = RandomSignature("@value", true);
  } while (std::any_of(value.params.begin(), value.params.end(), HoldsRef));
  value.params.insert(value.params.begin(), Scalar(kFloat64));
  value.result = Scalar(kFloat64);
  auto others = std::stable_partition(value.params.begin(), value.params.end(), HoldsFloat);
  size_t floats = static_cast<size_t>(others - value.params.begin());
  std::string text = Header(value);
  std::vector<std::string> names, params;
  for (const Variable& variable : scope_) {
    names.push_back(variable.name);
    params.push_back(absl::StrCat(variable.name, ": ", variable.type->text));
  }
  // One of several expressions will depend on the arguments.
  std::string body = Body(value, 6);
  for (int i = 0; i < 2; ++i) body = absl::StrCat("tanh(", body, " + ", Body(value, 6), ")");
  definitions_.push_back(absl::StrCat(text, body, "\n}"));
  std::span<std::string> by(names.data(), floats), of(params.data(), floats);
  definitions_.push_back(absl::StrCat("def @gradient(", absl::StrJoin(params, ", "), ") {\n  grad(fn (",
                                      absl::StrJoin(of, ", "), ") { @value(", absl::StrJoin(names, ", "), ") })(",
                                      absl::StrJoin(by, ", "), ")\n}"));
  std::vector<std::string> moved(by.begin(), by.end());
  for (size_t i = 0; i < floats; ++i) {
    moved.push_back(absl::StrCat("%along", i));
    params.push_back(absl::StrCat(moved.back(), ": ", value.params[i]->text));
  }
  of = std::span<std::string>(params.data(), floats);
  definitions_.push_back(absl::StrCat("def @tangent(", absl::StrJoin(params, ", "), ") {\n  jvp(fn (",
                                      absl::StrJoin(of, ", "), ") { @value(", absl::StrJoin(names, ", "), ") })(",
                                      absl::StrJoin(moved, ", "), ")\n}"));
  program.num_active = floats;
  std::map<std::string, int64_t> dims;
  EntryCall call{"gradient", {}};
  for (const TypeRef& param : value.params) call.args.push_back(RandomValue(param, 3, dims));
  program.calls = {call, call};
  program.calls[1].entry = "value";
  program.text = absl::StrCat(absl::StrJoin(definitions_, "\n"), "\n");
  return program;
}

}  // namespace rvm::random_programs
