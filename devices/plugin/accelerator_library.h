// Accelerators outside of the tree: shared libraries with the table of include/relayvm/accelerator.h.
//
// Libraries stay open as long as the process, like drivers. Only users name them, never an executable.
#ifndef RVM_DEVICES_PLUGIN_ACCELERATOR_LIBRARY_H_
#define RVM_DEVICES_PLUGIN_ACCELERATOR_LIBRARY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "include/relayvm/accelerator.h"

namespace rvm::device {

// Returns true for the names of kinds that libraries cannot take.
bool IsTakenKind(std::string_view name);

// Opens the library at `path`, with or without a slash as dlopen takes it, for this process; OK if it is open.
// kFailedPrecondition, with the reason, if it cannot be opened, or its table is malformed, for another version of the
// interface, or of a kind that another library has.
absl::Status OpenAcceleratorLibrary(const std::string& path);
// Opens several, with colons between their paths.
absl::Status OpenAcceleratorLibraries(std::string_view paths);

// The tables of the libraries that are open, in order; those that RELAYVM_DEVICE_LIBRARIES names, between colons, are
// opened by the first call.
struct AcceleratorLibraries {
  std::vector<const rvm_accelerator*> tables;
  std::vector<std::string> errors;  // of those in the environment that could not be opened
};
AcceleratorLibraries OpenedAcceleratorLibraries();

}  // namespace rvm::device

#endif  // RVM_DEVICES_PLUGIN_ACCELERATOR_LIBRARY_H_
