#include "compiler/import/flatbuffer.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rvm::importing::flatbuffer {

// A table begins with the distance back to its vtable: its own size, that of the table, then an offset for each field.
std::optional<uint64_t> Table::Place(int field) const {
  if (buffer_ == nullptr) return std::nullopt;
  const int64_t vtable = static_cast<int64_t>(at_) - buffer_->Read<int32_t>(at_);
  if (vtable < 0) {
    buffer_->is_malformed = true;
    return std::nullopt;
  }
  const auto start = static_cast<uint64_t>(vtable), entry = uint64_t{4} + 2 * static_cast<uint64_t>(field);
  if (entry + 2 > buffer_->Read<uint16_t>(start)) return std::nullopt;
  const uint16_t offset = buffer_->Read<uint16_t>(start + entry);
  return offset == 0 ? std::nullopt : std::optional(at_ + offset);
}

Bytes Table::ElementsAt(uint64_t at, uint64_t size) const {
  const uint64_t count = buffer_->Read<uint32_t>(at), all = buffer_->bytes.size();
  const bool is_inside = !buffer_->is_malformed && at + 4 <= all && count <= (all - at - 4) / size;
  if (!is_inside || count * size > buffer_->budget) {
    buffer_->is_malformed = true;
    return {};
  }
  buffer_->budget -= count * size;
  return buffer_->bytes.subspan(at + 4, count * size);
}

Bytes Table::Elements(int field, uint64_t size) const {
  const std::optional<uint64_t> place = Place(field);
  return place ? ElementsAt(buffer_->Follow(*place), size) : Bytes();
}

std::vector<uint64_t> Table::Offsets(int field) const {
  const std::optional<uint64_t> place = Place(field);
  const Bytes offsets = Elements(field, 4);
  std::vector<uint64_t> places;
  if (!place || offsets.empty()) return places;
  const uint64_t first = buffer_->Follow(*place) + 4;
  for (uint64_t i = 0; i < offsets.size() / 4; ++i) places.push_back(buffer_->Follow(first + 4 * i));
  return places;
}

std::vector<Table> Table::Children(int field) const {
  std::vector<Table> children;
  for (uint64_t place : Offsets(field)) children.emplace_back(buffer_, place);
  return children;
}

std::vector<std::string_view> Table::Texts(int field) const {
  std::vector<std::string_view> texts;
  for (uint64_t place : Offsets(field)) {
    const Bytes bytes = ElementsAt(place, 1);
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

}  // namespace rvm::importing::flatbuffer
