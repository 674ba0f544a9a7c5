#include "base/dim_bounds.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_size.h"

namespace rvm {
namespace {

// Larger dims have no known bounds.
constexpr int kMaxNodes = 200;
constexpr size_t kMaxTerms = 64;

// A coefficient times a product of dims that are no sums and no products.
struct Term {
  int64_t coefficient = 0;
  std::vector<Dim> atoms;
};

// A sum of terms, by a text that equal products share; a constant has the text "".
using Sum = std::map<std::string, Term>;

std::string KeyOf(const std::vector<Dim>& atoms) {
  std::vector<std::string> texts;
  for (const Dim& atom : atoms) texts.push_back(CanonicalText(atom));
  std::sort(texts.begin(), texts.end());
  std::string key;
  for (const std::string& text : texts) absl::StrAppend(&key, text, ";");
  return key;
}

bool AddTerm(Sum& sum, int64_t coefficient, std::vector<Dim> atoms) {
  std::string key = KeyOf(atoms);
  Term& term = sum[std::move(key)];
  term.atoms = std::move(atoms);
  return !__builtin_add_overflow(term.coefficient, coefficient, &term.coefficient) && sum.size() <= kMaxTerms;
}

// Adds scale * dim. False if the sum has too many terms or too large coefficients.
bool AddTo(Sum& sum, const Dim& dim, int64_t scale) {
  switch (dim.kind()) {
    case DimKind::kConst: {
      int64_t value;
      return !__builtin_mul_overflow(scale, dim.constant(), &value) && AddTerm(sum, value, {});
    }
    case DimKind::kAdd: return AddTo(sum, dim.lhs(), scale) && AddTo(sum, dim.rhs(), scale);
    case DimKind::kSub: return scale != INT64_MIN && AddTo(sum, dim.lhs(), scale) && AddTo(sum, dim.rhs(), -scale);
    case DimKind::kMul: {
      Sum left, right;
      if (!AddTo(left, dim.lhs(), 1) || !AddTo(right, dim.rhs(), scale)) return false;
      for (const auto& [left_key, a] : left) {
        for (const auto& [right_key, b] : right) {
          int64_t coefficient;
          if (__builtin_mul_overflow(a.coefficient, b.coefficient, &coefficient)) return false;
          std::vector<Dim> atoms = a.atoms;
          atoms.insert(atoms.end(), b.atoms.begin(), b.atoms.end());
          if (!AddTerm(sum, coefficient, std::move(atoms))) return false;
        }
      }
      return true;
    }
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kFloorDiv:
    case DimKind::kFloorMod:
    case DimKind::kMin:
    case DimKind::kMax:
    case DimKind::kBroadcast: return AddTerm(sum, scale, {dim});
  }
  return false;
}

bool Expand(const Dim& dim, Sum& sum) {
  return CountDimNodes(dim, kMaxNodes) < kMaxNodes && !ContainsAny(dim) && AddTo(sum, dim, 1);
}

// Numbers that a dim is never below and never above; nullopt where none is known.
struct Bounds {
  std::optional<int64_t> least, most;
};

Bounds BoundsOf(const Dim& dim);

// Returns the bounds of a dim that is no sum and no product. Both are computed at once, so that each part is visited
// once.
Bounds AtomBounds(const Dim& dim) {
  if (dim.is_const()) return {dim.constant(), dim.constant()};
  if (dim.kind() == DimKind::kVar && !dim.may_be_negative()) return {0, std::nullopt};
  if (!dim.is_binary()) return {};
  int64_t divisor = dim.rhs().AsConst().value_or(0);
  if (dim.kind() == DimKind::kFloorMod) return divisor > 0 ? Bounds{0, divisor - 1} : Bounds{};
  Bounds a = BoundsOf(dim.lhs()), b = BoundsOf(dim.rhs());
  auto both = [](std::optional<int64_t> x, std::optional<int64_t> y, auto choose) {
    return x && y ? std::optional(choose(*x, *y)) : std::nullopt;
  };
  auto any = [&](std::optional<int64_t> x, std::optional<int64_t> y, auto choose) {
    return x && y ? both(x, y, choose) : x ? x : y;
  };
  auto smaller = [](int64_t x, int64_t y) { return std::min(x, y); };
  auto larger = [](int64_t x, int64_t y) { return std::max(x, y); };
  switch (dim.kind()) {
    case DimKind::kFloorDiv: {
      if (divisor <= 0) return {a.least >= 0 && b.least >= 0 ? std::optional<int64_t>(0) : std::nullopt, std::nullopt};
      auto quotient = [&](std::optional<int64_t> x) {
        return x ? std::optional(EvaluateBinaryDim(DimKind::kFloorDiv, *x, divisor)) : std::nullopt;
      };
      return {quotient(a.least), quotient(a.most)};
    }
    case DimKind::kMin: return {both(a.least, b.least, smaller), any(a.most, b.most, smaller)};
    case DimKind::kMax: return {any(a.least, b.least, larger), both(a.most, b.most, larger)};
    case DimKind::kBroadcast: return {both(a.least, b.least, smaller), both(a.most, b.most, larger)};
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kAdd:
    case DimKind::kSub:
    case DimKind::kMul:
    case DimKind::kFloorMod: break;
  }
  return {};
}

// Returns the bounds of the product of atoms, which must not be negative if they are several.
Bounds ProductBounds(const std::vector<Dim>& atoms) {
  if (atoms.size() == 1) return AtomBounds(atoms[0]);
  Bounds product{1, 1};
  auto multiply = [](std::optional<int64_t>& by, std::optional<int64_t> bound) {
    int64_t result;
    by = by && bound && !__builtin_mul_overflow(*by, *bound, &result) ? std::optional(result) : std::nullopt;
  };
  for (const Dim& atom : atoms) {
    Bounds bounds = AtomBounds(atom);
    if (!(bounds.least >= 0)) return {};
    multiply(product.least, bounds.least);
    multiply(product.most, bounds.most);
  }
  return product;
}

Bounds BoundsOf(const Sum& sum) {
  Bounds total{0, 0};
  auto add = [](std::optional<int64_t>& to, int64_t coefficient, std::optional<int64_t> bound) {
    int64_t product, result;
    bool is_known = to && bound && !__builtin_mul_overflow(coefficient, *bound, &product) &&
                    !__builtin_add_overflow(*to, product, &result);
    to = is_known ? std::optional(result) : std::nullopt;
  };
  for (const auto& [key, term] : sum) {
    if (term.coefficient == 0) continue;
    Bounds bounds = ProductBounds(term.atoms);
    if (term.coefficient < 0) std::swap(bounds.least, bounds.most);
    add(total.least, term.coefficient, bounds.least);
    add(total.most, term.coefficient, bounds.most);
  }
  return total;
}

Bounds BoundsOf(const Dim& dim) {
  Sum sum;
  return Expand(dim, sum) ? BoundsOf(sum) : Bounds{};
}

}  // namespace

std::optional<int64_t> LowerBound(const Dim& dim) { return BoundsOf(dim).least; }
std::optional<int64_t> UpperBound(const Dim& dim) { return BoundsOf(dim).most; }

Dim WithoutCancelled(const Dim& dim) {
  Sum sum;
  if (!Expand(dim, sum)) return dim;
  Dim result = 0;
  int64_t constant = 0;
  for (const auto& [key, term] : sum) {
    if (term.coefficient == 0 || term.coefficient == INT64_MIN) continue;
    if (term.atoms.empty()) {
      constant = term.coefficient;
      continue;
    }
    Dim product = 1;
    for (const Dim& atom : term.atoms) product = product * atom;
    product = product * std::abs(term.coefficient);
    result = term.coefficient < 0 ? result - product : result == Dim(0) ? product : result + product;
  }
  result = constant < 0 && constant != INT64_MIN ? result - (-constant) : result + constant;
  bool is_equal = CompareDims(result, dim) == DimEquality::kEqual;
  return is_equal && CountDimNodes(result, kMaxNodes) < CountDimNodes(dim, kMaxNodes) ? result : dim;
}

bool IsNatural(const Dim& dim) { return LowerBound(dim) >= 0; }

Dim ClampedToNatural(const Dim& dim) { return IsNatural(dim) ? dim : Max(dim, 0); }

bool IsAtMost(const Dim& a, const Dim& b) {
  if (a.kind() == DimKind::kMin && (IsAtMost(a.lhs(), b) || IsAtMost(a.rhs(), b))) return true;
  if (b.kind() == DimKind::kMax && (IsAtMost(a, b.lhs()) || IsAtMost(a, b.rhs()))) return true;
  return IsNatural(b - a);
}

std::optional<bool> AreEqual(const Dim& a, const Dim& b) {
  DimEquality known = CompareDims(a, b);
  if (known != DimEquality::kUnknown) return known == DimEquality::kEqual;
  if (IsAtMost(a + 1, b) || IsAtMost(b + 1, a)) return false;
  return std::nullopt;
}

bool IsNever(const Dim& dim, int64_t value) {
  if (dim.is_const()) return dim.constant() != value;
  Sum sum;
  if (!Expand(dim, sum)) return false;
  Bounds bounds = BoundsOf(sum);
  if ((bounds.least && *bounds.least > value) || (bounds.most && *bounds.most < value)) return true;
  int64_t divisor = 0, constant = 0;
  for (const auto& [key, term] : sum) {
    if (term.atoms.empty()) {
      constant = term.coefficient;
    } else if (term.coefficient != 0) {
      divisor = std::gcd(divisor, term.coefficient);
    }
  }
  int64_t rest;
  return divisor > 1 && !__builtin_sub_overflow(value, constant, &rest) && rest % divisor != 0;
}

}  // namespace rvm
