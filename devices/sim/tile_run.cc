// The core of the simulated accelerator.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "devices/sim/tile_program.h"
#include "devices/sim/tile_target.h"

namespace rvm::device {
namespace {

// A tensor at one position of the loops: the coordinates of the first element of a tile, and their steps along its two
// directions.
class Window {
 public:
  Window(const BoundTileProduct& bound, size_t t, size_t down, size_t across)
      : tensor_(bound.product->tensors[t]), extents_(bound.extents[t]), down_(down), across_(across) {
    // A tensor without elements may have extents whose product overflows.
    bool is_empty = std::find(extents_.begin(), extents_.end(), 0) != extents_.end();
    strides_.assign(extents_.size(), is_empty ? 0 : 1);
    for (size_t axis = extents_.size(); axis-- > 1;) strides_[axis - 1] = strides_[axis] * extents_[axis];
    first_.resize(extents_.size());
  }

  void MoveTo(std::span<const int64_t> at) {
    for (size_t axis = 0; axis < first_.size(); ++axis) {
      const TileAxis& from = tensor_.axes[axis];
      first_[axis] = from.constant;
      for (size_t loop = 0; loop < at.size(); ++loop) first_[axis] += from.coefficients[loop] * at[loop];
    }
  }

  // Returns the offset of element (i, j) of the tile; -1 outside of the tensor.
  int64_t OffsetOf(int64_t i, int64_t j) const {
    int64_t offset = 0;
    for (size_t axis = 0; axis < first_.size(); ++axis) {
      const std::vector<int64_t>& steps = tensor_.axes[axis].coefficients;
      int64_t coordinate = first_[axis] + i * steps[down_] + j * steps[across_];
      if (tensor_.axes[axis].is_broadcast && extents_[axis] == 1) coordinate = 0;
      if (coordinate < 0 || coordinate >= extents_[axis]) return -1;
      offset += coordinate * strides_[axis];
    }
    return offset;
  }

  const TileTensor& tensor() const { return tensor_; }

 private:
  const TileTensor& tensor_;
  const std::vector<int64_t>& extents_;
  size_t down_, across_;  // loops
  std::vector<int64_t> strides_, first_;
};

using FactorTile = int16_t[kTile][kTile];  // bytes minus a zero point
using SumTile = uint32_t[kTile][kTile];    // sums wrap, as those of the host

void Load(const Window& window, const std::byte* memory, int64_t height, int64_t width, FactorTile& tile) {
  std::memset(&tile, 0, sizeof(tile));
  bool is_signed = window.tensor().type == TileType::kInt8;
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      int64_t offset = window.OffsetOf(i, j);
      if (offset < 0) continue;
      auto byte = static_cast<uint8_t>(memory[offset]);
      int64_t value = is_signed ? static_cast<int8_t>(byte) : byte;
      tile[i][j] = static_cast<int16_t>(value - window.tensor().zero);
    }
  }
}

void MultiplyAdd(const FactorTile& a, const FactorTile& b, SumTile& sums) {
  for (int64_t row = 0; row < kTile; ++row) {
    for (int64_t column = 0; column < kTile; ++column) {
      int32_t sum = 0;
      for (int64_t k = 0; k < kTile; ++k) sum += int32_t{a[row][k]} * b[column][k];
      sums[row][column] += static_cast<uint32_t>(sum);
    }
  }
}

using Lanes = int64_t[kTile][kTile];

// Calls `f` on each lane of the first `height` rows and `width` columns.
template <typename F>
void ForEachLane(int64_t height, int64_t width, Lanes& lanes, const F& f) {
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) f(lanes[i][j], i, j);
  }
}

int64_t Plus(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

// x * significand / 2^shift, halves rounded up, or away from 0.
int64_t Multiplied(int64_t x, int64_t significand, int64_t shift, bool rounds_nearest) {
  auto product = static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(significand));
  if (shift == 0) return product;
  int64_t half = int64_t{1} << (shift - 1);
  return Plus(product, rounds_nearest && x < 0 ? half - 1 : half) >> shift;
}

int64_t Wrapped(int64_t x, TileType type) {
  switch (type) {
    case TileType::kInt8: return static_cast<int8_t>(x);
    case TileType::kUint8: return static_cast<uint8_t>(x);
    case TileType::kInt32:
    case TileType::kFloat32: return static_cast<int32_t>(x);
  }
  return x;
}

int64_t ElementAt(const Window& window, const std::byte* memory, int64_t i, int64_t j) {
  int64_t offset = window.OffsetOf(i, j);
  if (offset < 0) return 0;
  uint32_t bits = 0;
  int64_t bytes = BytesOf(window.tensor().type);
  std::memcpy(&bits, memory + bytes * offset, static_cast<size_t>(bytes));
  return Wrapped(bits, window.tensor().type) - window.tensor().zero;
}

