#include "vm/device/shared_library.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rvm::device {

absl::StatusOr<std::string> LoadLibrary(std::initializer_list<const char*> names, const char* what,
                                        std::span<const LibrarySymbol> symbols) {
  void* library = nullptr;
  const char* opened = nullptr;
  std::string reasons;
  for (const char* name : names) {
    library = dlopen(opened = name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", dlerror());
  }
  if (library == nullptr) return absl::UnavailableError(absl::StrCat(what, " is not installed: ", reasons));
  for (const LibrarySymbol& symbol : symbols) {
    *symbol.address = dlsym(library, symbol.name);
    if (*symbol.address == nullptr && symbol.older_name != nullptr) {
      *symbol.address = dlsym(library, symbol.older_name);
    }
    if (*symbol.address == nullptr && !symbol.is_optional) {
      return absl::UnavailableError(absl::StrCat(opened, " lacks the function ", symbol.name));
    }
  }
  return std::string(opened);
}

}  // namespace rvm::device
