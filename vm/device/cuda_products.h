// LibraryProducts: GEMMs by cuBLASLt, on one stream.
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
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/device/cublaslt_api.h"
#include "vm/device/cuda_batch.h"
#include "vm/device/cuda_core.h"
#include "vm/device/product.h"

namespace rvm::device::cuda {

// The name and version of the library, or why there is none. Opens it.
std::string LibraryText();

// A product as work: how to compute it, and its addresses and factors.
struct ProductWork {
  ProductPlan* plan = nullptr;
  std::vector<uint64_t> values;
};

// Functions are called with the context of the device; one thread at a time.
class LibraryProducts : public ProductQueue {
 public:
  // `stream`: the one that Outcome asks for errors.
  LibraryProducts(const Core& core, Stream stream);
  ~LibraryProducts() override;
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  // Returns whether the library is there: opens it when called first.
  bool IsThere();
  // The name and version of the library, or why it is not used; "" before the first IsThere().
  const std::string& description() const { return description_; }
  // Returns the product as work with so much workspace, which is `workspace` or null; null if the library does not
  // compute it. Good until the next call; the plan, until Forget. kInvalidArgument if a matrix does not lie in its
  // block. REQUIRES: IsThere(), !IsFull().
  absl::StatusOr<const ProductWork*> Prepare(const Product& product, const Block* workspace);
  // There is no room for another plan: call Forget.
  bool IsFull() const;
  void Forget();

  int32_t Queue(ProductPlan* plan, std::span<const uint64_t> values, Stream stream) override;
  absl::StatusOr<bool> Outcome(ProductPlan* plan, int32_t status) override;

 private:
  using Key = std::array<int64_t, 28>;
  std::unique_ptr<ProductPlan> MakePlan(const Product& product, uint64_t workspace_bytes);
  // False if the library computes no such products.
  bool Describe(const Product& product, ProductPlan& plan) const;
  bool ChooseAlgorithm(const Product& product, uint64_t workspace_bytes, ProductPlan& plan) const;
  static Key KeyOf(const Product& product, int64_t workspace_bytes);

  const Core& core_;
  Stream stream_;
  const cublaslt::Api* lt_ = nullptr;
  cublaslt::Handle handle_ = nullptr;
  bool was_opened_ = false;
  std::string description_;
  absl::flat_hash_map<Key, std::unique_ptr<ProductPlan>> plans_;  // null: the library has none
  ProductWork work_;
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_PRODUCTS_H_
