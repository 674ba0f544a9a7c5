// relayvm import: a model as a Relay program and its weights, or as an executable.
#include "tools/relayvm/import.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/abseil.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "compiler/import/mapped_file.h"
#include "compiler/text/printer.h"
#include "serialization/encoder.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/safetensors_writer.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

// "`--shape`: saw ...".
absl::Status OfOption(const OptionSpec& option, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("`", std::string(option.name), "`: ", status.message()));
}

// Removes the file of weights of the model at `path` from the parameters. Empty: none is given.
absl::StatusOr<std::string> TakeWeights(const std::string& path, driver::CompileOptions& compile) {
  const importing::Format* format = importing::FormatOfPath(path);
  if (format == nullptr || !format->has_weights_file || compile.params_files.empty()) return "";
  if (compile.params_files.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("`--params`: saw ", compile.params_files.size(), " files; expected the weights of `", path, "`"));
  }
  std::string weights = std::move(compile.params_files[0]);
  compile.params_files.clear();
  return weights;
}

}  // namespace

absl::StatusOr<importing::ImportedModel> ImportModel(const std::string& path, const Options& options,
                                                     const std::string& weights, diagnostics::SourceMap* sources) {
  importing::ImportOptions import{.sources = sources};
  if (!weights.empty()) {
    RVM_ASSIGN_OR_RETURN(importing::FileBytes file, importing::MapFile(weights));
    importing::UseWeights(std::move(file), import);
  }
  for (const std::string& given : options.Values(kFreezeOption.name)) {
    RVM_RETURN_IF_ERROR(OfOption(kFreezeOption, driver::AddFrozen(given, "", import)));
  }
  for (const std::string& given : options.Values(kShapeOption.name)) {
    RVM_RETURN_IF_ERROR(OfOption(kShapeOption, driver::AddShape(given, import)));
  }
  import.signatures = options.Values(kSignatureOption.name);
  for (const std::string& given : options.Values(kCacheDTypeOption.name)) {
    RVM_RETURN_IF_ERROR(OfOption(kCacheDTypeOption, driver::AddCacheDType(given, import)));
  }
  for (const std::string& given : options.Values(kActivationDTypeOption.name)) {
    RVM_RETURN_IF_ERROR(OfOption(kActivationDTypeOption, driver::AddActivationDType(given, import)));
  }
  RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, importing::ImportFile(path, std::move(import)));
  for (const std::string& warning : model.warnings)
    std::cerr << "relayvm: warning: " << path << ": " << warning << '\n';
  return model;
}

absl::StatusOr<driver::ProgramFiles> ReadImports(const Options& options) {
  driver::ProgramFiles files;
  std::vector<text::ImportLine> lines;
  for (const std::string& given : options.Values(kImportOption.name)) {
    size_t equals = given.find('=');
    std::string name = given.substr(given.starts_with("@") ? 1 : 0, equals - (given.starts_with("@") ? 1 : 0));
    bool is_name = equals != std::string::npos && !name.empty() && equals + 1 < given.size() &&
                   std::all_of(name.begin(), name.end(),
                               [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; });
    if (!is_name) {
      return absl::InvalidArgumentError(
          absl::StrCat("`--import`: saw `", given, "`; expected NAME=FILE, as in `step=step.onnx`"));
    }
    lines.push_back({.path = given.substr(equals + 1), .name = name});
  }
  struct Given {
    OptionSpec option;
    std::string_view what, pattern;
  };
  constexpr std::string_view kInput = "an input of a model with a graph", kInputPattern = "INPUT";
  constexpr Given kGiven[] = {{kShapeOption, kInput, kInputPattern},
                              {kFreezeOption, kInput, kInputPattern},
                              {kSignatureOption, "a signature of a SavedModel or a .tflite file", "SIGNATURE"},
                              {kCacheDTypeOption, "a dtype of the caches of a model", "DTYPE"},
                              {kActivationDTypeOption, "a dtype of the activations of a model", "DTYPE"}};
  for (const auto& [option, what, pattern] : kGiven) {
    // The name in an import of a text.
    const std::string name = absl::StrReplaceAll(Abseil(option.name.substr(2)), {{"-", "_"}});
    for (const std::string& given : options.Values(option.name)) {
      size_t dot = given.find('.');
      auto line = std::find_if(lines.begin(), lines.end(), [&](const text::ImportLine& imported) {
        return given.starts_with("@") && dot != std::string::npos && given.substr(1, dot - 1) == imported.name;
      });
      if (line == lines.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "`", std::string(option.name), "`: saw `", given, "`; expected ", std::string(what),
            " that is compiled, or @NAME.", std::string(pattern), " of one that `--import NAME=FILE` names"));
      }
      line->options.push_back({.name = name, .value = given.substr(dot + 1), .span = {}});
    }
  }
  for (text::ImportLine& line : lines) files.Add(std::move(line));
  return files;
}

void ShowWarnings(const driver::ProgramFiles& files) {
  for (const std::string& warning : files.warnings()) std::cerr << "relayvm: warning: " << warning << '\n';
}

