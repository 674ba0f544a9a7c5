// relayvm eval: a program on the reference evaluator.
#include <charconv>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "compiler/bytecode/type_table.h"
#include "compiler/driver/compile.h"
#include "compiler/passes/check_extents.h"
#include "compiler/reference/evaluator.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/verb.h"
#include "vm/value_text.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--entry", "NAME", "the function to call (main)"},
    kParamsOption,
    {"--max-steps", "N", "stop after N steps (no limit)"},
};

absl::StatusOr<Value> ReadNpy(const std::string& path) {
  RVM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<Literal> tensor = DecodeNpy(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  if (!tensor.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", tensor.status().message()));
  return Value::Tensor(*std::move(tensor));
}

// Texts are read by the types of the parameters, as `run` reads them.
absl::StatusOr<std::vector<Value>> ReadArgs(const ir::Module& module, const ir::Function& function,
                                            std::span<const std::string> texts) {
  std::vector<Value> values;
  Executable types;
  bytecode::TypeTable table(*module.arena, types);
  for (size_t i = 0; i < texts.size() && i < function.params.size(); ++i) {
    if (texts[i].starts_with("@")) {
      RVM_ASSIGN_OR_RETURN(Value value, ReadNpy(texts[i].substr(1)));
      values.push_back(std::move(value));
      continue;
    }
    TypeId type = table.Lower(function.params[i]->type);
    RVM_RETURN_IF_ERROR(table.status());
    absl::StatusOr<Value> value = vm::ParseValueText(types, type, texts[i]);
    if (!value.ok()) {
      return absl::Status(value.status().code(), absl::StrCat("argument ", i + 1, ", ", value.status().message()));
    }
    values.push_back(*std::move(value));
  }
  // Too many or too few: the evaluator says so.
  values.resize(texts.size());
  return values;
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  if (options.positional().empty()) return absl::InvalidArgumentError("no file given; expected a .relay file");
  reference::EvaluateOptions evaluate;
  if (options.Has("--max-steps")) {
    std::string text = options.Value("--max-steps");
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), evaluate.max_steps);
    if (error != std::errc() || end != text.data() + text.size() || evaluate.max_steps < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("saw `", text, "` for --max-steps; expected a whole number from 0"));
    }
  }
  RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(options.positional()[0]));
  absl::StatusOr<ir::Module> module = driver::ParseAndType(file.id(), file.diagnostics(), options.Values("--params"));
  if (module.ok()) *module = passes::CheckExtents(*module, file.diagnostics());
  RVM_RETURN_IF_ERROR(file.Report(module.status()));
  std::string entry = options.Value("--entry", "main");
  std::vector<Value> values;
  if (const ir::GlobalFunction* function = module->FindFunction(entry); function != nullptr) {
    for (const ir::TypeParam* param : function->function->type_params) {
      if (param->kind == ir::Kind::kShapeVar) continue;
      return absl::UnimplementedError(absl::StrCat("`@", entry, "` has the type parameter `", param->name,
                                                   "`; expected a function whose arguments have known types"));
    }
    RVM_ASSIGN_OR_RETURN(values, ReadArgs(*module, *function->function, std::span(options.positional()).subspan(1)));
  }
  RVM_ASSIGN_OR_RETURN(Value value, reference::Evaluate(*module, entry, values, evaluate));
  std::cout << value.ToString() << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kEvalVerb = {
    .name = "eval",
    .summary = "evaluate a program without compiling it",
    .usage = "FILE.relay [options] VALUE...",
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
