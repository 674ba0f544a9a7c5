// The text of the Prelude (prelude.relay), linked into the compiler.
#ifndef RVM_COMPILER_PRELUDE_PRELUDE_H_
#define RVM_COMPILER_PRELUDE_PRELUDE_H_

#include <string_view>

namespace rvm::prelude {

std::string_view Text();

}  // namespace rvm::prelude

#endif  // RVM_COMPILER_PRELUDE_PRELUDE_H_
