// Arithmetic of shapes that importers need beside the operators' own rules.
#ifndef RVM_COMPILER_IMPORT_SHAPES_H_
#define RVM_COMPILER_IMPORT_SHAPES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dim.h"

namespace rvm::importing {

// Slices that end there or behind go to the end.
inline constexpr int64_t kBeyond = int64_t{1} << 31;

std::vector<int64_t> AllAxes(int64_t rank);
Dim Product(std::span<const Dim> dims);
// The extent that makes `to`, without its element `inferred`, hold as many elements as `shape`.
Dim InferExtent(const Dims& shape, const Dims& to, size_t inferred);
// Returns the extent of a slice with a step of 1 or known numbers; nullopt if it is not simple.
std::optional<Dim> SlicedExtent(const Dim& extent, const Dim& begin, const Dim& end, int64_t step);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_SHAPES_H_
