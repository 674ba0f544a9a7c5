// The dtype of a result by those of its operands, as ATen promotes them ("type promotion" in
// PyTorch's documentation of tensor attributes).
#ifndef RVM_COMPILER_IMPORT_TORCH_PROMOTION_H_
#define RVM_COMPILER_IMPORT_TORCH_PROMOTION_H_

#include <cstdint>
#include <optional>

#include "base/data_type.h"

namespace rvm::torch {

// An operand of a higher rank decides alone unless one of a lower rank is of a greater category: a tensor of integers
// plus the number 1.5 is a tensor of floats.
enum class OperandRank : uint8_t { kNumber, kScalar, kTensor };

class Promotion {
 public:
  void Add(DataType dtype, OperandRank rank);
  DataType Result() const;  // float32 of no operands

 private:
  std::optional<DataType> ranks_[3];
};

// Returns the dtype of both.
DataType Promote(DataType a, DataType b);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_PROMOTION_H_
