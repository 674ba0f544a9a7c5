// Finds the definitions of the Prelude that a text needs. Internal to this folder.
#ifndef RVM_COMPILER_TEXT_PRELUDE_LOADER_H_
#define RVM_COMPILER_TEXT_PRELUDE_LOADER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compiler/text/import_lines.h"
#include "compiler/text/lexer.h"

namespace rvm::text {

struct NeededPrelude {
  // The definitions of the Prelude that a program mentions but does not define, and all definitions that these mention.
  // Empty for a program that uses none.
  std::string text;
  // Types of the Prelude that the program itself mentions.
  absl::flat_hash_set<std::string> mentioned_types;
  // Types that the program and the Prelude define alike, up to the order of constructors. They are one type.
  std::vector<std::string> shared_types;
};

// The names that the Prelude defines, for suggestions.
struct PreludeNames {
  std::vector<std::string_view> functions;  // with their `@`
  std::vector<std::string_view> types;
  std::vector<std::string_view> constructors;
};
const PreludeNames& GetPreludeNames();

NeededPrelude FindNeededPrelude(std::span<const Token> tokens, const Surroundings& surroundings);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PRELUDE_LOADER_H_
