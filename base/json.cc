#include "base/json.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rvm {
namespace {

constexpr int kMaxDepth = 100;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code_point, std::string& out) {
  auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3f))); };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xc0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | code_point >> 12));
    tail(6), tail(0);
  } else {
    out.push_back(static_cast<char>(0xf0 | code_point >> 18));
    tail(12), tail(6), tail(0);
  }
}

// Every function returns false after it has set `error_`.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<JsonValue> Read() {
    JsonValue value;
    if (ReadValue(value, 0)) {
      Skip();
      if (at_ == text_.size()) return value;
      Fail("text after the value");
    }
    return absl::InvalidArgumentError(absl::StrCat("malformed JSON at byte ", at_, ": ", error_));
  }

 private:
  bool Fail(const char* what) {
    error_ = what;
    return false;
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Skip() {
    while (Peek() == ' ' || Peek() == '\n' || Peek() == '\r' || Peek() == '\t') ++at_;
  }
  bool Accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  bool ReadValue(JsonValue& value, int depth) {
    if (depth > kMaxDepth) return Fail("it nests more than 100 deep");
    Skip();
    if (Accept("{")) return ReadObject(value.value.emplace<JsonValue::Object>(), depth);
    if (Accept("[")) return ReadArray(value.value.emplace<JsonValue::Array>(), depth);
    if (Peek() == '"') return ReadString(value.value.emplace<std::string>());
    if (Accept("null")) return true;
    if (Accept("true")) return value.value = true, true;
    if (Accept("false")) return value.value = false, true;
    return ReadNumber(value);
  }

  bool ReadArray(JsonValue::Array& array, int depth) {
    Skip();
    if (Accept("]")) return true;
    while (true) {
      if (!ReadValue(array.emplace_back(), depth + 1)) return false;
      Skip();
      if (Accept("]")) return true;
      if (!Accept(",")) return Fail("expected `,` or `]`");
    }
  }

  bool ReadObject(JsonValue::Object& object, int depth) {
    absl::flat_hash_set<std::string> keys;
    Skip();
    if (Accept("}")) return true;
    while (true) {
      std::string& key = object.keys.emplace_back();
      Skip();
      if (Peek() != '"') return Fail("expected a key in quotes");
      if (!ReadString(key)) return false;
      if (!keys.insert(key).second) return Fail("a key is there twice");
      Skip();
      if (!Accept(":")) return Fail("expected `:`");
      if (!ReadValue(object.values.emplace_back(), depth + 1)) return false;
      Skip();
      if (Accept("}")) return true;
      if (!Accept(",")) return Fail("expected `,` or `}`");
    }
  }

  bool ReadNumber(JsonValue& value) {
    size_t begin = at_;
    Accept("-");
    if (!IsDigit(Peek())) return Fail("expected a value");
    if (!Accept("0")) {
      while (IsDigit(Peek())) ++at_;
    }
    bool is_integer = true;
    if (Accept(".")) {
      is_integer = false;
      if (!ReadDigits()) return false;
    }
    if (Peek() == 'e' || Peek() == 'E') {
      is_integer = false;
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      if (!ReadDigits()) return false;
    }
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    if (int64_t integer = 0; is_integer && std::from_chars(first, last, integer).ec == std::errc()) {
      value.value = integer;
      return true;
    }
    double number = 0;
    if (std::from_chars(first, last, number).ec != std::errc()) return Fail("a number is out of range");
    value.value = number;
    return true;
  }
  bool ReadDigits() {
    if (!IsDigit(Peek())) return Fail("expected a digit");
    while (IsDigit(Peek())) ++at_;
    return true;
  }

  bool ReadString(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) return Fail("a control character in a string");
      ++at_;
      if (c == '"') return true;
      if (c != '\\') {
        out.push_back(c);
      } else if (!ReadEscape(out)) {
        return false;
      }
    }
    return Fail("a string without an end");
  }

  bool ReadEscape(std::string& out) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    char c = Peek();
    ++at_;
    if (c == 'u') return ReadUnicode(out);
    size_t which = kEscapes.find(c);
    if (which == std::string_view::npos) return Fail("an unknown escape");
    out.push_back(kMeanings[which]);
    return true;
  }

  bool ReadUnicode(std::string& out) {
    std::optional<uint32_t> unit = ReadHex4();
    if (!unit) return Fail("expected four hexadecimal digits");
    if (*unit >= 0xd800 && *unit < 0xdc00) {
      std::optional<uint32_t> low = Accept("\\u") ? ReadHex4() : std::nullopt;
      if (!low || *low < 0xdc00 || *low > 0xdfff) return Fail("half of a surrogate pair");
      *unit = 0x10000 + ((*unit - 0xd800) << 10) + (*low - 0xdc00);
    } else if (*unit >= 0xdc00 && *unit <= 0xdfff) {
      return Fail("half of a surrogate pair");
    }
    AppendUtf8(*unit, out);
    return true;
  }
  std::optional<uint32_t> ReadHex4() {
    std::string_view digits = text_.substr(at_, 4);
    uint32_t unit = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) return std::nullopt;
    at_ += 4;
    return unit;
  }

  std::string_view text_;
  size_t at_ = 0;
  const char* error_ = "";
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view key) const {
  const Object* object = AsObject();
  if (object == nullptr) return nullptr;
  for (size_t i = 0; i < object->keys.size(); ++i) {
    if (object->keys[i] == key) return &object->values[i];
  }
  return nullptr;
}

absl::StatusOr<JsonValue> ParseJson(std::string_view text) { return Reader(text).Read(); }

}  // namespace rvm
