#include "kernels/schedule/tile.h"

#include <algorithm>
#include <cstdint>

namespace rvm::schedule {

// With more sums than this, a second step would need registers that the sums occupy.
constexpr int64_t kMaxSumsToUnroll = 24;

Tile::Heights Tile::HeightsOf(int64_t count) const {
  int64_t tiles = (count + rows - 1) / rows;
  return tiles == 0 ? Heights{0, 0, 0} : Heights{tiles, count / tiles, count % tiles};
}

int64_t Tile::Strands(int64_t height) const {
  if (blocks || window) return 1;
  int64_t sums = height * vectors;
  int64_t strands = sums >= 8 ? 1 : sums >= 4 ? 2 : 4;
  if (segments > 0) return std::min(strands, segments);
  return inner_depth == 0 ? strands : std::min(strands, inner_depth);
}

int64_t Tile::Unroll(int64_t height) const {
  if (blocks) return blocks->steps_at_once;
  int64_t sums = height * vectors, strands = Strands(height);
  if (window) return 1;
  if (slides || sums > kMaxSumsToUnroll) return strands;
  // A lower tile runs once for each panel: small code counts more there.
  int64_t steps = std::max(strands, height < rows ? 1 : sums >= 16 ? int64_t{2} : int64_t{4});
  return inner_depth == 0 ? steps : std::min(steps, inner_depth);
}

std::optional<int64_t> VectorInput(const Tile& tile) {
  te::Tensor from = tile.packed                                ? tile.panels
                    : !tile.sources.empty()                    ? tile.sources[0].tensor
                    : tile.vector->kind == te::ExprKind::kRead ? tile.vector->tensor
                                                               : te::Tensor();
  return from && from->kind == te::TensorKind::kInput ? std::optional(from->input_index) : std::nullopt;
}

}  // namespace rvm::schedule
