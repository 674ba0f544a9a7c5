// Parts of language models as Relay (*.relay), linked into the compiler.
#ifndef RVM_COMPILER_MODELS_MODELS_H_
#define RVM_COMPILER_MODELS_MODELS_H_

#include <string_view>

namespace rvm::models {

std::string_view AttentionText();
std::string_view DecoderText();
std::string_view EncoderDecoderText();
std::string_view EncoderText();

}  // namespace rvm::models

#endif  // RVM_COMPILER_MODELS_MODELS_H_
