// The metadata section that ends a text of the predecessor: `#[metadata]`, then a JSON graph of
// nodes, with tensors in base64 (MetadataConstant names one).
//
//   {"root": 1,
//    "nodes": [{"type_key": ""},
//              {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
//              {"type_key": "Array", "data": [3]},
//              {"type_key": "relay.Constant", "attrs": {"data": "0", ...}}],
//    "b64ndarrays": ["..."], ...}
//
// A tensor is, little-endian: u64 0xDD5E40F096B4A13F, u64 0, i32 device type (1: host), i32 device, i32 rank,
// u8 code, u8 bits, u16 lanes, i64 extents[rank], i64 bytes, the elements.
#ifndef RVM_COMPILER_TEXT_METADATA_H_
#define RVM_COMPILER_TEXT_METADATA_H_

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"

namespace rvm::text {

class Metadata {
 public:
  // The section's JSON. kInvalidArgument says what of the above it is not.
  static absl::StatusOr<Metadata> Parse(std::string_view json);

  // The tensor of `meta[key][index]`, at `span`; nullopt after an error was reported.
  std::optional<Literal> Constant(std::string_view key, int64_t index, ir::Span span,
                                  diagnostics::Diagnostics& diagnostics) const;

 private:
  // The node that `value` (a number, or a number in a string) is the index of; null if none.
  const JsonValue* Node(const JsonValue* value) const;

  JsonValue root_;
};

// The tensor that `bytes` are, in the form above.
absl::StatusOr<Literal> DecodeTensor(std::span<const std::byte> bytes);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_METADATA_H_
