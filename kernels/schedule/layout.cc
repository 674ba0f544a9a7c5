#include "kernels/schedule/layout.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.h"

namespace rvm::schedule {
namespace {

// Offsets of all positions of `axes` in row-major order.
std::vector<int64_t> Offsets(const std::vector<StridedAxis>& axes) {
  std::vector<int64_t> offsets = {0};
  for (const StridedAxis& axis : axes) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(axis.extent));
    for (int64_t offset : offsets) {
      for (int64_t i = 0; i < axis.extent; ++i) next.push_back(offset + i * axis.stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

constexpr int64_t kPadding = -1;

// Offsets of all positions of the depth, each run of the innermost axis padded to whole groups.
std::vector<int64_t> DepthOffsets(const PackedLayout& layout) {
  std::vector<StridedAxis> around = layout.depth;
  StridedAxis innermost{1, 0};
  if (!around.empty()) {
    innermost = around.back();
    around.pop_back();
  }
  std::vector<int64_t> offsets;
  for (int64_t offset : Offsets(around)) {
    for (int64_t i = 0; i < innermost.extent; ++i) offsets.push_back(offset + i * innermost.stride);
    while (static_cast<int64_t>(offsets.size()) % layout.depth_step != 0) offsets.push_back(kPadding);
  }
  return offsets;
}

template <typename Element>
void PackElements(const PackedLayout& layout, const Element* from, Element* to) {
  std::vector<int64_t> outer = Offsets(layout.outer), depth = DepthOffsets(layout);
  for (int64_t block : outer) {
    for (int64_t first = 0; first < layout.column.extent; first += layout.panel) {
      int64_t width = std::min(layout.panel, layout.column.extent - first);
      for (size_t k = 0; k < depth.size(); ++k) {
        int64_t place = static_cast<int64_t>(k) % layout.depth_step;
        if (depth[k] != kPadding) {
          const Element* row = from + block + depth[k] + first * layout.column.stride;
          for (int64_t i = 0; i < width; ++i) to[i * layout.depth_step + place] = row[i * layout.column.stride];
        }
        if (place == layout.depth_step - 1) to += layout.panel * layout.depth_step;
      }
    }
  }
}

}  // namespace

Literal Pack(const PackedLayout& layout, const Literal& constant) {
  int64_t blocks = (layout.column.extent + layout.panel - 1) / layout.panel;
  auto depth = static_cast<int64_t>(DepthOffsets(layout).size());
  int64_t elements = layout.column.extent;
  for (const StridedAxis& axis : layout.outer) blocks *= axis.extent, elements *= axis.extent;
  for (const StridedAxis& axis : layout.depth) elements *= axis.extent;
  RVM_CHECK(elements == constant.num_elements(), "a packed layout does not cover its constant");
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(blocks * depth * layout.panel * constant.dtype().bytes());
  std::memset(buffer->data(), 0, static_cast<size_t>(blocks * depth * layout.panel * constant.dtype().bytes()));
  switch (constant.dtype().bytes()) {
    case 1:
      PackElements(layout, reinterpret_cast<const uint8_t*>(constant.data()),
                   reinterpret_cast<uint8_t*>(buffer->data()));
      break;
    case 2:
      PackElements(layout, reinterpret_cast<const uint16_t*>(constant.data()),
                   reinterpret_cast<uint16_t*>(buffer->data()));
      break;
    case 4:
      PackElements(layout, reinterpret_cast<const uint32_t*>(constant.data()),
                   reinterpret_cast<uint32_t*>(buffer->data()));
      break;
    default:
      PackElements(layout, reinterpret_cast<const uint64_t*>(constant.data()),
                   reinterpret_cast<uint64_t*>(buffer->data()));
  }
  return Literal(constant.dtype(), {blocks, depth, layout.panel}, buffer);
}

}  // namespace rvm::schedule
