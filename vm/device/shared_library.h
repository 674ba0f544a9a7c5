// Libraries that are opened when a program runs: drivers, and what belongs to them.
#ifndef RVM_VM_DEVICE_SHARED_LIBRARY_H_
#define RVM_VM_DEVICE_SHARED_LIBRARY_H_

#include <initializer_list>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace rvm::device {

// A function by its name, and the pointer that gets its address.
struct LibrarySymbol {
  const char* name;
  void** address;
  const char* older_name = nullptr;  // of the same function in earlier versions of the library; null: there is none
  bool is_optional = false;          // its address is null if the library lacks it
};

// Opens the first of the libraries that is installed, for the rest of the process, looks all functions up, and returns
// the name of the library. kUnavailable, with the reason for each name, if none can be opened, or if the library lacks
// one of the functions that are not optional. `what` names the library in that message.
absl::StatusOr<std::string> LoadLibrary(std::initializer_list<const char*> names, const char* what,
                                        std::span<const LibrarySymbol> symbols);

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_SHARED_LIBRARY_H_
