// Fourier transforms, and complex numbers, which they give.
#include "compiler/import/blocks/spectrum.h"

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/import/blocks/complex.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

// Transforms the last two axes of real images, cut or padded to the lengths that input 1 gives.
Operands Rfft2d(NodeContext& c) {
  const std::vector<int64_t> lengths = c.Ints(1, "lengths");
  if (c.failed()) return {};
  if (lengths.size() != 2 || lengths[0] < 1 || lengths[1] < 1 || c.RankOf(c.In(0)) < 2)
    return {c.Fail("it has no two lengths above 0, or its input has fewer than 2 axes")};
  const importing::Spectrum y = importing::TransformRealAxes(c, c.In(0), lengths);
  return {importing::MakeComplex(c, y.real, y.imaginary)};
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
