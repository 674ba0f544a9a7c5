#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rvm {

void FailCheck(const char* file, int line, std::string_view what) {
  std::fprintf(stderr,
               "RelayVM bug: %.*s (%s:%d)\nThis is a fault of RelayVM, not of your program; "
               "please report it with the input that caused it.\n",
               static_cast<int>(what.size()), what.data(), file, line);
  std::abort();
}

}  // namespace rvm
