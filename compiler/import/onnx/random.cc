// Random numbers. The language draws them by keys (Threefry), so the program stays a function: the same seed gives the
// same numbers. Nodes with an attribute `seed` have a key of their own; the others share the model's argument `seed`.
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/onnx/importer.h"
#include "compiler/import/random_numbers.h"

namespace rvm::onnx {
namespace {

Operand Draw(NodeContext& c, const std::string& op, double first, double second, const Dims& dims, DataType dtype) {
  return importing::DrawNumbers(c, c.Key(), op, first, second, dims, dtype);
}

Dims ShapeAttr(NodeContext& c) {
  Dims dims;
  for (int64_t extent : c.Ints("shape")) dims.push_back(extent);
  return dims;
}

Operand Normal(NodeContext& c, const Dims& dims, DataType dtype) {
  return Draw(c, "random.normal", c.Float("mean", 0), c.Float("scale", 1), dims, dtype);
}
Operand Uniform(NodeContext& c, const Dims& dims, DataType dtype) {
  return Draw(c, "random.uniform", c.Float("low", 0), c.Float("high", 1), dims, dtype);
}

}  // namespace

Operand NodeContext::Key() {
  // One of each turn of a loop would have to be threaded through it.
  if (importer_.subgraph_depth_ > 0) return Unsupported("random numbers inside of a subgraph");
  if (HasAttr("seed")) {
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(Float("seed", 0)));
    return importing::KeyOfSeed(*this, emit().Integer(bits));
  }
  return importer_.SplitKey(*this);
}

namespace convert {
namespace {

Operands RandomNormal(NodeContext& c) { return {Normal(c, ShapeAttr(c), c.DTypeAttr("dtype", kFloat32))}; }
Operands RandomNormalLike(NodeContext& c) {
  return {Normal(c, c.DimsOf(c.In(0)), c.DTypeAttr("dtype", c.DTypeOf(c.In(0))))};
}
Operands RandomUniform(NodeContext& c) { return {Uniform(c, ShapeAttr(c), c.DTypeAttr("dtype", kFloat32))}; }
Operands RandomUniformLike(NodeContext& c) {
  return {Uniform(c, c.DimsOf(c.In(0)), c.DTypeAttr("dtype", c.DTypeOf(c.In(0))))};
}
Operands Bernoulli(NodeContext& c) {
  Operand chance = c.In(0);
  Operand number = Draw(c, "random.uniform", 0, 1, c.DimsOf(chance), c.DTypeOf(chance));
  return {c.Cast(c.Op("less", {number, chance}), c.DTypeAttr("dtype", c.DTypeOf(chance)))};
}
// While training, each element is dropped with the probability `ratio`, and the others are scaled so that the mean
// stays.
Operands Dropout(NodeContext& c) {
  Operand x = c.In(0);
  bool trains = false;
  if (c.Has(2)) {
    std::optional<std::vector<int64_t>> mode = c.Constants(c.In(2), "training mode");
    if (!mode) return {};
    trains = !mode->empty() && (*mode)[0] != 0;
  }
  bool drops_none = c.Has(1) && c.In(1)->constant && c.In(1)->constant->DoubleAt(0) == 0;
  if (!trains || drops_none) {
    if (!c.WantsOutput(1)) return {x};
    return {x, c.Cast(c.Op("ones_like", {x}), kBool)};
  }
  DataType dtype = c.DTypeOf(x);
  Operand ratio = c.Has(1) ? c.Cast(c.In(1), dtype) : c.Number(0.5, x);
  Operand mask = c.Op("greater_equal", {Draw(c, "random.uniform", 0, 1, c.DimsOf(x), dtype), ratio});
  Operand scaled = c.Op("divide", {x, c.Op("subtract", {c.Number(1, x), ratio})});
  return {c.Op("where", {mask, scaled, c.Op("zeros_like", {x})}), mask};
}
// Samples that many classes from each row of log probabilities.
Operands Multinomial(NodeContext& c) {
  Operand chances = c.Op("nn.softmax", {c.In(0)}, {{"axis", -1}});
  Operand both = c.Op("random.multinomial", {c.Key(), chances}, {{"num_samples", c.Int("sample_size", 1)}});
  return {c.Cast(c.emit().Field(both, 1), c.DTypeAttr("dtype", kInt32))};
}

constexpr OperatorRow kRows[] = {
    {"Bernoulli", Bernoulli},
    {"Dropout", Dropout},
    {"Multinomial", Multinomial},
    {"RandomNormal", RandomNormal},
    {"RandomNormalLike", RandomNormalLike},
    {"RandomUniform", RandomUniform},
    {"RandomUniformLike", RandomUniformLike},
};

}  // namespace

std::span<const OperatorRow> RandomOperators() { return kRows; }

}  // namespace convert
}  // namespace rvm::onnx
