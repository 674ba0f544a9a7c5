#include "compiler/import/blocks/spectrum.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "base/literal.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"

namespace rvm::importing {
namespace {

// Transforms of so many numbers are one product; those of more are two, one for each of two factors, as Cooley and
// Tukey have it.
constexpr int64_t kMaxProduct = 64;
// Transforms without a factor are one product up to this; a matrix of more would make the program large.
constexpr int64_t kMaxMatrix = 512;
// Maximum extent of a transform by factors: it has as many roots as constants.
constexpr int64_t kMaxFactored = int64_t{1} << 22;

// Returns exp(-2 pi i turn / n), or its conjugate for `inverse`; exactly at quarters of a turn.
std::pair<double, double> Root(int64_t turn, int64_t n, bool inverse) {
  const int64_t rest = turn % n, quarter = 4 * rest / n;
  constexpr std::pair<double, double> kQuarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  const double angle = 2 * std::numbers::pi * static_cast<double>(rest) / static_cast<double>(n);
  auto [cosine, sine] = 4 * rest % n == 0 ? kQuarters[quarter] : std::pair(std::cos(angle), std::sin(angle));
  return {cosine, inverse || sine == 0 ? sine : -sine};
}

Operand Constant(Steps& c, const std::vector<double>& values, Shape shape, DataType dtype) {
  return c.Cast(c.emit().Constant(Literal::FromValues<double>(kFloat64, std::move(shape), values)), dtype);
}

Spectrum Halves(Steps& c, Operand x) {
  const int64_t last = c.RankOf(x) - 1, n = c.ExtentOf(x, last).constant() / 2;
  return {c.SliceAxis(x, last, 0, n), c.SliceAxis(x, last, n, 2 * n)};
}

// Returns the products with the matrix of roots: rows for the real and the imaginary parts, if there are any; columns
// for both of the results.
Spectrum ByMatrix(Steps& c, const Spectrum& x, int64_t n, bool inverse) {
  const bool is_real = x.imaginary == nullptr;
  const int64_t rows = is_real ? n : 2 * n;
  std::vector<double> roots(static_cast<size_t>(rows * 2 * n));
  auto at = [&](int64_t row, int64_t column) -> double& { return roots[static_cast<size_t>(row * 2 * n + column)]; };
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t k = 0; k < n; ++k) {
      const auto [cosine, sine] = Root(j * k, n, inverse);
      at(j, k) = cosine;
      at(j, n + k) = sine;
      if (is_real) continue;
      at(n + j, k) = -sine;
      at(n + j, n + k) = cosine;
    }
  }
  Operand parts = is_real ? x.real : c.Concatenate({x.real, x.imaginary}, c.RankOf(x.real) - 1);
  const DataType dtype = c.DTypeOf(x.real);
  Dims dims = c.DimsOf(parts);
  Dim count = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) count = count * dims[i];
  Operand flat = c.Reshape(parts, {count, Dim(rows)});
  Operand product = MatrixProduct(c, flat, Constant(c, roots, {rows, 2 * n}, dtype));
  dims.back() = 2 * n;
  return Halves(c, c.Reshape(product, dims));
}

// Returns the factor of n nearest to its square root from below; 1 if n is prime.
int64_t FactorOf(int64_t n) {
  auto factor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % factor != 0) --factor;
  return factor;
}

// Swaps the last two axes.
Operand SwapLast(Steps& c, Operand x) { return SwapAxes(c, x, -2, -1); }

Spectrum OfParts(const Spectrum& x, const auto& function) {
  return {function(x.real), x.imaginary == nullptr ? nullptr : function(x.imaginary)};
}

Spectrum TransformKnown(Steps& c, const Spectrum& x, int64_t n, bool inverse);

