// "Did you mean": the candidate nearest to a misspelt name.
#ifndef RVM_BASE_EDIT_DISTANCE_H_
#define RVM_BASE_EDIT_DISTANCE_H_

#include <span>
#include <string_view>

namespace rvm {

// The least number of insertions, deletions, substitutions and swaps of adjacent characters that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

// Empty if no candidate is within a third of the name's length (at least one edit). Of several at
// the same distance, the alphabetically first.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace rvm

#endif  // RVM_BASE_EDIT_DISTANCE_H_
