// Formats of a profile: tables, JSON, and a trace for chrome://tracing and Perfetto.
#ifndef RVM_VM_PROFILER_PROFILE_REPORT_H_
#define RVM_VM_PROFILER_PROFILE_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialization/executable.h"
#include "vm/profiler/profile.h"

namespace rvm::vm {

struct ProfileReport {
  std::string path;
  std::string entry;
  const Executable& executable;
  const Profile& profile;  // of one run, the fastest of `runs`
  int64_t runs = 1;
  int64_t peak_bytes = 0;
  double plain_ns = 0;  // of the fastest run that nobody watched; NaN: there was none
  double watched_ns = 0;
};

// A part of the time of a run.
struct TimePart {
  std::string_view name;  // in JSON
  std::string_view text;
  double ns;
};

// Returns disjoint parts that add up to the whole time. `waits` and `launches` are 0 for programs without devices.
std::vector<TimePart> TimeParts(const Profile& profile);

std::string ProfileTables(const ProfileReport& report);
std::string ProfileJson(const ProfileReport& report);
// Trace event format.
std::string ChromeTrace(const Executable& executable, const Profile& profile, const std::vector<TraceEvent>& events);

}  // namespace rvm::vm

#endif  // RVM_VM_PROFILER_PROFILE_REPORT_H_
