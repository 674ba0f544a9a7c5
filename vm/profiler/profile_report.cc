#include "vm/profiler/profile_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_writer.h"
#include "base/units.h"

namespace rvm::vm {
namespace {

// Categories of instructions in the breakdown of time.
enum class Purpose { kKernelCall, kMemory, kOther };

Purpose PurposeOf(Opcode opcode) {
  auto is_one_of = [opcode](auto... opcodes) { return ((opcode == opcodes) || ...); };
  if (IsKernelCall(opcode)) return Purpose::kKernelCall;
  bool is_memory = is_one_of(Opcode::kMakeCell, Opcode::kMakeCellIn, Opcode::kDrop, Opcode::kDropShell);
  return is_memory ? Purpose::kMemory : Purpose::kOther;
}

}  // namespace

std::vector<TimePart> TimeParts(const Profile& profile) {
  double kernels = 0, launches = 0, waits = 0, calls = 0, memory = 0, other = 0;
  for (const Profile::KernelRow& row : profile.kernels) (row.device.empty() ? kernels : launches) += row.ns;
  for (const Profile::DeviceRow& row : profile.devices) waits += row.use.waits.ns;
  for (const Profile::OpcodeRow& row : profile.opcodes) {
    Purpose purpose = PurposeOf(row.opcode);
    (purpose == Purpose::kKernelCall ? calls : purpose == Purpose::kMemory ? memory : other) += row.ns;
  }
  auto phase = [&](ProfilePhase p) { return profile.phases[static_cast<size_t>(p)].ns; };
  return {{"kernels", "kernels", kernels},
          {"waits", "waits for devices", waits},
          {"launches", "kernels queued for devices", launches},
          {"kernel_calls", "calls of kernels: arguments, shapes, memory of results", calls},
          {"memory", "cells made, values given up", memory},
          {"instructions", "other instructions", other},
          {"import", "arguments in", phase(ProfilePhase::kImport)},
          {"export", "results out", phase(ProfilePhase::kExport)},
          {"other", "beginning and end of a run", phase(ProfilePhase::kRun) + phase(ProfilePhase::kCleanup)},
          {"away", "the processor did something else", profile.away_ns}};
}

namespace {

double Total(const std::vector<TimePart>& parts) {
  double total = 0;
  for (const TimePart& part : parts) total += part.ns;
  return total;
}

// Percentage of an unprofiled run in which the host neither runs a kernel nor waits for a device.
double ShareBesideKernels(const ProfileReport& report, const std::vector<TimePart>& parts) {
  double ns = std::isnan(report.plain_ns) ? report.watched_ns : report.plain_ns;
  return std::max(0.0, 100 * (1 - (parts[0].ns + parts[1].ns) / ns));
}

std::string CellName(const Executable& executable, LayoutId id) {
  const CellLayout& layout = executable.layouts[id.value];
  switch (layout.kind) {
    case CellKind::kTuple:
    case CellKind::kRef: return TypeToString(executable, layout.type);
    case CellKind::kClosure: return absl::StrCat("closure of @", executable.functions[layout.function.value].name);
    case CellKind::kAdt: {
      const AdtDesc& adt = executable.adts[executable.types[layout.type.value].adt.value];
      return absl::StrCat(adt.constructors[layout.tag].name, " of ", adt.name);
    }
  }
  return "";
}

struct MemoryName {
  std::string_view name, text;
};
constexpr MemoryName kMemoryNames[kProfileMemories] = {
    {"tensors", "tensors: results of kernels"},
    {"planned", "tensors planned ahead, without an allocation"},
    {"views", "views of tensors"},
    {"chunks", "chunks for planned tensors and workspaces"},
};

template <typename Row>
std::vector<Row> ByTime(std::vector<Row> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ns > b.ns; });
  return rows;
}

class Tables {
 public:
  explicit Tables(const ProfileReport& report)
      : report_(report), profile_(report.profile), parts_(TimeParts(profile_)), total_(Total(parts_)) {}

  std::string Text() {
    Head();
    Devices();
    Kernels();
    Functions();
    Opcodes();
    Memory();
    return std::move(text_);
  }

