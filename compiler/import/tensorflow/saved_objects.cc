#include "compiler/import/tensorflow/saved_objects.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/wire_reader.h"

namespace rvm::tensorflow {
namespace {

using importing::Bytes;
using importing::Field;
using importing::WireReader;
using importing::WireType;
using enum WireType;

// A SavedObject or a TrackableObject.
struct Object {
  absl::flat_hash_map<std::string_view, int64_t> members;
  std::string_view key;  // of its value in the checkpoint
};

void AddMember(Bytes reference, Object& object) {
  WireReader reader(reference);
  Field field;
  int64_t number = 0;
  std::string_view name;
  while (reader.Next(field)) {
    if (field.Is(1, kVarint)) number = field.AsInt();
    if (field.Is(2, kBytes)) name = field.AsText();
  }
  object.members.emplace(name, number);
}

// Returns the key in a SerializedTensor; "" if it is not that of a variable's value.
std::string_view KeyOf(Bytes attribute) {
  WireReader reader(attribute);
  Field field;
  std::string_view name, key;
  while (reader.Next(field)) {
    if (field.Is(1, kBytes)) name = field.AsText();
    if (field.Is(3, kBytes)) key = field.AsText();
  }
  return name == "VARIABLE_VALUE" ? key : std::string_view();
}

// Reads the objects of either graph. Only those of a checkpoint have keys.
std::vector<Object> ReadObjects(Bytes graph, bool has_keys) {
  std::vector<Object> objects;
  WireReader nodes(graph);
  Field node;
  while (nodes.Next(node)) {
    if (!node.Is(1, kBytes)) continue;
    Object& object = objects.emplace_back();
    WireReader reader(node.bytes);
    Field field;
    while (reader.Next(field)) {
      if (field.Is(1, kBytes)) AddMember(field.bytes, object);
      if (has_keys && field.Is(2, kBytes) && object.key.empty()) object.key = KeyOf(field.bytes);
    }
  }
  return objects;
}

}  // namespace

absl::flat_hash_map<std::string_view, std::vector<int64_t>> CapturedObjects(Bytes objects) {
  absl::flat_hash_map<std::string_view, std::vector<int64_t>> captured;
  WireReader functions(objects);
  Field entry;
  while (functions.Next(entry)) {
    if (!entry.Is(2, kBytes)) continue;
    std::string_view name;
    Bytes function;
    Field field;
    for (WireReader reader(entry.bytes); reader.Next(field);) {
      if (field.Is(1, kBytes)) name = field.AsText();
      if (field.Is(2, kBytes)) function = field.bytes;
    }
    std::vector<int64_t>& numbers = captured[name];
    for (WireReader reader(function); reader.Next(field);) {
      if (field.number != 2 || (field.type != kVarint && field.type != kBytes)) continue;
      ForEachNumber(field, 0, [&](uint64_t number) { numbers.push_back(static_cast<int64_t>(number)); });
    }
  }
  return captured;
}

absl::flat_hash_map<int64_t, std::string_view> KeysOfObjects(Bytes objects, Bytes stored) {
  const std::vector<Object> saved = ReadObjects(objects, false), values = ReadObjects(stored, true);
  absl::flat_hash_map<int64_t, std::string_view> keys;
  if (saved.empty() || values.empty()) return keys;
  std::vector<bool> is_met(saved.size(), false);
  std::vector<std::pair<int64_t, int64_t>> open = {{0, 0}};
  is_met[0] = true;
  while (!open.empty()) {
    const auto [number, other] = open.back();
    open.pop_back();
    const Object& object = saved[static_cast<size_t>(number)];
    const Object& value = values[static_cast<size_t>(other)];
    if (!value.key.empty()) keys[number] = value.key;
    for (const auto& [name, member] : object.members) {
      auto found = value.members.find(name);
      if (found == value.members.end() || member < 0 || found->second < 0) continue;
      const auto next = static_cast<size_t>(member);
      if (next >= saved.size() || static_cast<size_t>(found->second) >= values.size() || is_met[next]) continue;
      is_met[next] = true;
      open.emplace_back(member, found->second);
    }
  }
  return keys;
}

}  // namespace rvm::tensorflow
