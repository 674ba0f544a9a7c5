// Fourier transforms of tensors and of frames of signals.
#include "compiler/import/blocks/spectrum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Spectrum;
using importing::Term;

// By what a transform is multiplied: 1, 1 / sqrt(n), 1 / n.
enum class Norm : uint8_t { kNone, kByRoot, kByCount };

Spectrum SpectrumOf(NodeContext& c, Operand x) {
  if (!IsComplex(x)) return {c.Floating(x), nullptr};
  return {PartOf(c, x, false), PartOf(c, x, true)};
}

// The transforms of a node of torch.fft.
struct Transformed {
  std::vector<int64_t> axes;                    // the last one is that of real numbers
  std::vector<std::optional<int64_t>> lengths;  // by axis
  bool is_inverse = false, gives_half = false, takes_half = false;
  Norm norm = Norm::kNone;
};

// Returns what torch.fft's functions mean by `norm`.
Norm NormOf(NodeContext& c, bool is_inverse) {
  const std::string norm = c.Text("norm", "backward");
  if (norm == "ortho") return Norm::kByRoot;
  return (norm == "forward") != is_inverse ? Norm::kByCount : Norm::kNone;
}

Transformed ReadCore(NodeContext& c, std::string_view name, int64_t rank) {
  Transformed read{.axes = c.Axes(c.Ints("dim"), rank)};
  read.lengths.resize(read.axes.size());
  read.norm = static_cast<Norm>(c.Int("normalization", 0));
  if (name == "_fft_c2c") read.is_inverse = !c.Bool("forward", true);
  if (name == "_fft_r2c") read.gives_half = c.Bool("onesided", true);
  if (name == "_fft_c2r") {
    read.is_inverse = read.takes_half = true;
    if (!read.lengths.empty()) read.lengths.back() = c.Int("last_dim_size", 0);
  }
  return read;
}

// fft_fft, fft_ifft2, fft_rfftn and the like.
Transformed Read(NodeContext& c, std::string_view name, int64_t rank) {
  Transformed read;
  std::string_view rest = name.substr(std::string_view("fft_").size());
  const bool is_real = rest.starts_with("r") || rest.starts_with("ir");
  read.is_inverse = rest.starts_with("i");
  read.gives_half = is_real && !read.is_inverse;
  read.takes_half = is_real && read.is_inverse;
  read.norm = NormOf(c, read.is_inverse);
  if (rest.ends_with("fft")) {
    read.axes = {c.Axis(c.Int("dim", -1), rank)};
    if (c.Has("n")) read.lengths = {c.Int("n", 0)};
  } else {
    const std::vector<int64_t> lengths = c.Ints("s");
    if (c.Has("dim")) {
      read.axes = c.Axes(c.Ints("dim"), rank);
    } else {
      const auto count = lengths.empty() ? (rest.ends_with("2") ? 2 : rank) : static_cast<int64_t>(lengths.size());
      for (int64_t axis = rank - count; axis < rank; ++axis) read.axes.push_back(axis);
    }
    read.lengths.assign(lengths.begin(), lengths.end());
  }
  for (std::optional<int64_t>& length : read.lengths) {
    if (length == -1) length.reset();
  }
  read.lengths.resize(read.axes.size());
  return read;
}

Operand Scaled(NodeContext& c, Operand x, Operand count, Norm norm) {
  if (x == nullptr || norm == Norm::kNone) return x;
  const Term n(c, c.Cast(count, c.DTypeOf(x)));
  return Term(c, x) / (norm == Norm::kByRoot ? Sqrt(n) : n);
}

// ---- windows of signals

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), and the like.
double WindowAt(NodeContext& c, std::string_view name, double i, double n) {
  const double angle = n > 0 ? 2 * std::numbers::pi * i / n : 0;
  if (name == "hann_window") return 0.5 - 0.5 * std::cos(angle);
  if (name == "hamming_window") return c.Float("alpha", 0.54) - c.Float("beta", 0.46) * std::cos(angle);
  if (name == "blackman_window") return 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle);
  if (name == "bartlett_window") return n > 0 ? 1 - std::abs(2 * i / n - 1) : 1;
  // Kaiser's: Bessel functions of the first kind of order 0.
  const double beta = c.Float("beta", 12), at = n > 0 ? 2 * i / n - 1 : 0;
  return std::cyl_bessel_i(0, beta * std::sqrt(std::max(1 - at * at, 0.0))) / std::cyl_bessel_i(0, beta);
}

