#include "base/json_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace rvm {

void JsonWriter::NewLine() {
  text_ += '\n';
  text_.append(static_cast<size_t>(depth_), ' ');
}

void JsonWriter::BeforeValue() {
  if (std::exchange(has_key_, false)) return;
  if (!std::exchange(is_first_, false)) text_ += ',';
  if (depth_ > 0) NewLine();
}

JsonWriter& JsonWriter::Open(char bracket) {
  BeforeValue();
  text_ += bracket;
  ++depth_;
  is_first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  --depth_;
  if (!is_first_) NewLine();
  text_ += bracket;
  is_first_ = false;
  return *this;
}

void JsonWriter::Quote(std::string_view text) {
  text_ += '"';
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    auto byte = static_cast<unsigned char>(c);
    size_t size = Utf8CharacterSize(text.substr(i));
    if (size != 1) {
      text_ += size == 0 ? "\\ufffd" : text.substr(i, size);
      i += std::max<size_t>(size, 1) - 1;
      continue;
    }
    if (byte < 0x20) {
      absl::StrAppend(&text_, "\\u00", absl::Hex(byte, absl::kZeroPad2));
      continue;
    }
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += c;
  }
  text_ += '"';
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  BeforeValue();
  Quote(name);
  text_ += ": ";
  has_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  BeforeValue();
  Quote(text);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t number) {
  BeforeValue();
  absl::StrAppend(&text_, number);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  BeforeValue();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  BeforeValue();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Exact(double number) {
  if (!std::isfinite(number)) return Null();
  BeforeValue();
  char digits[64];
  auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number);
  text_.append(digits, end);
  return *this;
}

JsonWriter& JsonWriter::Number(double number) {
  if (!std::isfinite(number)) return Null();
  BeforeValue();
  char digits[64];
  auto [end, error] = std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::fixed, 3);
  text_.append(digits, end);
  return *this;
}

}  // namespace rvm
