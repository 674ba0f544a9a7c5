// "Did you mean": the names that a misspelt name may stand for.
#ifndef RVM_BASE_SUGGESTION_H_
#define RVM_BASE_SUGGESTION_H_

#include <span>
#include <string>
#include <string_view>

#include "base/edit_distance.h"

namespace rvm {

// `name` without the marks `%`, `@` and `-` before it, in lower case, without `_` and `-`: names with equal folded
// names differ only in spelling conventions.
std::string FoldedName(std::string_view name);

// The distance by which NearestName (edit_distance.h) orders candidates; INT_MAX if they are too far from each other.
int NameDistance(std::string_view name, std::string_view candidate);

// "; did you mean `CANDIDATE`?" with the nearest candidate, after `mark`; empty if there is none.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates, std::string_view mark = "");

}  // namespace rvm

#endif  // RVM_BASE_SUGGESTION_H_
