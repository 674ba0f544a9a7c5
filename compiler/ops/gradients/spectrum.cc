// Gradients of Fourier transforms.
#include <cmath>
#include <cstdint>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

}  // namespace

// The transform back, which divides by the extent where the transform does not.
void DftGradient(Pullback& p) {
  bool inverse = p.attrs().GetBool("inverse");
  auto adjoint = [&](size_t result) { return p.has_d(result) ? p.d(result) : p.Call("zeros_like", {p.y(result)}); };
  Term re = adjoint(0), im = adjoint(1);
  std::vector<Term> back = p.CallForTuple("dft", {re, im}, ir::Attrs{{"inverse", !inverse}});
  Term extent = Cast(Extent(re, re.rank() - 1), re.type().dtype);
  for (size_t i = 0; i < 2; ++i) p.Give(i, inverse ? back[i] / extent : back[i] * extent);
}

// Frames times the window, times the matrix of the waves.
void StftGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  int64_t size = attrs.GetInt("n_fft"), length = attrs.GetInt("win_length");
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term signal = WideFloat(x[0]), window = Cast(x[1], signal.type().dtype);
    if (signal.rank() == 1) signal = Expanded(signal, 0);
    Term places = Counted(p, length);
    Term at = Expanded(Places(p.d(), 2) * static_cast<double>(attrs.GetInt("hop_length")), 1) + places;
    // (batch, frames, elements)
    Term frames = p.Call("take", {signal, at}, ir::Attrs{{"axis", 1}}) * window;
    Term frequencies = Counted(p, attrs.GetBool("onesided") ? size / 2 + 1 : size);
    Term step = p.Call("floor_mod", {Expanded(places, 1) * frequencies, p.Int(length)});
    Term angle = Cast(step, signal.type().dtype) * (kTwoPi / static_cast<double>(length));
    std::vector<Term> parts;
    for (Term wave : {p.Call("cos", {angle}), -p.Call("sin", {angle})}) {
      parts.push_back(Transposed(p.Call("nn.matmul", {frames, wave}), {0, 2, 1}));
    }
    Term waves = Stacked(parts, 3);
    if (attrs.GetBool("normalized")) waves = waves / std::sqrt(static_cast<double>(size));
    return Cast(waves, p.type(0).dtype);
  });
}

}  // namespace rvm::ops
