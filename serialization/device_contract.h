// The contract between the compiler, which makes the code of devices, and the runtime, which launches it. An executable
// does not state these: both sides are built with this header.
//
// Launch i of kernel k runs the function "k<k>_<i>" of a DeviceCode, unless a DeviceCall names another function and its
// arguments. Its arguments, each of 8 bytes, are in this order:
//   1. the kernel's parameters: the address of a tensor, or the bits of the element of a scalar
//   2. its results: addresses
//   3. the address of the workspace
//   4. the symbols of its shapes
// Functions stride over the grid, so that any number of work items may be launched.
#ifndef RVM_SERIALIZATION_DEVICE_CONTRACT_H_
#define RVM_SERIALIZATION_DEVICE_CONTRACT_H_

#include <cstdint>
#include <string>

namespace rvm::device_contract {

// Names of DeviceCode::target. Those of accelerators stand in their folders of devices/.

// Text of PTX. The features of the code name the compute capability that it needs: "+sm_75".
inline constexpr char kPtxTarget[] = "ptx";
// Source of a program in OpenCL C 1.2.
inline constexpr char kOpenClTarget[] = "opencl-c-1.2";

// Threads of each block that a function of kPtxTarget is launched with.
inline constexpr uint32_t kPtxBlockThreads = 128;

// Name of the function that launch number `launch` of kernel number `kernel` runs.
inline std::string FunctionName(uint32_t kernel, uint32_t launch) {
  return "k" + std::to_string(kernel) + "_" + std::to_string(launch);
}

// Minimum number of multiplications of a product that goes to a library whatever its depth is.
inline constexpr int64_t kMinLibraryMultiplications = int64_t{1} << 26;

// Returns true if an addend of a DeviceProduct is a row that is added to each row of the product. A product has at most
// one such addend, and at most one matrix.
template <typename Matrix>
bool IsBias(const Matrix& addend) {
  return addend.batch_stride == 0 && addend.row_stride == 0 && addend.column_stride == 1;
}

}  // namespace rvm::device_contract

#endif  // RVM_SERIALIZATION_DEVICE_CONTRACT_H_
