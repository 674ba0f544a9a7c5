#include "serialization/register_state.h"

#include <bit>

namespace rvm {
namespace {

bool HasPlace(const RegisterState& state, uint32_t offset, const RegisterState::Place& place) {
  auto it = state.arena.find(offset);
  return it != state.arena.end() && it->second == place;
}

uint16_t LowestBit(size_t word, uint64_t bits) {
  return static_cast<uint16_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
}

}  // namespace

std::optional<uint16_t> FindOwnershipConflict(const RegisterState& a, const RegisterState& b,
                                              const RegisterSet& pointers) {
  for (size_t w = 0; w < pointers.words().size(); ++w) {
    uint64_t different = (a.live.words()[w] ^ b.live.words()[w]) & pointers.words()[w];
    if (different != 0) return LowestBit(w, different);
  }
  return std::nullopt;
}

void Intersect(RegisterState& state, const RegisterState& other) {
  for (auto it = state.arena.begin(); it != state.arena.end();) {
    if (HasPlace(other, it->first, it->second)) {
      ++it;
    } else {
      state.live.Remove(it->second.reg);
      it = state.arena.erase(it);
    }
  }
  for (size_t w = 0; w < state.live.words().size(); ++w) state.live.words()[w] &= other.live.words()[w];
  state.self_intact = state.self_intact && other.self_intact;
}

std::optional<uint16_t> FindMissing(const RegisterState& assumed, const RegisterState& actual) {
  for (size_t w = 0; w < assumed.live.words().size(); ++w) {
    uint64_t missing = assumed.live.words()[w] & ~actual.live.words()[w];
    if (missing != 0) return LowestBit(w, missing);
  }
  for (const auto& [offset, place] : assumed.arena) {
    if (!HasPlace(actual, offset, place)) return place.reg;
  }
  return std::nullopt;
}

}  // namespace rvm
