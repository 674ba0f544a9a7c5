// LibraryProducts: products of matrices by cuBLASLt, on one stream.
//
// The library stores matrices by columns, and so computes the transposed product: of what this VM stores by rows, the
// columns are its rows. For each kind of product, that is its extents, strides, types and alignments, it is asked once
// for the best algorithm.
#ifndef RVM_VM_DEVICE_CUDA_PRODUCTS_H_
#define RVM_VM_DEVICE_CUDA_PRODUCTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/device/cublaslt_api.h"
#include "vm/device/cuda_core.h"
#include "vm/device/product.h"

namespace rvm::device::cuda {

// The name and version of the library, or why there is none. Opens it.
std::string LibraryText();

// Functions are called with the context of the device; one thread at a time.
class LibraryProducts {
 public:
  LibraryProducts(const Core& core, Stream stream);
  ~LibraryProducts();
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  // Whether the library is there: opens it when called first.
  bool IsThere();
  // The name and version of the library, or why it is not used; "" before the first IsThere().
  const std::string& description() const { return description_; }
  struct Plan;
  // How to compute the product with so much workspace; null if the library does not. Good until the next call.
  // kInvalidArgument if a matrix does not lie in its block. REQUIRES: IsThere().
  absl::StatusOr<Plan*> PlanFor(const Product& product, int64_t workspace_bytes);
  // Queues it; false if the library refuses after all, and nothing is queued. `workspace`: as large as PlanFor was
  // told.
  absl::StatusOr<bool> Run(Plan& plan, const Product& product, const Block* workspace);

 private:
  using Key = std::array<int64_t, 28>;
  std::unique_ptr<Plan> MakePlan(const Product& product, uint64_t workspace_bytes);
  // False if the library computes no such products.
  bool Describe(const Product& product, Plan& plan) const;
  bool ChooseAlgorithm(const Product& product, uint64_t workspace_bytes, Plan& plan) const;
  static Key KeyOf(const Product& product, int64_t workspace_bytes);

  const Core& core_;
  Stream stream_;
  const cublaslt::Api* lt_ = nullptr;
  cublaslt::Handle handle_ = nullptr;
  bool was_opened_ = false;
  std::string description_;
  absl::flat_hash_map<Key, std::unique_ptr<Plan>> plans_;  // null: the library has none
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_PRODUCTS_H_
