// Gradients of elementwise operators and of those that broadcast.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

Term Exp(Term x) { return x.code().Call("exp", {x}); }
Term Rsqrt(Term x) { return x.code().Call("rsqrt", {x}); }

}  // namespace

// ---- one tensor

void IdentityGradient(Pullback& p) { p.Give(0, p.d()); }
void CastGradient(Pullback& p) { p.Give(0, p.d()); }
void NegativeGradient(Pullback& p) { p.Give(0, -p.d()); }
void AbsGradient(Pullback& p) { p.Give(0, p.d() * p.Call("sign", {p.x()})); }
void ExpGradient(Pullback& p) { p.Give(0, p.d() * p.y()); }
void LogGradient(Pullback& p) { p.Give(0, p.d() / p.x()); }
void Log2Gradient(Pullback& p) { p.Give(0, p.d() * 1.4426950408889634 / p.x()); }
void Log10Gradient(Pullback& p) { p.Give(0, p.d() * 0.4342944819032518 / p.x()); }
void SqrtGradient(Pullback& p) { p.Give(0, p.d() * 0.5 / p.y()); }
void RsqrtGradient(Pullback& p) { p.Give(0, p.d() * -0.5 * p.y() * p.y() * p.y()); }
void SigmoidGradient(Pullback& p) { p.Give(0, p.d() * p.y() * (1 - p.y())); }
void TanhGradient(Pullback& p) { p.Give(0, p.d() * (1 - p.y() * p.y())); }
void ErfGradient(Pullback& p) { p.Give(0, p.d() * 1.1283791670955126 * Exp(-(p.x() * p.x()))); }
void SinGradient(Pullback& p) { p.Give(0, p.d() * p.Call("cos", {p.x()})); }
void CosGradient(Pullback& p) { p.Give(0, -(p.d() * p.Call("sin", {p.x()}))); }
void TanGradient(Pullback& p) { p.Give(0, p.d() * (p.y() * p.y() + 1)); }
void AsinGradient(Pullback& p) { p.Give(0, p.d() * Rsqrt(1 - p.x() * p.x())); }
void AcosGradient(Pullback& p) { p.Give(0, -(p.d() * Rsqrt(1 - p.x() * p.x()))); }
void AtanGradient(Pullback& p) { p.Give(0, p.d() / (p.x() * p.x() + 1)); }
void SinhGradient(Pullback& p) { p.Give(0, p.d() * p.Call("cosh", {p.x()})); }
void CoshGradient(Pullback& p) { p.Give(0, p.d() * p.Call("sinh", {p.x()})); }
void AsinhGradient(Pullback& p) { p.Give(0, p.d() * Rsqrt(p.x() * p.x() + 1)); }
void AcoshGradient(Pullback& p) { p.Give(0, p.d() * Rsqrt(p.x() * p.x() - 1)); }
void AtanhGradient(Pullback& p) { p.Give(0, p.d() / (1 - p.x() * p.x())); }

void ReluGradient(Pullback& p) { p.Give(0, Where(p.Call("greater", {p.y(), Zero(p.y())}), p.d(), Zero(p.d()))); }
void LeakyReluGradient(Pullback& p) {
  p.Give(0, Where(p.Call("greater", {p.x(), Zero(p.x())}), p.d(), p.d() * p.attrs().GetDouble("alpha")));
}
void ClipGradient(Pullback& p) {
  Term above = p.Call("greater", {p.x(), p.Scalar(p.attrs().GetDouble("a_min"), p.x())});
  Term below = p.Call("less", {p.x(), p.Scalar(p.attrs().GetDouble("a_max"), p.x())});
  p.Give(0, Where(p.Call("logical_and", {above, below}), p.d(), Zero(p.d())));
}

// ---- activations

void Log1pGradient(Pullback& p) { p.Give(0, p.d() / (p.x() + 1)); }
void Expm1Gradient(Pullback& p) { p.Give(0, p.d() * (p.y() + 1)); }
void SiluGradient(Pullback& p) {
  Term gate = p.Call("sigmoid", {p.x()});
  p.Give(0, p.d() * gate * (p.x() * (1 - gate) + 1));
}
void SoftplusGradient(Pullback& p) { p.Give(0, p.d() * p.Call("sigmoid", {p.x() * p.attrs().GetDouble("beta")})); }
// At 0 the slope is alpha, as in PyTorch.
void EluGradient(Pullback& p) {
  Term is_positive = p.Call("greater", {p.x(), Zero(p.x())});
  p.Give(0, Where(is_positive, p.d(), p.d() * (p.y() + p.attrs().GetDouble("alpha"))));
}
void GeluGradient(Pullback& p) {
  Term x = p.x();
  if (p.attrs().GetString("approximate") == "tanh") {
    Term t = p.Call("tanh", {(x * x * 0.044715 + 1) * x * 0.7978845608028654});
    Term slope = (x * x * 0.134145 + 1) * 0.7978845608028654;
    return p.Give(0, p.d() * 0.5 * (t + 1 + x * slope * (1 - t * t)));
  }
  Term below = (p.Call("erf", {x * 0.7071067811865476}) + 1) * 0.5;
  p.Give(0, p.d() * (below + x * 0.3989422804014327 * Exp(x * x * -0.5)));
}

