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

#include "compiler/import/checkpoint/setting.h"
#include "compiler/import/refusals.h"

namespace rvm::checkpoint {

class Settings {
 public:
  using Lookup = std::function<Setting(std::string_view name)>;

  // `file` names the file in messages.
  Settings(std::string file, Lookup lookup, importing::Refusals& refusals)
      : file_(std::move(file)), lookup_(std::move(lookup)), refusals_(refusals) {}

  bool Has(std::string_view name) const { return !std::holds_alternative<std::monostate>(lookup_(name)); }
  static constexpr int64_t kMaxCount = int64_t{1} << 31, kMaxLayers = 1000, kMaxHeadSize = int64_t{1} << 16,
                           kMaxToken = (int64_t{1} << 31) - 1;
  // Returns a number from `least` to `most`. Without `otherwise`, refuses a missing one. Returns 0 for a refused one.
  int64_t Count(std::string_view name, std::optional<int64_t> otherwise = std::nullopt, int64_t most = kMaxCount,
                int64_t least = 1);
  // Returns the size of `heads` equal parts of `width` elements, 0 if one of both was refused. Refuses more heads than
  // elements. `name` is the setting that has the number of heads.
  int64_t EqualHeads(std::string_view name, int64_t width, int64_t heads);
  // Returns a number that is finite in float32.
  double Number(std::string_view name, double otherwise);
  // Returns such a number above 0.
  double Positive(std::string_view name, double otherwise);
  bool Flag(std::string_view name, bool otherwise);
  std::string Text(std::string_view name, std::string_view otherwise);

  // Refuses a setting: saw and expected.
  void Unsupported(std::string_view name, std::string_view saw, std::string_view expected);
  void Malformed(std::string_view name, std::string_view why);

 private:
  // Returns a number that is finite in float32; nullopt if it is missing or refused.
  std::optional<double> Find(std::string_view name);

  std::string file_;
  Lookup lookup_;
  importing::Refusals& refusals_;
};

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_SETTINGS_H_
