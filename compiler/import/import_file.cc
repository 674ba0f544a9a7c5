#include "compiler/import/import_file.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/checkpoint/import.h"
#include "compiler/import/darknet/import.h"
#include "compiler/import/keras/import.h"
#include "compiler/import/mapped_file.h"
#include "compiler/import/mxnet/import.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/stablehlo/import.h"
#include "compiler/import/tensorflow/import.h"
#include "compiler/import/tflite/import.h"
#include "compiler/import/torch/import.h"

namespace rvm::importing {
namespace {

// The files of folders that are models.
constexpr std::string_view kFolderFile = "config.json", kSavedModel = "saved_model.pb";

// Commands, imports of programs and the libraries for C and Python follow from this table.
constexpr Format kFormats[] = {
    {"onnx", ".onnx",
     [](const FileBytes& file, const ImportOptions& options) { return onnx::Import(file.bytes, options); }},
    {"torch", ".pt2", torch::Import},
    {"torch", ".pt", torch::Import},
    {"torch", ".torchscript", torch::Import},
    {"tflite", ".tflite",
     [](const FileBytes& file, const ImportOptions& options) { return tflite::Import(file.bytes, options); },
     /*has_weights_file=*/false, /*has_signatures=*/true},
    {"stablehlo", ".mlirbc",
     [](const FileBytes& file, const ImportOptions& options) { return stablehlo::Import(file.bytes, options); }},
    {"stablehlo", ".stablehlo",
     [](const FileBytes& file, const ImportOptions& options) { return stablehlo::Import(file.bytes, options); }},
    {"keras", ".keras", keras::Import},
    {"keras", ".h5", keras::Import},
    {"darknet", ".cfg",
     [](const FileBytes& file, const ImportOptions& options) { return darknet::Import(file.bytes, options); },
     /*has_weights_file=*/true},
    {"mxnet", "-symbol.json",
     [](const FileBytes& file, const ImportOptions& options) { return mxnet::Import(file.bytes, options); },
     /*has_weights_file=*/true},
    {"tensorflow", ".pb",
     [](const FileBytes& file, const ImportOptions& options) { return tensorflow::Import(file.bytes, options); },
     /*has_weights_file=*/false, /*has_signatures=*/true},
    {"gguf", ".gguf", checkpoint::ImportGguf, /*has_weights_file=*/false, /*has_signatures=*/false,
     /*is_weights_alone=*/true},
    {"transformers", kFolderFile, checkpoint::ImportFolder, /*has_weights_file=*/false, /*has_signatures=*/false,
     /*is_weights_alone=*/true},
};

// A format with several endings has a row for each, one behind the other.
std::string ListOf(std::string_view Format::* field) {
  std::string list;
  std::string_view last;
  for (const Format& format : kFormats) {
    if (format.*field == last) continue;
    last = format.*field;
    const bool is_last = &format == &std::end(kFormats)[-1];
    absl::StrAppend(&list, list.empty() ? "" : is_last ? " or " : ", ", Abseil(last));
  }
  return list;
}

// Returns the path of that file, for a folder.
std::string FileOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  const std::string folder = path.ends_with('/') ? path : absl::StrCat(path, "/");
  const std::string saved_model = absl::StrCat(folder, Abseil(kSavedModel));
  return std::filesystem::is_regular_file(saved_model, error) ? saved_model : absl::StrCat(folder, Abseil(kFolderFile));
}

// Files of external data lie beside the model or below.
ExternalFiles FilesBeside(const std::string& model) {
  size_t slash = model.rfind('/');
  std::string folder = slash == std::string::npos ? "" : model.substr(0, slash + 1);
  auto files = std::make_shared<std::map<std::string, FileBytes>>();
  return [folder, files](std::string_view location) -> absl::StatusOr<FileBytes> {
    std::string name(location);
    for (absl::string_view part : absl::StrSplit(name, '/')) {
      if (part != ".." && !name.empty() && name[0] != '/') continue;
      return absl::InvalidArgumentError(
          absl::StrCat("external data at `", name, "`; expected a file beside the model or below"));
    }
    if (auto it = files->find(name); it != files->end()) return it->second;
    RVM_ASSIGN_OR_RETURN(FileBytes file, MapFile(absl::StrCat(folder, name)));
    files->emplace(std::move(name), file);
    return file;
  };
}

// An ending that begins with a letter is a whole file name: `my_config.json` is no `config.json`.
bool HasEnding(std::string_view path, std::string_view ending) {
  if (!path.ends_with(ending)) return false;
  path.remove_suffix(ending.size());
  return ending.starts_with('.') || ending.starts_with('-') || path.empty() || path.ends_with('/');
}

}  // namespace