// ---- two tensors that broadcast

void AddGradient(Pullback& p) {
  p.Give(0, p.d());
  p.Give(1, p.d());
}
void SubtractGradient(Pullback& p) {
  p.Give(0, p.d());
  p.Give(1, -p.d());
}
void MultiplyGradient(Pullback& p) {
  p.Give(0, p.d() * p.x(1));
  p.Give(1, p.d() * p.x(0));
}
void DivideGradient(Pullback& p) {
  Term share = p.d() / p.x(1);
  p.Give(0, share);
  p.Give(1, -(share * p.y()));
}
void FloorModGradient(Pullback& p) {
  p.Give(0, p.d());
  p.Give(1, -(p.d() * p.Call("floor_divide", {p.x(0), p.x(1)})));
}
void TruncModGradient(Pullback& p) {
  p.Give(0, p.d());
  p.Give(1, -(p.d() * p.Call("trunc_divide", {p.x(0), p.x(1)})));
}
// b = 0 gives 0 for a, also where a = 0; a base that is not positive gives 0 for b, whose derivative is none there.
void PowerGradient(Pullback& p) {
  Term a = p.x(0), b = p.x(1);
  Term slope = b * p.Call("power", {a, b - 1});
  p.Give(0, p.d() * Where(p.Call("equal", {b, Zero(b)}), Zero(slope), slope));
  Term positive = p.Call("greater", {a, Zero(a)});
  Term log = p.Call("log", {Where(positive, a, p.Scalar(1, a))});
  p.Give(1, p.d() * Where(positive, p.y() * log, Zero(log)));
}

namespace {
// Ties are shared half and half.
void ExtremeGradient(Pullback& p, std::string_view compare) {
  Term a = p.x(0), b = p.x(1);
  Term first = Where(p.Call("equal", {a, b}), p.Scalar(0.5, a), Cast(p.Call(compare, {a, b}), a.type().dtype));
  p.Give(0, p.d() * first);
  p.Give(1, p.d() * (1 - first));
}
}  // namespace
void MaximumGradient(Pullback& p) { ExtremeGradient(p, "greater"); }
void MinimumGradient(Pullback& p) { ExtremeGradient(p, "less"); }

// Both are 0 at the origin, where there is no angle.
void Atan2Gradient(Pullback& p) {
  Term y = p.x(0), x = p.x(1), square = x * x + y * y;
  Term is_origin = p.Call("equal", {square, Zero(square)});
  Term share = p.d() / Where(is_origin, p.Scalar(1, square), square);
  p.Give(0, share * x);
  p.Give(1, -(share * y));
}
void WhereGradient(Pullback& p) {
  Term condition = p.x(0);
  p.Give(1, Where(condition, p.d(), Zero(p.d())));
  p.Give(2, Where(condition, Zero(p.d()), p.d()));
}
void BiasAddGradient(Pullback& p) {
  p.Give(0, p.d());
  p.Give(1, SumBut(p.d(), p.attrs().GetInt("axis")));
}
// The shape of the second argument counts, not its elements.
void BroadcastGradient(Pullback& p) { p.Give(0, p.d()); }
void CollapseSumLikeGradient(Pullback& p) { p.Give(0, p.Call("broadcast_to_like", {p.d(), p.x(0)})); }
// Random numbers as functions of their parameters, the key being what it is.
void UniformGradient(Pullback& p) {
  if (!p.has_d(1)) return;
  Term low = p.x(1), high = p.x(2), d = p.d(1);
  Term share = p.Call("sum", {d * (p.y(1) - low) / (high - low)});
  p.Give(1, p.Call("sum", {d}) - share);
  p.Give(2, share);
}
void NormalGradient(Pullback& p) {
  if (!p.has_d(1)) return;
  p.Give(1, p.Call("sum", {p.d(1)}));
  p.Give(2, p.Call("sum", {p.d(1) * (p.y(1) - p.x(1)) / p.x(2)}));
}
// start + i * step; where it stops only counts.
void ArangeGradient(Pullback& p) {
  p.Give(0, p.Call("sum", {p.d()}));
  p.Give(2, p.Call("sum", {p.d() * Cast(Places(p.d(), 0), p.d().type().dtype)}));
}
void FullGradient(Pullback& p) { p.Give(0, p.Call("sum", {p.d()})); }
void FullLikeGradient(Pullback& p) { p.Give(1, p.Call("sum", {p.d()})); }

}  // namespace rvm::ops
