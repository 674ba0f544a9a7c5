#include "compiler/analysis/match_exhaustive.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/stack_guard.h"
#include "base/value.h"

namespace rvm::analysis {
namespace {

using ir::Constructor;
using ir::Pattern;
using ir::PatternKind;

constexpr size_t kMaxMissing = 4;
constexpr size_t kMaxNodes = 100'000;

// A row of the matrix: a clause and the patterns for the values still to be looked at, the next
// one last. Null stands for a wildcard.
struct Row {
  std::vector<const Pattern*> patterns;
  size_t clause;
};
using Matrix = std::vector<Row>;
// Patterns for the same values, in the same order, that no row matches.
using Witness = std::vector<std::string>;

bool IsRefutable(const Pattern* pattern) {
  return pattern != nullptr && pattern->kind != PatternKind::kWildcard && pattern->kind != PatternKind::kVar;
}

std::string ConstructorText(const Constructor& constructor, const std::vector<std::string>& fields) {
  return fields.empty() ? constructor.name : absl::StrCat(constructor.name, "(", absl::StrJoin(fields, ", "), ")");
}

// Walks the decision tree of the clauses. Each leaf either takes the first clause left, which is
// thereby reachable, or has none left and shows a missing case.
class CoverageSearch {
 public:
  explicit CoverageSearch(size_t clauses) : reached_(clauses) {}

  std::vector<Witness> Walk(const Matrix& rows, size_t columns) {
    return WithStack([&] { return WalkOnThisStack(rows, columns); });
  }
  bool reached(size_t clause) const { return reached_[clause]; }
  bool gave_up() const { return nodes_ > kMaxNodes; }

 private:
  std::vector<Witness> WalkOnThisStack(const Matrix& rows, size_t columns) {
    if (++nodes_ > kMaxNodes) return {};
    if (rows.empty()) return {Witness(columns, "_")};
    // The rightmost column that the first row looks at is split next; if there is none it matches.
    const auto& first = rows[0].patterns;
    size_t column = columns;
    while (column > 0 && !IsRefutable(first[column - 1])) --column;
    if (column == 0) {
      reached_[rows[0].clause] = true;
      return {};
    }
    --column;
    if (first[column]->kind == PatternKind::kTuple) return SplitTuple(rows, columns, column);
    if (first[column]->kind == PatternKind::kLiteral) return SplitLiterals(rows, columns, column);
    return SplitConstructors(rows, columns, column);
  }

  // Returns the rows with the pattern of `column` replaced by `arity` patterns at the end.
  static Row Specialise(const Row& row, size_t column, size_t arity) {
    Row result{row.patterns, row.clause};
    const Pattern* pattern = row.patterns[column];
    result.patterns.erase(result.patterns.begin() + static_cast<ptrdiff_t>(column));
    for (size_t i = 0; i < arity; ++i) {
      result.patterns.push_back(IsRefutable(pattern) && i < pattern->fields.size() ? pattern->fields[i] : nullptr);
    }
    return result;
  }

  // Puts a pattern made of the last `arity` parts back at `column`.
  template <typename MakeText>
  static void Fold(std::vector<Witness>& witnesses, size_t column, size_t arity, MakeText make_text) {
    for (Witness& witness : witnesses) {
      std::vector<std::string> fields(witness.end() - static_cast<ptrdiff_t>(arity), witness.end());
      witness.resize(witness.size() - arity);
      witness.insert(witness.begin() + static_cast<ptrdiff_t>(column), make_text(fields));
    }
  }

  std::vector<Witness> SplitTuple(const Matrix& rows, size_t columns, size_t column) {
    size_t arity = rows[0].patterns[column]->fields.size();
    Matrix next;
    for (const Row& row : rows) next.push_back(Specialise(row, column, arity));
    std::vector<Witness> missing = Walk(next, columns - 1 + arity);
    Fold(missing, column, arity, [](const std::vector<std::string>& fields) {
      return absl::StrCat("(", absl::StrJoin(fields, ", "), fields.size() == 1 ? ",)" : ")");
    });
    return missing;
  }

