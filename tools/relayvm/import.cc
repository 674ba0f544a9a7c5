// relayvm import: an ONNX model or a program of PyTorch as a Relay program and its weights, or as an executable.
#include "tools/relayvm/import.h"

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "compiler/text/printer.h"
#include "serialization/encoder.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/safetensors_writer.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(const std::string& text, const OptionSpec& option) {
  size_t equals = text.rfind('=');
  if (equals != std::string::npos && equals > 0) return std::pair(text.substr(0, equals), text.substr(equals + 1));
  return absl::InvalidArgumentError(absl::StrCat("saw `", text, "` for ", std::string(option.name), "; expected ",
                                                 std::string(option.value), ", ", std::string(option.help)));
}

// "@file.npy", "3", "1.5", "true", "1,80" (a vector).
absl::StatusOr<Literal> FrozenValue(const std::string& text) {
  if (text.starts_with("@")) {
    RVM_ASSIGN_OR_RETURN(std::string bytes, ReadFile(text.substr(1)));
    return DecodeNpy({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
  if (text == "true" || text == "false") return Literal::ScalarInt(kBool, text == "true");
  std::vector<std::string> parts = absl::StrSplit(text, ',');
  std::vector<int64_t> integers;
  std::vector<double> floats;
  bool are_integers = true;
  for (const std::string& part : parts) {
    are_integers = absl::SimpleAtoi(part, &integers.emplace_back()) && are_integers;
    if (!absl::SimpleAtod(part, &floats.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("`", part, "` is no number; expected numbers, or @FILE.npy"));
    }
  }
  Shape shape;
  if (parts.size() > 1) shape.push_back(static_cast<int64_t>(parts.size()));
  if (are_integers) return Literal::FromValues<int64_t>(kInt64, shape, integers);
  return Literal::FromValues<double>(kFloat64, shape, floats);
}

}  // namespace

absl::StatusOr<importing::ImportedModel> ImportModel(const std::string& path, const Options& options,
                                                     diagnostics::SourceMap* sources) {
  importing::ImportOptions import{.sources = sources};
  for (const std::string& given : options.Values(kFreezeOption.name)) {
    RVM_ASSIGN_OR_RETURN(auto pair, NameAndValue(given, kFreezeOption));
    RVM_ASSIGN_OR_RETURN(Literal value, FrozenValue(pair.second));
    import.frozen.insert_or_assign(pair.first, std::move(value));
  }
  for (const std::string& given : options.Values(kShapeOption.name)) {
    RVM_ASSIGN_OR_RETURN(auto pair, NameAndValue(given, kShapeOption));
    import.shapes[pair.first] = pair.second.empty() ? std::vector<std::string>() : absl::StrSplit(pair.second, ',');
  }
  RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, importing::ImportFile(path, std::move(import)));
  for (const std::string& warning : model.warnings)
    std::cerr << "relayvm: warning: " << path << ": " << warning << '\n';
  return model;
}

absl::StatusOr<ProgramFile> ReadProgram(const std::string& path, const Options& options,
                                        driver::CompileOptions& compile) {
  if (importing::IsModelPath(path)) {
    SourceFile file = SourceFile::OfModel(path);
    RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, ImportModel(path, options, &file.diagnostics().sources()));
    if (!model.weights.empty()) compile.weights.push_back({.path = path, .tensors = std::move(model.weights)});
    return ProgramFile{std::move(file), std::move(model.module)};
  }
  for (const OptionSpec& option : {kFreezeOption, kShapeOption}) {
    if (!options.Has(option.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`", std::string(option.name), "` is for .onnx and .pt2 models; saw `", path, "`"));
  }
  RVM_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Read(path));
  absl::StatusOr<ir::Module> module = driver::Parse(file.id(), file.diagnostics(), compile.params_files);
  if (!module.ok()) return file.Report(module.status());
  return ProgramFile{std::move(file), *std::move(module)};
}

absl::StatusOr<driver::CompiledProgram> CompileProgram(ProgramFile program, driver::CompileOptions compile) {
  absl::StatusOr<driver::CompiledProgram> compiled =
      driver::CompileModule(std::move(program.module), program.file.diagnostics(), std::move(compile));
  RVM_RETURN_IF_ERROR(program.file.Report(compiled.status()));
  return compiled;
}

namespace {

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE", "where the program (.relay) or the executable (.rvm) goes; the model's name with .relay"},
    {"--params", "FILE.safetensors", "where the weights of a .relay file go; its name with .safetensors"},
    kFreezeOption,
    kShapeOption,
    kLevelOption,
    kTargetOption,
};

absl::Status WriteExecutable(const std::string& path, const std::string& output, const Options& options) {
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions compile, ReadCompileOptions(options));
  RVM_ASSIGN_OR_RETURN(ProgramFile source, ReadProgram(path, options, compile));
  RVM_ASSIGN_OR_RETURN(driver::CompiledProgram program, CompileProgram(std::move(source), std::move(compile)));
  return EncodeFile(**program.executable, output).status();
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, "an .onnx or .pt2 file"));
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
  diagnostics::SourceMap sources;
  RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, ImportModel(path, options, &sources));
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
    .summary = "turn an ONNX or PyTorch model into a program",
    .usage = "FILE.onnx|FILE.pt2 [-o FILE.relay --params FILE.safetensors | -o FILE.rvm]",
    .options = kOptions,
    .more = R"(
`compile`, `run`, `check`, `bench` and `profile` take an .onnx or .pt2 file as it is, too.
A .pt2 file is what torch.export.save writes; docs/pytorch.md has more.

Examples:
  relayvm import model.onnx -o model.relay --params model.safetensors
  relayvm import model.onnx -o model.rvm --shape image=1,3,h,w --freeze iterations=4
)",
    .run = Run,
};

}  // namespace rvm::tools