// With j = j1 * b + j2 and k = k1 + a * k2: the transforms over j1, each number turned by j2 * k1 of n steps, and of
// these the transforms over j2.
Spectrum ByFactors(Steps& c, const Spectrum& x, int64_t a, int64_t b, bool inverse) {
  const int64_t n = a * b;
  const DataType dtype = c.DTypeOf(x.real);
  const Dims dims = c.DimsOf(x.real);
  Dims split(dims.begin(), dims.end() - 1);
  split.insert(split.end(), {Dim(a), Dim(b)});
  Spectrum inner = OfParts(x, [&](Operand part) { return SwapLast(c, c.Reshape(part, split)); });
  inner = TransformKnown(c, inner, a, inverse);  // (..., j2, k1)
  std::vector<double> cosines, sines;
  for (int64_t j2 = 0; j2 < b; ++j2) {
    for (int64_t k1 = 0; k1 < a; ++k1) {
      const auto [cosine, sine] = Root(j2 * k1, n, inverse);
      cosines.push_back(cosine);
      sines.push_back(sine);
    }
  }
  Operand cosine = Constant(c, cosines, {b, a}, dtype), sine = Constant(c, sines, {b, a}, dtype);
  Operand real = c.Sub(c.Mul(inner.real, cosine), c.Mul(inner.imaginary, sine));
  Operand imaginary = c.Add(c.Mul(inner.real, sine), c.Mul(inner.imaginary, cosine));
  const Spectrum outer = TransformKnown(c, {SwapLast(c, real), SwapLast(c, imaginary)}, b, inverse);  // (..., k1, k2)
  return OfParts(outer, [&](Operand part) { return c.Reshape(SwapLast(c, part), dims); });
}

// Returns the transform of `n` numbers, or of as many as there are, by the operator.
Spectrum ByOperator(Steps& c, const Spectrum& x, bool inverse) {
  Operand zeros = x.imaginary == nullptr ? c.Op("zeros_like", {x.real}) : x.imaginary;
  Operand pair = c.Op("dft", {x.real, zeros}, {{"inverse", inverse}});
  Spectrum result{c.emit().Field(pair, 0), c.emit().Field(pair, 1)};
  if (!inverse || c.failed()) return result;
  Operand n = c.Cast(c.emit().FromDim(c.ExtentOf(x.real, -1)), c.DTypeOf(x.real));  // by which it divides
  return OfParts(result, [&](Operand part) { return c.Mul(part, n); });
}

Spectrum TransformKnown(Steps& c, const Spectrum& x, int64_t n, bool inverse) {
  if (n <= kMaxProduct) return ByMatrix(c, x, n, inverse);
  if (n > kMaxFactored) return ByOperator(c, x, inverse);
  const int64_t factor = FactorOf(n);
  if (factor > 1) return ByFactors(c, x, factor, n / factor, inverse);
  return n <= kMaxMatrix ? ByMatrix(c, x, n, inverse) : ByOperator(c, x, inverse);
}

}  // namespace

Operand Fitted(Steps& c, Operand x, int64_t axis, int64_t n) {
  if (x == nullptr) return nullptr;
  const std::optional<int64_t> extent = c.ExtentOf(x, axis).AsConst();
  if (!extent) return c.Unsupported("a length for an extent that is known only when the model runs");
  if (*extent == n) return x;
  if (*extent > n) return c.SliceAxis(x, axis, 0, n);
  Dims widths(static_cast<size_t>(2 * c.RankOf(x)), Dim(0));
  widths[static_cast<size_t>(2 * axis + 1)] = n - *extent;
  return PadBy(c, x, 0, widths);
}

Spectrum Transform(Steps& c, const Spectrum& x, int64_t axis, bool inverse) {
  auto swapped = [&](const Spectrum& of) {
    return OfParts(of, [&](Operand part) { return SwapAxes(c, part, axis, -1); });
  };
  const std::optional<int64_t> n = c.ExtentOf(x.real, axis).AsConst();
  if (c.failed()) return {x.real, x.real};
  const Spectrum last = swapped(x);
  return swapped(n && *n > 0 ? TransformKnown(c, last, *n, inverse) : ByOperator(c, last, inverse));
}

