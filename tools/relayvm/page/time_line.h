// The events of a run as nested intervals, for the drawing of a page.
#ifndef RVM_TOOLS_RELAYVM_PAGE_TIME_LINE_H_
#define RVM_TOOLS_RELAYVM_PAGE_TIME_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "serialization/executable.h"
#include "vm/profiler/profile.h"

namespace rvm::tools {

struct TimeLine {
  struct Interval {
    size_t line = 0;   // index in `lines`
    size_t depth = 0;  // calls around it
    double begin_ns = 0, length_ns = 0;
    size_t name = 0;  // index in `names`
  };
  std::vector<std::string> lines;  // "host", then devices
  std::vector<std::string> names;  // "@main", "dense_tanh"
  std::vector<Interval> intervals;
  bool is_cut = false;  // there were more

  // Writes an object.
  void Write(JsonWriter& json) const;
};

// Returns the first `max_intervals` that begin; functions without an end last until the last event. `depth` is that of
// the calls that have a beginning, at most kMaxDepth: deeper ones are left out.
inline constexpr size_t kMaxDepth = 40;
TimeLine MakeTimeLine(const Executable& executable, const vm::Profile& profile,
                      const std::vector<vm::TraceEvent>& events, size_t max_intervals);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_PAGE_TIME_LINE_H_
