#include "compiler/passes/placement/device_rules.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/abseil.h"
#include "compiler/ops/op_def.h"
#include "devices/plugin/accelerator_library.h"

namespace rvm::passes {
namespace {

constexpr std::string_view kHost = "host";

bool Matches(std::string_view pattern, std::string_view name) {
  size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  std::string_view rest = pattern.substr(star + 1);
  for (size_t i = star; i <= name.size(); ++i) {
    if (Matches(rest, name.substr(i))) return true;
  }
  return false;
}

std::string KindNames() {
  std::string names = "`host`";
  for (const target::DeviceKind* kind : target::DeviceKinds()) {
    absl::StrAppend(&names, ", `", Abseil(kind->name), "`");
  }
  return names;
}

}  // namespace

absl::StatusOr<DeviceRules> DeviceRules::Parse(std::span<const std::string> texts) {
  DeviceRules result;
  for (const std::string& text : texts) {
    for (const std::string& rule : std::vector<std::string>(absl::StrSplit(text, ','))) {
      std::pair<std::string, std::string> parts = absl::StrSplit(rule, absl::MaxSplits(':', 1));
      auto& [name, pattern] = parts;
      const target::DeviceKind* kind = target::FindDeviceKind(name);
      if (kind == nullptr && name != kHost) {
        std::string message = absl::StrCat("saw the device `", name, "`; kernels can be compiled for ", KindNames());
        for (const std::string& error : device::OpenedAcceleratorLibraries().errors)
          absl::StrAppend(&message, "\n  ", error);
        return absl::InvalidArgumentError(message);
      }
      int64_t number = 0;
      if (pattern.empty() || absl::SimpleAtoi(pattern, &number)) pattern = "*";
      std::span<const ops::OpDef* const> all = ops::AllOps();
      if (std::none_of(all.begin(), all.end(), [&](const ops::OpDef* op) { return Matches(pattern, op->name); })) {
        return absl::InvalidArgumentError(absl::StrCat("`--device ", rule, "`: no operator is named `", pattern,
                                                       "`; expected a name of docs/operators.md, or `nn.*`"));
      }
      bool is_new = std::find(result.kinds_.begin(), result.kinds_.end(), kind) == result.kinds_.end();
      if (kind != nullptr && is_new) result.kinds_.push_back(kind);
      result.rules_.push_back({kind, pattern});
    }
  }
  return result;
}

std::vector<DeviceRules::Candidate> DeviceRules::CandidatesOf(const ir::Call& call,
                                                              const std::string* virtual_device) const {
  std::vector<Candidate> candidates;
  if (virtual_device == nullptr) {
    for (const Rule& rule : rules_) {
      if (!Matches(rule.pattern, ir::OpCallee(&call)->name)) continue;
      if (rule.kind == nullptr) break;
      candidates.push_back({rule.kind, 0});
    }
    return candidates;
  }
  const ops::VirtualDevice& device = *ops::FindVirtualDevice(*virtual_device);
  if (device.is_host) return {};
  size_t number = ops::NumberOfVirtualDevice(*virtual_device);
  for (const target::DeviceKind* kind : kinds_) {
    if (kind->name == device.name) return {{kind, number}};
    candidates.push_back({kind, number});
  }
  return candidates;
}

}  // namespace rvm::passes
