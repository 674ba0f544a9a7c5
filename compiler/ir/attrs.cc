#include "compiler/ir/attrs.h"

#include <bit>
#include <charconv>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace rvm::ir {

std::string QuoteString(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\t': quoted += "\\t"; break;
      case '\r': quoted += "\\r"; break;
      default: quoted += c;
    }
  }
  return quoted + "\"";
}

bool AttrValue::operator==(const AttrValue& other) const {
  if (AsDouble() == nullptr || other.AsDouble() == nullptr) return value == other.value;
  return std::bit_cast<uint64_t>(*AsDouble()) == std::bit_cast<uint64_t>(*other.AsDouble());
}

std::string AttrValue::ToString() const {
  if (is_none()) return "None";
  if (const bool* b = AsBool()) return *b ? "True" : "False";
  if (const int64_t* i = AsInt()) return absl::StrCat(*i);
  if (const double* d = AsDouble()) {
    char buffer[64];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), *d);
    return std::string(buffer, end) + "f";
  }
  if (const std::string* s = AsString()) return QuoteString(*s);
  std::string text = "[";
  for (const AttrValue& item : *AsList()) absl::StrAppend(&text, text.size() == 1 ? "" : ", ", item.ToString());
  return text + "]";
}

Attrs::Attrs(std::initializer_list<std::pair<const char*, AttrValue>> entries) {
  for (const auto& [name, value] : entries) Set(name, value);
}

const AttrValue* Attrs::Find(std::string_view name) const {
  for (const Attr& attr : entries_) {
    if (attr.name == name) return &attr.value;
  }
  return nullptr;
}

void Attrs::Set(std::string name, AttrValue value, Span span) {
  for (Attr& attr : entries_) {
    if (attr.name != name) continue;
    attr.value = std::move(value);
    return;
  }
  entries_.push_back({std::move(name), std::move(value), span});
}

bool Attrs::GetBool(std::string_view name) const {
  const AttrValue* value = Find(name);
  RVM_CHECK(value != nullptr && (value->AsBool() || value->AsInt()), "a bool attribute is missing");
  return value->AsBool() ? *value->AsBool() : *value->AsInt() != 0;
}

int64_t Attrs::GetInt(std::string_view name) const {
  const AttrValue* value = Find(name);
  RVM_CHECK(value != nullptr && value->AsInt(), "an integer attribute is missing");
  return *value->AsInt();
}

double Attrs::GetDouble(std::string_view name) const {
  const AttrValue* value = Find(name);
  RVM_CHECK(value != nullptr && (value->AsDouble() || value->AsInt()), "a float attribute is missing");
  return value->AsDouble() ? *value->AsDouble() : static_cast<double>(*value->AsInt());
}

const std::string& Attrs::GetString(std::string_view name) const {
  const AttrValue* value = Find(name);
  RVM_CHECK(value != nullptr && value->AsString(), "a string attribute is missing");
  return *value->AsString();
}

std::vector<int64_t> Attrs::GetInts(std::string_view name) const {
  const AttrValue* value = Find(name);
  RVM_CHECK(value != nullptr && (value->AsList() || value->AsInt()), "an integer-list attribute is missing");
  if (value->AsInt()) return {*value->AsInt()};
  std::vector<int64_t> result;
  for (const AttrValue& item : *value->AsList()) {
    RVM_CHECK(item.AsInt() != nullptr, "an integer-list attribute holds something else");
    result.push_back(*item.AsInt());
  }
  return result;
}

bool Attrs::IsNone(std::string_view name) const {
  const AttrValue* value = Find(name);
  return value == nullptr || value->is_none();
}

bool Attrs::operator==(const Attrs& other) const {
  if (entries_.size() != other.entries_.size()) return false;
  for (const Attr& attr : entries_) {
    const AttrValue* value = other.Find(attr.name);
    if (value == nullptr || !(*value == attr.value)) return false;
  }
  return true;
}

}  // namespace rvm::ir
