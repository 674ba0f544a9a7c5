// Which definitions of the Prelude a text needs. Internal to this folder.
#ifndef RVM_COMPILER_TEXT_PRELUDE_LOADER_H_
#define RVM_COMPILER_TEXT_PRELUDE_LOADER_H_

#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/module.h"
#include "compiler/text/lexer.h"

namespace rvm::text {

struct NeededPrelude {
  // The definitions of the Prelude that a program mentions and does not define, with what those mention in turn.
  // Empty for a program that uses none: then the Prelude is not even looked at beyond one scan of its names.
  std::string text;
  // Types of the Prelude that the program itself mentions.
  absl::flat_hash_set<std::string> mentioned_types;
  // Types that the program defines as the Prelude does, constructors in any order. They are the same type.
  std::vector<std::string> shared_types;
};

NeededPrelude FindNeededPrelude(std::span<const Token> tokens, const ir::Module& module);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PRELUDE_LOADER_H_
