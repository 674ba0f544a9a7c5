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

llvm::Value* SumsOfLanes(llvm::IRBuilder<>& b, const std::vector<llvm::Value*>& four) {
  auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(four[0]->getType())->getNumElements());
  // Shuffles stay inside of groups of four lanes, which have one instruction each.
  auto add = [&](llvm::Value* x, llvm::Value* y, const int(&low)[4], const int(&high)[4]) {
    llvm::SmallVector<int, 16> first, second;
    for (int i = 0; i < lanes; ++i) {
      auto place = [&](int from) { return i / 4 * 4 + from % 4 + from / 4 * lanes; };
      first.push_back(place(low[i % 4]));
      second.push_back(place(high[i % 4]));
    }
    return b.CreateFAdd(b.CreateShuffleVector(x, y, first), b.CreateShuffleVector(x, y, second));
  };
  auto interleaved = [&](llvm::Value* x, llvm::Value* y) { return add(x, y, {0, 4, 1, 5}, {2, 6, 3, 7}); };
  llvm::Value* sums = add(interleaved(four[0], four[1]), interleaved(four[2], four[3]), {0, 1, 4, 5}, {2, 3, 6, 7});
  for (int half = lanes / 2; half >= 4; half /= 2) {
    llvm::SmallVector<int, 16> first, second;
    for (int i = 0; i < half; ++i) first.push_back(i), second.push_back(half + i);
    sums = b.CreateFAdd(b.CreateShuffleVector(sums, first), b.CreateShuffleVector(sums, second));
  }
  return sums;
}

}  // namespace rvm::codegen