Operands Window(NodeContext& c) {
  const int64_t length = c.Int("window_length", 0);
  if (c.failed() || length < 0 || length > (int64_t{1} << 24))
    return {c.failed() ? nullptr : c.Fail("its length is out of range")};
  const bool is_periodic = c.Bool("periodic", true);
  std::vector<double> values;
  for (int64_t i = 0; i < length; ++i) {
    const double n = static_cast<double>(length - (is_periodic ? 0 : 1));
    values.push_back(length == 1 ? 1 : WindowAt(c, c.row().name, static_cast<double>(i), n));
  }
  Operand window = c.emit().Constant(Literal::FromValues<double>(kFloat64, {length}, values));
  return {c.Cast(window, c.OutputDType(0).value_or(kFloat32))};
}

// The frequencies of a transform of n numbers that are `d` apart.
Operands Frequencies(NodeContext& c) {
  const int64_t n = c.Int("n", 0);
  if (c.failed() || n < 1 || n > (int64_t{1} << 24)) return {c.failed() ? nullptr : c.Fail("its `n` is out of range")};
  const bool is_half = c.row().name == "fft_rfftfreq";
  std::vector<double> values;
  for (int64_t i = 0; i < (is_half ? n / 2 + 1 : n); ++i) {
    const int64_t k = is_half || i < (n + 1) / 2 ? i : i - n;
    values.push_back(static_cast<double>(k) / (static_cast<double>(n) * c.Float("d", 1)));
  }
  const auto count = static_cast<int64_t>(values.size());
  Operand frequencies = c.emit().Constant(Literal::FromValues<double>(kFloat64, {count}, values));
  return {c.Cast(frequencies, c.OutputDType(0).value_or(kFloat32))};
}

// fft_fftshift: the frequency 0 in the middle; and back.
Operands Shift(NodeContext& c) {
  Operand x = c.In("self");
  const int64_t rank = c.RankOf(x);
  const std::vector<int64_t> axes = c.Has("dim") ? c.Axes(c.Ints("dim"), rank) : importing::AllAxes(rank);
  for (int64_t axis : axes) {
    const Dim extent = c.ExtentOf(x, axis), half = FloorDiv(extent, 2);
    const Dim first = c.row().name == "fft_fftshift" ? extent - half : half;
    if (c.failed()) return {};
    x = c.Concatenate({c.SliceAxis(x, axis, first, extent), c.SliceAxis(x, axis, 0, first)}, axis);
  }
  return {x};
}

// ---- frames of signals

// The window of a frame: of `win_length`, in the middle of `n_fft`.
Operand FrameWindow(NodeContext& c, int64_t size, DataType dtype) {
  const int64_t length = c.Int("win_length", size);
  Operand window =
      c.Has("window") ? c.Cast(c.In("window"), dtype) : c.emit().Constant(Literal::Full(dtype, {length}, 1));
  if (c.failed() || length > size || length < 1)
    return c.failed() ? window : c.Fail("its window is longer than a frame");
  const int64_t before = (size - length) / 2;
  return length == size ? window : importing::PadBy(c, window, 0, {Dim(before), Dim(size - length - before)});
}

struct Framing {
  int64_t size, hop;
};
std::optional<Framing> FramingOf(NodeContext& c) {
  Framing framing{c.Int("n_fft", 0), 0};
  framing.hop = c.Int("hop_length", framing.size / 4);
  if (c.failed()) return std::nullopt;
  if (framing.size >= 1 && framing.hop >= 1) return framing;
  c.Fail("its frame length or its step is below 1");
  return std::nullopt;
}

// ---- complex numbers made of real ones

Operands MakeOfParts(NodeContext& c) {
  Operand re = c.In("real"), im = c.In("imag");
  c.Promote({&re, &im});
  Term a(c, re), b(c, im);
  return {MakeComplex(c, Broadcast(a, b), Broadcast(b, a))};
}

Operands MakePolar(NodeContext& c) {
  Operand length = c.In("abs"), angle = c.In("angle");
  c.Promote({&length, &angle});
  Term r(c, length), t(c, angle);
  return {importing::Polar(r, t)};
}

Operands ViewAsComplex(NodeContext& c) {
  Operand x = c.In("self");
  if (c.failed() || c.ExtentOf(x, -1) != Dim(2))
    return {c.failed() ? nullptr : c.Fail("its last axis is not of 2 parts")};
  return {importing::FromPairs(c, x)};
}

Operands Unchanged(NodeContext& c) { return {c.In("self")}; }
Operands OfReal(NodeContext& c) { return {c.Fail("its input is not complex")}; }

