#include "base/suggestion.h"

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm {

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates, std::string_view mark) {
  std::string_view near = NearestName(name, candidates);
  return near.empty() ? "" : absl::StrCat("; did you mean `", Abseil(mark), Abseil(near), "`?");
}

}  // namespace rvm
