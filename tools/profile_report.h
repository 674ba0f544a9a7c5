// Formats of a profile: tables, JSON, and a trace for chrome://tracing and Perfetto.
#ifndef RVM_TOOLS_PROFILE_REPORT_H_
#define RVM_TOOLS_PROFILE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "serialization/executable.h"
#include "vm/profiler/profile.h"

namespace rvm::tools {

struct ProfileReport {
  std::string path;
  std::string entry;
  const Executable& executable;
  const vm::Profile& profile;  // of one run, the fastest of `runs`
  int64_t runs = 1;
  int64_t peak_bytes = 0;
  double plain_ns = 0;  // of the fastest run that nobody watched
  double watched_ns = 0;
};

std::string ProfileTables(const ProfileReport& report);
std::string ProfileJson(const ProfileReport& report);
// Trace event format.
std::string ChromeTrace(const Executable& executable, const vm::Profile& profile,
                        const std::vector<vm::TraceEvent>& events);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_PROFILE_REPORT_H_
