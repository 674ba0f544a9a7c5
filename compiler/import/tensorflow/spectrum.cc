// Fourier transforms, and complex numbers.
#include "compiler/import/blocks/spectrum.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/complex.h"
#include "compiler/import/tensorflow/importer.h"
#include "compiler/import/term.h"

namespace rvm::tensorflow {
namespace {

using importing::ComplexOf;
using importing::MakeComplex;
using importing::PartOf;
using importing::Spectrum;
using importing::Term;

// ---- transforms

// Returns the number of axes that the operator transforms: the digit in "FFT2D".
int64_t NumAxes(std::string_view op) {
  auto digit = std::ranges::find_if(op, [](char letter) { return letter >= '1' && letter <= '3'; });
  return digit == op.end() ? 1 : *digit - '0';
}

// FFT, IFFT and those of two and three axes, which divide where they go back.
Operands Transform(NodeContext& c) {
  const int64_t axes = NumAxes(c.row().name);
  const bool is_inverse = c.row().variant == "inverse";
  Spectrum x{PartOf(c, c.In(0), false), PartOf(c, c.In(0), true)};
  if (c.failed() || c.RankOf(x.real) < axes) return {c.failed() ? nullptr : c.Fail("its input has too few axes")};
  Operand count = c.Integer(1);
  for (int64_t rank = c.RankOf(x.real), axis = rank - axes; axis < rank; ++axis) {
    x = importing::Transform(c, x, axis, is_inverse);
    count = c.Mul(count, c.emit().FromDim(c.ExtentOf(x.real, axis)));
  }
  if (!is_inverse) return {MakeComplex(c, x.real, x.imaginary)};
  count = c.Cast(count, c.DTypeOf(x.real));
  return {MakeComplex(c, c.Div(x.real, count), c.Div(x.imaginary, count))};
}

// Returns the lengths to which the last axes are cut or padded; a mistake if they are not known.
std::optional<std::vector<int64_t>> Lengths(NodeContext& c, int64_t rank) {
  const std::vector<int64_t> lengths = c.Ints(1, "lengths");
  const int64_t axes = NumAxes(c.row().name);
  const bool fits = static_cast<int64_t>(lengths.size()) == axes && rank >= axes &&
                    std::ranges::all_of(lengths, [](int64_t length) { return length >= 1; });
  if (!fits && !c.failed()) c.Fail("it has no length above 0 for each of its axes");
  return c.failed() ? std::nullopt : std::optional(lengths);
}

Operands RealTransform(NodeContext& c) {
  const std::optional<std::vector<int64_t>> lengths = Lengths(c, c.RankOf(c.In(0)));
  if (!lengths) return {};
  const Spectrum y = importing::TransformRealAxes(c, c.In(0), *lengths);
  return {MakeComplex(c, y.real, y.imaginary)};
}

Operands InverseOfReal(NodeContext& c) {
  const Spectrum x{PartOf(c, c.In(0), false), PartOf(c, c.In(0), true)};
  const std::optional<std::vector<int64_t>> lengths = Lengths(c, c.RankOf(x.real));
  return lengths ? Operands{importing::InverseOfRealAxes(c, x, *lengths)} : Operands();
}

// ---- arithmetic

Operands Absolute(NodeContext& c) { return {Length(ComplexOf(c, c.In(0)))}; }
Operands Direction(NodeContext& c) { return {importing::Angle(ComplexOf(c, c.In(0)))}; }
Operands Mirrored(NodeContext& c) { return {importing::Conjugate(ComplexOf(c, c.In(0)))}; }

Operands MakeOfParts(NodeContext& c) {
  Term re(c, c.In(0)), im(c, c.In(1));
  return {MakeComplex(c, Broadcast(re, im), Broadcast(im, re))};
}

Operands Part(NodeContext& c) { return {PartOf(c, c.In(0), c.row().variant == "imaginary")}; }

}  // namespace

bool WorksByParts(std::string_view op) {
  constexpr std::string_view kOperators[] = {
      "Add",      "AddN",         "AddV2",     "BroadcastTo", "ConcatV2", "Cumsum",    "ExpandDims",
      "GatherNd", "GatherV2",     "Identity",  "Mean",        "Neg",      "Pack",      "Pad",
      "PadV2",    "Reshape",      "ReverseV2", "Roll",        "Slice",    "Split",     "SplitV",
      "Squeeze",  "StridedSlice", "Sub",       "Sum",         "Tile",     "Transpose", "Unpack"};
  return std::ranges::find(kOperators, op) != std::end(kOperators);
}

namespace {

constexpr OperatorRow kRows[] = {
    OfComplex("Angle", Direction),
    {"Complex", MakeOfParts},
    OfComplex("ComplexAbs", Absolute),
    OfComplex("Conj", Mirrored),
    OfComplex("FFT", Transform),
    OfComplex("FFT2D", Transform),
    OfComplex("FFT3D", Transform),
    OfComplex("IFFT", Transform, "inverse"),
    OfComplex("IFFT2D", Transform, "inverse"),
    OfComplex("IFFT3D", Transform, "inverse"),
    OfComplex("IRFFT", InverseOfReal),
    OfComplex("IRFFT2D", InverseOfReal),
    OfComplex("Imag", Part, "imaginary"),
    {"RFFT", RealTransform},
    {"RFFT2D", RealTransform},
    OfComplex("Real", Part),
};

}  // namespace

std::span<const OperatorRow> SpectrumOperators() { return kRows; }

}  // namespace rvm::tensorflow
