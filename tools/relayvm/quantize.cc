// relayvm quantize: a program with narrower weights and products of bytes, where that gains.
#include "compiler/driver/quantize.h"

#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "compiler/driver/result_error.h"
#include "compiler/import/import_file.h"
#include "serialization/encoder.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/import.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/quantize_report.h"
#include "tools/relayvm/quantize_runs.h"
#include "tools/relayvm/safetensors_writer.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"-o", "FILE", "where the executable (.rvm) or the program (.relay) goes; the file's name with .quantized.rvm"},
    {"--scheme", "SCHEME", "float16, bfloat16, w16a16, w8 (the default), w4, w4a8-dynamic, w8a8-dynamic or w8a8"},
    {"--group", "N", "4 bits: weights that share a scale, 32 unless given"},
    {"--data", "PATH",
     "calls like those that the program is for: a line of values for each, an .npz file of arrays with a first axis of "
     "samples, or a folder with an .npz file for each"},
    {"--observer", "RULE", "w8a8: the range of activations: mse (the default), minmax, percentile=P or entropy"},
    {"--error", "E", "with --data: leave weights in more bits, the worst first, until the results are as near as that"},
    {"--metric", "METRIC",
     "of --error: norm (the default), that of the difference divided by that of the results, or argmax, the share of "
     "rows with another greatest element"},
    {"--keep", "NAME", "leave a weight in floats, by the name that the report has; may be repeated"},
    {"--dims", "NAME=N,...", "extents of the measured operators, such as n=128; 1 and 16 unless given"},
    {"--force", "", "also quantise what is slower for it"},
    {"--report", "FILE", "write what became of each weight: .json, else a page of HTML"},
    {"--entry", "NAME", "a function that can be called from outside, the first of them with --data; may be repeated"},
    kParamsOption,
    kImportOption,
    kFreezeOption,
    kShapeOption,
    kSignatureOption,
    kCacheDTypeOption,
    kActivationDTypeOption,
    kLevelOption,
    kTargetOption,
};

absl::StatusOr<driver::QuantizeRequest> ReadRequest(const Options& options) {
  driver::QuantizeRequest request;
  RVM_ASSIGN_OR_RETURN(request.scheme, quantize::ParseScheme(options.Value("--scheme", "w8")));
  if (quantize::RowOf(request.scheme).needs_data && !options.Has("--data")) {
    return absl::InvalidArgumentError(
        "`--scheme w8a8` takes the scales of activations from `--data`, which is not given; `w8a8-dynamic` needs none");
  }
  RVM_ASSIGN_OR_RETURN(request.observer, quantize::ParseObserverRule(options.Value("--observer", "mse")));
  for (std::string_view name : {"--error", "--metric", "--observer"}) {
    if (!options.Has(name) || options.Has("--data")) continue;
    return absl::InvalidArgumentError(absl::StrCat("`", std::string(name), "` needs `--data`"));
  }
  if (options.Has("--error")) {
    RVM_ASSIGN_OR_RETURN(request.greatest_error, options.PositiveNumber("--error", 0));
  }
  std::vector<std::string> entries = options.Values("--entry");
  if (!entries.empty()) request.entry = entries[0];
  RVM_ASSIGN_OR_RETURN(request.group, options.Integer("--group", 2, 32));
  if (request.group % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("`--group`: saw ", request.group, "; expected an even number: a byte holds two codes"));
  }
  request.kept = options.Values("--keep");
  request.force = options.Has("--force");
  for (const std::string& given : options.Values("--dims")) {
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(given, ','))) {
      std::vector<std::string> sides = absl::StrSplit(part, '=');
      int64_t extent = 0;
      if (sides.size() != 2 || !absl::SimpleAtoi(sides[1], &extent) || extent < 1) {
        return absl::InvalidArgumentError(absl::StrCat("`--dims`: saw `", part, "`; expected NAME=N, as in n=128"));
      }
      request.dims[sides[0]] = extent;
    }
  }
  return request;
}

absl::Status WriteText(const driver::PreparedProgram& program, const std::string& output) {
  driver::ProgramText text = driver::TextOf(program);
  const std::string stem = output.ends_with(".relay") ? output.substr(0, output.size() - 6) : output;
  if (!text.weights.empty()) RVM_RETURN_IF_ERROR(WriteSafetensors(text.weights, absl::StrCat(stem, ".safetensors")));
  return ReplaceFile(output, text.text);
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(kOptions, args));
  RVM_ASSIGN_OR_RETURN(std::string path, OneFile(options, kProgramFiles));
  RVM_ASSIGN_OR_RETURN(driver::QuantizeRequest request, ReadRequest(options));
  RVM_ASSIGN_OR_RETURN(driver::ResultMetric metric, driver::ParseResultMetric(options.Value("--metric", "norm")));
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions compile, ReadCompileOptions(options));
  compile.entries = options.Values("--entry");
  RVM_ASSIGN_OR_RETURN(ProgramFile file, ReadProgram(path, options, compile));
  diagnostics::Diagnostics& diagnostics = file.file.diagnostics();
  absl::StatusOr<driver::QuantizedProgram> program =
      driver::QuantizeModule(std::move(file.module), diagnostics, compile, request,
                             RuntimeForQuantizing(options.Value("--data"), request.entry, metric));
  RVM_RETURN_IF_ERROR(file.file.Report(program.status()));
  ShowWeights(program->weights, compile.params_files);
  std::cerr << QuantizeSummary(*program);
  if (options.Has("--report")) {
    const std::string report = options.Value("--report", "");
    RVM_RETURN_IF_ERROR(ReplaceFile(report, report.ends_with(".json") ? driver::QuantizeJson(*program, request)
                                                                      : QuantizeHtml(*program, request, path)));
  }
  const std::string output = options.Value("-o", absl::StrCat(ProgramStem(path), ".quantized.rvm"));
  if (output.ends_with(".relay")) return WriteText(program->program, output);
  absl::StatusOr<driver::CompiledProgram> compiled =
      driver::CompileQuantized(*std::move(program), diagnostics, compile);
  RVM_RETURN_IF_ERROR(file.file.Report(compiled.status()));
  return EncodeFile(**compiled->executable, output).status();
}

}  // namespace

const Verb kQuantizeVerb = {
    .name = "quantize",
    .summary = "store and multiply weights in fewer bits, where that gains",
    .usage = "FILE.relay|" RVM_MODEL_FILES " [-o FILE.rvm|FILE.relay] [options]",
    .options = kOptions,
    .more = R"(
Products, convolutions and embeddings with constant weights of float32, float16 or bfloat16, in products of float32, are
quantised, wherever they stand: in recursive functions, closures, branches. Each is measured on this machine, as the
program has it and as the scheme has it, and stays as it is where the scheme is slower. If nothing is left to quantise,
no file is written. See docs/quantization.md.
A .relay file has its weights beside it, in a .safetensors file of the same name.

Examples:
  relayvm quantize model.onnx --scheme w8a8-dynamic --dims n=128 -o model.rvm
  relayvm quantize model.relay --params weights.npz --scheme w4 --report model.html
  relayvm quantize model.onnx --scheme w8a8 --data samples.npz --error 0.01 -o model.rvm
)",
    .run = Run,
};

}  // namespace rvm::tools
