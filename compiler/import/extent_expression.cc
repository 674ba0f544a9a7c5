#include "compiler/import/extent_expression.h"

#include <cstdint>

#include "absl/strings/ascii.h"

namespace rvm::importing {
namespace {

constexpr size_t kMaxLength = 200;
constexpr int kMaxDepth = 20;

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsSpace(char c) { return c == ' '; }
bool IsNamePart(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':';
}

// A parser by recursive descent. Dim() stands for what does not parse, which `failed_` says.
class Parser {
 public:
  Parser(std::string_view text, const std::function<std::optional<Dim>(std::string_view)>& dim_of)
      : text_(text), dim_of_(dim_of) {}

  std::optional<Dim> Parse() {
    Dim dim = Sum();
    SkipSpaces();
    return failed_ || at_ != text_.size() || num_operations_ == 0 ? std::nullopt : std::optional(dim);
  }

 private:
  void SkipSpaces() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  bool Take(std::string_view token) {
    SkipSpaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  Dim Fail() {
    failed_ = true;
    return {};
  }

  // A minus sign. Between a name and a name, and without spaces, it is part of a name.
  bool TakeMinus() {
    if (!Take("-")) return false;
    bool has_space = at_ >= 2 && IsSpace(text_[at_ - 2]) && at_ < text_.size() && IsSpace(text_[at_]);
    bool is_number = at_ < text_.size() && IsDigit(text_[at_]);
    if (!has_space && !is_number) Fail();
    return true;
  }

  Dim Sum() {
    Dim sum = Product();
    while (!failed_) {
      if (Take("+")) {
        ++num_operations_;
        sum = sum + Product();
      } else if (TakeMinus()) {
        ++num_operations_;
        sum = sum - Product();
      } else {
        break;
      }
    }
    return sum;
  }

  Dim Product() {
    Dim product = Factor();
    while (!failed_) {
      if (Take("**")) return Fail();
      if (Take("*")) {
        product = product * Factor();
      } else if (Take("//")) {
        product = FloorDiv(product, Divisor());
      } else if (Take("%")) {
        product = FloorMod(product, Divisor());
      } else {
        break;
      }
      ++num_operations_;
    }
    return product;
  }

  Dim Divisor() {
    Dim divisor = Factor();
    return divisor.is_const() && divisor.constant() > 0 ? divisor : Fail();
  }

  Dim Factor() {
    SkipSpaces();
    if (at_ == text_.size() || depth_ == kMaxDepth) return Fail();
    if (Take("(")) {
      ++depth_;
      Dim inner = Sum();
      --depth_;
      return Take(")") ? inner : Fail();
    }
    size_t begin = at_;
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return Fail();
    if (!IsDigit(word[0])) {
      std::optional<Dim> dim = dim_of_(word);
      return dim ? *dim : Fail();
    }
    int64_t number = 0;
    for (char c : word) {
      if (!IsDigit(c) || number > INT64_MAX / 100) return Fail();
      number = number * 10 + (c - '0');
    }
    return number;
  }

  std::string_view text_;
  const std::function<std::optional<Dim>(std::string_view)>& dim_of_;
  size_t at_ = 0;
  int depth_ = 0;
  int num_operations_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<Dim> ParseExtentExpression(std::string_view text,
                                         const std::function<std::optional<Dim>(std::string_view name)>& dim_of) {
  return text.size() > kMaxLength ? std::nullopt : Parser(text, dim_of).Parse();
}

}  // namespace rvm::importing
