#include "compiler/import/shapes.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace rvm::importing {
namespace {

bool Same(const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; }

// Returns the product of `dims` as one of numbers and of dims that are no products.
Dims Factors(const Dims& dims) {
  Dims factors, rest(dims.rbegin(), dims.rend());
  while (!rest.empty()) {
    Dim dim = rest.back();
    rest.pop_back();
    if (dim.kind() == DimKind::kMul) {
      rest.push_back(dim.rhs());
      rest.push_back(dim.lhs());
    } else {
      factors.push_back(dim);
    }
  }
  return factors;
}

}  // namespace

std::vector<int64_t> AllAxes(int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

Dim Product(std::span<const Dim> dims) {
  Dim product = 1;
  for (const Dim& dim : dims) product = product * dim;
  return product;
}

Dim InferExtent(const Dims& shape, const Dims& to, size_t inferred) {
  Dims from = Factors(shape), others;
  for (size_t i = 0; i < to.size(); ++i) {
    if (i == inferred) continue;
    for (const Dim& factor : Factors({to[i]})) {
      auto equal =
          std::find_if(from.begin(), from.end(), [&](const Dim& dim) { return !dim.is_const() && Same(dim, factor); });
      if (equal != from.end()) {
        from.erase(equal);
      } else {
        others.push_back(factor);
      }
    }
  }
  // Numbers divide numbers first.
  int64_t numerator = 1, denominator = 1;
  Dim rest = 1, divisor = 1;
  for (const Dim& dim : from) {
    if (!dim.is_const() || __builtin_mul_overflow(numerator, dim.constant(), &numerator)) rest = rest * dim;
  }
  for (const Dim& dim : others) {
    if (!dim.is_const() || __builtin_mul_overflow(denominator, dim.constant(), &denominator)) divisor = divisor * dim;
  }
  if (denominator == 0) return 0;
  if (numerator > 0 && denominator > 0) {
    int64_t common = std::gcd(numerator, denominator);
    numerator /= common;
    denominator /= common;
  }
  if (divisor == Dim(1) && numerator % denominator == 0) return rest * Dim(numerator / denominator);
  return FloorDiv(rest * Dim(numerator), divisor * Dim(denominator));
}

std::optional<Dim> SlicedExtent(const Dim& extent, const Dim& begin, const Dim& end, int64_t step) {
  if (step == 0) return std::nullopt;
  if (extent.is_const() && begin.is_const() && end.is_const()) {
    int64_t n = extent.constant(), behind = step < 0 ? -1 : 0;
    auto clamp = [&](int64_t at) {
      if (at < 0) at = std::max(at, -n - 1) + n;
      return std::clamp(at, behind, n + behind);
    };
    int64_t from = clamp(begin.constant()), to = clamp(end.constant());
    if (step < 0) return Dim(to < from ? (from - to - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1 : 0);
    return Dim(from < to ? (to - from - 1) / step + 1 : 0);
  }
  if (step != 1 || !begin.is_const()) return std::nullopt;
  bool is_rest = (end.is_const() && end.constant() >= kBeyond) || Same(end, extent);
  int64_t from = begin.constant();
  if (from == 0 && is_rest) return extent;
  if (is_rest) return from > 0 ? Max(extent - begin, 0) : Min(extent, Dim(0) - begin);
  if (from != 0) return std::nullopt;
  if (!end.is_const()) return std::nullopt;
  return end.constant() < 0 ? Max(extent + end, 0) : Min(extent, end);
}

}  // namespace rvm::importing
