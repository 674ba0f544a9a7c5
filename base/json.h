// A strict reader of JSON (RFC 8259): no comments, no trailing commas, no duplicate keys.
#ifndef RVM_BASE_JSON_H_
#define RVM_BASE_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm {

struct JsonValue {
  using Array = std::vector<JsonValue>;
  struct Object {  // in the order written
    std::vector<std::string> keys;
    std::vector<JsonValue> values;
  };
  // A number without fraction and exponent that fits is an int64_t.
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value;

  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  const bool* AsBool() const { return std::get_if<bool>(&value); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&value); }
  const double* AsDouble() const { return std::get_if<double>(&value); }
  const std::string* AsString() const { return std::get_if<std::string>(&value); }
  const Array* AsArray() const { return std::get_if<Array>(&value); }
  const Object* AsObject() const { return std::get_if<Object>(&value); }
  // Returns the member of an object; null if it does not exist or this is not an object.
  const JsonValue* Find(std::string_view key) const;
};

// Parses the whole text as one value, nested at most 100 deep. kInvalidArgument names the offending byte.
absl::StatusOr<JsonValue> ParseJson(std::string_view text);

}  // namespace rvm

#endif  // RVM_BASE_JSON_H_
