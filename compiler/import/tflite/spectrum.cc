// Fourier transforms, and complex numbers, which they give.
#include "compiler/import/blocks/spectrum.h"

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/import/blocks/complex.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

using importing::Spectrum;

// Transforms the last two axes of real images, cut or padded to the lengths that input 1 gives.
Operands Rfft2d(NodeContext& c) {
  const std::vector<int64_t> lengths = c.Ints(1, "lengths");
  if (c.failed()) return {};
  if (lengths.size() != 2 || lengths[0] < 1 || lengths[1] < 1 || c.RankOf(c.In(0)) < 2)
    return {c.Fail("it has no two lengths above 0, or its input has fewer than 2 axes")};
  const int64_t last = c.RankOf(c.In(0)) - 1;
  auto swapped = [&](Operand x) { return importing::SwapAxes(c, x, last - 1, last); };
  Operand x = importing::Fitted(c, swapped(c.In(0)), lengths[0]);
  x = importing::Fitted(c, swapped(x), lengths[1]);
  if (c.failed()) return {};
  Spectrum y = importing::TransformReal(c, x);
  y = importing::Transform(c, {swapped(y.real), swapped(y.imaginary)}, /*inverse=*/false);
  return {importing::MakeComplex(c, swapped(y.real), swapped(y.imaginary))};
}

Operands ComplexAbs(NodeContext& c) { return {Length(importing::ComplexOf(c, c.In(0)))}; }

Operands Part(NodeContext& c) { return {importing::PartOf(c, c.In(0), c.row().variant == "imaginary")}; }

constexpr OperatorRow kRows[] = {
    OfComplex("COMPLEX_ABS", ComplexAbs),
    OfComplex("IMAG", Part, "imaginary"),
    OfComplex("REAL", Part),
    {"RFFT2D", Rfft2d},
};

}  // namespace

std::span<const OperatorRow> SpectrumOperators() { return kRows; }

}  // namespace rvm::tflite
