// Random numbers. The language draws them by keys (Threefry), so the program stays a function: the same seed gives the
// same numbers. Nodes with an attribute `seed` have a key of their own; the others share the model's argument `seed`.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "compiler/import/onnx/converters.h"

namespace rvm::onnx {
namespace {

// uint64[10]: the seed and what stands behind it (docs/operators.md).
Operand KeyOf(NodeContext& c, Operand seed) {
  const uint64_t rest[] = {0, 0, 0, 0, 0, 0, 0, uint64_t{1} << 63, 0};
  Operand behind = c.emit().Constant(Literal::FromValues<uint64_t>(kUInt64, {9}, rest));
  Operand parts = c.emit().Tuple({c.Reshape(c.Cast(seed, kUInt64), {1}), behind});
  return c.Op("concatenate", {parts}, {{"axis", 0}});
}

// The numbers of `op` ("random.uniform", "random.normal") with its two parameters.
Operand Draw(NodeContext& c, const std::string& op, double first, double second, const Dims& dims, DataType dtype) {
  if (!dtype.is_float()) return c.Unsupported(absl::StrCat("random numbers of dtype ", dtype.ToString()));
  Operands args = {c.Key(), c.emit().Number(first, dtype), c.emit().Number(second, dtype)};
  ir::Attrs attrs{{"out_dtype", dtype.ToString()}};
  bool is_known = std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_const(); });
  if (is_known) {
    ir::AttrValue::List shape;
    for (const Dim& dim : dims) shape.emplace_back(dim.constant());
    attrs.Set("out_shape", shape);
    return c.emit().Field(c.Op(op, args, attrs), 1);
  }
  args.push_back(c.emit().FromDims(dims));
  Operand numbers = c.emit().Field(c.Op(absl::StrCat("dyn.", op), args, attrs), 1);
  return c.emit().Retyped(numbers, c.emit().TensorType(dims, dtype));
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
    return KeyOf(*this, emit().Integer(bits));
  }
  if (importer_.key_ == nullptr) importer_.key_ = KeyOf(*this, importer_.seed_);
  Operand both = Op("random.threefry_split", {importer_.key_});
  importer_.key_ = emit().Field(both, 0);
  return emit().Field(both, 1);
}

namespace convert {

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
// Of each row of logarithms of chances, that many classes.
Operands Multinomial(NodeContext& c) {
  Operand chances = c.Op("nn.softmax", {c.In(0)}, {{"axis", -1}});
  Operand both = c.Op("random.multinomial", {c.Key(), chances}, {{"num_samples", c.Int("sample_size", 1)}});
  return {c.Cast(c.emit().Field(both, 1), c.DTypeAttr("dtype", kInt32))};
}

}  // namespace convert
}  // namespace rvm::onnx
