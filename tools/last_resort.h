// Handles failures of the tools that cannot be returned: memory is exhausted, or a library throws.
#ifndef RVM_TOOLS_LAST_RESORT_H_
#define RVM_TOOLS_LAST_RESORT_H_

namespace rvm::tools {

// From here on, a failing allocation ends the process with exit status 1 and the message
// `PROGRAM: error: out of memory`, and an uncaught exception ends it as a bug of RelayVM. Call it once, first in main.
// `program` must outlive the process.
void InstallLastResort(const char* program);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_LAST_RESORT_H_
