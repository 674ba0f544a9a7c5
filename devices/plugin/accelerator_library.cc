#include "devices/plugin/accelerator_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm::device {
namespace {

// Names that libraries cannot take: those of the kinds in the tree, of groups of them, and of the host.
constexpr std::string_view kTakenKinds[] = {"host", "cpu", "device", "gpu", "cuda", "opencl", "sim"};

// The open libraries of this process.
struct Opened {
  std::mutex mutex;
  bool has_environment = false;
  AcceleratorLibraries libraries;
};
Opened& TheOpened() {
  static Opened* const opened = new Opened;
  return *opened;
}

absl::Status Malformed(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("the accelerator library ", path, " ", what));
}

bool IsName(const char* text) {
  std::string_view name = text == nullptr ? "" : text;
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool HasAllFunctions(const rvm_accelerator& table) {
  return table.accepts != nullptr && table.code_create != nullptr && table.code_add != nullptr &&
         table.code_finish != nullptr && table.code_destroy != nullptr && table.device_count != nullptr &&
         table.device_open != nullptr && table.block_create != nullptr && table.block_destroy != nullptr &&
         table.code_load != nullptr && table.code_unload != nullptr && table.stream_create != nullptr &&
         table.stream_destroy != nullptr && table.copy_in != nullptr && table.copy_out != nullptr &&
         table.launch != nullptr && table.wait != nullptr && table.stream_times != nullptr;
}

absl::Status CheckPatterns(const std::string& path, const rvm_accelerator& table) {
  if (table.pattern_count == 0 || table.patterns == nullptr) return Malformed(path, "has no patterns");
  for (uint32_t p = 0; p < table.pattern_count; ++p) {
    const rvm_pattern& pattern = table.patterns[p];
    bool fits = pattern.name != nullptr && pattern.step_count > 0 && pattern.steps != nullptr &&
                pattern.steps[0].is_optional == 0;
    for (uint32_t s = 0; fits && s < pattern.step_count; ++s) {
      const rvm_pattern_step& step = pattern.steps[s];
      fits = step.operator_count > 0 && step.operators != nullptr;
      for (uint32_t o = 0; fits && o < step.operator_count; ++o) fits = step.operators[o] != nullptr;
    }
    if (!fits) {
      return Malformed(path,
                       absl::StrCat("has a malformed pattern number ", p,
                                    "; expected a name and steps with operators, the first of which is not optional"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const std::string& path, const rvm_accelerator& table) {
  if (table.struct_size < sizeof(rvm_accelerator)) {
    return Malformed(path, absl::StrCat("has a table of ", table.struct_size, " bytes; expected ",
                                        sizeof(rvm_accelerator), " or more"));
  }
  if (!IsName(table.kind)) return Malformed(path, "names no kind; expected letters from a to z, digits and `_`");
  if (IsTakenKind(table.kind)) {
    return Malformed(path,
                     absl::StrCat("is for the kind `", table.kind, "`, which RelayVM has; expected another name"));
  }
  if (table.target == nullptr || *table.target == '\0') return Malformed(path, "does not name its code");
  if (!HasAllFunctions(table)) return Malformed(path, "lacks a function of the table");
  return CheckPatterns(path, table);
}

// Opens a library, and adds its table.
absl::Status Open(const std::string& path, AcceleratorLibraries& libraries) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the accelerator library cannot be opened: ", dlerror()));
  }
  auto get = reinterpret_cast<rvm_accelerator_get_function>(dlsym(library, "rvm_accelerator_get"));
  if (get == nullptr) return Malformed(path, "has no function `rvm_accelerator_get` (relayvm/accelerator.h)");
  const rvm_accelerator* table = get(RVM_ACCELERATOR_ABI);
  if (table == nullptr) {
    return Malformed(path, absl::StrCat("has no table for version ", RVM_ACCELERATOR_ABI, " of relayvm/accelerator.h"));
  }
  if (std::find(libraries.tables.begin(), libraries.tables.end(), table) != libraries.tables.end()) {
    return absl::OkStatus();
  }
  RVM_RETURN_IF_ERROR(CheckTable(path, *table));
  for (const rvm_accelerator* other : libraries.tables) {
    if (std::string_view(other->kind) != table->kind && std::string_view(other->target) != table->target) continue;
    return Malformed(path, absl::StrCat("is for the kind `", table->kind, "` with code `", table->target,
                                        "`, and so is one that is open"));
  }
  libraries.tables.push_back(table);
  return absl::OkStatus();
}

std::vector<std::string> PathsOf(std::string_view paths) {
  return absl::StrSplit(Abseil(paths), ':', absl::SkipEmpty());
}

// Opens the libraries that the environment names. REQUIRES: the mutex is held.
void OpenEnvironment(Opened& opened) {
  if (opened.has_environment) return;
  opened.has_environment = true;
  const char* paths = std::getenv("RELAYVM_DEVICE_LIBRARIES");
  if (paths == nullptr) return;
  for (const std::string& path : PathsOf(paths)) {
    absl::Status status = Open(path, opened.libraries);
    if (!status.ok()) opened.libraries.errors.emplace_back(status.message());
  }
}

}  // namespace

bool IsTakenKind(std::string_view name) {
  return std::find(std::begin(kTakenKinds), std::end(kTakenKinds), name) != std::end(kTakenKinds);
}

absl::Status OpenAcceleratorLibrary(const std::string& path) {
  Opened& opened = TheOpened();
  std::lock_guard lock(opened.mutex);
  OpenEnvironment(opened);
  return Open(path, opened.libraries);
}

absl::Status OpenAcceleratorLibraries(std::string_view paths) {
  for (const std::string& path : PathsOf(paths)) RVM_RETURN_IF_ERROR(OpenAcceleratorLibrary(path));
  return absl::OkStatus();
}

AcceleratorLibraries OpenedAcceleratorLibraries() {
  Opened& opened = TheOpened();
  std::lock_guard lock(opened.mutex);
  OpenEnvironment(opened);
  return opened.libraries;
}

}  // namespace rvm::device
