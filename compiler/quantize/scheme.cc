#include "compiler/quantize/scheme.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/edit_distance.h"

namespace rvm::quantize {
namespace {

constexpr SchemeRow kRows[] = {
    {Scheme::kFloat, "float", "as the program has it", 32, kFloat32, false},
    {Scheme::kFloat16, "float16", "weights in float16", 16, kFloat32, false},
    {Scheme::kBfloat16, "bfloat16", "weights in bfloat16", 16, kFloat32, false},
    {Scheme::kW16A16, "w16a16", "products of bfloat16, summed up in float32", 16, kBFloat16, false},
    {Scheme::kW8, "w8", "weights in int8, a scale for each output", 8, kFloat32, false},
    {Scheme::kW4, "w4", "weights in 4 bits, a scale for each group", 4, kFloat32, false},
    {Scheme::kW4A8Dynamic, "w4a8-dynamic", "weights in 4 bits, groups of activations in bytes", 4, kInt8, false},
    {Scheme::kW8A8Dynamic, "w8a8-dynamic", "products of bytes, scales of activations from each call", 8, kInt8, false},
    {Scheme::kW8A8, "w8a8", "products of bytes, scales of activations from calibration", 8, kInt8, true},
};

}  // namespace

std::span<const SchemeRow> Schemes() { return kRows; }

const SchemeRow& RowOf(Scheme scheme) { return kRows[static_cast<size_t>(scheme)]; }

absl::StatusOr<Scheme> ParseScheme(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SchemeRow& row : Schemes().subspan(1)) {
    if (row.name == name) return row.scheme;
    names.push_back(row.name);
  }
  std::string near = DidYouMean(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no scheme `", Abseil(name), "`",
      near.empty()
          ? absl::StrCat("; expected ",
                         absl::StrJoin(names, ", ", [](std::string* out, std::string_view n) { out->append(n); }))
          : near));
}

}  // namespace rvm::quantize
