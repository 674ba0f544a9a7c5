#include "base/edit_distance.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace rvm {

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

std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  int best = std::max<int>(1, static_cast<int>(name.size()) / 3) + 1;
  std::string_view nearest;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > name.size() + static_cast<size_t>(best) ||
        name.size() > candidate.size() + static_cast<size_t>(best))
      continue;
    int distance = EditDistance(name, candidate);
    bool tie = distance == best && !nearest.empty() && candidate < nearest;
    if (distance < best || tie) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace rvm
