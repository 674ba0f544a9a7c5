#include "compiler/import/stablehlo/exported.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/abseil.h"
#include "compiler/import/flatbuffer.h"
#include "compiler/import/stablehlo/module.h"

namespace rvm::stablehlo {
namespace {

using importing::flatbuffer::Buffer;
using importing::flatbuffer::Table;

// Numbers of fields in JAX's schema, by table.
struct ExportedField {
  static constexpr int kArguments = 3, kPlatforms = 9, kArtifact = 13, kKept = 15, kDifferentArguments = 19,
                       kArgumentNumbers = 22;
};
struct ArgumentField {
  static constexpr int kShape = 1;
};

constexpr std::string_view kExpected =
    "no StableHLO: expected a portable artifact, which begins with `ML\\xefR` (`Exported.mlir_module_serialized` of "
    "JAX), or what `Exported.serialize()` of `jax.export` returns";

bool IsText(Bytes bytes) {
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  return begin.starts_with("module") || begin.starts_with("#loc") || begin.starts_with("func.func") ||
         begin.starts_with("//");
}

// Returns the arguments of the function that was exported. New files have each of them once, and numbers.
std::vector<Table> ArgumentsOf(const Table& root) {
  const std::vector<Table> different = root.Children(ExportedField::kDifferentArguments);
  const std::vector<uint32_t> numbers = root.Numbers<uint32_t>(ExportedField::kArgumentNumbers);
  if (numbers.empty()) return root.Children(ExportedField::kArguments);
  std::vector<Table> arguments;
  for (uint32_t number : numbers) arguments.push_back(number < different.size() ? different[number] : Table());
  return arguments;
}

}  // namespace

absl::StatusOr<Exported> ReadExported(Bytes bytes) {
  if (IsBytecode(bytes)) return Exported{.artifact = bytes};
  if (IsText(bytes)) {
    return absl::UnimplementedError(
        "this is the text of MLIR, which differs between versions; expected a portable artifact: "
        "`jax.export.export(jax.jit(f))(*arguments).mlir_module_serialized`, or `stablehlo-translate --serialize`");
  }
  Buffer buffer(bytes);
  const Table root(&buffer, buffer.Follow(0));
  Exported exported{.artifact = root.Elements(ExportedField::kArtifact, 1)};
  if (!IsBytecode(exported.artifact)) return absl::InvalidArgumentError(Abseil(kExpected));
  exported.platforms = root.Texts(ExportedField::kPlatforms);
  const std::vector<Table> arguments = ArgumentsOf(root);
  // JAX drops arguments that the function does not use.
  for (uint16_t kept : root.Numbers<uint16_t>(ExportedField::kKept)) {
    const Table argument = kept < arguments.size() ? arguments[kept] : Table();
    exported.shapes.push_back(argument ? argument.Texts(ArgumentField::kShape) : std::vector<std::string_view>());
  }
  if (buffer.is_malformed) return absl::InvalidArgumentError("an offset of the file leads outside of it");
  return exported;
}

}  // namespace rvm::stablehlo
