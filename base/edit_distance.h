// "Did you mean": the known name that a misspelt one may stand for, and the end of the message that says so.
#ifndef RVM_BASE_EDIT_DISTANCE_H_
#define RVM_BASE_EDIT_DISTANCE_H_

#include <span>
#include <string>
#include <string_view>

namespace rvm {

// Returns the least number of insertions, deletions, substitutions and swaps of adjacent characters that turn `a` into
// `b`.
int EditDistance(std::string_view a, std::string_view b);

// Returns `name` without the marks `%`, `@` and `-` before it, in lower case, without `_` and `-`: names with equal
// folded names differ only in spelling conventions.
std::string FoldedName(std::string_view name);

// Returns the distance between the folded names; INT_MAX if it exceeds a third of the length of `name` (at least one
// edit, none for a name of one letter, which is equally near to every other one).
int NameDistance(std::string_view name, std::string_view candidate);

// Returns the candidate at the least NameDistance; empty if all are too far. The number of edits of the exact spelling,
// then the alphabet, decide between candidates of equal distance.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

// Returns "; did you mean `NEAR`?", with `mark` before the name; empty if `near` is.
std::string AsSuggestion(std::string_view near, std::string_view mark = "");

// Returns AsSuggestion of the nearest candidate.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates, std::string_view mark = "");

}  // namespace rvm

#endif  // RVM_BASE_EDIT_DISTANCE_H_
