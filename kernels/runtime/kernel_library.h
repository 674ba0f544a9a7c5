// Loads compiled kernels from memory: a small linker for relocatable ELF objects. Needs no compiler, no dlopen and no
// temporary file.
#ifndef RVM_KERNELS_RUNTIME_KERNEL_LIBRARY_H_
#define RVM_KERNELS_RUNTIME_KERNEL_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/abi/kernel_abi.h"
#include "kernels/runtime/imports.h"

namespace rvm::runtime {

struct LinkedImage;

// Thread-safe once loaded. The code is unmapped when the last owner is destroyed.
class KernelLibrary {
 public:
  // `object` is a relocatable ELF64 object for this machine. Undefined symbols are resolved only from
  // kernels/abi/imports.def and `imports`. No page is ever both writable and executable. Returns kInvalidArgument for
  // malformed objects. The code itself is not checked: the caller decides whether to load native code at all.
  static absl::StatusOr<std::shared_ptr<const KernelLibrary>> Load(std::span<const uint8_t> object,
                                                                   std::span<const Import> imports = {});
  ~KernelLibrary();

  // Null if no kernel has this name.
  RvmKernel Find(std::string_view symbol) const;

 private:
  explicit KernelLibrary(std::unique_ptr<const LinkedImage> image);
  std::unique_ptr<const LinkedImage> image_;
};

// Returns kFailedPrecondition, naming the missing features, if this CPU cannot run code built for `triple` with
// `features` ("+avx2,+fma,...").
absl::Status CheckHostSupports(std::string_view triple, std::string_view features);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_KERNEL_LIBRARY_H_
