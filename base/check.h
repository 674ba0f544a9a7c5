// Checks of internal invariants. Anything that input, files, devices or memory can cause is an absl::Status instead.
#ifndef RVM_BASE_CHECK_H_
#define RVM_BASE_CHECK_H_

#include <string_view>

namespace rvm {

// Prints "RelayVM bug: <what> (<file>:<line>)" on stderr and aborts.
[[noreturn]] void FailCheck(const char* file, int line, std::string_view what);

}  // namespace rvm

// Aborts if `condition` is false; `what` describes the violated invariant.
#define RVM_CHECK(condition, what)                \
  do {                                            \
    if (!(condition)) [[unlikely]]                \
      ::rvm::FailCheck(__FILE__, __LINE__, what); \
  } while (false)

// Marks code that no input can reach.
#define RVM_UNREACHABLE(what) ::rvm::FailCheck(__FILE__, __LINE__, what)

#endif  // RVM_BASE_CHECK_H_
