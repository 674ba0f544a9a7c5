// The code of the simulated accelerator (sim_device.h), parsed, and the core that runs it.
#ifndef RVM_VM_DEVICE_TILE_PROGRAM_H_
#define RVM_VM_DEVICE_TILE_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rvm::device {

// A number, or the value of an argument.
struct TileExtent {
  bool is_argument = false;
  int64_t value = 0;  // the number, or that of the argument
};

struct TileAxis {
  TileExtent extent;
  int64_t constant = 0;
  std::vector<int64_t> coefficients;  // by loop
};

enum class TileType : uint8_t { kInt8, kUint8, kInt32 };
inline int64_t BytesOf(TileType type) { return type == TileType::kInt32 ? 4 : 1; }

struct TileTensor {
  size_t argument = 0;
  TileType type = TileType::kInt8;
  int64_t zero = 0;
  std::vector<TileAxis> axes;
};

struct TileProduct {
  std::string name;
  std::vector<TileExtent> loops;
  size_t num_outer = 0;
  size_t rows = 0, columns = 0, depth = 0;  // loops
  std::array<TileTensor, 3> tensors;        // factors, result
};

// kInvalidArgument, with the word that is wrong, for text that is no such code.
absl::StatusOr<std::vector<TileProduct>> ParseTileProgram(absl::string_view text);

// A product whose extents are known. All extents are below 2^31, as are the bytes of each tensor.
struct BoundTileProduct {
  const TileProduct* product;
  std::vector<int64_t> loops;
  std::array<std::vector<int64_t>, 3> extents;  // of the tensors
};

// `arguments`: values of the arguments that are numbers; 0 for others. kInvalidArgument for an extent that is negative
// or too big.
absl::StatusOr<BoundTileProduct> BindTileProduct(const TileProduct& product, std::span<const int64_t> arguments);

// Bytes of tensor `t`, at most 2^31 of them.
int64_t BytesOfTensor(const BoundTileProduct& bound, size_t t);

// Positions of the loops; INT64_MAX if there are more.
int64_t NumTiles(const BoundTileProduct& bound);

// REQUIRES: the memory of each tensor has that many bytes.
void RunTileProduct(const BoundTileProduct& bound, const std::byte* a, const std::byte* b, std::byte* result);

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_TILE_PROGRAM_H_
