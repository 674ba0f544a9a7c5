// Loads and multiplies the factors of register tiles.
#ifndef RVM_KERNELS_CODEGEN_LLVM_TILE_FACTORS_H_
#define RVM_KERNELS_CODEGEN_LLVM_TILE_FACTORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/codegen/llvm/tile_emitter.h"

namespace rvm::codegen {

class TileFactors {
 public:
  using Values = std::vector<llvm::Value*>;

  // Source of the vectors of a panel.
  struct Panel {
    llvm::Value* index;           // of the panel
    llvm::Value* column;          // its first
    llvm::Value* base = nullptr;  // kPanels: its first element
    Values masks;                 // by vector; empty: all lanes are
    Values sources;               // the first element of each
  };

  explicit TileFactors(const TileSite& site);

  // Returns the type of a sum, and that of a vector of them.
  llvm::Type* element() const { return element_; }
  llvm::FixedVectorType* vector() const { return vector_; }
  // Returns the number of panels of columns.
  const Dim& panels() const { return panels_; }

  // Begins the panel of that number, with what its vectors are loaded by unless told otherwise.
  Panel BeginPanel(llvm::Value* index, bool loads_vectors = true);
  // Returns the vectors at the bound position of the depth, and of the row if they depend on it.
  Values LoadVectors(const Panel& panel);
  // Returns the vectors of the factor that the rows share, see Tile::shared_by_column, at the bound position.
  Values LoadShared(const Panel& panel);
  // Returns the vectors that are computed from constants, at the bound position of the depth.
  Values Expand(const te::Expr& expansion, const Panel& panel);
  // Returns the address of the vectors of a panel in memory at the bound position of the depth: kPanels.
  llvm::Value* PanelAddress(const Panel& panel);
  // With packed vectors: asks for the bytes of the panel that tiles will read some time after those at `address`.
  void PrefetchPanel(llvm::Value* address, int64_t bytes);
  // Returns the address of a row's broadcast factor, which is a read, at the bound position of the depth.
  llvm::Value* RowAddress(llvm::Value* row);
  // Returns the distance of the broadcast factors of neighbouring rows, which is a known number.
  int64_t row_bytes() const { return *row_stride_ * t_.broadcast.dtype().bytes(); }
  // Returns the codes of a product in blocks, as bytes: a byte, or bits of it.
  llvm::Value* EmitCodes(const te::Expr& code, const Panel& panel, int64_t vector);
  // Has rows of an unknown distance read from addresses of their own, in a loop over the innermost depth axis: LLVM
  // would compute one from the other in each step, and load early what it then spills. Call where the other axes are
  // bound.
  void HoldRows(llvm::Value* row, int64_t height);
  // A row of a tile: `index` rows behind the one at `first`.
  struct Row {
    llvm::Value* first;
    int64_t index;
  };
  // Returns the broadcast factor of a row in each lane; of a group, that many positions from `k` on, and zeros.
  llvm::Value* EmitBroadcast(llvm::Value* k, int64_t positions, Row row);
  // Returns elements as they are multiplied: in fours as bytes, in pairs as int16 or bits of bfloat16, else as they are
  // summed.
  llvm::Value* Widen(DataType from, llvm::Value* x);
  // Returns the upper bit of each byte.
  llvm::Value* SignBits();
  llvm::Value* MultiplyAdd(llvm::Value* factor, llvm::Value* vector, llvm::Value* sum);
  // Returns products of int16, added up in pairs in lanes of int32.
  llvm::Value* SumOfPairs(llvm::Value* a, llvm::Value* b);

 private:
  llvm::Value* Linear(const std::vector<size_t>& axes);
  llvm::Value* SourceBase(const schedule::Tile::Source& source, llvm::Value* panel);
  llvm::Value* LoadSource(const te::ExprNode& read, const Panel& panel, int64_t vector);
  // Asks for bytes behind those of a constant at `address`, if it is too large to be in a cache since the last call.
  void Prefetch(const schedule::PackedLayout& layout, DataType dtype, llvm::Value* address, int64_t bytes);
  llvm::Value* FirstColumn(const te::Expr& read, const Panel& panel);
  Values LoadColumns(DataType dtype, llvm::Value* first, const Panel& panel);
  llvm::Value* LoadVector(DataType dtype, llvm::Value* address);
  llvm::Value* LoadMasked(DataType dtype, llvm::Value* address, llvm::Value* mask);
  llvm::Value* EmitGroup(llvm::Value* k, int64_t positions, int64_t row);
  llvm::Value* FactorAddress(int64_t row);
  llvm::Value* EmitFactor(int64_t row);
  llvm::Value* AddFours(llvm::Value* factor, llvm::Value* vector, llvm::Value* sum);
  // Returns the number of steps of the innermost depth axis; the last one may have fewer positions.
  Dim Steps() const { return FloorDiv(depth_.back().extent + (t_.depth_step - 1), t_.depth_step); }
  llvm::Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }

  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const TileSite& s_;
  const schedule::Tile& t_;
  const std::vector<te::IndexVar>& depth_;
  llvm::Type* element_;  // of sums
  llvm::Type* factor_;   // of the vectors, in memory
  llvm::FixedVectorType* vector_;
  Dim columns_, panels_;
  std::optional<int64_t> row_stride_;  // from one row's broadcast factor to the next, if that is a known number
  Values held_rows_;                   // addresses of the first positions of the innermost depth axis; may be empty
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TILE_FACTORS_H_