const Format* FindFormat(std::string_view name) {
  for (const Format& format : kFormats) {
    if (name == format.name) return &format;
  }
  return nullptr;
}

const Format* FormatOfPath(std::string_view path) {
  for (const Format& format : kFormats) {
    if (HasEnding(path, format.ending)) return &format;
  }
  const std::string given(path), file = FileOf(given);
  std::error_code error;
  return file != given && std::filesystem::is_regular_file(file, error) ? FormatOfPath(file) : nullptr;
}

std::string FormatNames() { return ListOf(&Format::name); }
std::string ModelEndings() { return ListOf(&Format::ending); }

absl::Status NoModel(std::string_view path) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", Abseil(path), "` is no model; expected an ", ModelEndings(), " file"));
}

bool IsModelPath(std::string_view path) { return FormatOfPath(path) != nullptr; }

std::string_view ModelStem(std::string_view path) {
  for (const Format& format : kFormats) {
    if (!HasEnding(path, format.ending)) continue;
    path.remove_suffix(format.ending.size());
    break;
  }
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.empty() || path == "." ? "model" : path;
}

void UseWeights(FileBytes weights, ImportOptions& options) {
  options.files = [weights = std::move(weights)](std::string_view) { return weights; };
}

namespace {

// Reads the name of one of some dtypes. `expected` names them, and what has such a dtype.
absl::StatusOr<DataType> ReadDType(std::string_view name, std::initializer_list<DataType> allowed,
                                   std::string_view expected) {
  const std::optional<DataType> dtype = ParseDataType(name);
  if (dtype && std::ranges::find(allowed, *dtype) != allowed.end()) return *dtype;
  return absl::InvalidArgumentError(absl::StrCat("saw `", Abseil(name), "`; expected ", Abseil(expected)));
}

}  // namespace

absl::StatusOr<DataType> ReadCacheDType(std::string_view name) {
  return ReadDType(name, {kFloat16, kBFloat16, kFloat32}, "float16, bfloat16 or float32, as the dtype of caches");
}

absl::StatusOr<DataType> ReadActivationDType(std::string_view name) {
  return ReadDType(name, {kInt8, kFloat32}, "int8 or float32, as the dtype of rows that weights multiply");
}

absl::StatusOr<ImportedModel> ImportBytes(const Format& format, const FileBytes& file, const ImportOptions& options) {
  if (!options.signatures.empty() && !format.has_signatures) {
    return absl::InvalidArgumentError(absl::StrCat("signature `", options.signatures[0], "`: models of the format ",
                                                   Abseil(format.name), " have no signatures to choose from"));
  }
  if (options.cache_dtype && !format.is_weights_alone) {
    return absl::InvalidArgumentError(absl::StrCat("caches of ", options.cache_dtype->ToString(),
                                                   ": models of the format ", Abseil(format.name),
                                                   " have the caches of their graph"));
  }
  if (options.activation_dtype && !format.is_weights_alone) {
    return absl::InvalidArgumentError(absl::StrCat("activations of ", options.activation_dtype->ToString(),
                                                   ": models of the format ", Abseil(format.name),
                                                   " have those of their graph; `relayvm quantize` rounds them"));
  }
  absl::StatusOr<ImportedModel> model = format.import(file, options);
  if (model.ok()) return model;
  // Names in a model may be any bytes.
  return absl::Status(model.status().code(), ReadableText(std::string(model.status().message())));
}

absl::StatusOr<ImportedModel> ImportFile(const Format& format, const std::string& given, ImportOptions options) {
  const std::string path = FileOf(given);
  RVM_ASSIGN_OR_RETURN(FileBytes file, MapFile(path));
  options.name = path;
  if (options.files == nullptr) options.files = FilesBeside(path);
  options.release = ReleasePages;
  absl::StatusOr<ImportedModel> model = ImportBytes(format, file, options);
  if (model.ok()) return model;
  return absl::Status(model.status().code(), absl::StrCat(path, ": cannot be imported\n", model.status().message()));
}

absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options) {
  if (const Format* format = FormatOfPath(path)) return ImportFile(*format, path, std::move(options));
  return NoModel(path);
}

}  // namespace rvm::importing
