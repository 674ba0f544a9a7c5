#include "compiler/driver/program_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/abseil.h"
#include "base/file.h"
#include "base/literal.h"
#include "base/npy.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "compiler/import/import_file.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"

namespace rvm::driver {
namespace {

using diagnostics::DiagnosticKind;

constexpr std::string_view kShape = "shape", kFreeze = "freeze", kSignature = "signature", kCacheDType = "cache_dtype",
                           kActivationDType = "activation_dtype", kParams = "params";

std::string FolderOfPath(std::string_view path) {
  size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
}

std::string Join(std::string_view folder, std::string_view path) {
  return absl::StrCat(path.starts_with('/') ? "" : Abseil(folder), Abseil(path));
}

// One name for all paths of a file.
std::string CanonicalPath(const std::string& path) {
  std::error_code error;
  std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  return error ? path : canonical.string();
}

absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(std::string_view text, std::string_view expected) {
  size_t equals = text.rfind('=');
  if (equals != std::string_view::npos && equals > 0)
    return std::pair(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  return absl::InvalidArgumentError(absl::StrCat("saw `", Abseil(text), "`; expected ", Abseil(expected)));
}

absl::StatusOr<Literal> FrozenValue(const std::string& text, std::string_view folder) {
  if (text.starts_with("@")) {
    RVM_ASSIGN_OR_RETURN(std::string bytes, ReadFile(Join(folder, text.substr(1))));
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

// Reports what an import failed of.
bool Fail(const text::ImportLine& line, std::string_view message, diagnostics::Diagnostics& diagnostics) {
  diagnostics.Error(line.span, DiagnosticKind::kImportFailed,
                    absl::StrCat("cannot import \"", line.path, "\" as `@", line.name, "`: ", Abseil(message)));
  return false;
}

bool FailOption(const text::ImportLine::Option& option, std::string_view message,
                diagnostics::Diagnostics& diagnostics) {
  diagnostics.Error(option.span, DiagnosticKind::kBadImportOption,
                    absl::StrCat("`", option.name, "`: ", Abseil(message)));
  return false;
}

// The options that a model and a text have.
bool HasOptions(const text::ImportLine& line, std::vector<std::string_view> known, std::string_view what,
                diagnostics::Diagnostics& diagnostics) {
  for (const text::ImportLine::Option& option : line.options) {
    if (std::find(known.begin(), known.end(), option.name) != known.end()) continue;
    std::string names = absl::StrJoin(
        known, " or ", [](std::string* out, std::string_view name) { absl::StrAppend(out, "`", Abseil(name), "`"); });
    return FailOption(option, absl::StrCat(Abseil(what), " has no such option; expected ", names), diagnostics);
  }
  return true;
}

std::string KeyOf(const std::string& canonical, const text::ImportLine& line) {
  std::string key = canonical;
  for (const text::ImportLine::Option& option : line.options)
    absl::StrAppend(&key, "\n", option.name, "=", option.value);
  return key;
}

}  // namespace

absl::Status AddShape(std::string_view text, importing::ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(auto pair, NameAndValue(text, "NAME=EXTENTS, as in `image=1,3,h,w`"));
  options.shapes[pair.first] = pair.second.empty() ? std::vector<std::string>() : absl::StrSplit(pair.second, ',');
  return absl::OkStatus();
}

absl::Status AddFrozen(std::string_view text, std::string_view folder, importing::ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(auto pair, NameAndValue(text, "NAME=VALUE, as in `iterations=4` or `mask=@mask.npy`"));
  RVM_ASSIGN_OR_RETURN(Literal value, FrozenValue(pair.second, folder));
  options.frozen.insert_or_assign(pair.first, std::move(value));
  return absl::OkStatus();
}

absl::Status AddCacheDType(std::string_view text, importing::ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(options.cache_dtype, importing::ReadCacheDType(text));
  return absl::OkStatus();
}

absl::Status AddActivationDType(std::string_view text, importing::ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(options.activation_dtype, importing::ReadActivationDType(text));
  return absl::OkStatus();
}

void ProgramFiles::AddText(std::string name, std::string text) {
  given_.push_back({.path = absl::StrCat("<", name, ">"), .name = name, .options = {}, .span = {}, .name_span = {}});
  texts_.insert_or_assign(std::move(name), std::move(text));
}

std::string ProgramFiles::FolderOf(const text::ImportLine& line, const diagnostics::SourceMap& sources) const {
  if (!line.span.valid()) return "";
  if (open_.empty() && folder_) return folder_->empty() || folder_->ends_with('/') ? *folder_ : *folder_ + "/";
  return FolderOfPath(sources.name(line.span.source));
}

std::optional<text::ImportedFile> ProgramFiles::Import(const text::ImportLine& line, const std::string& prefix,
                                                       ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  has_imports_ = true;
  if (auto text = texts_.find(line.name); text != texts_.end() && !line.span.valid()) {
    if (!ParseText(line, line.path, text->second, prefix, module, diagnostics)) return std::nullopt;
    return text::ImportedFile{.prefix = prefix};
  }
  if (!reads_files_) {
    diagnostics.Error(line.span, DiagnosticKind::kImportRefused,
                      absl::StrCat("saw an import of \"", line.path,
                                   "\"; this text may not read files: expected a folder for its imports"));
    return std::nullopt;
  }
  std::string path = Join(FolderOf(line, diagnostics.sources()), line.path);
  bool is_model = importing::IsModelPath(path);
  if (!is_model && !path.ends_with(".relay")) {
    Fail(line, absl::StrCat("expected a .relay, ", importing::ModelEndings(), " file"), diagnostics);
    return std::nullopt;
  }
  if (is_model && only_declares_) return text::ImportedFile{.prefix = prefix, .is_opaque = true};
  std::string canonical = CanonicalPath(path);
  if (auto cycle = std::find(open_.begin(), open_.end(), canonical); cycle != open_.end()) {
    diagnostics.Error(line.span, DiagnosticKind::kImportCycle,
                      absl::StrCat("\"", line.path, "\" imports itself: ", absl::StrJoin(cycle, open_.end(), " -> "),
                                   " -> ", canonical));
    return std::nullopt;
  }
  std::string key = KeyOf(canonical, line);
  if (auto found = prefixes_.find(key); found != prefixes_.end() && !only_declares_) {
    return text::ImportedFile{.prefix = found->second};
  }
  bool is_read = false;
  if (is_model) {
    is_read = ImportModel(line, path, prefix, module, diagnostics);
  } else {
    open_.push_back(canonical);
    is_read = ImportText(line, path, prefix, module, diagnostics);
    open_.pop_back();
  }
  if (!is_read) return std::nullopt;
  prefixes_[key] = prefix;
  return text::ImportedFile{.prefix = prefix, .is_opaque = only_declares_};
}

bool ProgramFiles::ImportText(const text::ImportLine& line, const std::string& path, const std::string& prefix,
                              ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  if (!HasOptions(line, {kParams}, "a .relay file", diagnostics)) return false;
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return Fail(line, std::string(text.status().message()), diagnostics);
  if (!ParseText(line, path, *std::move(text), prefix, module, diagnostics)) return false;
  for (const text::ImportLine::Option& option : line.options) {
    std::string file = Join(FolderOf(line, diagnostics.sources()), option.value);
    absl::StatusOr<ParamFile> params = LoadParams(file);
    if (!params.ok()) return FailOption(option, std::string(params.status().message()), diagnostics);
    AddWeights(file, *std::move(params), prefix);
  }
  return true;
}

bool ProgramFiles::ParseText(const text::ImportLine& line, const std::string& path, std::string text,
                             const std::string& prefix, ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  // Spans are 32-bit byte offsets.
  if (text.size() >= (uint64_t{1} << 31)) return Fail(line, "it has more than 2 GiB", diagnostics);
  uint32_t source = diagnostics.sources().Add(path, std::move(text));
  text::ParseOptions options{.importer = this, .prefix = prefix};
  if (!only_declares_) {
    return WithStack([&] { return text::ParseModule(source, module, diagnostics, options); });
  }
  // The formatter prints the program's own definitions; what an imported file uses of the Prelude is not for them.
  ir::Module declared{.arena = module.arena};
  bool is_read = WithStack([&] { return text::ParseModule(source, declared, diagnostics, options); });
  for (const ir::GlobalFunction& function : declared.functions) {
    if (absl::StartsWith(function.name, prefix)) module.functions.push_back(function);
  }
  for (ir::AdtDef* adt : declared.adts) {
    if (absl::StartsWith(adt->name, prefix)) module.adts.push_back(adt);
  }
  return is_read;
}

bool ProgramFiles::ImportModel(const text::ImportLine& line, const std::string& path, const std::string& prefix,
                               ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  if (!HasOptions(line, {kShape, kFreeze, kSignature, kCacheDType, kActivationDType}, "a model", diagnostics))
    return false;
  diagnostics::SourceMap origins;
  importing::ImportOptions options{.sources = &origins};
  std::string folder = FolderOf(line, diagnostics.sources());
  for (const text::ImportLine::Option& option : line.options) {
    if (option.name == kSignature) {
      options.signatures.push_back(option.value);
      continue;
    }
    absl::Status status = option.name == kShape             ? AddShape(option.value, options)
                          : option.name == kCacheDType      ? AddCacheDType(option.value, options)
                          : option.name == kActivationDType ? AddActivationDType(option.value, options)
                                                            : AddFrozen(option.value, folder, options);
    if (!status.ok()) return FailOption(option, std::string(status.message()), diagnostics);
  }
  absl::StatusOr<importing::ImportedModel> model = importing::ImportFile(path, std::move(options));
  if (!model.ok()) return Fail(line, std::string(model.status().message()), diagnostics);
  for (const std::string& warning : model->warnings) warnings_.push_back(absl::StrCat(path, ": ", warning));
  // A model is what `relayvm import` prints: its names, types and origins are those of an imported text.
  uint32_t source = diagnostics.sources().Add(path, text::PrintModule(model->module, &origins));
  if (!text::ParseModule(source, module, diagnostics, {.prefix = prefix})) return false;
  AddWeights(path, {.path = path, .tensors = std::move(model->weights), .unreadable = {}}, prefix);
  return true;
}

void ProgramFiles::AddWeights(std::string path, ParamFile file, const std::string& prefix) {
  ParamFile named{.path = std::move(path), .tensors = {}, .unreadable = {}, .binds_main = false};
  for (auto& [name, tensor] : file.tensors) named.tensors.emplace(absl::StrCat(prefix, ".", name), std::move(tensor));
  for (auto& [name, why] : file.unreadable) named.unreadable.emplace(absl::StrCat(prefix, ".", name), std::move(why));
  if (!named.tensors.empty() || !named.unreadable.empty()) weights_.push_back(std::move(named));
}

}  // namespace rvm::driver
