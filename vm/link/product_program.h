// ProductProgram: a DeviceProduct, compiled for evaluation on every call.
#ifndef RVM_VM_LINK_PRODUCT_PROGRAM_H_
#define RVM_VM_LINK_PRODUCT_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "serialization/executable.h"
#include "vm/device/device.h"
#include "vm/link/dim_program.h"

namespace rvm::vm {

class ProductProgram {
 public:
  // nullopt as for DimProgram.
  static std::optional<ProductProgram> Compile(const DeviceProduct& product, uint32_t num_symbols);

  device::ProductSize SizeOf(std::span<const int64_t> symbols) const;
  // Returns the product with the arguments of its launch; nullopt if a matrix has no memory, or an offset or stride
  // that no tensor has. REQUIRES: the executable is verified, and SizeOf(symbols) has multiplications.
  std::optional<device::Product> Bind(std::span<const int64_t> symbols, std::span<const device::Argument> args) const;

 private:
  struct MatrixPart {
    uint32_t argument;
    DataType dtype;
  };
  std::vector<DimProgram> dims_;      // of DeviceProduct::dims()
  std::vector<MatrixPart> matrices_;  // of DeviceProduct::matrices()
  double scale_ = 1;
  bool allows_tf32_ = false;
};

}  // namespace rvm::vm

#endif  // RVM_VM_LINK_PRODUCT_PROGRAM_H_
