// Which definitions of the Prelude a text needs. Internal to this folder.
#ifndef RVM_COMPILER_TEXT_PRELUDE_LOADER_H_
#define RVM_COMPILER_TEXT_PRELUDE_LOADER_H_

#include <span>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/text/lexer.h"

namespace rvm::text {

// The text of all definitions that `tokens` mention, neither they nor `module` define, and the
// Prelude has, with what those mention in turn. Empty for a program that uses none: then
// the Prelude is not even looked at beyond one scan of its names.
std::string NeededPrelude(std::span<const Token> tokens, const ir::Module& module);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PRELUDE_LOADER_H_