 private:
  double Share(double ns) const { return total_ > 0 ? 100 * ns / total_ : 0; }

  void Head() {
    if (std::isnan(report_.plain_ns)) {
      absl::StrAppendFormat(&text_, "@%s of %s: %s watched\n", report_.entry, report_.path,
                            DurationText(report_.watched_ns));
    } else {
      absl::StrAppendFormat(&text_, "@%s of %s: %s with nobody watching, %s watched (fastest of %d)\n", report_.entry,
                            report_.path, DurationText(report_.plain_ns), DurationText(report_.watched_ns),
                            report_.runs);
      absl::StrAppendFormat(&text_, "of the former %.1f%% beside the kernels%s\n", ShareBesideKernels(report_, parts_),
                            profile_.devices.empty() ? "" : " and the waits for devices");
    }
    absl::StrAppendFormat(&text_, "\n%12s %7s  where the time goes\n", "time", "share");
    for (const TimePart& part : parts_) {
      bool is_of_device = part.name == "waits" || part.name == "launches";
      if (is_of_device && profile_.devices.empty()) continue;
      absl::StrAppendFormat(&text_, "%12s %6.1f%%  %s\n", DurationText(part.ns), Share(part.ns),
                            std::string(part.text));
    }
  }

  static std::string Mean(double ns, int64_t count) {
    return DurationText(count == 0 ? 0 : ns / static_cast<double>(count));
  }

  void DeviceLine(const Profile::Sum& sum, int64_t bytes, std::string_view what) {
    absl::StrAppendFormat(&text_, "%12s %10d %10s %12s  %s\n", DurationText(sum.ns), sum.count, Mean(sum.ns, sum.count),
                          BytesText(bytes), std::string(what));
  }

