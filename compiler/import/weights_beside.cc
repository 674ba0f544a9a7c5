#include "compiler/import/weights_beside.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace rvm::importing {

absl::StatusOr<FileBytes> WeightsBeside(const ImportOptions& options, std::string_view ending,
                                        std::string_view weights_ending) {
  if (options.files == nullptr) return FileBytes{};
  std::string_view name = options.name;
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (name.ends_with(ending)) name.remove_suffix(ending.size());
  absl::StatusOr<FileBytes> weights = options.files(std::string(name).append(weights_ending));
  return absl::IsNotFound(weights.status()) ? FileBytes{} : weights;
}

}  // namespace rvm::importing
