// Emits the sums of one register tile over its depth: steps of products, in strands, segments, windows, blocks of codes
// and under scales, as schedule::Tile describes them. Sums are in registers.
#ifndef RVM_KERNELS_CODEGEN_LLVM_TILE_SUMS_H_
#define RVM_KERNELS_CODEGEN_LLVM_TILE_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/tile_factors.h"

namespace rvm::codegen {

class TileSums {
 public:
  using Values = TileFactors::Values;
  using Panel = TileFactors::Panel;

  TileSums(const TileSite& site, TileFactors& factors);

  // Returns the number of sums of a tile, by rows of vectors.
  int64_t NumSums(int64_t height) const { return (height + (t_.flips_sign() ? 1 : 0)) * t_.vectors; }
  // Returns the cost of one iteration of a depth axis, for loops that poll: sums of vectors, many of them at once. Axis
  // -1: the cost of the whole depth.
  int64_t CostOf(size_t axis) const;
  // With Tile::depth_block: sums are of the positions [first, behind) of the outermost depth axis from now on.
  void SumUp(llvm::Value* first, llvm::Value* behind) { positions_ = {first, behind}; }
  // Returns the sums of all strands, one after the other; with segments, of those from `segment` on, one for each
  // strand.
  Values EmitStrands(llvm::Value* row, int64_t height, const Panel& panel, int64_t segment);

 private:
  Values EmitStep(llvm::Value* row, int64_t height, const Panel& panel, llvm::Value* k, int64_t positions, Values sums);
  void EmitBlockStep(llvm::Value* row, int64_t height, const Panel& panel, Values& sums);
  void EmitBlockSteps(size_t axis, llvm::Value* first, int64_t count, llvm::Value* row, int64_t height,
                      const Panel& panel, Values& sums);
  Values EmitBlockSums(size_t axis, llvm::Value* row, int64_t height, const Panel& panel);
  Values EmitBlock(size_t axis, llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  Values EmitScaled(size_t axis, llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  Values EmitDepth(size_t axis, llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  Values EmitInnermost(llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  Values EmitSegments(llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  Values EmitWindow(llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  Values EmitWindows(size_t axis, llvm::Value* row, int64_t height, const Panel& panel, Values sums);
  llvm::Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const TileSite& s_;
  const schedule::Tile& t_;
  TileFactors& f_;
  const std::vector<te::IndexVar>& depth_;
  llvm::FixedVectorType* vector_;
  int64_t segment_ = 0;
  std::pair<llvm::Value*, llvm::Value*> positions_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TILE_SUMS_H_