  // Reports the work of devices while the host went on, by their own clocks.
  void Devices() {
    for (const Profile::DeviceRow& row : profile_.devices) {
      const Profile::DeviceUse& use = row.use;
      absl::StrAppendFormat(&text_, "\n%12s %10s %10s %12s  on device %s, while the host went on or waited\n", "time",
                            "count", "mean", "bytes", row.device);
      DeviceLine(use.launches, 0, "kernels");
      DeviceLine(use.copies_in, use.bytes_in, "tensors copied to it");
      DeviceLine(use.copies_out, use.bytes_out, "tensors copied from it");
      DeviceLine(use.waits, 0, "the host waited");
    }
    if (profile_.devices.empty()) return;
    std::vector<Profile::KernelRow> rows = profile_.kernels;
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.use.work_ns() + a.use.waits.ns > b.use.work_ns() + b.use.waits.ns;
    });
    absl::StrAppendFormat(&text_, "\n%12s %10s %10s %12s %12s  kernel and what it made devices do\n", "kernels",
                          "launches", "mean", "copies", "waits");
    for (const Profile::KernelRow& row : rows) {
      if (row.device.empty() && row.use.work_ns() + row.use.waits.ns == 0) continue;
      absl::StrAppendFormat(&text_, "%12s %10d %10s %12s %12s  %s on %s\n", DurationText(row.use.launches.ns),
                            row.use.launches.count, Mean(row.use.launches.ns, row.use.launches.count),
                            DurationText(row.use.copies_in.ns + row.use.copies_out.ns), DurationText(row.use.waits.ns),
                            report_.executable.kernels[row.kernel.value].name,
                            row.device.empty() ? "the host" : row.device);
      if (row.device.empty()) continue;
      for (const Profile::ShapeRow& shape : row.shapes) {
        absl::StrAppendFormat(&text_, "%12s %10d calls %41s%s\n", DurationText(shape.device_ns), shape.calls, "",
                              shape.shapes);
      }
    }
  }

  void Kernels() {
    if (profile_.kernels.empty()) return;
    absl::StrAppendFormat(&text_, "\n%12s %7s %10s %10s %10s %10s %12s  kernel\n", "time", "share", "calls", "mean",
                          "least", "most", "bytes");
    for (const Profile::KernelRow& row : ByTime(profile_.kernels)) {
      absl::StrAppendFormat(&text_, "%12s %6.1f%% %10d %10s %10s %10s %12s  %s%s\n", DurationText(row.ns),
                            Share(row.ns), row.calls, Mean(row.ns, row.calls), DurationText(row.least_ns),
                            DurationText(row.most_ns), BytesText(row.bytes),
                            report_.executable.kernels[row.kernel.value].name,
                            row.device.empty() ? "" : absl::StrCat(": queued for ", row.device));
      for (const Profile::ShapeRow& shape : row.shapes) {
        absl::StrAppendFormat(&text_, "%12s %6.1f%% %10d %10s %36s%s\n", DurationText(shape.ns), Share(shape.ns),
                              shape.calls, Mean(shape.ns, shape.calls), "", shape.shapes);
      }
      if (row.other_shapes > 0) absl::StrAppendFormat(&text_, "%31d %47s other shapes\n", row.other_shapes, "");
    }
  }

  void Functions() {
    bool has_devices = !profile_.devices.empty();
    absl::StrAppendFormat(&text_, "\n%12s %7s %12s %s%12s %10s %14s  function\n", "itself", "share", "kernels",
                          has_devices ? "     devices        waits " : "", "with all", "calls", "instructions");
    std::vector<Profile::FunctionRow> rows = profile_.functions;
    auto time = [](const Profile::FunctionRow& row) { return row.self_ns + row.kernel_ns + row.device.waits.ns; };
    std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) { return time(a) > time(b); });
    for (const Profile::FunctionRow& row : rows) {
      std::string devices;
      if (has_devices) {
        devices = absl::StrFormat("%12s %12s ", DurationText(row.device.work_ns()), DurationText(row.device.waits.ns));
      }
      absl::StrAppendFormat(&text_, "%12s %6.1f%% %12s %s%12s %10d %14d  @%s\n", DurationText(row.self_ns),
                            Share(row.self_ns), DurationText(row.kernel_ns), devices, DurationText(row.inclusive_ns),
                            row.calls, row.instructions, report_.executable.functions[row.function.value].name);
    }
  }

  void Opcodes() {
    absl::StrAppendFormat(&text_, "\n%12s %7s %14s %10s  instruction\n", "time", "share", "executed", "mean");
    for (const Profile::OpcodeRow& row : ByTime(profile_.opcodes)) {
      absl::StrAppendFormat(&text_, "%12s %6.1f%% %14d %10s  %s\n", DurationText(row.ns), Share(row.ns), row.count,
                            Mean(row.ns, row.count), std::string(SpecOf(row.opcode).mnemonic));
    }
  }

  void MemoryRow(const Profile::Amount& amount, std::string_view what) {
    if (amount.count == 0) return;
    absl::StrAppendFormat(&text_, "%12d %14d  %s\n", amount.count, amount.bytes, std::string(what));
  }

  void Memory() {
    absl::StrAppendFormat(&text_, "\n%12s %14s  allocated; %d bytes were the most at once\n", "count", "bytes",
                          report_.peak_bytes);
    MemoryRow(profile_.imported, "arguments: cells, and headers of tensors whose elements are not copied");
    for (size_t i = 0; i < kProfileMemories; ++i) MemoryRow(profile_.memory[i], kMemoryNames[i].text);
    for (const Profile::CellRow& row : profile_.cells) {
      std::string reused = row.reused == 0 ? "" : absl::StrCat(", and ", row.reused, " in the memory of others");
      std::string name = CellName(report_.executable, row.layout);
      absl::StrAppendFormat(&text_, "%12d %14d  %s%s\n", row.made.count, row.made.bytes, name, reused);
    }
    MemoryRow(profile_.exported_copied, "results copied out");
    MemoryRow(profile_.exported_moved, "results that left with their memory, not copied");
  }

  const ProfileReport& report_;
  const Profile& profile_;
  std::vector<TimePart> parts_;
  double total_;
  std::string text_;
};

void AmountFields(JsonWriter& json, const Profile::Amount& amount) {
  json.Field("count", amount.count).Field("bytes", amount.bytes);
}

