#include "base/dim_size.h"

#include <algorithm>

namespace rvm {

int CountDimNodes(const Dim& dim, int limit) {
  if (!dim.is_binary() || limit <= 0) return 1;
  int count = 1 + CountDimNodes(dim.lhs(), limit - 1);
  return count > limit ? count : count + CountDimNodes(dim.rhs(), limit - count);
}

int DimDepth(const Dim& dim) { return dim.is_binary() ? 1 + std::max(DimDepth(dim.lhs()), DimDepth(dim.rhs())) : 0; }

}  // namespace rvm
