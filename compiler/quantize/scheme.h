// The forms in which a quantised program stores and multiplies weights.
#ifndef RVM_COMPILER_QUANTIZE_SCHEME_H_
#define RVM_COMPILER_QUANTIZE_SCHEME_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/data_type.h"

namespace rvm::quantize {

enum class Scheme : uint8_t {
  kFloat,        // as the program has it
  kFloat16,      // stored in float16, multiplied in float32
  kBfloat16,     // stored in bfloat16, multiplied in float32
  kW16A16,       // stored in bfloat16, times activations that are rounded to bfloat16, summed up in float32
  kW8,           // stored in int8 with a scale for each output, multiplied in float32
  kW4,           // stored in 4 bits with a scale for each group of the depth, multiplied in float32
  kW4A8Dynamic,  // as kW4, times activations whose groups are rounded to int8 by their own maxima in each call
  kW8A8Dynamic,  // int8 weights and int8 activations whose scale is that of their own maximum in each call
  kW8A8,         // int8 weights and int8 activations with a scale from calibration
};

struct SchemeRow {
  Scheme scheme;
  std::string_view name;  // "w8a8-dynamic"
  std::string_view summary;
  int bits;              // of a stored weight
  DataType activations;  // as they are multiplied
  bool needs_data;       // scales come from calibration

  // Returns whether products are sums of products of bytes.
  bool multiplies_bytes() const { return activations == kInt8; }
};

// All of them, kFloat first.
std::span<const SchemeRow> Schemes();
const SchemeRow& RowOf(Scheme scheme);
// kInvalidArgument for a name that no scheme to quantise to has.
absl::StatusOr<Scheme> ParseScheme(std::string_view name);

}  // namespace rvm::quantize

#endif  // RVM_COMPILER_QUANTIZE_SCHEME_H_
