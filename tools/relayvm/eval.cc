// relayvm eval: runs a program in the reference evaluator.
#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/bytecode/type_table.h"
#include "compiler/driver/compile.h"
#include "compiler/reference/evaluator.h"
#include "tools/arguments.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/import.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--entry", "NAME", "the function to call (main)"},
    kArgsOption,
    kParamsOption,
    kImportOption,
    kFreezeOption,
    kShapeOption,
    kSignatureOption,
    kCacheDTypeOption,
    kActivationDTypeOption,
    {"--max-steps", "N", "stop after N steps (no limit)"},
};

// Parses texts by the types of the parameters, as `run` does.
absl::StatusOr<std::vector<Value>> ReadArgs(const ir::Module& module, const ir::Function& function,
                                            const ArgumentTexts& texts) {
  // The evaluator reports a wrong number of arguments.
  auto is_function = [](const ir::Var* param) { return param->type->type_kind == ir::TypeKind::kFunc; };
  auto functions = static_cast<size_t>(std::count_if(function.params.begin(), function.params.end(), is_function));
  if (texts.file.empty() && texts.values.size() + functions != function.params.size()) {
    return std::vector<Value>(texts.values.size() + functions);
  }
  Executable types;
  bytecode::TypeTable table(*module.arena, types);
  std::vector<TypeId> params;
  for (const ir::Var* param : function.params) params.push_back(table.Lower(param->type));
  RVM_RETURN_IF_ERROR(table.status());
  return ReadArguments(types, params, texts, &std::cout);
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  if (options.positional().empty()) return absl::InvalidArgumentError("no file given; expected a .relay file");
  reference::EvaluateOptions evaluate;
  RVM_ASSIGN_OR_RETURN(evaluate.max_steps, options.Integer("--max-steps", 0, evaluate.max_steps));
  ArgumentTexts texts = {{options.positional().begin() + 1, options.positional().end()}, options.Value("--args")};
  RVM_ASSIGN_OR_RETURN(driver::ProgramFiles files, ReadImports(options));
  RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(options.positional()[0]));
  driver::BoundWeights weights;
  absl::StatusOr<ir::Module> module =
      driver::ParseAndType(file.id(), file.diagnostics(), options.Values("--params"), &weights, {}, &files);
  ShowWarnings(files);
  std::string entry = options.Value("--entry", "main");
  if (module.ok()) module = driver::PrepareEvaluation(*module, {entry}, file.diagnostics());
  RVM_RETURN_IF_ERROR(file.Report(module.status()));
  ShowWeights(weights, options.Values("--params"));
  std::vector<Value> values;
  if (const ir::GlobalFunction* function = module->FindFunction(entry); function != nullptr) {
    for (const ir::TypeParam* param : function->function->type_params) {
      if (param->kind == ir::Kind::kShapeVar) continue;
      return absl::UnimplementedError(absl::StrCat("`@", entry, "` has the type parameter `", param->name,
                                                   "`; expected a function whose arguments have known types"));
    }
    RVM_ASSIGN_OR_RETURN(values, ReadArgs(*module, *function->function, texts));
  }
  RVM_ASSIGN_OR_RETURN(Value value, reference::Evaluate(*module, entry, values, evaluate));
  std::cout << value.ToString() << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kEvalVerb = {
    .name = "eval",
    .summary = "evaluate a program without compiling it",
    .usage = "FILE.relay|FILE.json [options] VALUE...",
    .options = kOptions,
    .more = R"(
The reference evaluator computes what a program means the plainest way: slow, and the judge where
the compiler and it disagree. Values are written as for `run`.

Example:
  relayvm eval lists.relay --entry sum 'Cons(1, Cons(2, Nil))'
)",
    .run = Run,
};

}  // namespace rvm::tools
