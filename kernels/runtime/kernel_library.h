// Loads compiled kernels from memory: a small linker for relocatable ELF
// objects, so that the VM needs neither a compiler, nor dlopen, nor a file.
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

namespace rvm::runtime {

struct LinkedImage;

// Thread-safe once loaded; the code is unmapped with the last owner.
class KernelLibrary {
 public:
  // `object`: relocatable ELF64 for this machine. Undefined symbols are resolved from the
  // list of kernels/abi/imports.def only. Pages are never writable and executable
  // at once. Malformed objects are kInvalidArgument, never a crash (but the code itself is
  // trusted: the caller decides whether to load native code at all).
  static absl::StatusOr<std::shared_ptr<const KernelLibrary>> Load(std::span<const uint8_t> object);
  ~KernelLibrary();

  // Null if no kernel has this name.
  RvmKernel Find(std::string_view symbol) const;

 private:
  explicit KernelLibrary(std::unique_ptr<const LinkedImage> image);
  std::unique_ptr<const LinkedImage> image_;
};

// kFailedPrecondition naming what is missing unless this CPU runs code built for
// `triple` with `features` ("+avx2,+fma,...").
absl::Status CheckHostSupports(std::string_view triple, std::string_view features);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_KERNEL_LIBRARY_H_
