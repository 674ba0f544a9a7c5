// Settings of a model, by name, whatever file they are in. Refuses settings that are missing or that do not fit.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_SETTINGS_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "compiler/import/refusals.h"

namespace rvm::checkpoint {

// A number or a text; monostate: there is none.
using Setting = std::variant<std::monostate, bool, int64_t, double, std::string>;

class Settings {
 public:
  using Lookup = std::function<Setting(std::string_view name)>;

  // `file` names the file in messages.
  Settings(std::string file, Lookup lookup, importing::Refusals& refusals)
      : file_(std::move(file)), lookup_(std::move(lookup)), refusals_(refusals) {}

  bool Has(std::string_view name) const { return !std::holds_alternative<std::monostate>(lookup_(name)); }
  static constexpr int64_t kMaxCount = int64_t{1} << 31, kMaxLayers = 1000, kMaxHeadSize = int64_t{1} << 16;
  // A number from 1 to `most`. Without `otherwise` it is refused where it is missing. Returns 0 for one that is
  // refused.
  int64_t Count(std::string_view name, std::optional<int64_t> otherwise = std::nullopt, int64_t most = kMaxCount);
  // A finite number.
  double Number(std::string_view name, double otherwise);
  bool Flag(std::string_view name, bool otherwise);
  std::string Text(std::string_view name, std::string_view otherwise);

  // Refuses a setting: saw and expected.
  void Unsupported(std::string_view name, std::string_view saw, std::string_view expected);
  void Malformed(std::string_view name, std::string_view why);

 private:
  std::string file_;
  Lookup lookup_;
  importing::Refusals& refusals_;
};

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_SETTINGS_H_
