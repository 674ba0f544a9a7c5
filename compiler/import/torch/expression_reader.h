// Reads the texts of expressions, token by token.
#ifndef RVM_COMPILER_IMPORT_TORCH_EXPRESSION_READER_H_
#define RVM_COMPILER_IMPORT_TORCH_EXPRESSION_READER_H_

#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace rvm::torch {

// Longer texts are not read.
inline constexpr size_t kMaxExpressionText = 4096;

// Reads a text from its front.
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : rest_(text) {}

  bool Take(std::string_view token) {
    SkipSpace();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // `word`, if it is not the beginning of a longer one.
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (!rest_.starts_with(word) || (rest_.size() > word.size() && IsWordCharacter(rest_[word.size()]))) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }
  std::optional<int64_t> Number() {
    SkipSpace();
    int64_t value = 0;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  std::string_view Word() {
    SkipSpace();
    size_t size = 0;
    while (size < rest_.size() && IsWordCharacter(rest_[size])) ++size;
    std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }
  // The text up to `end`, which is taken, too.
  std::optional<std::string_view> Until(char end) {
    size_t at = rest_.find(end);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view text = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return text;
  }

 private:
  static bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  void SkipSpace() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_EXPRESSION_READER_H_
