// Libraries that are opened when a program runs: drivers, and what belongs to them.
#ifndef RVM_VM_DEVICE_SHARED_LIBRARY_H_
#define RVM_VM_DEVICE_SHARED_LIBRARY_H_

#include <initializer_list>
#include <span>

#include "absl/status/status.h"

namespace rvm::device {

// A function by its name, and the pointer that gets its address.
struct LibrarySymbol {
  const char* name;
  void** address;
};

// Opens the first of the libraries that is installed, for the rest of the process, and looks all functions up.
// kUnavailable, with the reason, if there is none, or if it lacks one of the functions. `what`: for that message.
absl::Status LoadLibrary(std::initializer_list<const char*> names, const char* what,
                         std::span<const LibrarySymbol> symbols);

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_SHARED_LIBRARY_H_
