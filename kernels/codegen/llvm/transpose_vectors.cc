#include "kernels/codegen/llvm/transpose_vectors.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "llvm/ADT/SmallVector.h"

namespace rvm::codegen {

std::vector<llvm::Value*> TransposedVectors(llvm::IRBuilder<>& b, std::vector<llvm::Value*> rows) {
  size_t half = rows.size() / 2;
  auto lanes = static_cast<int>(rows.size());
  llvm::SmallVector<int, 16> low, high;
  for (int i = 0; i < lanes; ++i) {
    low.push_back(i / 2 + i % 2 * lanes);
    high.push_back((lanes + i) / 2 + i % 2 * lanes);
  }
  for (int round = 1; round < lanes; round *= 2) {
    std::vector<llvm::Value*> next;
    for (size_t i = 0; i < half; ++i) {
      next.push_back(b.CreateShuffleVector(rows[i], rows[i + half], low));
      next.push_back(b.CreateShuffleVector(rows[i], rows[i + half], high));
    }
    rows = std::move(next);
  }
  return rows;
}

}  // namespace rvm::codegen
