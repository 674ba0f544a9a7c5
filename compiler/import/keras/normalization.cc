// Normalisations.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/norms.h"
#include "compiler/import/checks.h"
#include "compiler/import/keras/importer.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Normalised;
using importing::Term;

// Returns the axes of the config, from the front and sorted; the last one if it has none.
std::vector<int64_t> AxesOf(LayerContext& c, Operand x) {
  std::vector<int64_t> axes = c.Ints("axis");
  if (axes.empty()) axes = {-1};
  axes = c.failed() ? axes : c.Axes(axes, c.RankOf(x));
  std::ranges::sort(axes);
  return axes;
}

// Returns a tensor with the extents of some axes of x in a shape that broadcasts to x.
Operand Along(LayerContext& c, Operand vector, Operand x, const std::vector<int64_t>& axes) {
  if (vector == nullptr || c.failed()) return vector;
  Dims dims(c.DimsOf(x).size(), Dim(1));
  for (int64_t axis : axes) dims[static_cast<size_t>(axis)] = c.ExtentOf(x, axis);
  return c.Reshape(vector, dims);
}

Operand ScaleAndShift(LayerContext& c, Operand y, Operand scale, Operand shift) {
  if (scale != nullptr) y = c.Mul(y, scale);
  return shift == nullptr ? y : c.Add(y, shift);
}

Values BatchNormalization(LayerContext& c) {
  Operand x = c.Wide(c.Real());
  if (c.failed()) return {};
  const std::vector<int64_t> axes = AxesOf(c, x);
  Operand gamma = c.Wide(c.Weight("gamma")), beta = c.Wide(c.Weight("beta"));
  Operand mean = c.Wide(c.Weight("moving_mean")), variance = c.Wide(c.Weight("moving_variance"));
  if (c.failed()) return {};
  // The weights are constants, so that this is one multiplication and one addition.
  const Term root = Sqrt(Term(c, variance) + c.Number("epsilon", 1e-3));
  const Term scale = gamma == nullptr ? root.Like(1) / root : Term(c, gamma) / root;
  const Term shift = beta == nullptr ? -(Term(c, mean) * scale) : Term(c, beta) - Term(c, mean) * scale;
  return {{c.Computed(ScaleAndShift(c, x, Along(c, scale, x, axes), Along(c, shift, x, axes)))}};
}

Values LayerNormalization(LayerContext& c) {
  Operand x = c.Wide(c.Real());
  if (c.failed()) return {};
  const std::vector<int64_t> axes = AxesOf(c, x);
  const double epsilon = c.Number("epsilon", 1e-3);
  Operand gamma = Along(c, c.Wide(c.Weight("gamma")), x, axes), beta = Along(c, c.Wide(c.Weight("beta")), x, axes);
  if (c.failed()) return {};
  if (c.Bool("rms_scaling", false)) {
    // Keras scales by the variance, and neither subtracts the mean nor adds `beta`.
    const Normalised rms = importing::Normalise(c, x, ir::IntList(axes), epsilon);
    return {{c.Computed(ScaleAndShift(c, c.Mul(x, rms.inverse), gamma, nullptr))}};
  }
  return {{c.Computed(ScaleAndShift(c, importing::Normalise(c, x, ir::IntList(axes), epsilon).y, gamma, beta))}};
}

Values RmsNormalization(LayerContext& c) {
  Operand x = c.Wide(c.Real());
  if (c.failed()) return {};
  const std::vector<int64_t> axes = AxesOf(c, x);
  Operand inverse = importing::InverseRoot(c, x, ir::IntList(axes), c.Number("epsilon", 1e-6));
  Operand scale = Along(c, c.Wide(c.Weight("scale")), x, axes);
  return {{c.Computed(ScaleAndShift(c, c.Mul(x, inverse), scale, nullptr))}};
}

Values GroupNormalization(LayerContext& c) {
  Operand x = c.Wide(c.Real());
  if (c.failed()) return {};
  const std::vector<int64_t> axes = AxesOf(c, x);
  const std::optional<int64_t> channels = importing::KnownExtent(c, x, axes[0], "input");
  if (!channels || axes.size() != 1) return {{c.failed() ? nullptr : c.Fail("it has several axes")}};
  int64_t groups = c.Int("groups", 32);
  if (groups == -1) groups = *channels;
  if (groups < 1 || *channels % groups != 0) return {{c.Fail("its groups do not divide the channels")}};
  // The axis of channels becomes that of groups and that of the channels of one.
  Dims whole = c.DimsOf(x), dims = whole, parameters(whole.size() + 1, Dim(1));
  const auto axis = static_cast<size_t>(axes[0]);
  dims[axis] = Dim(*channels / groups);
  dims.insert(dims.begin() + static_cast<int64_t>(axis), Dim(groups));
  parameters[axis] = groups;
  parameters[axis + 1] = Dim(*channels / groups);
  std::vector<int64_t> over;
  for (size_t i = 1; i < dims.size(); ++i) {
    if (i != axis) over.push_back(static_cast<int64_t>(i));
  }
  Operand y = importing::Normalise(c, c.Reshape(x, dims), ir::IntList(over), c.Number("epsilon", 1e-3)).y;
  Operand gamma = c.Wide(c.Weight("gamma")), beta = c.Wide(c.Weight("beta"));
  if (c.failed()) return {};
  if (gamma != nullptr) gamma = c.Reshape(gamma, parameters);
  if (beta != nullptr) beta = c.Reshape(beta, parameters);
  return {{c.Computed(c.Reshape(ScaleAndShift(c, y, gamma, beta), whole))}};
}

Values UnitNormalization(LayerContext& c) {
  Operand x = c.Wide(c.Real());
  if (c.failed()) return {};
  const ir::Attrs over = {{"axis", ir::IntList(AxesOf(c, x))}, {"keepdims", true}};
  const Term sum(c, c.Op("sum", {c.Mul(x, x)}, over));
  return {{c.Computed(Term(c, x) / Max(Sqrt(sum), sum.Like(1e-12)))}};
}

// A layer of `keras.applications`, for ConvNeXt.
Values LayerScale(LayerContext& c) { return {{c.Mul(c.In(), c.Weight("gamma"))}}; }

constexpr LayerRow kRows[] = {
    {"BatchNormalization", BatchNormalization, "", true},
    {"GroupNormalization", GroupNormalization, "", true},
    {"LayerNormalization", LayerNormalization, "", true},
    {"LayerScale", LayerScale},
    {"RMSNormalization", RmsNormalization},
    {"UnitNormalization", UnitNormalization, "", true},
};

}  // namespace

std::span<const LayerRow> NormalizationLayers() { return kRows; }

}  // namespace rvm::keras
