// Indices that cannot be mixed up: a FunctionId is not a KernelId.
#ifndef RVM_BASE_STRONG_ID_H_
#define RVM_BASE_STRONG_ID_H_

#include <compare>
#include <cstdint>
#include <utility>

namespace rvm {

template <typename Tag, typename Rep = uint32_t>
struct StrongId {
  Rep value = static_cast<Rep>(-1);

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}

  constexpr bool valid() const { return value != static_cast<Rep>(-1); }
  constexpr auto operator<=>(const StrongId&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value);
  }
};

}  // namespace rvm

#endif  // RVM_BASE_STRONG_ID_H_