  std::vector<Witness> SplitConstructors(const Matrix& rows, size_t columns, size_t column) {
    const ir::AdtDef& adt = *rows[0].patterns[column]->constructor->adt;
    std::vector<Matrix> by_tag(adt.constructors.size());
    Matrix wildcards;
    std::vector<bool> present(adt.constructors.size());
    for (const Row& row : rows) {
      if (const Pattern* pattern = row.patterns[column]; IsRefutable(pattern))
        present[pattern->constructor->tag] = true;
    }
    for (const Row& row : rows) {
      const Pattern* pattern = row.patterns[column];
      if (IsRefutable(pattern)) {
        uint32_t tag = pattern->constructor->tag;
        by_tag[tag].push_back(Specialise(row, column, adt.constructors[tag]->fields.size()));
        continue;
      }
      wildcards.push_back(Specialise(row, column, 0));
      for (size_t tag = 0; tag < by_tag.size(); ++tag) {
        if (present[tag]) by_tag[tag].push_back(Specialise(row, column, adt.constructors[tag]->fields.size()));
      }
    }
    std::vector<Witness> missing;
    for (size_t tag = 0; tag < by_tag.size(); ++tag) {
      if (!present[tag]) continue;
      const Constructor& constructor = *adt.constructors[tag];
      std::vector<Witness> found = Walk(by_tag[tag], columns - 1 + constructor.fields.size());
      Fold(found, column, constructor.fields.size(),
           [&](const std::vector<std::string>& fields) { return ConstructorText(constructor, fields); });
      Append(missing, std::move(found));
    }
    if (std::find(present.begin(), present.end(), false) != present.end()) {
      AppendAbsent(missing, Walk(wildcards, columns - 1), column, adt, present);
    }
    return missing;
  }

  // Integers are never exhausted; `True` and `False` are all bools.
  std::vector<Witness> SplitLiterals(const Matrix& rows, size_t columns, size_t column) {
    std::vector<const Literal*> literals;
    for (const Row& row : rows) {
      const Pattern* pattern = row.patterns[column];
      auto is_same = [&](const Literal* literal) { return literal->IntAt(0) == pattern->literal->IntAt(0); };
      if (IsRefutable(pattern) && std::none_of(literals.begin(), literals.end(), is_same)) {
        literals.push_back(pattern->literal);
      }
    }
    std::vector<Witness> missing;
    for (const Literal* literal : literals) {
      Matrix next;
      for (const Row& row : rows) {
        const Pattern* pattern = row.patterns[column];
        if (IsRefutable(pattern) && pattern->literal->IntAt(0) != literal->IntAt(0)) continue;
        next.push_back(Specialise(row, column, 0));
      }
      std::vector<Witness> found = Walk(next, columns - 1);
      Fold(found, column, 0, [&](const std::vector<std::string>&) { return ScalarToString(*literal, 0); });
      Append(missing, std::move(found));
    }
    bool is_bool = literals[0]->dtype().is_bool();
    if (is_bool && literals.size() == 2) return missing;
    Matrix wildcards;
    for (const Row& row : rows) {
      if (!IsRefutable(row.patterns[column])) wildcards.push_back(Specialise(row, column, 0));
    }
    std::vector<Witness> found = Walk(wildcards, columns - 1);
    std::string other = !is_bool ? "_" : literals[0]->IntAt(0) != 0 ? "False" : "True";
    Fold(found, column, 0, [&](const std::vector<std::string>&) { return other; });
    Append(missing, std::move(found));
    return missing;
  }

  // The cases of the constructors that no row names.
  static void AppendAbsent(std::vector<Witness>& missing, const std::vector<Witness>& rest, size_t column,
                           const ir::AdtDef& adt, const std::vector<bool>& present) {
    for (size_t tag = 0; tag < present.size() && missing.size() < kMaxMissing && !rest.empty(); ++tag) {
      if (present[tag]) continue;
      std::vector<Witness> found = rest;
      const Constructor& constructor = *adt.constructors[tag];
      Fold(found, column, 0, [&](const std::vector<std::string>&) {
        return ConstructorText(constructor, std::vector<std::string>(constructor.fields.size(), "_"));
      });
      Append(missing, std::move(found));
    }
  }

  static void Append(std::vector<Witness>& all, std::vector<Witness> more) {
    for (Witness& witness : more) {
      if (all.size() < kMaxMissing) all.push_back(std::move(witness));
    }
  }

  std::vector<bool> reached_;
  size_t nodes_ = 0;
};

}  // namespace

MatchCoverage CheckCoverage(const ir::Type* scrutinee, const std::vector<ir::Clause>& clauses) {
  MatchCoverage coverage;
  const auto* adt = ir::DynCast<ir::AdtType>(scrutinee);
  bool uninhabited = adt != nullptr && adt->adt->constructors.empty() && !adt->adt->is_extern;
  if (clauses.empty() && uninhabited) return coverage;
  Matrix rows;
  for (size_t i = 0; i < clauses.size(); ++i) rows.push_back({{clauses[i].pattern}, i});
  CoverageSearch search(clauses.size());
  for (const Witness& witness : search.Walk(rows, 1)) coverage.missing.push_back(witness[0]);
  coverage.gave_up = search.gave_up();
  for (size_t i = 0; i < clauses.size() && !coverage.gave_up; ++i) {
    if (!search.reached(i)) coverage.unreachable.push_back(i);
  }
  return coverage;
}

}  // namespace rvm::analysis