void Store(const Window& window, std::byte* memory, int64_t height, int64_t width, Lanes& lanes) {
  int64_t bytes = BytesOf(window.tensor().type);
  ForEachLane(height, width, lanes, [&](int64_t lane, int64_t i, int64_t j) {
    int64_t offset = window.OffsetOf(i, j);
    auto bits = static_cast<uint32_t>(lane);
    if (offset >= 0) std::memcpy(memory + bytes * offset, &bits, static_cast<size_t>(bytes));
  });
}

class TileRun {
 public:
  TileRun(const BoundTileProduct& bound, std::span<std::byte* const> memory)
      : product_(*bound.product), loops_(bound.loops), at_(bound.loops.size(), 0), memory_(memory) {
    size_t num_factors = product_.has_ones ? 1 : 2;
    for (size_t t = 0; t < product_.tensors.size(); ++t) {
      bool is_factor = t < num_factors;
      windows_.emplace_back(bound, t, t == 1 && is_factor ? product_.columns : product_.rows,
                            is_factor ? product_.depth : product_.columns);
    }
  }

  void Run() {
    ForEach(0, product_.num_outer, [&] {
      SumTile sums = {};
      ForEach(product_.num_outer, loops_.size(), [&] { AddTile(sums); });
      std::fill(at_.begin() + static_cast<std::ptrdiff_t>(product_.num_outer), at_.end(), 0);
      FinishTile(sums);
    });
  }

 private:
  void AddTile(SumTile& sums) {
    FactorTile a, b;
    windows_[0].MoveTo(at_);
    Load(windows_[0], memory_[0], Left(product_.rows), Left(product_.depth), a);
    if (product_.has_ones) {
      for (auto& row : b) std::fill(std::begin(row), std::end(row), 1);
    } else {
      windows_[1].MoveTo(at_);
      Load(windows_[1], memory_[1], Left(product_.columns), Left(product_.depth), b);
    }
    MultiplyAdd(a, b, sums);
  }

  // The steps of the vector unit, and the store.
  void FinishTile(const SumTile& sums) {
    int64_t height = Left(product_.rows), width = Left(product_.columns);
    Lanes lanes;
    ForEachLane(height, width, lanes,
                [&](int64_t& lane, int64_t i, int64_t j) { lane = static_cast<int32_t>(sums[i][j]); });
    for (const TileStep& step : product_.steps) {
      if (step.kind == TileStep::Kind::kAdd) windows_[step.tensor].MoveTo(at_);
      ForEachLane(height, width, lanes, [&](int64_t& lane, int64_t i, int64_t j) { lane = Done(step, lane, i, j); });
    }
    windows_.back().MoveTo(at_);
    Store(windows_.back(), memory_.back(), height, width, lanes);
  }

  int64_t Done(const TileStep& step, int64_t x, int64_t i, int64_t j) const {
    switch (step.kind) {
      case TileStep::Kind::kPlus: return Plus(x, step.a);
      case TileStep::Kind::kMultiply: return Multiplied(x, step.a, step.b, step.rounds_nearest);
      case TileStep::Kind::kDivide: return x / step.a;
      case TileStep::Kind::kClamp: return std::clamp(x, step.a, step.b);
      case TileStep::Kind::kWrap: return Wrapped(x, step.type);
      case TileStep::Kind::kAdd:
        return Plus(x, Multiplied(ElementAt(windows_[step.tensor], memory_[step.tensor], i, j), step.a, step.b, false));
      case TileStep::Kind::kScale: {
        float scaled =
            static_cast<float>(static_cast<int32_t>(x)) * std::bit_cast<float>(static_cast<uint32_t>(step.a));
        return std::bit_cast<int32_t>(scaled);
      }
    }
    return x;
  }

  int64_t Left(size_t loop) const { return std::min(kTile, loops_[loop] - at_[loop]); }

  // Loops [loop, end), at each position.
  template <typename F>
  void ForEach(size_t loop, size_t end, const F& body) {
    if (loop == end) return body();
    int64_t step = product_.IsTiled(loop) ? kTile : 1;
    for (at_[loop] = 0; at_[loop] < loops_[loop]; at_[loop] += step) ForEach(loop + 1, end, body);
  }

  const TileProduct& product_;
  const std::vector<int64_t>& loops_;
  std::vector<int64_t> at_;
  std::vector<Window> windows_;  // by tensor
  std::span<std::byte* const> memory_;
};

}  // namespace

void RunTileProduct(const BoundTileProduct& bound, std::span<std::byte* const> memory) { TileRun(bound, memory).Run(); }

}  // namespace rvm::device
