#include "compiler/import/tflite/sparse.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rvm::tflite {
namespace {

// Maximum rank of a sparse tensor with its blocks: levels are visited by recursion.
constexpr size_t kMaxLevels = 16;

class Expander {
 public:
  Expander(const Sparsity& sparsity, std::span<const int64_t> shape, int64_t size, std::span<const uint8_t> stored)
      : sparsity_(sparsity), shape_(shape), size_(static_cast<size_t>(size)), stored_(stored) {}

  absl::StatusOr<std::vector<uint8_t>> Run() {
    if (!FindStrides()) return Wrong("its levels do not fit its shape");
    int64_t count = 1;
    for (int64_t extent : shape_) count *= extent;
    dense_.resize(static_cast<size_t>(count) * size_);
    if (!Place(0, 0, 0)) return Wrong("an index lies outside of it, or it has fewer elements than indices");
    if (at_ != stored_.size()) return Wrong("it has more elements than indices");
    return std::move(dense_);
  }

 private:
  static absl::Status Wrong(const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("a sparse constant: ", why));
  }

  // Finds how many positions each level has, and how many elements of the dense tensor lie between two of them.
  bool FindStrides() {
    const size_t rank = shape_.size(), count = sparsity_.levels.size();
    if (count > kMaxLevels || sparsity_.order.size() != count || count != rank + sparsity_.block_map.size())
      return false;
    std::vector<int64_t> blocks(rank, 1), strides(rank, 1);
    std::vector<bool> has_level(count);
    for (size_t axis = rank; axis-- > 1;) strides[axis - 1] = strides[axis] * shape_[axis];
    extents_.resize(count);
    strides_.resize(count);
    // The axes of a block come last, so that the extents of the others follow from them.
    for (size_t level = count; level-- > 0;) {
      const int64_t number = sparsity_.order[level];
      const bool is_of_block = level >= rank;
      if (number < 0 || number >= static_cast<int64_t>(count) || has_level[static_cast<size_t>(number)]) return false;
      if (is_of_block != (number >= static_cast<int64_t>(rank))) return false;
      has_level[static_cast<size_t>(number)] = true;
      const int64_t axis = is_of_block ? sparsity_.block_map[static_cast<size_t>(number) - rank] : number;
      if (axis < 0 || axis >= static_cast<int64_t>(rank)) return false;
      const auto a = static_cast<size_t>(axis);
      const Sparsity::Level& described = sparsity_.levels[level];
      strides_[level] = strides[a] * blocks[a];
      if (is_of_block) {
        if (described.is_sparse || described.extent < 1 || shape_[a] % described.extent != 0 || blocks[a] != 1)
          return false;
        extents_[level] = blocks[a] = described.extent;
      } else {
        extents_[level] = shape_[a] / blocks[a];
        if (!described.is_sparse && described.extent != extents_[level]) return false;
      }
      // Ascending, so that no index is visited twice.
      const bool is_ascending = std::ranges::is_sorted(described.segments);
      if (described.is_sparse && (!is_ascending || described.segments.empty() || described.segments[0] < 0))
        return false;
    }
    return true;
  }

  // Copies the elements below a node of the level before; `first` is the dense position of the first of them.
  bool Place(size_t level, int64_t node, int64_t first) {
    if (level == sparsity_.levels.size()) {
      if (stored_.size() - at_ < size_) return false;
      std::memcpy(dense_.data() + static_cast<size_t>(first) * size_, stored_.data() + at_, size_);
      at_ += size_;
      return true;
    }
    const Sparsity::Level& described = sparsity_.levels[level];
    const int64_t stride = strides_[level], extent = extents_[level];
    if (!described.is_sparse) {
      for (int64_t i = 0; i < extent; ++i) {
        if (!Place(level + 1, node * extent + i, first + i * stride)) return false;
      }
      return true;
    }
    const auto parent = static_cast<size_t>(node);
    if (parent + 1 >= described.segments.size()) return false;
    const int64_t begin = described.segments[parent], end = described.segments[parent + 1];
    if (end > static_cast<int64_t>(described.indices.size())) return false;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = described.indices[static_cast<size_t>(i)];
      if (index < 0 || index >= extent || !Place(level + 1, i, first + index * stride)) return false;
    }
    return true;
  }

  const Sparsity& sparsity_;
  std::span<const int64_t> shape_;
  size_t size_;
  std::span<const uint8_t> stored_;
  std::vector<int64_t> extents_, strides_;  // by level
  std::vector<uint8_t> dense_;
  size_t at_ = 0;  // bytes of `stored_` that have been copied
};

}  // namespace

absl::StatusOr<std::vector<uint8_t>> Densified(const Sparsity& sparsity, std::span<const int64_t> shape, int64_t size,
                                               std::span<const uint8_t> stored) {
  return Expander(sparsity, shape, size, stored).Run();
}

}  // namespace rvm::tflite
