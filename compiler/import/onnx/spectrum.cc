// Fourier transforms, windows of signals.
#include "compiler/import/blocks/spectrum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

// Returns the part `index` (0: real, 1: imaginary) of a last axis of complex numbers.
Operand ComplexPart(NodeContext& c, Operand x, int64_t index) {
  int64_t last = c.RankOf(x) - 1;
  return c.Squeeze(c.SliceAxis(x, last, index, index + 1), {last});
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
Operands CosineWindow(NodeContext& c, double a0, double a1, double a2) {
  DataType dtype = c.DTypeAttr("output_datatype", kFloat32);
  Operand size = c.Cast(c.Scalar(c.In(0)), kInt64);
  std::optional<Dims> known = c.Symbols(size);
  Operand i = known ? c.Iota((*known)[0]) : c.Op("arange", {c.Integer(0), size, c.Integer(1)});
  auto number = [&](double value) { return c.emit().Number(value, kFloat64); };
  Operand n = c.Cast(c.Int("periodic", 1) != 0 ? size : c.Sub(size, c.Integer(1)), kFloat64);
  Operand angle = c.Div(c.Mul(c.Cast(i, kFloat64), number(2 * std::numbers::pi)), n);
  Operand window = c.Sub(number(a0), c.Mul(number(a1), c.Op("cos", {angle})));
  if (a2 != 0) window = c.Add(window, c.Mul(number(a2), c.Op("cos", {c.Mul(number(2), angle)})));
  return {c.Cast(window, dtype)};
}

Operands HannWindow(NodeContext& c) { return CosineWindow(c, 0.5, 0.5, 0); }
Operands HammingWindow(NodeContext& c) { return CosineWindow(c, 25.0 / 46, 21.0 / 46, 0); }
Operands BlackmanWindow(NodeContext& c) { return CosineWindow(c, 0.42, 0.5, 0.08); }

Operands DFT(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x), axis = c.opset() < 20 ? c.Int("axis", 1) : -2;
  if (c.opset() >= 20 && c.Has(2)) {
    std::optional<std::vector<int64_t>> given = c.Constants(c.In(2), "axis");
    if (!given || given->size() != 1) return {};
    axis = (*given)[0];
  }
  axis = c.Axis(axis, rank);
  if (c.failed() || axis == rank - 1) return {c.failed() ? nullptr : c.Fail("its axis is that of the complex numbers")};
  bool is_inverse = c.Int("inverse", 0) != 0, is_onesided = c.Int("onesided", 0) != 0;
  bool is_complex = c.ExtentOf(x, -1) == Dim(2);
  Operand real = ComplexPart(c, x, 0), imaginary = is_complex ? ComplexPart(c, x, 1) : nullptr;
  std::optional<int64_t> length;
  if (c.Has(1)) {
    std::optional<std::vector<int64_t>> given = c.Constants(c.In(1), "length");
    if (!given || given->size() != 1) return {};
    length = (*given)[0];
    if (*length < 1) return {c.Fail("its length is below 1")};
    if (!is_inverse || !is_onesided) {
      real = importing::Fitted(c, real, axis, *length);
      imaginary = importing::Fitted(c, imaginary, axis, *length);
    }
  }
  if (imaginary == nullptr && is_inverse && is_onesided) imaginary = c.Op("zeros_like", {real});
  const Dim count = c.ExtentOf(real, axis);
  if (is_inverse && is_onesided) {
    const std::optional<int64_t> half = count.AsConst();
    if (!half) return {c.Unsupported("an extent that is known only when the model runs")};
    const int64_t whole = length.value_or(2 * (*half - 1));
    if (c.failed() || whole < 1) return {c.failed() ? nullptr : c.Fail("its length is below 1")};
    real = importing::InverseOfReal(c, {real, imaginary}, axis, whole);
    real = c.Div(real, c.Number(static_cast<double>(whole), real));
    return {c.Unsqueeze(real, {rank - 1})};
  }
  if (c.failed()) return {};
  const importing::Spectrum result = is_onesided ? importing::TransformReal(c, real, axis)
                                                 : importing::Transform(c, {real, imaginary}, axis, is_inverse);
  auto finished = [&](Operand part) {
    return is_inverse ? c.Div(part, c.Cast(c.emit().FromDim(count), c.DTypeOf(part))) : part;
  };
  return {c.Op("stack", {c.emit().Tuple({finished(result.real), finished(result.imaginary)})}, {{"axis", rank - 1}})};
}

