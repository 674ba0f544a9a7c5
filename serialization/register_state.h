// State of the registers of a frame at one place in the code, as the verifier derives it.
#ifndef RVM_SERIALIZATION_REGISTER_STATE_H_
#define RVM_SERIALIZATION_REGISTER_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace rvm {

// One bit per register: a scalar is defined; a pointer is defined and owned (it has a value exactly while
// it owns it); a planned tensor is defined and its place in the arena not overwritten.
class RegisterSet {
 public:
  explicit RegisterSet(size_t size = 0) : words_((size + 63) / 64) {}
  bool Has(uint16_t reg) const { return (words_[reg >> 6] >> (reg & 63) & 1) != 0; }
  void Add(uint16_t reg) { words_[reg >> 6] |= uint64_t{1} << (reg & 63); }
  void Remove(uint16_t reg) { words_[reg >> 6] &= ~(uint64_t{1} << (reg & 63)); }

  std::vector<uint64_t>& words() { return words_; }
  const std::vector<uint64_t>& words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

struct RegisterState {
  struct Place {
    uint32_t end;
    uint16_t reg;
    bool operator==(const Place&) const = default;
  };
  RegisterSet live;
  std::map<uint32_t, Place> arena;  // the places of the live planned tensors, by offset; disjoint
  // Register 0 still is the closure with which the function was entered.
  bool self_intact = false;

  size_t bytes() const { return sizeof(*this) + live.words().size() * 8 + arena.size() * 64; }
};

// Returns the lowest register of `pointers` that is owned in only one of the two states.
std::optional<uint16_t> FindOwnershipConflict(const RegisterState& a, const RegisterState& b,
                                              const RegisterSet& pointers);

// Keeps in `state` what also holds in `other`. REQUIRES: no ownership conflict.
void Intersect(RegisterState& state, const RegisterState& other);

// Returns the lowest register that `assumed` says is live and `actual` does not (pointers too), counting planned
// tensors at another place as not live.
std::optional<uint16_t> FindMissing(const RegisterState& assumed, const RegisterState& actual);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_REGISTER_STATE_H_
