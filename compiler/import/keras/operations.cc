// Functions of keras.ops between layers: masks that models compute, and arithmetic.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/blocks/moves.h"
#include "compiler/import/keras/importer.h"

namespace rvm::keras {
namespace {

// Returns argument `position`: a tensor, or a number with the dtype of `like`; a mistake where it is neither.
Operand Argument(LayerContext& c, size_t position, Operand like = nullptr) {
  const GivenArgument* given = c.Find(position == 0 ? "x1" : "x2", position);
  if (given == nullptr) given = position == 0 ? c.Find("x", position) : nullptr;
  if (given != nullptr && given->tensor() != nullptr) return given->tensor();
  const JsonValue* value = given == nullptr ? nullptr : given->value;
  const DataType dtype = like == nullptr ? kFloat32 : c.DTypeOf(like);
  if (value != nullptr && value->AsDouble() != nullptr) return c.emit().Number(*value->AsDouble(), dtype);
  if (value != nullptr && value->AsInt() != nullptr) {
    return c.emit().Number(static_cast<double>(*value->AsInt()), dtype);
  }
  if (value != nullptr && value->AsBool() != nullptr) return c.emit().Number(*value->AsBool() ? 1 : 0, kBool);
  return c.Fail("an argument is neither a tensor nor a number");
}

Values Unary(LayerContext& c) { return {{c.Op(c.row().variant, {Argument(c, 0)})}}; }

Values Binary(LayerContext& c) {
  const GivenArgument* first = c.Find("x1", 0);
  const bool is_number_first = first != nullptr && first->values.empty();
  Operand b = is_number_first ? Argument(c, 1) : nullptr, a = Argument(c, 0, b);
  if (b == nullptr) b = Argument(c, 1, a);
  if (c.failed()) return {};
  if (c.DTypeOf(a) != c.DTypeOf(b)) return {{c.Unsupported("arguments of different dtypes")}};
  return {{c.Op(c.row().variant, {a, b})}};
}

Values Square(LayerContext& c) {
  Operand x = Argument(c, 0);
  return {{c.Mul(x, x)}};
}

Values Reduce(LayerContext& c) {
  Operand x = Argument(c, 0);
  const std::vector<int64_t> axes = c.Ints("axis");
  ir::Attrs attrs = {{"keepdims", c.Bool("keepdims", false)}};
  if (!axes.empty()) attrs.Set("axis", ir::IntList(axes));
  return {{c.Op(c.row().variant, {x}, std::move(attrs))}};
}

Values ExpandDims(LayerContext& c) {
  Operand x = Argument(c, 0);
  if (c.failed()) return {};
  return {{c.Unsqueeze(x, {c.Axis(c.Int("axis", 0), c.RankOf(x) + 1)})}};
}

Values ZerosLike(LayerContext& c) {
  Operand x = Argument(c, 0);
  if (c.failed()) return {};
  const std::optional<DataType> dtype = ParseDataType(c.Text("dtype", c.DTypeOf(x).ToString()));
  if (!dtype) return {{c.Unsupported("its dtype")}};
  return {{c.BroadcastTo(c.emit().Number(c.row().variant == "ones" ? 1 : 0, *dtype), c.DimsOf(x))}};
}

Values Cast(LayerContext& c) {
  Operand x = Argument(c, 0);
  const std::optional<DataType> dtype = ParseDataType(c.Text("dtype", "float32"));
  if (c.failed() || !dtype) return {{c.failed() ? nullptr : c.Unsupported("its dtype")}};
  return {{c.Cast(x, *dtype)}};
}

Values Concatenate(LayerContext& c) {
  Operands parts;
  for (size_t i = 0; i < c.inputs().size(); ++i) parts.push_back(c.In(i));
  if (parts.empty() || c.failed()) return {{c.failed() ? nullptr : c.Fail("it has no inputs")}};
  return {{c.Concatenate(parts, c.Axis(c.Int("axis", -1), c.RankOf(parts[0])))}};
}

Values Transpose(LayerContext& c) {
  Operand x = Argument(c, 0);
  std::vector<int64_t> axes = c.Ints("axes");
  if (c.failed()) return {};
  for (int64_t i = axes.empty() ? c.RankOf(x) : 0; i-- > 0;) axes.push_back(i);
  return {{c.Transpose(x, c.Axes(axes, c.RankOf(x)))}};
}

Values Reshape(LayerContext& c) {
  Operand x = Argument(c, 0);
  const std::vector<int64_t> shape = c.Ints("newshape");
  if (c.failed()) return {};
  const std::optional<Dims> dims = importing::TargetShape(c, c.DimsOf(x), Dims(shape.begin(), shape.end()));
  return {{dims ? c.Reshape(x, *dims) : nullptr}};
}

// Activation functions, whose arguments are those that layers have by default.
Values Activation(LayerContext& c) {
  const JsonValue name{std::string(c.row().variant)};
  return {{Activate(c, Argument(c, 0), &name)}};
}

constexpr LayerRow kRows[] = {
    {"Absolute", Unary, "abs"},
    {"Add", Binary, "add"},
    {"All", Reduce, "all"},
    {"Any", Reduce, "any"},
    {"Cast", Cast},
    {"Concatenate", Concatenate},
    {"Divide", Binary, "divide"},
    {"Equal", Binary, "equal"},
    {"Exp", Unary, "exp"},
    {"ExpandDims", ExpandDims},
    {"Greater", Binary, "greater"},
    {"GreaterEqual", Binary, "greater_equal"},
    {"Less", Binary, "less"},
    {"LessEqual", Binary, "less_equal"},
    {"Log", Unary, "log"},
    {"LogicalAnd", Binary, "logical_and"},
    {"LogicalNot", Unary, "logical_not"},
    {"LogicalOr", Binary, "logical_or"},
    {"Max", Reduce, "max"},
    {"Maximum", Binary, "maximum"},
    {"Mean", Reduce, "mean"},
    {"Min", Reduce, "min"},
    {"Minimum", Binary, "minimum"},
    {"Multiply", Binary, "multiply"},
    {"Negative", Unary, "negative"},
    {"NotEqual", Binary, "not_equal"},
    {"OnesLike", ZerosLike, "ones"},
    {"Power", Binary, "power"},
    {"Relu", Activation, "relu"},
    {"Relu6", Activation, "relu6"},
    {"Reshape", Reshape},
    {"Rsqrt", Unary, "rsqrt"},
    {"Sigmoid", Activation, "sigmoid"},
    {"Silu", Activation, "silu"},
    {"Sqrt", Unary, "sqrt"},
    {"Square", Square},
    {"Subtract", Binary, "subtract"},
    {"Sum", Reduce, "sum"},
    {"Tanh", Activation, "tanh"},
    {"Transpose", Transpose},
    {"TrueDivide", Binary, "divide"},
    {"ZerosLike", ZerosLike, "zeros"},
};

}  // namespace

std::span<const LayerRow> Operations() { return kRows; }

}  // namespace rvm::keras
