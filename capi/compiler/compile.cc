// The compiler for C.
#include "compiler/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/abseil.h"
#include "base/json_writer.h"
#include "base/literal.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "capi/compiler/compilation.h"
#include "capi/sized_struct.h"
#include "capi/tensor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/program_files.h"
#include "compiler/import/import_file.h"
#include "compiler/import/import_options.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "devices/plugin/accelerator_library.h"
#include "include/relayvm/relayvm_compiler.h"
#include "serialization/encoder.h"

namespace rvm::capi {
namespace {

using Tensors = std::map<std::string, Literal, std::less<>>;

absl::StatusOr<Tensors> ReadTensors(const rvm_named_tensor* tensors, size_t count) {
  Tensors all;
  if (count > 0 && tensors == nullptr) return absl::InvalidArgumentError("saw NULL; expected tensors");
  for (size_t i = 0; i < count; ++i) {
    const rvm_named_tensor& tensor = tensors[i];
    if (tensor.name == nullptr) return absl::InvalidArgumentError(absl::StrCat("tensor ", i, " has no name"));
    absl::StatusOr<Literal> literal = CopyTensor({tensor.dtype, tensor.shape, tensor.rank, nullptr, tensor.data});
    if (!literal.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor `", tensor.name, "`: ", literal.status().message()));
    }
    all.insert_or_assign(tensor.name, *std::move(literal));
  }
  return all;
}

// ---- diagnostics

void WritePlace(JsonWriter& json, const diagnostics::SourceMap& sources, ir::Span span) {
  span = sources.Resolve(span);
  bool is_known = span.valid();
  diagnostics::SourceMap::Position at = {};
  if (is_known) at = sources.Locate(span.source, span.begin);
  if (at.column == 0) at.line = 0;  // an origin
  json.Field("file", is_known ? sources.name(span.source) : std::string_view());
  json.Field("line", int64_t{at.line}).Field("column", int64_t{at.column});
}

void WriteDiagnostics(JsonWriter& json, const diagnostics::Diagnostics& diagnostics) {
  for (const diagnostics::Diagnostic& diagnostic : diagnostics.all()) {
    json.BeginObject();
    json.Field("severity", diagnostics::SeverityName(diagnostic.severity));
    json.Field("kind", diagnostics::DiagnosticTag(diagnostic.kind)).Field("message", diagnostic.message);
    WritePlace(json, diagnostics.sources(), diagnostic.span);
    json.Key("notes").BeginArray();
    for (const diagnostics::Note& note : diagnostic.notes) {
      json.BeginObject().Field("message", note.message);
      WritePlace(json, diagnostics.sources(), note.span);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
}

void Describe(rvm_compilation& result, const diagnostics::Diagnostics* diagnostics, const absl::Status& status) {
  JsonWriter json;
  json.BeginArray();
  if (diagnostics != nullptr) {
    WriteDiagnostics(json, *diagnostics);
    result.message = diagnostics->Render();
  }
  auto write = [&](std::string_view severity, std::string_view message) {
    json.BeginObject().Field("severity", severity).Field("kind", "").Field("message", message);
    json.Field("file", "").Field("line", int64_t{0}).Field("column", int64_t{0}).Key("notes").BeginArray().EndArray();
    json.EndObject();
    absl::StrAppend(&result.message, Abseil(severity), ": ", Abseil(message), "\n");
  };
  for (const std::string& warning : result.warnings) write("warning", warning);
  // Otherwise the status only counts the errors.
  if (!status.ok() && (diagnostics == nullptr || diagnostics->ok())) write("error", std::string(status.message()));
  json.EndArray();
  result.message = ReadableText(result.message);
  result.diagnostics = std::move(json).Take();
}

// ---- compiling

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadStrings(const char* const* strings, size_t count, std::string_view what) {
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    if (strings == nullptr || strings[i] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("`", Abseil(what), "`: saw NULL; expected ", count, " strings"));
    }
    all.emplace_back(strings[i]);
  }
  return all;
}

namespace {

// Returns the caller's poll, called every 20 ms at most: some steps take microseconds. Stays true.
std::function<bool()> RarePoll(const rvm_compile_options& options) {
  using Clock = std::chrono::steady_clock;
  return [poll = options.poll, context = options.poll_context, next = Clock::time_point(), stopped = false]() mutable {
    Clock::time_point now = Clock::now();
    if (!stopped && now >= next) {
      stopped = poll(context) != 0;
      next = now + std::chrono::milliseconds(20);
    }
    return stopped;
  };
}

}  // namespace

absl::StatusOr<driver::CompileOptions> ReadOptions(const rvm_compile_options* given) {
  driver::CompileOptions options;
  if (given == nullptr) return options;
  rvm_compile_options read;
  RVM_RETURN_IF_ERROR(ReadStruct(given, "rvm_compile_options", read));
  if (read.opt_level < 0 || read.opt_level > 3) {
    return absl::InvalidArgumentError(absl::StrCat("saw level ", read.opt_level, "; expected 0 to 3"));
  }
  options.opt_level = read.opt_level;
  if (read.control != nullptr) {
    std::string_view control = read.control;
    if (control != "native" && control != "bytecode") {
      return absl::InvalidArgumentError(
          absl::StrCat("saw the control `", Abseil(control), "`; expected `native` or `bytecode`"));
    }
    options.native_control = control == "native";
  }
  if (read.target != nullptr) options.target = read.target;
  if (read.device_libraries != nullptr) RVM_RETURN_IF_ERROR(device::OpenAcceleratorLibraries(read.device_libraries));
  if (read.device != nullptr) options.devices = {read.device};
  options.host_fallback = read.host_fallback != 0;
  options.batch = read.batch != 0;
  RVM_ASSIGN_OR_RETURN(options.entries, ReadStrings(read.entries, read.entry_count, "entries"));
  RVM_ASSIGN_OR_RETURN(options.params_files, ReadStrings(read.params_files, read.params_file_count, "params_files"));
  if (read.progress != nullptr) {
    options.progress = [read](std::string_view stage, size_t done, size_t total) {
      read.progress(read.progress_context, std::string(stage).c_str(), done, total);
    };
  }
  if (read.poll != nullptr) options.must_stop = RarePoll(read);
  RVM_ASSIGN_OR_RETURN(Tensors weights, ReadTensors(read.weights, read.weight_count));
  if (!weights.empty())
    options.weights.push_back({.path = "<params>", .tensors = std::move(weights), .unreadable = {}});
  return options;
}

absl::StatusOr<driver::ProgramFiles> ReadImports(const rvm_compile_options* given) {
  driver::ProgramFiles files;
  rvm_compile_options read = {};
  if (given != nullptr) RVM_RETURN_IF_ERROR(ReadStruct(given, "rvm_compile_options", read));
  for (size_t i = 0; i < read.import_count; ++i) {
    if (read.imports == nullptr || read.imports[i].name == nullptr || read.imports[i].text == nullptr)
      return absl::InvalidArgumentError("`imports`: saw NULL; expected names and texts");
    files.AddText(read.imports[i].name, std::string(read.imports[i].text, read.imports[i].size));
  }
  if (read.import_folder == nullptr)
    files.set_reads_no_files();
  else
    files.set_folder(read.import_folder);
  return files;
}

namespace {

absl::Status Compile(uint32_t source, diagnostics::Diagnostics& diagnostics, const rvm_compile_options* given,
                     rvm_compilation& result) {
  RVM_ASSIGN_OR_RETURN(driver::CompileOptions options, ReadOptions(given));
  RVM_ASSIGN_OR_RETURN(driver::ProgramFiles files, ReadImports(given));
  options.files = &files;
  absl::StatusOr<driver::CompiledProgram> compiled = driver::Compile(source, diagnostics, std::move(options));
  result.warnings = files.warnings();
  RVM_ASSIGN_OR_RETURN(driver::CompiledProgram program, std::move(compiled));
  result.bytes = Encode(**program.executable);
  result.has_bytes = true;
  return absl::OkStatus();
}

// Returns the JSON of what `relayvm check` prints; for a module that was parsed, also its text in canonical form.
std::string TypesJson(const ir::Module& module) {
  JsonWriter json;
  json.BeginObject();
  for (const ir::GlobalFunction& function : module.functions) {
    json.Field(function.name, ir::TypeToString(function.function->type));
  }
  json.EndObject();
  return std::move(json).Take();
}

absl::Status Check(uint32_t source, diagnostics::Diagnostics& diagnostics, const rvm_compile_options* given,
                   rvm_compilation& result) {
  RVM_ASSIGN_OR_RETURN(driver::ProgramFiles files, ReadImports(given));
  absl::StatusOr<ir::Module> read = driver::Parse(source, diagnostics, {}, &files);
  result.warnings = files.warnings();
  RVM_ASSIGN_OR_RETURN(ir::Module parsed, std::move(read));
  for (driver::ParamFile& file : files.TakeWeights()) {
    result.weights.insert(result.weights.end(), file.tensors.begin(), file.tensors.end());
  }
  result.text = text::PrintModule(parsed);
  RVM_ASSIGN_OR_RETURN(ir::Module module, driver::TypeModule(std::move(parsed), diagnostics, {}, nullptr, {}));
  RVM_RETURN_IF_ERROR(driver::CheckInstances(module, diagnostics));
  result.types = TypesJson(module);
  result.has_text = true;
  return absl::OkStatus();
}

}  // namespace

rvm_compilation* OfText(const char* name, const char* text, size_t size, TextStep step) {
  auto* result = new rvm_compilation();
  if (text == nullptr) {
    Describe(*result, nullptr, absl::InvalidArgumentError("saw NULL; expected the text of a program"));
    return result;
  }
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  uint32_t source = sources.Add(name == nullptr ? "<text>" : name, std::string(text, size));
  absl::Status status = step(source, diagnostics, *result);
  Describe(*result, &diagnostics, status);
  return result;
}

namespace {

// ---- importing

std::string CoverageJson(const importing::Coverage& coverage) {
  JsonWriter json;
  json.BeginArray();
  for (const auto& [name, use] : coverage) {
    json.BeginObject().Field("name", name).Field("nodes", use.nodes).Field("refused", use.refused);
    json.Key("reasons").BeginArray();
    for (const std::string& reason : use.reasons) json.String(reason);
    json.EndArray().EndObject();
  }
  json.EndArray();
  return std::move(json).Take();
}

absl::Status Import(const importing::Format& format, const char* path, importing::Bytes bytes,
                    const rvm_import_options* given, rvm_compilation& result) {
  rvm_import_options read;
  RVM_RETURN_IF_ERROR(ReadStruct(given, "rvm_import_options", read));
  importing::ImportOptions options;
  RVM_ASSIGN_OR_RETURN(options.frozen, ReadTensors(read.frozen, read.frozen_count));
  for (size_t i = 0; i < read.shape_count; ++i) {
    if (read.shapes == nullptr || read.shapes[i].name == nullptr || read.shapes[i].extents == nullptr) {
      return absl::InvalidArgumentError("`shapes`: saw NULL; expected names of inputs and extents such as \"1,n,80\"");
    }
    std::string_view extents = read.shapes[i].extents;
    std::vector<std::string> parts;
    if (!extents.empty()) parts = absl::StrSplit(Abseil(extents), ',');
    options.shapes[read.shapes[i].name] = std::move(parts);
  }
  for (size_t i = 0; i < read.signature_count; ++i) {
    if (read.signatures == nullptr || read.signatures[i] == nullptr) {
      return absl::InvalidArgumentError("`signatures`: saw NULL; expected names of signatures");
    }
    options.signatures.emplace_back(read.signatures[i]);
  }
  if (read.cache_dtype != nullptr) {
    absl::StatusOr<DataType> dtype = importing::ReadCacheDType(read.cache_dtype);
    if (!dtype.ok()) return absl::InvalidArgumentError(absl::StrCat("`cache_dtype`: ", dtype.status().message()));
    options.cache_dtype = *dtype;
  }
  if (read.activation_dtype != nullptr) {
    absl::StatusOr<DataType> dtype = importing::ReadActivationDType(read.activation_dtype);
    if (!dtype.ok()) return absl::InvalidArgumentError(absl::StrCat("`activation_dtype`: ", dtype.status().message()));
    options.activation_dtype = *dtype;
  }
  if (read.weights != nullptr) {
    if (!format.has_weights_file) {
      return absl::InvalidArgumentError(
          absl::StrCat("`weights`: a model of the format ", Abseil(format.name), " has its weights in it"));
    }
    importing::UseWeights({{static_cast<const uint8_t*>(read.weights), read.weights_size}, {}}, options);
  }
  importing::Coverage coverage;
  options.coverage = &coverage;
  diagnostics::SourceMap sources;
  options.sources = &sources;
  absl::StatusOr<importing::ImportedModel> imported = path != nullptr
                                                          ? importing::ImportFile(format, path, std::move(options))
                                                          : importing::ImportBytes(format, {bytes, {}}, options);
  result.coverage = CoverageJson(coverage);
  RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, std::move(imported));
  result.text = text::PrintModule(model.module, &sources);
  result.weights.assign(model.weights.begin(), model.weights.end());
  result.warnings = std::move(model.warnings);
  result.has_text = true;
  return absl::OkStatus();
}

// Imports the file at `path` or, if that is null, `bytes`. Without a format that of the ending of `path`.
rvm_compilation* ImportModel(const char* format, const char* path, const void* bytes, size_t size,
                             const rvm_import_options* options) {
  auto* result = new rvm_compilation();
  const importing::Format* found = format != nullptr ? importing::FindFormat(format)
                                   : path != nullptr ? importing::FormatOfPath(path)
                                                     : nullptr;
  absl::Status status;
  if (path == nullptr && bytes == nullptr) {
    status = absl::InvalidArgumentError("saw NULL; expected the bytes or the path of a model");
  } else if (found != nullptr) {
    status = Import(*found, path, {static_cast<const uint8_t*>(bytes), size}, options, *result);
  } else if (format == nullptr && path != nullptr) {
    status = importing::NoModel(path);
  } else {
    std::string saw = format == nullptr ? "NULL" : absl::StrCat("`", format, "`");
    status = absl::InvalidArgumentError(absl::StrCat("saw the format ", saw, "; expected ", importing::FormatNames()));
  }
  Describe(*result, nullptr, status);
  return result;
}

}  // namespace
}  // namespace rvm::capi

