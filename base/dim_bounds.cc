#include "base/dim_bounds.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
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

// Returns the bound of a dim that is no sum and no product.
std::optional<int64_t> AtomLowerBound(const Dim& dim) {
  if (dim.is_const()) return dim.constant();
  if (dim.kind() == DimKind::kVar) return 0;
  if (!dim.is_binary()) return std::nullopt;
  bool by_positive = dim.rhs().is_const() && dim.rhs().constant() > 0;
  if (dim.kind() == DimKind::kFloorMod) return by_positive ? std::optional<int64_t>(0) : std::nullopt;
  std::optional<int64_t> a = LowerBound(dim.lhs()), b = LowerBound(dim.rhs());
  switch (dim.kind()) {
    case DimKind::kFloorDiv:
      if (a && by_positive) return EvaluateBinaryDim(DimKind::kFloorDiv, *a, dim.rhs().constant());
      return a >= 0 && b >= 0 ? std::optional<int64_t>(0) : std::nullopt;
    case DimKind::kMin:
    case DimKind::kBroadcast: return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
    case DimKind::kMax: return a && b ? std::optional(std::max(*a, *b)) : a ? a : b;
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kAdd:
    case DimKind::kSub:
    case DimKind::kMul:
    case DimKind::kFloorMod: break;
  }
  return std::nullopt;
}

std::optional<int64_t> AtomUpperBound(const Dim& dim) {
  if (dim.is_const()) return dim.constant();
  bool by_positive = dim.is_binary() && dim.rhs().is_const() && dim.rhs().constant() > 0;
  if (dim.kind() == DimKind::kFloorMod && by_positive) return dim.rhs().constant() - 1;
  if (dim.kind() != DimKind::kMin && dim.kind() != DimKind::kMax) return std::nullopt;
  std::optional<int64_t> a = UpperBound(dim.lhs()), b = UpperBound(dim.rhs());
  if (dim.kind() == DimKind::kMax) return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
  return a && b ? std::optional(std::min(*a, *b)) : a ? a : b;
}

// Returns a bound of the product of atoms, which must not be negative.
template <typename Bound>
std::optional<int64_t> ProductBound(const std::vector<Dim>& atoms, Bound bound_of) {
  int64_t product = 1;
  for (const Dim& atom : atoms) {
    std::optional<int64_t> least = AtomLowerBound(atom), bound = bound_of(atom);
    if (atoms.size() == 1) return bound;
    if (!least || *least < 0 || !bound || __builtin_mul_overflow(product, *bound, &product)) return std::nullopt;
  }
  return product;
}

// Returns the lower bound of `sum`, or the upper one.
std::optional<int64_t> BoundOf(const Sum& sum, bool is_upper) {
  int64_t total = 0;
  for (const auto& [key, term] : sum) {
    if (term.coefficient == 0) continue;
    bool by_upper = (term.coefficient < 0) != is_upper;
    std::optional<int64_t> bound = ProductBound(term.atoms, by_upper ? AtomUpperBound : AtomLowerBound);
    int64_t product;
    if (!bound || __builtin_mul_overflow(term.coefficient, *bound, &product) ||
        __builtin_add_overflow(total, product, &total)) {
      return std::nullopt;
    }
  }
  return total;
}

}  // namespace

std::optional<int64_t> LowerBound(const Dim& dim) {
  Sum sum;
  return Expand(dim, sum) ? BoundOf(sum, false) : std::nullopt;
}

std::optional<int64_t> UpperBound(const Dim& dim) {
  Sum sum;
  return Expand(dim, sum) ? BoundOf(sum, true) : std::nullopt;
}

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

bool IsNatural(const Dim& dim) { return LowerBound(dim).value_or(-1) >= 0; }

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
  std::optional<int64_t> least = BoundOf(sum, false), most = BoundOf(sum, true);
  if ((least && *least > value) || (most && *most < value)) return true;
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