void UseFields(JsonWriter& json, const Profile::DeviceUse& use) {
  auto sum = [&](std::string_view name, const Profile::Sum& of) {
    json.Key(name).BeginObject().Field("count", of.count).Field("ns", of.ns);
  };
  sum("launches", use.launches);
  json.EndObject();
  sum("copies_in", use.copies_in);
  json.Field("bytes", use.bytes_in).EndObject();
  sum("copies_out", use.copies_out);
  json.Field("bytes", use.bytes_out).EndObject();
  sum("waits", use.waits);
  json.EndObject();
}

void KernelsJson(const ProfileReport& report, JsonWriter& json) {
  json.Key("kernels").BeginArray();
  for (const Profile::KernelRow& row : report.profile.kernels) {
    const KernelDesc& desc = report.executable.kernels[row.kernel.value];
    json.BeginObject().Field("name", desc.name).Field("symbol", desc.symbol).Field("calls", row.calls);
    json.Field("ns", row.ns).Field("least_ns", row.least_ns).Field("most_ns", row.most_ns).Field("bytes", row.bytes);
    if (!report.profile.devices.empty()) {
      json.Field("device", row.device).Key("devices").BeginObject();
      UseFields(json, row.use);
      json.EndObject();
    }
    json.Key("shapes").BeginArray();
    for (const Profile::ShapeRow& shape : row.shapes) {
      json.BeginObject().Field("shapes", shape.shapes).Field("calls", shape.calls).Field("ns", shape.ns);
      json.Field("device_ns", shape.device_ns).EndObject();
    }
    json.EndArray().Field("calls_with_other_shapes", row.other_shapes).EndObject();
  }
  json.EndArray();
}

