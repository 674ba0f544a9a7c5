#include "tools/relayvm/memory_text.h"

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "vm/forecast/memory_forecast.h"

namespace rvm::tools {
namespace {

using Extents = std::map<std::string, int64_t>;

// "n=128,x.0=3": a dim by its name in the program, or by parameter and axis.
absl::StatusOr<Extents> ParseExtents(const std::vector<std::string>& texts) {
  Extents extents;
  for (const std::string& text : texts) {
    for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
      std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
      const std::string& number = parts.second;
      int64_t value = 0;
      auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc() || end != number.data() + number.size() || value < 0 || parts.first.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("saw `", item, "` in --dims; expected NAME=EXTENT, such as n=128 or x.0=128"));
      }
      extents[parts.first] = value;
    }
  }
  return extents;
}

std::optional<int64_t> Extent(const Executable& executable, const Entry& entry, const Extents& extents, size_t param,
                              size_t axis) {
  if (param >= entry.param_names.size()) return std::nullopt;
  const std::string& name = entry.param_names[param];
  auto found = extents.find(absl::StrCat(name, ".", axis));
  std::vector<std::string> dims = NamedExtents(executable, entry, param);
  if (found == extents.end() && axis < dims.size()) found = extents.find(dims[axis]);
  return found == extents.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

absl::StatusOr<std::string> MemoryText(const VerifiedExecutable& executable, const std::vector<std::string>& dims,
                                       const vm::DeviceProgram* device) {
  RVM_ASSIGN_OR_RETURN(Extents extents, ParseExtents(dims));
  int64_t constants = 0;
  for (const Literal& constant : executable->constants) constants += constant.bytes();
  std::string text = absl::StrCat("memory\n  constants            ", constants, " bytes, of the file\n");
  for (const Entry& entry : executable->entries) {
    auto extent = [&](size_t param, size_t axis) { return Extent(*executable, entry, extents, param, axis); };
    RVM_ASSIGN_OR_RETURN(vm::MemoryForecast forecast, vm::ForecastMemory(executable, entry, extent, device));
    const char* at_least = forecast.unbounded.empty() ? "" : "at least ";
    absl::StrAppend(&text, "  @", entry.name, "\n    cells and tensors  ", at_least, forecast.peak_bytes,
                    " bytes at a time, of which the result ", forecast.result_bytes, "\n    arena              ",
                    at_least, forecast.arena_bytes, " bytes\n    workspace          ", at_least,
                    forecast.workspace_bytes, " bytes\n");
    if (forecast.waiting_calls > 0) {
      absl::StrAppend(&text, "    calls that wait    ", forecast.is_waiting_bound ? "at most " : "at least ",
                      forecast.waiting_calls * forecast.waiting_call_bytes, " bytes more, of ", forecast.waiting_calls,
                      " calls; or an eighth of the memory limit, if that is less\n");
    }
    if (device != nullptr) {
      absl::StrAppend(&text, "    copies from devices  ", at_least, forecast.copied_bytes, " bytes\n");
    }
    for (const vm::DeviceForecast& on : forecast.devices) {
      absl::StrAppend(&text, "    device ", on.device, "  ", at_least, on.peak_bytes, " bytes at a time; ", at_least,
                      on.reserved_bytes, " with what it keeps for later tensors\n");
    }
    if (!forecast.unbounded.empty()) absl::StrAppend(&text, "    no bound: in ", forecast.unbounded, "\n");
  }
  text += "  arena of one activation\n";
  for (const FunctionDesc& function : executable->functions) {
    if (function.arena_bytes == 0) continue;
    absl::StrAppend(&text, "    ", function.name, "  ", function.arena_bytes, " bytes\n");
  }
  return text;
}

}  // namespace rvm::tools
