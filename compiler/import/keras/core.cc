// Dense layers, embeddings, masks, and layers that do nothing when a model is used.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/keras/importer.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Term;

Values Identity(LayerContext& c) { return {{c.In(), c.Mask()}}; }

// Multiplies the last axis by a matrix.
Values Dense(LayerContext& c) {
  Operand x = c.Real(), kernel = c.Weight("kernel"), bias = c.Weight("bias");
  if (c.failed()) return {};
  Operand y = c.Op("nn.matmul", {x, kernel});
  if (bias != nullptr) y = c.Add(y, bias);
  return {{c.Activated(y)}};
}

// The bias of an EinsumDense has the axes of the result that `bias_axes` names, and 1 for those behind the first one.
Values EinsumDense(LayerContext& c) {
  Operand x = c.Real(), kernel = c.Weight("kernel"), bias = c.Weight("bias");
  std::string equation = c.Text("equation", "");
  if (c.failed()) return {};
  // "..." stands for axes that the input has before those that are named.
  if (const size_t dots = equation.find("..."); dots != std::string::npos) {
    const std::string input = equation.substr(0, equation.find(','));
    const int64_t more = c.RankOf(x) - (static_cast<int64_t>(input.size()) - 3);
    if (more < 0 || more > 10) return {{c.Fail("its input does not fit its equation")}};
    std::string letters;
    for (char letter = 'A'; static_cast<int64_t>(letters.size()) < more; ++letter) {
      if (equation.find(letter) == std::string::npos) letters += letter;
    }
    for (size_t at; (at = equation.find("...")) != std::string::npos;) equation.replace(at, 3, letters);
  }
  Operand y = c.Op("einsum", {c.emit().Tuple({x, kernel})}, {{"equation", equation}});
  if (bias != nullptr) y = c.Add(y, bias);
  return {{c.Activated(y)}};
}

Values Embedding(LayerContext& c) {
  Operand x = c.In(), table = c.Weight("embeddings");
  if (c.failed()) return {};
  Operand indices = c.DTypeOf(x).is_integral() ? x : c.Cast(x, kInt32);
  Operand rows = c.Op("take", {table, indices}, {{"axis", 0}});
  Operand mask = c.Bool("mask_zero", false) ? c.Op("not_equal", {x, c.Number(0, x)}) : nullptr;
  return {{rows, mask}};
}

// Steps all of whose elements are the mask's value do not count, and become 0.
Values Masking(LayerContext& c) {
  Operand x = c.In();
  if (c.failed()) return {};
  const int64_t last = c.RankOf(x) - 1;
  auto any = [&](bool keeps) {
    Operand differs = c.Op("not_equal", {x, c.Number(c.Number("mask_value", 0), x)});
    return c.Op("any", {differs}, {{"axis", ir::AttrValue::List{last}}, {"keepdims", keeps}});
  };
  return {{c.Mul(x, c.Cast(any(true), c.DTypeOf(x))), any(false)}};
}

// The weights of the layer inside are stored normalised.
Values SpectralNormalization(LayerContext& c) {
  const JsonValue* layer = c.Member("layer");
  if (layer == nullptr) return {{c.Fail("it has no layer")}};
  return c.CallPart(*layer, "layer", {{.values = {{c.In()}}}});
}

constexpr LayerRow kRows[] = {
    {"ActivityRegularization", Identity, "", true},
    {"AlphaDropout", Identity, "", true},
    {"Dense", Dense, "", true},
    {"Dropout", Identity, "", true},
    {"EinsumDense", EinsumDense},
    {"Embedding", Embedding},
    {"GaussianDropout", Identity, "", true},
    {"GaussianNoise", Identity, "", true},
    {"Identity", Identity, "", true},
    {"Masking", Masking},
    {"SpatialDropout1D", Identity, "", true},
    {"SpatialDropout2D", Identity, "", true},
    {"SpatialDropout3D", Identity, "", true},
    {"SpectralNormalization", SpectralNormalization},
    {"StochasticDepth", Identity, "", true},  // of `keras.applications`
};

}  // namespace

std::span<const LayerRow> CoreLayers() { return kRows; }

}  // namespace rvm::keras
