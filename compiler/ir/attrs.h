// Attributes of operator calls and functions: `axis=-1, keepdims=True`.
#ifndef RVM_COMPILER_IR_ATTRS_H_
#define RVM_COMPILER_IR_ATTRS_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/data_type.h"
#include "compiler/ir/span.h"

namespace rvm::ir {

struct AttrNone {
  bool operator==(const AttrNone&) const = default;
};

// None, bool, integer, float, string, or a list of those. A dtype is written as a string.
struct AttrValue {
  using List = std::vector<AttrValue>;
  std::variant<AttrNone, bool, int64_t, double, std::string, List> value;

  AttrValue() = default;
  AttrValue(bool b) : value(b) {}                       // NOLINT: literals convert
  AttrValue(int64_t i) : value(i) {}                    // NOLINT
  AttrValue(int i) : value(static_cast<int64_t>(i)) {}  // NOLINT
  AttrValue(double d) : value(d) {}                     // NOLINT
  AttrValue(const char* s) : value(std::string(s)) {}   // NOLINT
  AttrValue(std::string s) : value(std::move(s)) {}     // NOLINT
  AttrValue(List l) : value(std::move(l)) {}            // NOLINT

  bool is_none() const { return std::holds_alternative<AttrNone>(value); }
  const bool* AsBool() const { return std::get_if<bool>(&value); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&value); }
  const double* AsDouble() const { return std::get_if<double>(&value); }
  const std::string* AsString() const { return std::get_if<std::string>(&value); }
  const List* AsList() const { return std::get_if<List>(&value); }
  // Floats are compared by their bits, so a NaN equals itself.
  bool operator==(const AttrValue& other) const;
  // Relay text: `None`, `True`, `1`, `1.5f`, `"s"`, `[1, 2]`.
  std::string ToString() const;
};

// Returns a list of integers.
inline AttrValue::List IntList(std::span<const int64_t> values) { return {values.begin(), values.end()}; }

// `text` in quotes with escapes, as Relay writes strings.
std::string QuoteString(std::string_view text);

struct Attr {
  std::string name;
  AttrValue value;
  Span span;
};

// Attributes in source order. Names are unique, which the parser and the builders ensure.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const char*, AttrValue>> entries);
  const AttrValue* Find(std::string_view name) const;
  void Set(std::string name, AttrValue value, Span span = {});
  bool empty() const { return entries_.empty(); }
  const std::vector<Attr>& entries() const { return entries_; }

  // REQUIRES: the attribute is present and of that type. Type inference adds the defaults of operator attributes and
  // checks them against the operator's schema (ops/op_def.h), so relations and computations may call these.
  bool GetBool(std::string_view name) const;
  int64_t GetInt(std::string_view name) const;
  double GetDouble(std::string_view name) const;  // also accepts an integer
  const std::string& GetString(std::string_view name) const;
  std::vector<int64_t> GetInts(std::string_view name) const;  // an integer counts as a list of one
  bool IsNone(std::string_view name) const;                   // absent counts as None
  // Returns whether both have the same entries, in any order; spans are ignored.
  bool operator==(const Attrs& other) const;

 private:
  std::vector<Attr> entries_;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_ATTRS_H_