rvm_compilation* rvm_compile(const char* name, const char* text, size_t size, const rvm_compile_options* options) {
  return rvm::capi::OfText(name, text, size, [&](uint32_t source, auto& diagnostics, rvm_compilation& result) {
    return rvm::capi::Compile(source, diagnostics, options, result);
  });
}

rvm_compilation* rvm_check(const char* name, const char* text, size_t size) {
  return rvm_check_with(name, text, size, nullptr);
}

rvm_compilation* rvm_check_with(const char* name, const char* text, size_t size, const rvm_compile_options* options) {
  return rvm::capi::OfText(name, text, size, [&](uint32_t source, auto& diagnostics, rvm_compilation& result) {
    return rvm::capi::Check(source, diagnostics, options, result);
  });
}

rvm_compilation* rvm_import(const char* format, const void* bytes, size_t size, const rvm_import_options* options) {
  return rvm::capi::ImportModel(format, nullptr, bytes, size, options);
}
rvm_compilation* rvm_import_file(const char* format, const char* path, const rvm_import_options* options) {
  return rvm::capi::ImportModel(format, path, nullptr, 0, options);
}
rvm_compilation* rvm_import_onnx(const void* bytes, size_t size, const rvm_import_options* options) {
  return rvm_import("onnx", bytes, size, options);
}
rvm_compilation* rvm_import_onnx_file(const char* path, const rvm_import_options* options) {
  return rvm_import_file("onnx", path, options);
}
rvm_compilation* rvm_import_torch(const void* bytes, size_t size, const rvm_import_options* options) {
  return rvm_import("torch", bytes, size, options);
}
rvm_compilation* rvm_import_torch_file(const char* path, const rvm_import_options* options) {
  return rvm_import_file("torch", path, options);
}