void MemoryJson(const ProfileReport& report, JsonWriter& json) {
  const Profile& profile = report.profile;
  json.Key("memory").BeginObject().Field("peak_bytes", report.peak_bytes);
  auto amount = [&](std::string_view name, const Profile::Amount& a) {
    json.Key(name).BeginObject();
    AmountFields(json, a);
    json.EndObject();
  };
  amount("arguments", profile.imported);
  for (size_t i = 0; i < kProfileMemories; ++i) amount(kMemoryNames[i].name, profile.memory[i]);
  amount("results_copied", profile.exported_copied);
  amount("results_moved", profile.exported_moved);
  json.Key("cells").BeginArray();
  for (const Profile::CellRow& row : profile.cells) {
    json.BeginObject().Field("cell", CellName(report.executable, row.layout));
    AmountFields(json, row.made);
    json.Field("reused", row.reused).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string ProfileTables(const ProfileReport& report) { return Tables(report).Text(); }

std::string ProfileJson(const ProfileReport& report) {
  const Profile& profile = report.profile;
  JsonWriter json;
  std::vector<TimePart> parts = TimeParts(profile);
  json.BeginObject().Field("file", report.path).Field("entry", report.entry).Field("runs", report.runs);
  json.Field("plain_ns", report.plain_ns).Field("watched_ns", report.watched_ns);
  json.Field("percent_beside_kernels", ShareBesideKernels(report, parts));
  json.Key("split_ns").BeginObject();
  for (const TimePart& part : parts) json.Field(part.name, part.ns);
  json.EndObject();
  json.Key("devices").BeginArray();
  for (const Profile::DeviceRow& row : profile.devices) {
    json.BeginObject().Field("device", row.device);
    UseFields(json, row.use);
    json.EndObject();
  }
  json.EndArray();
  KernelsJson(report, json);
  json.Key("functions").BeginArray();
  for (const Profile::FunctionRow& row : profile.functions) {
    json.BeginObject().Field("name", report.executable.functions[row.function.value].name).Field("calls", row.calls);
    json.Field("instructions", row.instructions).Field("self_ns", row.self_ns).Field("kernel_ns", row.kernel_ns);
    json.Field("inclusive_ns", row.inclusive_ns);
    if (!profile.devices.empty()) {
      json.Key("devices").BeginObject();
      UseFields(json, row.device);
      json.EndObject();
    }
    json.EndObject();
  }
  json.EndArray().Key("opcodes").BeginArray();
  for (const Profile::OpcodeRow& row : profile.opcodes) {
    json.BeginObject().Field("name", SpecOf(row.opcode).mnemonic).Field("count", row.count).Field("ns", row.ns);
    json.EndObject();
  }
  json.EndArray();
  MemoryJson(report, json);
  json.EndObject();
  return std::move(json).Take();
}

namespace {

// The host's line of the time line, and that of a device.
constexpr int64_t kHostLine = 1;
int64_t DeviceLine(uint32_t device) { return 2 + int64_t{device}; }

void LineName(JsonWriter& json, int64_t line, std::string_view name) {
  json.BeginObject().Field("ph", "M").Field("name", "thread_name").Field("pid", int64_t{1}).Field("tid", line);
  json.Key("args").BeginObject().Field("name", name).EndObject().EndObject();
}

void ShapesOf(JsonWriter& json, const Profile& profile, const TraceEvent& event) {
  for (const Profile::KernelRow& row : profile.kernels) {
    if (row.kernel.value != event.id || event.shape >= row.shapes.size()) continue;
    json.Key("args").BeginObject().Field("shapes", row.shapes[event.shape].shapes).EndObject();
  }
}

void EventFields(JsonWriter& json, const Executable& executable, const Profile& profile, const TraceEvent& event) {
  constexpr std::string_view kPhases[kProfilePhases] = {"arguments in", "run", "results out", "clean up"};
  auto begin = [&](std::string_view ph, std::string_view category, std::string_view name) {
    json.Field("ph", ph).Field("cat", category).Field("name", name);
  };
  auto copy = [&](std::string_view name) {
    begin("X", "copy", name);
    json.Key("args").BeginObject().Field("bytes", event.bytes).EndObject();
  };
  switch (event.kind) {
    case TraceEvent::Kind::kEnter: return begin("B", "function", "@" + executable.functions[event.id].name);
    case TraceEvent::Kind::kLeave: json.Field("ph", "E"); return;
    case TraceEvent::Kind::kKernel:
    case TraceEvent::Kind::kLaunch:
      begin("X", "kernel", executable.kernels[event.id].name);
      return ShapesOf(json, profile, event);
    case TraceEvent::Kind::kPhase: return begin("X", "machine", kPhases[event.id]);
    case TraceEvent::Kind::kWait: return begin("X", "wait", "wait for " + profile.devices[event.id].device);
    case TraceEvent::Kind::kCopyIn: return copy("copy to the device");
    case TraceEvent::Kind::kCopyOut: return copy("copy to the host");
  }
}

int64_t LineOf(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::kEnter:
    case TraceEvent::Kind::kLeave:
    case TraceEvent::Kind::kKernel:
    case TraceEvent::Kind::kPhase:
    case TraceEvent::Kind::kWait: return kHostLine;
    case TraceEvent::Kind::kLaunch:
    case TraceEvent::Kind::kCopyIn:
    case TraceEvent::Kind::kCopyOut: break;
  }
  return DeviceLine(event.device);
}

}  // namespace

std::string ChromeTrace(const Executable& executable, const Profile& profile, const std::vector<TraceEvent>& events) {
  JsonWriter json;
  json.BeginObject().Field("displayTimeUnit", "ns").Key("traceEvents").BeginArray();
  if (!profile.devices.empty()) LineName(json, kHostLine, "host");
  for (uint32_t i = 0; i < profile.devices.size(); ++i) LineName(json, DeviceLine(i), profile.devices[i].device);
  for (const TraceEvent& event : events) {
    json.BeginObject();
    EventFields(json, executable, profile, event);
    json.Field("ts", event.begin_ns * 1e-3);
    bool has_length = event.kind != TraceEvent::Kind::kEnter && event.kind != TraceEvent::Kind::kLeave;
    if (has_length) json.Field("dur", event.length_ns * 1e-3);
    json.Field("pid", int64_t{1}).Field("tid", LineOf(event)).EndObject();
  }
  json.EndArray().EndObject();
  return std::move(json).Take();
}

}  // namespace rvm::vm