// fft_fft and the others of torch.fft that transform axes, and the core operators that these are made of.
// Transforms axes one by one; that of real numbers first where they are given, last where they are the result.
Operands FourierTransform(NodeContext& c) {
  const std::string_view name = c.row().name;
  Operand given = c.In("self");
  if (c.failed()) return {};
  Spectrum x = SpectrumOf(c, given);
  const int64_t rank = c.RankOf(x.real);
  const Transformed read = name.starts_with("_") ? ReadCore(c, name, rank) : Read(c, name, rank);
  if (c.failed() || read.axes.empty()) return {c.failed() ? nullptr : given};
  std::vector<size_t> order;
  for (size_t i = 0; i + 1 < read.axes.size(); ++i) order.push_back(i);
  order.insert(read.takes_half ? order.end() : order.begin(), read.axes.size() - 1);
  Operand count = c.Integer(1);
  for (size_t i : order) {
    const bool is_half = i + 1 == read.axes.size();
    const int64_t axis = read.axes[i];
    std::optional<int64_t> length = read.lengths[i];
    if (length && *length < 1) return {c.Fail("its length is below 1")};
    if (is_half && read.takes_half) {
      const std::optional<int64_t> extent = c.ExtentOf(x.real, axis).AsConst();
      if (!extent) return {c.Unsupported("an extent that is known only when the model runs")};
      if (!length) length = 2 * (*extent - 1);
      if (*length < 1) return {c.Fail("its length is below 1")};
      if (x.imaginary == nullptr) x.imaginary = c.Op("zeros_like", {x.real});
      x = {importing::InverseOfReal(c, x, axis, *length), nullptr};
      count = c.Mul(count, c.Integer(*length));
    } else {
      if (length) x = {importing::Fitted(c, x.real, axis, *length), importing::Fitted(c, x.imaginary, axis, *length)};
      count = c.Mul(count, c.emit().FromDim(c.ExtentOf(x.real, axis)));
      x = is_half && read.gives_half ? importing::TransformReal(c, x.real, axis)
                                     : importing::Transform(c, x, axis, read.is_inverse);
    }
    if (c.failed()) return {};
  }
  x = {Scaled(c, x.real, count, read.norm), Scaled(c, x.imaginary, count, read.norm)};
  return {x.imaginary == nullptr ? x.real : MakeComplex(c, x.real, x.imaginary)};
}

// Gives (batch, frequencies, frames) of signals (batch, time), or of one.
Operands Stft(NodeContext& c) {
  Operand signal = c.In("self");
  const std::optional<Framing> framing = FramingOf(c);
  if (!framing) return {};
  if (IsComplex(signal)) return {c.Unsupported("a complex signal")};
  if (c.Bool("align_to_window", false)) return {c.Unsupported("frames that begin with the window")};
  const bool is_one = c.RankOf(signal) == 1;
  if (is_one) signal = c.Unsqueeze(signal, {0});
  if (c.overload() == "center" && c.Bool("center", true)) {
    const int64_t half = framing->size / 2;
    if (c.Text("pad_mode", "reflect") == "constant") {
      signal = importing::PadBy(c, signal, 0, {0, 0, half, half});
    } else {
      ir::AttrValue::List widths = {ir::AttrValue::List{0, 0}, ir::AttrValue::List{half, half}};
      const std::string mode = c.Text("pad_mode", "reflect");
      if (mode != "reflect") return {c.Unsupported("a border that is neither reflected nor constant")};
      signal = c.Op("nn.mirror_pad", {signal}, {{"pad_width", widths}, {"mode", "REFLECT"}});
    }
  }
  Operand frames = importing::Frames(c, signal, framing->size, framing->hop);
  frames = c.Mul(frames, FrameWindow(c, framing->size, c.DTypeOf(signal)));
  if (c.failed()) return {};
  Spectrum spectrum = c.Bool("onesided", true) ? importing::TransformReal(c, frames, 2)
                                               : importing::Transform(c, {frames, nullptr}, 2, false);
  auto finished = [&](Operand part) {
    if (c.Bool("normalized", false)) part = Scaled(c, part, c.Integer(framing->size), Norm::kByRoot);
    part = importing::SwapAxes(c, part, 1, 2);
    return is_one ? c.Squeeze(part, {0}) : part;
  };
  Operand result = MakeComplex(c, finished(spectrum.real), finished(spectrum.imaginary));
  return {c.Bool("return_complex", true) ? result : importing::ToPairs(c, result)};
}

