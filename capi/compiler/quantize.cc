// The quantiser for C.
#include "compiler/driver/quantize.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "base/status_macros.h"
#include "capi/compiler/compilation.h"
#include "capi/sized_struct.h"
#include "capi/tensor.h"
#include "include/relayvm/relayvm_compiler.h"
#include "serialization/encoder.h"

namespace rvm::capi {
namespace {

using Program = driver::QuantizeRuntime::Program;

absl::Status StatusOf(int code, std::string_view function) {
  if (code == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("the function `", std::string(function), "` gave ", code, "; expected 0"));
}

// Executables as bytes.
class ProgramBytes {
 public:
  explicit ProgramBytes(std::span<const Program> programs) {
    for (const Program& program : programs) encoded_.push_back(Encode(**program));
    for (const std::vector<uint8_t>& bytes : encoded_) views_.push_back({bytes.data(), bytes.size()});
  }
  const rvm_program_bytes* data() const { return views_.data(); }
  size_t size() const { return views_.size(); }

 private:
  std::vector<std::vector<uint8_t>> encoded_;
  std::vector<rvm_program_bytes> views_;
};

void See(void* observer, int64_t site, const float* activations, size_t count) {
  (*static_cast<const driver::QuantizeRuntime::See*>(observer))(site, std::span(activations, count));
}

absl::StatusOr<driver::QuantizeRuntime> RuntimeOf(const rvm_quantize_options& given) {
  driver::QuantizeRuntime runtime;
  if (given.time != nullptr) {
    runtime.time = [given](std::span<const Program> programs, const std::vector<int64_t>& others,
                           const Literal* operand) -> absl::StatusOr<std::vector<double>> {
      ProgramBytes bytes(programs);
      std::vector<double> times(programs.size(), 0);
      rvm_named_tensor tensor = {};
      if (operand != nullptr) {
        tensor = {"data", FromDataType(operand->dtype()), operand->shape().size(), operand->shape().data(),
                  operand->data()};
      }
      absl::Status status = StatusOf(given.time(given.context, bytes.data(), bytes.size(), others.data(),
                                                operand == nullptr ? nullptr : &tensor, times.data()),
                                     "time");
      // An operator that cannot run here stays unmeasured.
      if (!status.ok() && operand != nullptr) return absl::FailedPreconditionError(status.message());
      RVM_RETURN_IF_ERROR(status);
      return times;
    };
  }
  const bool has_all = given.begin != nullptr && given.error != nullptr && given.observe != nullptr;
  const bool has_some = given.begin != nullptr || given.error != nullptr || given.observe != nullptr;
  if (has_some && (!has_all || given.time == nullptr)) {
    return absl::InvalidArgumentError("data need the functions `time`, `begin`, `error` and `observe`; one is NULL");
  }
  if (!has_all) return runtime;
  runtime.begin = [given](const Program& program) -> absl::StatusOr<int64_t> {
    int64_t calls = 0;
    RVM_RETURN_IF_ERROR(StatusOf(given.begin(given.context, ProgramBytes({&program, 1}).data(), &calls), "begin"));
    return calls;
  };
  runtime.error = [given](const Program& program) -> absl::StatusOr<double> {
    double error = 0;
    RVM_RETURN_IF_ERROR(StatusOf(given.error(given.context, ProgramBytes({&program, 1}).data(), &error), "error"));
    return error;
  };
  runtime.observe = [given](const Program& program, const driver::QuantizeRuntime::See& see) {
    ProgramBytes bytes({&program, 1});
    auto* observer = const_cast<driver::QuantizeRuntime::See*>(&see);
    return StatusOf(given.observe(given.context, bytes.data(), See, observer), "observe");
  };
  return runtime;
}

absl::StatusOr<driver::QuantizeRequest> RequestOf(const rvm_quantize_options& given) {
  driver::QuantizeRequest request;
  RVM_ASSIGN_OR_RETURN(request.scheme, quantize::ParseScheme(given.scheme == nullptr ? "w8" : given.scheme));
  if (given.group < 0 || given.group % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("`group` is ", given.group, "; expected an even number"));
  }
  if (given.group > 0) request.group = given.group;
  RVM_ASSIGN_OR_RETURN(request.kept, ReadStrings(given.kept, given.kept_count, "kept"));
  if (given.entry != nullptr) request.entry = given.entry;
  if (given.observer != nullptr) {
    RVM_ASSIGN_OR_RETURN(request.observer, quantize::ParseObserverRule(given.observer));
  }
  if (!(given.greatest_error >= 0)) return absl::InvalidArgumentError("`greatest_error` is negative or not a number");
  if (given.greatest_error > 0) request.greatest_error = given.greatest_error;
  request.force = given.force != 0;
  return request;
}

absl::Status Quantize(uint32_t source, diagnostics::Diagnostics& diagnostics, const rvm_compile_options* compile,
                      const rvm_quantize_options* quantize, rvm_compilation& result) {
  rvm_quantize_options read = {};
  if (quantize != nullptr) RVM_RETURN_IF_ERROR(ReadStruct(quantize, "rvm_quantize_options", read));
  RVM_ASSIGN_OR_RETURN(driver::QuantizeRequest request, RequestOf(read));
  RVM_ASSIGN_OR_RETURN(driver::QuantizeRuntime runtime, RuntimeOf(read));
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions options, ReadOptions(compile));
  RVM_ASSIGN_OR_RETURN(driver::ProgramFiles files, ReadImports(compile));
  absl::StatusOr<ir::Module> parsed = driver::Parse(source, diagnostics, options.params_files, &files);
  result.warnings = files.warnings();
  RVM_ASSIGN_OR_RETURN(ir::Module module, std::move(parsed));
  for (driver::ParamFile& file : files.TakeWeights()) options.weights.push_back(std::move(file));
  RVM_ASSIGN_OR_RETURN(driver::QuantizedProgram program,
                       driver::QuantizeModule(std::move(module), diagnostics, options, request, runtime));
  result.report = driver::QuantizeJson(program, request);
  driver::ProgramText text = driver::TextOf(program.program);
  result.text = std::move(text.text);
  result.weights.assign(text.weights.begin(), text.weights.end());
  RVM_ASSIGN_OR_RETURN(driver::CompiledProgram compiled,
                       driver::CompileQuantized(std::move(program), diagnostics, options));
  result.bytes = Encode(**compiled.executable);
  result.has_text = result.has_bytes = true;
  return absl::OkStatus();
}

}  // namespace
}  // namespace rvm::capi

rvm_compilation* rvm_quantize(const char* name, const char* text, size_t size, const rvm_compile_options* options,
                              const rvm_quantize_options* quantize) {
  return rvm::capi::OfText(name, text, size, [&](uint32_t source, auto& diagnostics, rvm_compilation& result) {
    return rvm::capi::Quantize(source, diagnostics, options, quantize, result);
  });
}
