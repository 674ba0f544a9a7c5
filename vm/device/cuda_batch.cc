#include "vm/device/cuda_batch.h"

#include <algorithm>

#include "serialization/device_contract.h"

namespace rvm::device::cuda {

void WorkBatch::Add(void* key, uint32_t blocks, std::span<const uint64_t> values) {
  work_.push_back({key, blocks, values_.size(), values.size()});
  if (blocks == 0) ++num_products_;
  values_.insert(values_.end(), values.begin(), values.end());
}

void WorkBatch::AddLaunch(Function function, uint32_t blocks, std::span<const uint64_t> values) {
  Add(function, blocks, values);
}

void WorkBatch::AddProduct(ProductPlan* plan, std::span<const uint64_t> values) { Add(plan, 0, values); }

void WorkBatch::Append(const WorkBatch& from, size_t number, size_t end) {
  for (; number < end; ++number) Add(from.work_[number].key, from.work_[number].blocks, from.Values(number));
}

void WorkBatch::DropLast() {
  if (work_.back().blocks == 0) --num_products_;
  values_.resize(work_.back().first);
  work_.pop_back();
}

void WorkBatch::Clear() {
  work_.clear();
  num_products_ = 0;
  values_.clear();
}

bool WorkBatch::IsSame(const WorkBatch& other, size_t number) const {
  return work_[number].blocks == other.work_[number].blocks && std::ranges::equal(Values(number), other.Values(number));
}

KernelNodeParams WorkBatch::Params(size_t number) {
  const Work& of = work_[number];
  pointers_.clear();
  for (size_t i = 0; i < of.count; ++i) pointers_.push_back(&values_[of.first + i]);
  return {.function = static_cast<Function>(of.key),
          .grid_x = of.blocks,
          .grid_y = 1,
          .grid_z = 1,
          .block_x = device_contract::kPtxBlockThreads,
          .block_y = 1,
          .block_z = 1,
          .shared_bytes = 0,
          .params = pointers_.data(),
          .extra = nullptr};
}

}  // namespace rvm::device::cuda
