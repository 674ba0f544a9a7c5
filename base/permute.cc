#include "base/permute.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace rvm {
namespace {

// Copies `count` elements of `size` bytes that stand `stride` elements apart.
template <size_t size>
void CopyStrided(const std::byte* from, int64_t stride, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * size, from + i * stride * size, size);
}

void CopyStrided(const std::byte* from, int64_t stride, int64_t count, int64_t size, std::byte* to) {
  switch (size) {
    case 1: return CopyStrided<1>(from, stride, count, to);
    case 2: return CopyStrided<2>(from, stride, count, to);
    case 4: return CopyStrided<4>(from, stride, count, to);
    case 8: return CopyStrided<8>(from, stride, count, to);
    default: RVM_CHECK(false, "elements have 1, 2, 4 or 8 bytes");
  }
}

}  // namespace

Literal Permuted(const Literal& literal, std::span<const int64_t> axes) {
  const Shape& from = literal.shape();
  RVM_CHECK(axes.size() == from.size(), "a permutation names each axis once");
  if (from.empty()) return literal;
  std::vector<int64_t> strides(from.size(), 1);
  for (size_t i = from.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * from[i + 1];
  Shape shape;
  std::vector<int64_t> steps;  // elements of the literal from one index of the result to the next
  for (int64_t axis : axes) {
    shape.push_back(from[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  const int64_t size = literal.dtype().bytes(), line = shape.back();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(literal.bytes());
  std::vector<int64_t> at(shape.size(), 0);
  const int64_t lines = line == 0 ? 0 : literal.num_elements() / line;
  int64_t place = 0;
  for (int64_t i = 0; i < lines; ++i) {
    CopyStrided(literal.data() + place * size, steps.back(), line, size, buffer->data() + i * line * size);
    for (size_t axis = shape.size() - 1; axis-- > 0;) {
      place += steps[axis];
      if (++at[axis] < shape[axis]) break;
      place -= steps[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return {literal.dtype(), std::move(shape), std::move(buffer)};
}

}  // namespace rvm
