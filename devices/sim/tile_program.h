// The code of the simulated accelerator (sim_device.h), parsed, and the core that runs it.
#ifndef RVM_DEVICES_SIM_TILE_PROGRAM_H_
#define RVM_DEVICES_SIM_TILE_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rvm::device {

// The first of some values that is not 1, or 1. Each is a number or the value of an argument.
struct TileExtent {
  struct Term {
    bool is_argument = false;
    int64_t value = 0;  // the number, or that of the argument
  };
  std::vector<Term> terms;
};

struct TileAxis {
  TileExtent extent;
  bool is_broadcast = false;  // an extent of 1 stands for any
  int64_t constant = 0;
  std::vector<int64_t> coefficients;  // by loop
};

enum class TileType : uint8_t { kInt8, kUint8, kInt32, kFloat32 };
inline int64_t BytesOf(TileType type) { return type == TileType::kInt8 || type == TileType::kUint8 ? 1 : 4; }

struct TileTensor {
  size_t argument = 0;
  TileType type = TileType::kInt8;
  int64_t zero = 0;
  std::vector<TileAxis> axes;
};

// A step of the vector unit, on each lane; lanes have 64 bits and wrap.
struct TileStep {
  enum class Kind : uint8_t { kPlus, kMultiply, kDivide, kClamp, kWrap, kAdd, kScale };
  Kind kind = Kind::kPlus;
  int64_t a = 0, b = 0;              // its numbers, in their order
  bool rounds_nearest = false;       // kMultiply
  TileType type = TileType::kInt32;  // kWrap
  size_t tensor = 0;                 // kAdd
};

struct TileProduct {
  // Returns true for the loops that go in steps of a tile.
  bool IsTiled(size_t loop) const { return loop == rows || loop == columns || loop == depth; }

  std::string name;
  std::vector<TileExtent> loops;
  size_t num_outer = 0;
  size_t rows = 0, columns = 0, depth = 0;  // loops
  bool has_ones = false;                    // the second factor is 1 everywhere, and no tensor
  std::vector<TileTensor> tensors;          // factors, those of steps, the result
  std::vector<TileStep> steps;
};

// kInvalidArgument, with the word that is wrong, for text that is no such code.
absl::StatusOr<std::vector<TileProduct>> ParseTileProgram(absl::string_view text);

// A product whose extents are known. All extents are below 2^31, as are the bytes of each tensor.
struct BoundTileProduct {
  const TileProduct* product = nullptr;
  std::vector<int64_t> loops;
  std::vector<std::vector<int64_t>> extents;  // by tensor
};

// `arguments`: values of the arguments that are numbers; 0 for others. kInvalidArgument for an extent that is negative
// or too big.
absl::StatusOr<BoundTileProduct> BindTileProduct(const TileProduct& product, std::span<const int64_t> arguments);

// Bytes of tensor `t`, at most 2^31 of them.
int64_t BytesOfTensor(const BoundTileProduct& bound, size_t t);

// Positions of the loops; INT64_MAX if there are more.
int64_t NumTiles(const BoundTileProduct& bound);

// `memory`: that of each tensor. REQUIRES: it has so many bytes, and that of the result is no other's.
void RunTileProduct(const BoundTileProduct& bound, std::span<std::byte* const> memory);

}  // namespace rvm::device

#endif  // RVM_DEVICES_SIM_TILE_PROGRAM_H_
