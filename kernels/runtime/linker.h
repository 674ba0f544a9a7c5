// Links a relocatable ELF object into memory of its own.
#ifndef RVM_KERNELS_RUNTIME_LINKER_H_
#define RVM_KERNELS_RUNTIME_LINKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/runtime/cpu_features.h"
#include "kernels/runtime/imports.h"

namespace rvm::runtime {

// Code, constants and data with their final protection.
struct LinkedImage {
  LinkedImage() = default;
  LinkedImage(const LinkedImage&) = delete;
  LinkedImage& operator=(const LinkedImage&) = delete;
  ~LinkedImage();

  uint8_t* bytes = nullptr;
  size_t size = 0;
  absl::flat_hash_map<std::string, uintptr_t> functions;  // the addresses of global functions, by name
};

// KernelLibrary::Load states what is linked and checked; `imports` are functions that the code may call beside those of
// kernels/abi/imports.def. The architecture may be another than this process's; such code
// is only looked at.
absl::StatusOr<std::unique_ptr<LinkedImage>> LinkObject(std::span<const uint8_t> object, Architecture architecture,
                                                        std::span<const Import> imports = {});

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_LINKER_H_
