// Whether the clauses of a match cover every value, and which can never be taken.
#ifndef RVM_COMPILER_ANALYSIS_MATCH_EXHAUSTIVE_H_
#define RVM_COMPILER_ANALYSIS_MATCH_EXHAUSTIVE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/expr.h"

namespace rvm::analysis {

struct MatchCoverage {
  // Patterns, as Relay text, that no clause matches: the first few. Empty: exhaustive.
  std::vector<std::string> missing;
  // Indices of the clauses that the clauses before them cover.
  std::vector<size_t> unreachable;
  // The search was given up (its worst case is exponential): what it found is right, but more
  // may be missing and `unreachable` is empty.
  bool gave_up = false;
};

// REQUIRES: the patterns are well-typed for values of `scrutinee`, which has no holes.
MatchCoverage CheckCoverage(const ir::Type* scrutinee, const std::vector<ir::Clause>& clauses);

}  // namespace rvm::analysis

#endif  // RVM_COMPILER_ANALYSIS_MATCH_EXHAUSTIVE_H_
