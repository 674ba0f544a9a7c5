#include "vm/device/tile_program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace rvm::device {
namespace {

constexpr int64_t kTile = 16;
// Bounds that keep coordinates far from overflow.
constexpr int64_t kMaxLoops = 16, kMaxRank = 16;
constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxCoefficient = 1 << 24;

class TileParser {
 public:
  explicit TileParser(absl::string_view text)
      : words_(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {}

  absl::StatusOr<std::vector<TileProduct>> Run() {
    std::vector<TileProduct> products;
    while (next_ < words_.size()) {
      RVM_ASSIGN_OR_RETURN(TileProduct product, Product());
      products.push_back(std::move(product));
    }
    return products;
  }

 private:
  absl::Status Wrong(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the code is malformed at word ", next_, ": saw ",
                     next_ < words_.size() ? absl::StrCat("`", words_[next_].substr(0, 40), "`") : "its end",
                     "; expected ", expected));
  }

  absl::Status Word(absl::string_view word) {
    if (next_ >= words_.size() || words_[next_] != word) return Wrong(absl::StrCat("`", word, "`"));
    ++next_;
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Number(int64_t least, int64_t most) {
    int64_t number = 0;
    if (next_ >= words_.size() || !absl::SimpleAtoi(words_[next_], &number) || number < least || number > most) {
      return Wrong(absl::StrCat("a number from ", least, " to ", most));
    }
    ++next_;
    return number;
  }

  absl::StatusOr<TileExtent> Extent() {
    bool is_argument = next_ < words_.size() && absl::StartsWith(words_[next_], "a");
    if (is_argument) words_[next_].remove_prefix(1);
    RVM_ASSIGN_OR_RETURN(int64_t value, Number(0, kMaxExtent));
    return TileExtent{is_argument, value};
  }

  absl::StatusOr<size_t> Loop(size_t first, size_t end) {
    if (first == end) return Wrong("a loop of that kind");
    RVM_ASSIGN_OR_RETURN(int64_t loop, Number(static_cast<int64_t>(first), static_cast<int64_t>(end) - 1));
    return static_cast<size_t>(loop);
  }

  absl::StatusOr<TileProduct> Product() {
    TileProduct product;
    RVM_RETURN_IF_ERROR(Word("product"));
    if (next_ >= words_.size()) return Wrong("a name");
    product.name = std::string(words_[next_++]);
    RVM_RETURN_IF_ERROR(Word("loops"));
    RVM_ASSIGN_OR_RETURN(int64_t count, Number(3, kMaxLoops));
    RVM_ASSIGN_OR_RETURN(int64_t outer, Number(2, count - 1));
    product.num_outer = static_cast<size_t>(outer);
    RVM_ASSIGN_OR_RETURN(product.rows, Loop(0, product.num_outer));
    RVM_ASSIGN_OR_RETURN(product.columns, Loop(0, product.num_outer));
    if (product.rows == product.columns) return Wrong("columns that are not the rows");
    RVM_ASSIGN_OR_RETURN(product.depth, Loop(product.num_outer, static_cast<size_t>(count)));
    RVM_RETURN_IF_ERROR(Word("extents"));
    for (int64_t i = 0; i < count; ++i) {
      RVM_ASSIGN_OR_RETURN(TileExtent extent, Extent());
      product.loops.push_back(extent);
    }
    for (size_t t = 0; t < 3; ++t) RVM_RETURN_IF_ERROR(Tensor(product, t));
    return product;
  }

  absl::Status Tensor(TileProduct& product, size_t t) {
    TileTensor& tensor = product.tensors[t];
    RVM_RETURN_IF_ERROR(Word("tensor"));
    RVM_ASSIGN_OR_RETURN(int64_t argument, Number(0, kMaxExtent));
    tensor.argument = static_cast<size_t>(argument);
    if (t == 2) {
      RVM_RETURN_IF_ERROR(Word("int32"));
      tensor.type = TileType::kInt32;
    } else if (next_ < words_.size() && words_[next_] == "uint8") {
      ++next_;
      tensor.type = TileType::kUint8;
    } else {
      RVM_RETURN_IF_ERROR(Word("int8"));
    }
    RVM_ASSIGN_OR_RETURN(tensor.zero, Number(t == 2 ? 0 : -128, t == 2 ? 0 : 255));
    RVM_ASSIGN_OR_RETURN(int64_t rank, Number(1, kMaxRank));
    for (int64_t i = 0; i < rank; ++i) {
      TileAxis& axis = tensor.axes.emplace_back();
      RVM_RETURN_IF_ERROR(Word("axis"));
      RVM_ASSIGN_OR_RETURN(axis.extent, Extent());
      RVM_ASSIGN_OR_RETURN(axis.constant, Number(-kMaxExtent, kMaxExtent));
      for (size_t loop = 0; loop < product.loops.size(); ++loop) {
        // Coefficients that must be 0: a tile does not vary along these loops, and the result does not read them.
        bool must_be_0 = t == 0 ? loop == product.columns : t == 1 ? loop == product.rows : loop >= product.num_outer;
        int64_t most = must_be_0 ? 0 : kMaxCoefficient;
        RVM_ASSIGN_OR_RETURN(int64_t coefficient, Number(-most, most));
        axis.coefficients.push_back(coefficient);
      }
    }
    return absl::OkStatus();
  }

  std::vector<absl::string_view> words_;
  size_t next_ = 0;
};

// A tensor at one position of the loops: the coordinates of the first element of a tile, and their steps along its two
// directions.
class Window {
 public:
  Window(const BoundTileProduct& bound, size_t t, size_t down, size_t across)
      : tensor_(bound.product->tensors[t]), extents_(bound.extents[t]), down_(down), across_(across) {
    strides_.assign(extents_.size(), 1);
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

void Store(const Window& window, std::byte* memory, int64_t height, int64_t width, const SumTile& sums) {
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      int64_t offset = window.OffsetOf(i, j);
      if (offset >= 0) std::memcpy(memory + 4 * offset, &sums[i][j], 4);
    }
  }
}

class TileRun {
 public:
  TileRun(const BoundTileProduct& bound, const std::byte* a, const std::byte* b, std::byte* result)
      : product_(*bound.product),
        loops_(bound.loops),
        at_(bound.loops.size(), 0),
        a_(bound, 0, product_.rows, product_.depth),
        b_(bound, 1, product_.columns, product_.depth),
        result_(bound, 2, product_.rows, product_.columns),
        a_memory_(a),
        b_memory_(b),
        result_memory_(result) {}

