#include "tools/relayvm/page/time_line.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rvm::tools {
namespace {

class Maker {
 public:
  Maker(const Executable& executable, const vm::Profile& profile, size_t max_intervals)
      : executable_(executable), profile_(profile), max_intervals_(max_intervals) {
    result_.lines = {"host"};
    for (const vm::Profile::DeviceRow& row : profile.devices) result_.lines.push_back(row.device);
  }

  TimeLine Make(const std::vector<vm::TraceEvent>& events) {
    double last_ns = 0, first_ns = events.empty() ? 0 : events.front().begin_ns;
    for (const vm::TraceEvent& event : events) {
      last_ns = std::max(last_ns, event.begin_ns + event.length_ns);
      first_ns = std::min(first_ns, event.begin_ns);
      Take(event);
    }
    while (!open_.empty()) Leave(last_ns);
    for (TimeLine::Interval& interval : result_.intervals) interval.begin_ns -= first_ns;
    return std::move(result_);
  }

 private:
  void Take(const vm::TraceEvent& event) {
    constexpr std::string_view kPhases[vm::kProfilePhases] = {"arguments in", "run", "results out", "clean up"};
    using Kind = vm::TraceEvent::Kind;
    switch (event.kind) {
      case Kind::kEnter: {
        size_t index = Add(0, event, absl::StrCat("@", executable_.functions[event.id].name));
        return open_.push_back(index);
      }
      case Kind::kLeave: return Leave(event.begin_ns);
      case Kind::kKernel: Add(0, event, executable_.kernels[event.id].name); return;
      case Kind::kPhase: Add(0, event, std::string(kPhases[event.id])); return;
      case Kind::kWait: Add(0, event, absl::StrCat("wait for ", profile_.devices[event.id].device)); return;
      case Kind::kLaunch: Add(event.device + size_t{1}, event, executable_.kernels[event.id].name); return;
      case Kind::kCopyIn: Add(event.device + size_t{1}, event, "copy to the device"); return;
      case Kind::kCopyOut: Add(event.device + size_t{1}, event, "copy to the host"); return;
    }
  }

  // Returns the index of the new interval; kNone if it is left out.
  size_t Add(size_t line, const vm::TraceEvent& event, std::string name) {
    size_t depth = line == 0 ? open_.size() : 0;
    if (depth > kMaxDepth) return kNone;
    if (result_.intervals.size() >= max_intervals_) {
      result_.is_cut = true;
      return kNone;
    }
    auto [it, is_new] = names_.try_emplace(std::move(name), result_.names.size());
    if (is_new) result_.names.push_back(it->first);
    result_.intervals.push_back({line, depth, event.begin_ns, event.length_ns, it->second});
    return result_.intervals.size() - 1;
  }

  void Leave(double ns) {
    if (open_.empty()) return;
    size_t index = open_.back();
    open_.pop_back();
    if (index == kNone) return;
    TimeLine::Interval& interval = result_.intervals[index];
    interval.length_ns = ns - interval.begin_ns;
  }

  static constexpr size_t kNone = static_cast<size_t>(-1);

  const Executable& executable_;
  const vm::Profile& profile_;
  size_t max_intervals_;
  TimeLine result_;
  std::vector<size_t> open_;  // intervals of the functions that were entered
  std::map<std::string, size_t> names_;
};

}  // namespace

void TimeLine::Write(JsonWriter& json) const {
  json.BeginObject().Key("lines").BeginArray();
  for (const std::string& line : lines) json.String(line);
  json.EndArray().Key("names").BeginArray();
  for (const std::string& name : names) json.String(name);
  json.EndArray().Key("events").BeginArray();
  for (const Interval& interval : intervals) {
    json.BeginArray().Int(static_cast<int64_t>(interval.line)).Int(static_cast<int64_t>(interval.depth));
    json.Number(interval.begin_ns).Number(interval.length_ns).Int(static_cast<int64_t>(interval.name)).EndArray();
  }
  json.EndArray().EndObject();
}

TimeLine MakeTimeLine(const Executable& executable, const vm::Profile& profile,
                      const std::vector<vm::TraceEvent>& events, size_t max_intervals) {
  return Maker(executable, profile, max_intervals).Make(events);
}

}  // namespace rvm::tools