// Adds the inverse transforms of frames, each multiplied by the window, and divides by the sums of squares of windows.
Operands InverseStft(NodeContext& c) {
  Operand given = c.In("self");
  const std::optional<Framing> framing = FramingOf(c);
  if (!framing || !IsComplex(given)) return {c.failed() ? nullptr : c.Fail("its input is not complex")};
  if (c.Bool("return_complex", false) || !c.Bool("onesided", true)) return {c.Unsupported("a complex signal")};
  Spectrum x = SpectrumOf(c, given);
  const bool is_one = c.RankOf(x.real) == 2;
  auto frames_last = [&](Operand part) {
    if (is_one) part = c.Unsqueeze(part, {0});
    return importing::SwapAxes(c, part, 1, 2);
  };
  const DataType dtype = c.DTypeOf(x.real);
  Term frames(c, importing::InverseOfReal(c, {frames_last(x.real), frames_last(x.imaginary)}, 2, framing->size));
  const auto size = static_cast<double>(framing->size);
  frames = frames * (c.Bool("normalized", false) ? 1 / std::sqrt(size) : 1 / size);
  const Term window(c, FrameWindow(c, framing->size, dtype));
  if (c.failed()) return {};
  Operand signal = importing::OverlapAdd(c, frames * window, framing->hop);
  const Dim count = c.ExtentOf(frames, 1);
  Operand squares = c.BroadcastTo(window * window, {Dim(1), count, Dim(framing->size)});
  Operand sums = importing::OverlapAdd(c, squares, framing->hop);
  const int64_t begin = c.Bool("center", true) ? framing->size / 2 : 0;
  const Dim whole = (count - 1) * framing->hop + framing->size;
  Dim end = whole - begin;
  Dim missing = 0;
  if (c.Has("length")) {
    const int64_t length = c.Int("length", 0);
    if (!whole.is_const()) {
      end = begin + length;
    } else {
      end = Dim(std::min(begin + length, whole.constant()));
      missing = Dim(begin + length - end.constant());
    }
  }
  auto cut = [&](Operand part) { return c.SliceAxis(part, 1, begin, end); };
  Operand result = c.Div(cut(signal), cut(sums));
  if (missing != Dim(0)) result = importing::PadBy(c, result, 0, {0, 0, 0, missing});
  return {is_one ? c.Squeeze(result, {0}) : result};
}

constexpr bool kTakesComplex = true;
constexpr OperatorRow kRows[] = {
    {"_conj", Unchanged},
    {"conj_physical", Unchanged},
    {"complex", MakeOfParts},
    {"polar", MakePolar},
    {"view_as_complex", ViewAsComplex},
    {"view_as_real", OfReal},
    {"imag", OfReal},
    {"_fft_c2c", FourierTransform, "", !kView, kTakesComplex},
    {"_fft_c2r", FourierTransform, "", !kView, kTakesComplex},
    {"_fft_r2c", FourierTransform, "", !kView, kTakesComplex},
    {"fft_fft", FourierTransform, "", !kView, kTakesComplex},
    {"fft_fft2", FourierTransform, "", !kView, kTakesComplex},
    {"fft_fftn", FourierTransform, "", !kView, kTakesComplex},
    {"fft_ifft", FourierTransform, "", !kView, kTakesComplex},
    {"fft_ifft2", FourierTransform, "", !kView, kTakesComplex},
    {"fft_ifftn", FourierTransform, "", !kView, kTakesComplex},
    {"fft_irfft", FourierTransform, "", !kView, kTakesComplex},
    {"fft_irfft2", FourierTransform, "", !kView, kTakesComplex},
    {"fft_irfftn", FourierTransform, "", !kView, kTakesComplex},
    {"fft_rfft", FourierTransform, "", !kView, kTakesComplex},
    {"fft_rfft2", FourierTransform, "", !kView, kTakesComplex},
    {"fft_rfftn", FourierTransform, "", !kView, kTakesComplex},
    {"fft_fftshift", Shift},
    {"fft_ifftshift", Shift},
    {"fft_fftfreq", Frequencies},
    {"fft_rfftfreq", Frequencies},
    {"bartlett_window", Window},
    {"blackman_window", Window},
    {"hamming_window", Window},
    {"hann_window", Window},
    {"kaiser_window", Window},
    {"istft", InverseStft, "", !kView, kTakesComplex},
    {"stft", Stft, "", !kView, kTakesComplex},
};

}  // namespace

std::span<const OperatorRow> SpectrumOperators() { return kRows; }

}  // namespace rvm::torch::convert