  void Run() {
    ForEach(0, product_.num_outer, [&] {
      SumTile sums = {};
      ForEach(product_.num_outer, loops_.size(), [&] {
        FactorTile a, b;
        a_.MoveTo(at_);
        b_.MoveTo(at_);
        Load(a_, a_memory_, Left(product_.rows), Left(product_.depth), a);
        Load(b_, b_memory_, Left(product_.columns), Left(product_.depth), b);
        MultiplyAdd(a, b, sums);
      });
      std::fill(at_.begin() + static_cast<std::ptrdiff_t>(product_.num_outer), at_.end(), 0);
      result_.MoveTo(at_);
      Store(result_, result_memory_, Left(product_.rows), Left(product_.columns), sums);
    });
  }

 private:
  int64_t Left(size_t loop) const { return std::min(kTile, loops_[loop] - at_[loop]); }

  // Loops [loop, end), at each position.
  template <typename F>
  void ForEach(size_t loop, size_t end, const F& body) {
    if (loop == end) return body();
    bool is_tiled = loop == product_.rows || loop == product_.columns || loop == product_.depth;
    for (at_[loop] = 0; at_[loop] < loops_[loop]; at_[loop] += is_tiled ? kTile : 1) ForEach(loop + 1, end, body);
  }

  const TileProduct& product_;
  const std::vector<int64_t>& loops_;
  std::vector<int64_t> at_;
  Window a_, b_, result_;
  const std::byte *a_memory_, *b_memory_;
  std::byte* result_memory_;
};

}  // namespace

absl::StatusOr<std::vector<TileProduct>> ParseTileProgram(absl::string_view text) { return TileParser(text).Run(); }

absl::StatusOr<BoundTileProduct> BindTileProduct(const TileProduct& product, std::span<const int64_t> arguments) {
  BoundTileProduct bound{&product, {}, {}};
  auto value = [&](const TileExtent& extent) -> absl::StatusOr<int64_t> {
    auto number = static_cast<size_t>(extent.value);
    if (extent.is_argument && number >= arguments.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", product.name, "` reads argument ", number, " of ", arguments.size()));
    }
    int64_t found = extent.is_argument ? arguments[number] : extent.value;
    if (found < 0 || found > kMaxExtent) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", product.name, "` has the extent ", found, "; expected 0 to ", kMaxExtent));
    }
    return found;
  };
  for (const TileExtent& loop : product.loops) {
    RVM_ASSIGN_OR_RETURN(int64_t extent, value(loop));
    bound.loops.push_back(extent);
  }
  for (size_t t = 0; t < 3; ++t) {
    int64_t bytes = BytesOf(product.tensors[t].type);
    bool is_empty = false;
    for (const TileAxis& axis : product.tensors[t].axes) {
      RVM_ASSIGN_OR_RETURN(int64_t extent, value(axis.extent));
      bound.extents[t].push_back(extent);
      is_empty |= extent == 0;
      bytes = std::min(bytes * std::max<int64_t>(extent, 1), kMaxExtent + 1);
    }
    if (bytes > kMaxExtent && !is_empty) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", product.name, "` has a tensor of more than ", kMaxExtent, " bytes"));
    }
  }
  return bound;
}

int64_t BytesOfTensor(const BoundTileProduct& bound, size_t t) {
  int64_t bytes = BytesOf(bound.product->tensors[t].type);
  for (int64_t extent : bound.extents[t]) {
    if (extent == 0) return 0;
  }
  for (int64_t extent : bound.extents[t]) bytes *= extent;
  return bytes;
}

int64_t NumTiles(const BoundTileProduct& bound) {
  const TileProduct& product = *bound.product;
  int64_t tiles = 1;
  for (size_t loop = 0; loop < bound.loops.size(); ++loop) {
    bool is_tiled = loop == product.rows || loop == product.columns || loop == product.depth;
    int64_t steps = is_tiled ? (bound.loops[loop] + kTile - 1) / kTile : bound.loops[loop];
    // The loops outside of one that has no steps run, too.
    if (__builtin_mul_overflow(tiles, std::max<int64_t>(steps, 1), &tiles)) return std::numeric_limits<int64_t>::max();
  }
  return tiles;
}

void RunTileProduct(const BoundTileProduct& bound, const std::byte* a, const std::byte* b, std::byte* result) {
  TileRun(bound, a, b, result).Run();
}

}  // namespace rvm::device
