// WorkBatch: launches of functions and products of the library, in the order in which a stream was given them.
#ifndef RVM_VM_DEVICE_CUDA_BATCH_H_
#define RVM_VM_DEVICE_CUDA_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "vm/device/cuda_api.h"

namespace rvm::device::cuda {

// The library's way to compute products of one kind.
struct ProductPlan;

// The functions of a library of products, as work that is kept for later needs them.
class ProductQueue {
 public:
  virtual ~ProductQueue() = default;
  // Queues a product, which may be captured. `values`: its addresses and factors. Returns the library's status.
  virtual int32_t Queue(ProductPlan* plan, std::span<const uint64_t> values, Stream stream) = 0;
  // Returns true if Queue queued a product, and false if the library refuses such products, after all. An error of the
  // library or of the device else.
  virtual absl::StatusOr<bool> Outcome(ProductPlan* plan, int32_t status) = 0;
};

// Launches are of blocks of kPtxBlockThreads threads.
class WorkBatch {
 public:
  size_t size() const { return work_.size(); }
  void AddLaunch(Function function, uint32_t blocks, std::span<const uint64_t> values);
  void AddProduct(ProductPlan* plan, std::span<const uint64_t> values);
  // Adds work number `number` of `from`, and those behind it up to number `end`.
  void Append(const WorkBatch& from, size_t number, size_t end);
  void DropLast();
  void Clear();

  bool IsProduct(size_t number) const { return work_[number].blocks == 0; }
  bool HasProducts() const { return num_products_ > 0; }
  // Returns what tells work that one node of a graph may do from other work: the function, or the plan.
  const void* Key(size_t number) const { return work_[number].key; }
  // Returns whether work number `number` of both has the same grid and arguments. REQUIRES: it has the same key.
  bool IsSame(const WorkBatch& other, size_t number) const;
  // Returns the parameters that the driver takes; valid until the next call of any function of the batch.
  // REQUIRES: it is a launch.
  KernelNodeParams Params(size_t number);
  ProductPlan* Plan(size_t number) const { return static_cast<ProductPlan*>(work_[number].key); }
  std::span<const uint64_t> Values(size_t number) const {
    return {values_.data() + work_[number].first, work_[number].count};
  }

 private:
  struct Work {
    void* key;
    uint32_t blocks;      // 0: a product
    size_t first, count;  // of its values
  };
  void Add(void* key, uint32_t blocks, std::span<const uint64_t> values);

  std::vector<Work> work_;
  size_t num_products_ = 0;
  std::vector<uint64_t> values_;
  std::vector<void*> pointers_;  // of Params
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_BATCH_H_
