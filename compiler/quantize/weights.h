// Weights in the forms that quantised programs store.
#ifndef RVM_COMPILER_QUANTIZE_WEIGHTS_H_
#define RVM_COMPILER_QUANTIZE_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "base/literal.h"
#include "compiler/quantize/scheme.h"
#include "compiler/quantize/sites.h"

namespace rvm::quantize {

struct StoredWeight {
  Literal codes;   // float16, bfloat16 or int8; uint8 with two codes of 4 bits in each byte, the first in the low bits
  Literal scales;  // float32: one for each output, or a row of groups for each; not used for float16 and bfloat16
  double error;    // norm of the difference to the weight, divided by the norm of the weight

  int64_t bytes(Scheme scheme) const;
};

// The code of zero in 4 bits.
inline constexpr int kZeroCode = 8;
// The greatest int8 code; codes are symmetric.
inline constexpr int kMaxCode = 127;

// Returns a float32 tensor in float16 or bfloat16, rounded to the nearest; what is too large is infinite.
Literal Narrowed(const Literal& weight, DataType dtype);

// Returns the weight of a site as `scheme` stores it. nullopt if the scheme cannot: a weight that is not finite, or too
// large for float16; 4 bits of filters, or of rows that are no multiple of `group`.
std::optional<StoredWeight> Store(const Site& site, Scheme scheme, int64_t group);

// Returns the numbers that stored weights stand for, in the shape of the site's weight.
Literal Restored(const Site& site, const StoredWeight& stored, Scheme scheme);

// Stores each weight once, however many sites share it.
class WeightStore {
 public:
  const StoredWeight* Find(const Site& site, Scheme scheme, int64_t group);

 private:
  using Key = std::tuple<const void*, int64_t, Scheme, int64_t>;
  struct Entry {
    Literal weight;  // keeps the place of its elements, which the key is
    std::optional<StoredWeight> stored;
  };
  std::map<Key, Entry> stored_;
};

}  // namespace rvm::quantize

#endif  // RVM_COMPILER_QUANTIZE_WEIGHTS_H_
