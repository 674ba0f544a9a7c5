#include "vm/link/equal_extents.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rvm::vm {
namespace {

bool IsName(const std::string& text) {
  auto may_follow = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; };
  return !text.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), may_follow);
}

int64_t Extent(std::span<const Value> args, uint32_t param, uint32_t axis) {
  return args[param].tensor().shape()[axis];
}

}  // namespace

std::vector<EqualExtents> FindEqualExtents(const Executable& executable, const Entry& entry) {
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::vector<EqualExtents> pairs;
  absl::flat_hash_map<std::string, std::pair<uint32_t, uint32_t>> first;
  for (uint32_t param = 0; param < function.num_params && param < entry.param_names.size(); ++param) {
    const TypeDesc& type = executable.types[function.registers[param].type.value];
    if (type.kind != TypeDescKind::kTensor) continue;
    std::vector<std::string> extents = NamedExtents(executable, entry, param);
    if (extents.size() != type.dims.size()) continue;
    for (uint32_t axis = 0; axis < extents.size(); ++axis) {
      if (!IsName(extents[axis])) continue;
      auto [seen, is_new] = first.try_emplace(extents[axis], param, axis);
      if (!is_new) pairs.push_back({param, axis, seen->second.first, seen->second.second, extents[axis]});
    }
  }
  return pairs;
}

absl::Status CheckEqualExtents(const Entry& entry, std::span<const EqualExtents> pairs, std::span<const Value> args) {
  for (const EqualExtents& pair : pairs) {
    int64_t saw = Extent(args, pair.param, pair.axis);
    int64_t expected = Extent(args, pair.first_param, pair.first_axis);
    if (saw == expected) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", pair.param + 1, " of `", entry.name, "`: axis ", pair.axis, " of `%",
                     entry.param_names[pair.param], "`, declared `", pair.name, "`: the extent ", saw, " differs from ",
                     expected, ", that of axis ", pair.first_axis, " of `%", entry.param_names[pair.first_param], "`"));
  }
  return absl::OkStatus();
}

}  // namespace rvm::vm
