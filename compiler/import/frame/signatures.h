// Signatures: functions that a model offers under names, of which a program may have several.
#ifndef RVM_COMPILER_IMPORT_FRAME_SIGNATURES_H_
#define RVM_COMPILER_IMPORT_FRAME_SIGNATURES_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm::importing {

// Returns the numbers of the signatures that `chosen` names, in that order. If it names none, that is the only one, or
// `serving_default`. model: what has them, for messages: "the SavedModel". names: at least one.
absl::StatusOr<std::vector<size_t>> ChooseSignatures(std::span<const std::string_view> names,
                                                     std::span<const std::string> chosen, std::string_view model);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_FRAME_SIGNATURES_H_
