// Standard strings for Abseil: `absl::string_view` is a type of its own in some builds of Abseil (Debian 12) and
// std::string_view in others (Debian 13), and absl::StrCat takes only the former.
#ifndef RVM_BASE_ABSEIL_H_
#define RVM_BASE_ABSEIL_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace rvm {

inline absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace rvm

#endif  // RVM_BASE_ABSEIL_H_