Spectrum TransformReal(Steps& c, Operand x, int64_t axis) {
  const Spectrum whole = Transform(c, {x, nullptr}, axis, false);
  const Dim count = FloorDiv(c.ExtentOf(x, axis), 2) + 1;
  return OfParts(whole, [&](Operand part) { return c.SliceAxis(part, axis, 0, count); });
}

Operand InverseOfReal(Steps& c, const Spectrum& x, int64_t axis, int64_t n) {
  const int64_t kept = n / 2 + 1;
  // The other frequencies are the conjugates of these, in reverse.
  auto mirrored = [&](Operand part, bool negates) {
    part = Fitted(c, part, axis, kept);
    if (n <= 2) return c.SliceAxis(part, axis, 0, n);
    Operand rest = c.Op("reverse", {c.SliceAxis(part, axis, 1, 1 + n - kept)}, {{"axis", axis}});
    return c.Concatenate({part, negates ? c.Op("negative", {rest}) : rest}, axis);
  };
  // The frequencies 0 and n / 2 are real: their imaginary parts do not count.
  return Transform(c, {mirrored(x.real, false), mirrored(x.imaginary, true)}, axis, true).real;
}

Spectrum TransformRealAxes(Steps& c, Operand x, std::span<const int64_t> lengths) {
  const int64_t last = c.RankOf(x) - 1, first = last + 1 - static_cast<int64_t>(lengths.size());
  for (int64_t axis = first; axis <= last; ++axis) x = Fitted(c, x, axis, lengths[static_cast<size_t>(axis - first)]);
  Spectrum y = TransformReal(c, x, last);
  for (int64_t axis = first; axis < last; ++axis) y = Transform(c, y, axis, false);
  return y;
}

Operand InverseOfRealAxes(Steps& c, Spectrum x, std::span<const int64_t> lengths) {
  const int64_t last = c.RankOf(x.real) - 1, first = last + 1 - static_cast<int64_t>(lengths.size());
  double count = 1;
  for (int64_t axis = first; axis <= last; ++axis) {
    const int64_t length = lengths[static_cast<size_t>(axis - first)];
    count *= static_cast<double>(length);
    if (axis == last) break;
    x = {Fitted(c, x.real, axis, length), Fitted(c, x.imaginary, axis, length)};
    x = Transform(c, x, axis, /*inverse=*/true);
  }
  Operand y = InverseOfReal(c, x, last, lengths.back());
  return c.Div(y, c.Number(count, y));
}

Operand Frames(Steps& c, Operand signal, int64_t size, int64_t hop) {
  return c.Op("sliding_window", {signal},
              {{"axis", 1}, {"window_shape", ir::AttrValue::List{size}}, {"strides", ir::AttrValue::List{hop}}});
}

Operand OverlapAdd(Steps& c, Operand frames, int64_t hop) {
  const Dims dims = c.DimsOf(frames);
  const std::optional<int64_t> size = dims.size() == 3 ? dims[2].AsConst() : std::nullopt;
  if (!size || c.failed()) return c.failed() ? frames : c.Unsupported("frames of a size that is not known");
  const int64_t parts = (*size + hop - 1) / hop;
  Operand whole = PadBy(c, frames, 0, {0, 0, 0, 0, 0, parts * hop - *size});
  whole = c.Reshape(whole, {dims[0], dims[1], Dim(parts), Dim(hop)});
  Operand sum = nullptr;
  for (int64_t i = 0; i < parts; ++i) {
    Operand part = c.Squeeze(c.SliceAxis(whole, 2, i, i + 1), {2});
    part = PadBy(c, part, 0, {0, 0, i, parts - 1 - i, 0, 0});
    sum = sum == nullptr ? part : c.Add(sum, part);
  }
  return c.Reshape(sum, {dims[0], (dims[1] + (parts - 1)) * hop});
}

}  // namespace rvm::importing