Operands STFT(NodeContext& c) {
  Operand signal = c.In(0);
  std::optional<std::vector<int64_t>> step = c.Constants(c.In(1), "step");
  if (!step || step->size() != 1) return {};
  Operand window = c.Has(2) ? c.In(2) : nullptr;
  int64_t length = 0;
  if (c.Has(3)) {
    std::optional<std::vector<int64_t>> given = c.Constants(c.In(3), "frame length");
    if (!given || given->size() != 1) return {};
    length = (*given)[0];
  } else if (window != nullptr) {
    length = importing::KnownExtent(c, window, 0, "window").value_or(0);
  }
  if (c.failed()) return {};
  if (length < 1 || (*step)[0] < 1) return {c.Fail("its frame length or its step is below 1")};
  if (c.RankOf(signal) == 3) {
    if (c.ExtentOf(signal, 2) != Dim(1)) return {c.Unsupported("a complex signal")};
    signal = c.Squeeze(signal, {2});
  }
  Operand frames = importing::Frames(c, signal, length, (*step)[0]);
  if (window != nullptr) frames = c.Mul(frames, c.Cast(window, c.DTypeOf(signal)));
  if (c.failed()) return {};
  const importing::Spectrum spectrum =
      c.Int("onesided", 1) != 0 ? importing::TransformReal(c, frames, 2) : importing::Transform(c, {frames}, 2, false);
  return {c.Op("stack", {c.emit().Tuple({spectrum.real, spectrum.imaginary})}, {{"axis", -1}})};
}

Operands MelWeightMatrix(NodeContext& c) {
  DataType dtype = c.DTypeAttr("output_datatype", kFloat32);
  std::vector<double> values;
  for (size_t i = 0; i < 5; ++i) {
    Operand input = c.In(i);
    if (!input->constant || input->constant->num_elements() != 1)
      return {c.Unsupported("parameters that are known only when the model runs; freeze the inputs they are")};
    values.push_back(input->constant->DoubleAt(0));
  }
  int64_t bins = static_cast<int64_t>(values[0]), length = static_cast<int64_t>(values[1]), spectrum = length / 2 + 1;
  if (bins < 1 || length < 1 || bins > 4096 || length > (int64_t{1} << 20)) return {c.Unsupported("so many bins")};
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double low = mel(values[3]), high = mel(values[4]), step = (high - low) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor((static_cast<double>(length) + 1) * hertz / values[2])));
  }
  std::vector<float> matrix(static_cast<size_t>(bins * spectrum), 0);
  auto set = [&](int64_t row, int64_t column, double value) {
    if (row >= 0 && row < spectrum) matrix[static_cast<size_t>(row * bins + column)] = static_cast<float>(value);
  };
  for (int64_t bin = 0; bin < bins; ++bin) {
    size_t i = static_cast<size_t>(bin);
    int64_t begin = edges[i], centre = edges[i + 1], end = edges[i + 2];
    if (centre == begin) set(centre, bin, 1);
    for (int64_t k = std::max<int64_t>(begin, 0); k <= std::min(centre, spectrum) && centre > begin; ++k) {
      set(k, bin, static_cast<double>(k - begin) / static_cast<double>(centre - begin));
    }
    for (int64_t k = std::max<int64_t>(centre, 0); k < std::min(end, spectrum) && end > centre; ++k) {
      set(k, bin, static_cast<double>(end - k) / static_cast<double>(end - centre));
    }
  }
  return {c.Cast(c.emit().Constant(Literal::FromValues<float>(kFloat32, {spectrum, bins}, matrix)), dtype)};
}

constexpr OperatorRow kRows[] = {
    {"BlackmanWindow", BlackmanWindow},   {"DFT", DFT},   {"HammingWindow", HammingWindow}, {"HannWindow", HannWindow},
    {"MelWeightMatrix", MelWeightMatrix}, {"STFT", STFT},
};

}  // namespace

std::span<const OperatorRow> SpectrumOperators() { return kRows; }

}  // namespace rvm::onnx::convert