std::string ProgramStem(const std::string& path) {
  if (importing::IsModelPath(path)) return std::string(importing::ModelStem(path));
  for (std::string_view ending : {".relay", ".json"}) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

absl::StatusOr<ProgramFile> ReadProgram(const std::string& path, const Options& options,
                                        driver::CompileOptions& compile) {
  if (importing::IsModelPath(path)) {
    if (options.Has(kImportOption.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("`--import` is for .relay programs, which call the model; saw `", path, "`"));
    }
    SourceFile file = SourceFile::OfModel(path);
    RVM_ASSIGN_OR_RETURN(const std::string weights, TakeWeights(path, compile));
    RVM_ASSIGN_OR_RETURN(importing::ImportedModel model,
                         ImportModel(path, options, weights, &file.diagnostics().sources()));
    if (!model.weights.empty()) compile.weights.push_back({.path = path, .tensors = std::move(model.weights)});
    return ProgramFile{std::move(file), std::move(model.module)};
  }
  RVM_ASSIGN_OR_RETURN(driver::ProgramFiles files, ReadImports(options));
  RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(path));
  absl::StatusOr<ir::Module> module = driver::Parse(file.id(), file.diagnostics(), compile.params_files, &files);
  if (!module.ok()) return file.Report(module.status());
  ShowWarnings(files);
  for (driver::ParamFile& weights : files.TakeWeights()) compile.weights.push_back(std::move(weights));
  return ProgramFile{std::move(file), *std::move(module)};
}

absl::StatusOr<driver::CompiledProgram> CompileProgram(ProgramFile program, driver::CompileOptions compile) {
  absl::StatusOr<driver::CompiledProgram> compiled =
      driver::CompileModule(std::move(program.module), program.file.diagnostics(), std::move(compile));
  RVM_RETURN_IF_ERROR(program.file.Report(compiled.status()));
  return compiled;
}

namespace {

constexpr OptionSpec kWeightsOption = {
    "--weights", "FILE", "of a .cfg or -symbol.json model: the file of its weights, in place of the one beside it"};

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE", "where the program (.relay) or the executable (.rvm) goes; the model's name with .relay"},
    {"--params", "FILE.safetensors", "where the weights of a .relay file go; its name with .safetensors"},
    kWeightsOption,
    kFreezeOption,
    kShapeOption,
    kSignatureOption,
    kCacheDTypeOption,
    kActivationDTypeOption,
    kLevelOption,
    kTargetOption,
};

absl::Status WriteExecutable(const std::string& path, const std::string& output, const Options& options) {
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions compile, ReadCompileOptions(options));
  compile.params_files = options.Values(kWeightsOption.name);
  RVM_ASSIGN_OR_RETURN(ProgramFile source, ReadProgram(path, options, compile));
  RVM_ASSIGN_OR_RETURN(driver::CompiledProgram program, CompileProgram(std::move(source), std::move(compile)));
  return EncodeFile(**program.executable, output).status();
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path,
                       OneFile(options, "an " RVM_MODEL_ENDINGS " or .gguf file, or " RVM_MODEL_FOLDERS));
  const importing::Format* format = importing::FormatOfPath(path);
  if (options.Has(kWeightsOption.name) && format != nullptr && !format->has_weights_file) {
    return absl::InvalidArgumentError(absl::StrCat("`--weights`: `", path, "` has its weights in it"));
  }
  std::string stem(importing::ModelStem(path));
  std::string output = options.Value("-o", absl::StrCat(stem, ".relay"));
  if (output.ends_with(".rvm")) {
    if (options.Has("--params"))
      return absl::InvalidArgumentError("an executable has its weights in it; `--params` is for a .relay file");
    return WriteExecutable(path, output, options);
  }
  for (const OptionSpec& option : {kLevelOption, kTargetOption}) {
    if (options.Has(option.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", std::string(option.name), "` is for compiling: `-o FILE.rvm`"));
    }
  }
  std::string params = options.Value(
      "--params",
      absl::StrCat(output.ends_with(".relay") ? output.substr(0, output.size() - 6) : output, ".safetensors"));
  if (!params.ends_with(".safetensors")) {
    return absl::InvalidArgumentError(absl::StrCat("`--params`: saw `", params,
                                                   "`; expected a .safetensors file to write the weights to; "
                                                   "`--weights` names those of the model"));
  }
  diagnostics::SourceMap sources;
  RVM_ASSIGN_OR_RETURN(importing::ImportedModel model,
                       ImportModel(path, options, options.Value(kWeightsOption.name), &sources));
  if (!model.weights.empty()) RVM_RETURN_IF_ERROR(WriteSafetensors(model.weights, params));
  RVM_RETURN_IF_ERROR(ReplaceFile(output, text::PrintModule(model.module, &sources)));
  auto count = [](size_t number, const char* what) { return absl::StrCat(number, " ", what, number == 1 ? "" : "s"); };
  std::cerr << output << ": " << count(model.inputs.size(), "input") << ", " << count(model.outputs.size(), "output")
            << ", " << count(model.weights.size(), "weight")
            << (model.weights.empty() ? "" : absl::StrCat(" in ", params)) << '\n';
  return absl::OkStatus();
}

}  // namespace

const Verb kImportVerb = {
    .name = "import",
    .summary = "turn a model into a program",
    .usage = RVM_MODEL_FILES " [-o FILE.relay --params FILE.safetensors | -o FILE.rvm]",
    .options = kOptions,
    .more = R"(
`compile`, `run`, `check`, `bench` and `profile` take a model as it is, too. A .pt2 file is what
torch.export.save writes (docs/pytorch.md). A folder has a config.json and .safetensors files, as
transformers writes them; of it, and of a .gguf file, the architecture becomes a program (docs/models.md).

Examples:
  relayvm import model.onnx -o model.relay --params model.safetensors
  relayvm import model.onnx -o model.rvm --shape image=1,3,h,w --freeze iterations=4
)",
    .run = Run,
};

}  // namespace rvm::tools
