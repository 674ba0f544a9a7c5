#include "tools/last_resort.h"

#include <unistd.h>

#include <cstring>
#include <exception>
#include <new>

#include "base/check.h"

namespace rvm::tools {
namespace {

const char* program_name = "";

// Allocates nothing. Runs no destructors: a table that was being built when memory ran out is not consistent.
void StopOutOfMemory() {
  for (const char* text : {program_name, ": error: out of memory\n"}) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) _exit(2);
  }
  _exit(1);
}

// The project is compiled without exceptions; containers of libraries throw where their preconditions do not hold.
void StopOnException() { FailCheck(__FILE__, __LINE__, "a library threw an exception"); }

}  // namespace

void InstallLastResort(const char* program) {
  program_name = program;
  std::set_new_handler(StopOutOfMemory);
  std::set_terminate(StopOnException);
}

}  // namespace rvm::tools