const void* rvm_compilation_bytes(const rvm_compilation* compilation, size_t* size) {
  if (compilation == nullptr || !compilation->has_bytes) return nullptr;
  if (size != nullptr) *size = compilation->bytes.size();
  return compilation->bytes.data();
}

const char* rvm_compilation_text(const rvm_compilation* compilation) {
  return compilation == nullptr || !compilation->has_text ? nullptr : compilation->text.c_str();
}

const char* rvm_compilation_types(const rvm_compilation* compilation) {
  return compilation == nullptr ? "{}" : compilation->types.c_str();
}

size_t rvm_compilation_weight_count(const rvm_compilation* compilation) {
  return compilation == nullptr ? 0 : compilation->weights.size();
}

int rvm_compilation_weight(const rvm_compilation* compilation, size_t index, rvm_named_tensor* out) {
  if (index >= rvm_compilation_weight_count(compilation) || out == nullptr) return 0;
  const auto& [name, tensor] = compilation->weights[index];
  *out = {name.c_str(), rvm::capi::FromDataType(tensor.dtype()), tensor.shape().size(), tensor.shape().data(),
          tensor.data()};
  return 1;
}

const char* rvm_compilation_message(const rvm_compilation* compilation) {
  return compilation == nullptr ? "" : compilation->message.c_str();
}
const char* rvm_compilation_coverage(const rvm_compilation* compilation) {
  return compilation == nullptr ? "[]" : compilation->coverage.c_str();
}
const char* rvm_compilation_report(const rvm_compilation* compilation) {
  return compilation == nullptr ? "{}" : compilation->report.c_str();
}
const char* rvm_compilation_diagnostics(const rvm_compilation* compilation) {
  return compilation == nullptr ? "[]" : compilation->diagnostics.c_str();
}
void rvm_compilation_free(rvm_compilation* compilation) { delete compilation; }
