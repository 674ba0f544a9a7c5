#include "vm/device/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace rvm::device {

absl::Status LoadLibrary(std::initializer_list<const char*> names, const char* what,
                         std::span<const LibrarySymbol> symbols) {
  void* library = nullptr;
  const char* opened = nullptr;
  for (const char* name : names) {
    if (library == nullptr) library = dlopen(opened = name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return absl::UnavailableError(absl::StrCat(what, " is not installed: ", dlerror()));
  for (const LibrarySymbol& symbol : symbols) {
    *symbol.address = dlsym(library, symbol.name);
    if (*symbol.address == nullptr)
      return absl::UnavailableError(absl::StrCat(opened, " lacks the function ", symbol.name));
  }
  return absl::OkStatus();
}

}  // namespace rvm::device
