// Tokens of `.rvmasm`.
#ifndef RVM_SERIALIZATION_ASSEMBLY_LEXER_H_
#define RVM_SERIALIZATION_ASSEMBLY_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace rvm {

struct AssemblyToken {
  enum class Kind : uint8_t { kWord, kNumber, kString, kBytes, kSymbol, kBad, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // a string or bytes: their contents
  int line = 1;
};

class AssemblyLexer {
 public:
  explicit AssemblyLexer(std::string_view text) : text_(text) {}
  AssemblyToken Next();

 private:
  void SkipSpace();
  AssemblyToken Quoted(bool bytes);
  char Peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
};

}  // namespace rvm

#endif  // RVM_SERIALIZATION_ASSEMBLY_LEXER_H_
