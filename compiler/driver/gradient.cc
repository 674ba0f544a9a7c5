#include "compiler/driver/gradient.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/program_files.h"
#include "compiler/ir/adt.h"
#include "compiler/ir/module.h"
#include "compiler/ir/type.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"

namespace rvm::driver {
namespace {

absl::Status WrongRequest(const std::string& message) { return absl::InvalidArgumentError(message); }

// Returns whether values of the type have floating-point tensors in them.
bool HasFloats(const ir::Type* type, absl::flat_hash_set<const ir::AdtDef*>& seen) {
  auto any = [&](const auto& types) {
    return std::any_of(types.begin(), types.end(), [&](const ir::Type* part) { return HasFloats(part, seen); });
  };
  if (const auto* tensor = ir::DynCast<ir::TensorType>(type)) return tensor->dtype.dtype.is_float();
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) return any(tuple->fields);
  const auto* adt = ir::DynCast<ir::AdtType>(type);
  if (adt == nullptr) return false;
  for (const ir::TypeArg& arg : adt->args) {
    if (arg.type != nullptr && HasFloats(arg.type, seen)) return true;
  }
  if (!seen.insert(adt->adt).second) return false;
  return std::any_of(adt->adt->constructors.begin(), adt->adt->constructors.end(),
                     [&](const ir::Constructor* constructor) { return any(constructor->fields); });
}

std::string NameOf(const ir::Var* var) { return absl::StrCat("%", var->name); }

std::string Names(const std::vector<ir::Var*>& vars) {
  return absl::StrJoin(vars, ", ", [](std::string* out, const ir::Var* var) { *out += NameOf(var); });
}

absl::StatusOr<const ir::GlobalFunction*> FindFunction(const ir::Module& module, const std::string& name) {
  std::vector<std::string> names;
  for (const ir::GlobalFunction& function : module.functions) {
    if (function.name == name) return &function;
    names.push_back(absl::StrCat("@", function.name));
  }
  return WrongRequest(absl::StrCat("the program has no function `@", name, "`; it has ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::vector<ir::Var*>> ChooseParameters(const ir::GlobalFunction& function,
                                                       const std::vector<std::string>& requested) {
  const std::vector<ir::Var*>& params = function.function->params;
  std::vector<ir::Var*> chosen;
  for (std::string_view name : requested) {
    if (name.starts_with('%')) name.remove_prefix(1);
    auto param = std::find_if(params.begin(), params.end(), [&](const ir::Var* var) { return var->name == name; });
    if (param == params.end()) {
      return WrongRequest(absl::StrCat("`@", function.name, "` has no parameter `%", std::string(name), "`; it has ",
                                       params.empty() ? "none" : Names(params)));
    }
    if (std::find(chosen.begin(), chosen.end(), *param) != chosen.end())
      return WrongRequest(absl::StrCat("the parameter `%", std::string(name), "` is named twice"));
    absl::flat_hash_set<const ir::AdtDef*> seen;
    if (!HasFloats((*param)->type, seen)) {
      return WrongRequest(absl::StrCat("the parameter `%", std::string(name), "` of type `",
                                       ir::TypeToString((*param)->type),
                                       "` has no gradient: it has no floating-point numbers"));
    }
    chosen.push_back(*param);
  }
  if (!requested.empty()) return chosen;
  std::copy_if(params.begin(), params.end(), std::back_inserter(chosen), [](const ir::Var* var) {
    absl::flat_hash_set<const ir::AdtDef*> seen;
    return HasFloats(var->type, seen);
  });
  if (!chosen.empty()) return chosen;
  return WrongRequest(
      absl::StrCat("no parameter of `@", function.name, "` has floating-point numbers; there is no gradient"));
}

std::string WithTypes(const std::vector<ir::Var*>& vars) {
  return absl::StrJoin(vars, ", ", [](std::string* out, const ir::Var* var) {
    absl::StrAppend(out, NameOf(var), ": ", ir::TypeToString(var->type));
  });
}

std::string FreeName(const ir::Module& module, std::string name) {
  auto is_taken = [&] {
    return std::any_of(module.functions.begin(), module.functions.end(),
                       [&](const ir::GlobalFunction& function) { return function.name == name; });
  };
  while (is_taken()) name += "_";
  return name;
}

}  // namespace

absl::StatusOr<std::string> GradientProgram(uint32_t source, const GradientRequest& request,
                                            diagnostics::Diagnostics& diagnostics) {
  ProgramFiles files;
  RVM_ASSIGN_OR_RETURN(ir::Module typed,
                       ParseAndType(source, diagnostics, {}, nullptr, {}, request.reads_imports ? &files : nullptr));
  RVM_ASSIGN_OR_RETURN(const ir::GlobalFunction* function, FindFunction(typed, request.function));
  if (OpenTypeParam(*function->function) != nullptr) {
    return WrongRequest(absl::StrCat("`@", function->name, "` is polymorphic: its type is `",
                                     ir::TypeToString(function->function->type),
                                     "`; expected a function of definite types, such as one that calls it"));
  }
  RVM_ASSIGN_OR_RETURN(std::vector<ir::Var*> by, ChooseParameters(*function, request.parameters));

  std::string name = FreeName(typed, absl::StrCat(function->name, "_grad"));
  const std::vector<ir::Var*>& params = function->function->params;
  std::string definition = absl::StrCat("def @", name, "(", WithTypes(params), ") {\n  grad(fn (", WithTypes(by),
                                        ") { @", function->name, "(", Names(params), ") })(", Names(by), ")\n}\n");
  // Typing changes the nodes of a module: this one is read again.
  ir::Module module;
  ProgramFiles files_again;
  text::ParseOptions options;
  if (request.reads_imports) options.importer = &files_again;
  bool parses = text::ParseModule(source, module, diagnostics, options) &&
                text::ParseModule(diagnostics.sources().Add(absl::StrCat("gradient of @", function->name), definition),
                                  module, diagnostics);
  if (!parses) return diagnostics.ToStatus();
  RVM_ASSIGN_OR_RETURN(module, TypeModule(std::move(module), diagnostics, {}, nullptr, files_again.TakeWeights()));
  if (!BindParams(module, {}, diagnostics)) return diagnostics.ToStatus();
  RVM_ASSIGN_OR_RETURN(module,
                       passes::RunPasses(module, {name}, diagnostics, {.opt_level = 2, .until = "lambda_lift"}));
  return text::PrintModule(module);
}

}  // namespace rvm::driver
