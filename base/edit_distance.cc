#include "base/edit_distance.h"

#include <algorithm>
#include <climits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm {

namespace {

// NameDistance of names that are folded.
int DistanceOfFolded(const std::string& name, const std::string& candidate) {
  size_t longest = name.size() < 2 ? 0 : std::max<size_t>(1, name.size() / 3);
  bool is_too_far = candidate.size() > name.size() + longest || name.size() > candidate.size() + longest;
  if (is_too_far) return INT_MAX;
  int distance = EditDistance(name, candidate);
  return static_cast<size_t>(distance) <= longest ? distance : INT_MAX;
}

}  // namespace

// Optimal string alignment, row by row.
int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string FoldedName(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of("%@-"), name.size()));
  std::string folded;
  for (char c : name) {
    if (c != '_' && c != '-') folded += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return folded;
}

int NameDistance(std::string_view name, std::string_view candidate) {
  return DistanceOfFolded(FoldedName(name), FoldedName(candidate));
}

std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  std::string folded = FoldedName(name);
  std::tuple<int, int, std::string_view> best = {INT_MAX, 0, ""};
  for (std::string_view candidate : candidates) {
    int distance = DistanceOfFolded(folded, FoldedName(candidate));
    if (distance == INT_MAX || distance > std::get<0>(best)) continue;
    best = std::min(best, {distance, EditDistance(name, candidate), candidate});
  }
  return std::get<2>(best);
}

std::string AsSuggestion(std::string_view near, std::string_view mark) {
  return near.empty() ? "" : absl::StrCat("; did you mean `", Abseil(mark), Abseil(near), "`?");
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates, std::string_view mark) {
  return AsSuggestion(NearestName(name, candidates), mark);
}

}  // namespace rvm
