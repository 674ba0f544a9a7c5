// RNN, GRU and LSTM, rolled: one function that calls itself per direction, whatever the number of steps. What the
// inputs contribute to the gates is one matmul before the loop.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/recurrence.h"
#include "compiler/import/checks.h"
#include "compiler/import/loops.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/integer_product.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

using importing::Recurrence;
using importing::Rolled;
using importing::Sequence;
using importing::Step;

// An activation of a gate, with its parameters.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
};

Operand Activate(NodeContext& c, const Activation& activation, Operand x) {
  const std::string& name = activation.name;
  auto alpha = [&](double otherwise) { return activation.alpha.value_or(otherwise); };
  auto beta = [&](double otherwise) { return activation.beta.value_or(otherwise); };
  if (name == "sigmoid") return c.Op("sigmoid", {x});
  if (name == "tanh") return c.Op("tanh", {x});
  if (name == "relu") return c.Op("nn.relu", {x});
  if (name == "affine") return c.Add(c.Mul(x, c.Number(alpha(1), x)), c.Number(beta(0), x));
  if (name == "leakyrelu") return c.Op("nn.leaky_relu", {x}, {{"alpha", alpha(0.01)}});
  if (name == "thresholdedrelu") {
    return c.Where(c.Op("greater", {x, c.Number(alpha(1), x)}), x, c.Number(0, x));
  }
  if (name == "scaledtanh") return c.Mul(c.Op("tanh", {c.Mul(x, c.Number(beta(1), x))}), c.Number(alpha(1), x));
  if (name == "hardsigmoid") {
    Operand y = c.Add(c.Mul(x, c.Number(alpha(0.2), x)), c.Number(beta(0.5), x));
    return c.Op("clip", {y}, {{"a_min", 0.0}, {"a_max", 1.0}});
  }
  if (name == "elu") {
    Operand negative = c.Mul(c.Op("expm1", {x}), c.Number(alpha(1), x));
    return c.Where(c.Op("greater", {x, c.Number(0, x)}), x, negative);
  }
  if (name == "softsign") return c.Div(x, c.Add(c.Op("abs", {x}), c.Number(1, x)));
  if (name == "softplus") return c.Op("nn.softplus", {x});
  return c.Unsupported(absl::StrCat("activation ", name));
}

// One node, whichever of the three it is.
class Recurrent {
 public:
  Recurrent(NodeContext& c, int64_t gates, std::vector<std::string> standard)
      : c_(c), gates_(gates), standard_(std::move(standard)) {}

  // Weights are (directions, inputs, gates * hidden) integers, and what they are multiplied with is quantised in 256
  // steps between its least and its greatest element.
  void TakeQuantised() { quantised_ = true; }

  Operands Run() {
    Operand x = c_.In(0);
    bool batch_first = c_.Int("layout", 0) == 1;
    constexpr int64_t kSwapped[] = {1, 0, 2};
    if (c_.RankOf(x) != 3) return {c_.Fail("its input has not 3 axes")};
    if (batch_first) x = c_.Transpose(x, kSwapped);
    input_weights_ = c_.In(1);
    recurrent_weights_ = c_.In(2);
    std::optional<int64_t> hidden = c_.ExtentOf(recurrent_weights_, quantised_ ? 1 : 2).AsConst();
    hidden_ = hidden ? *hidden : c_.Int("hidden_size", 0);
    if (hidden_ < 1) return {c_.Fail("`hidden_size` is missing")};
    clip_ = c_.Float("clip", 0);
    std::string direction = c_.Text("direction", "forward");
    bool both = direction == "bidirectional";
    int64_t directions = both ? 2 : 1;
    std::optional<int64_t> stated = c_.ExtentOf(input_weights_, 0).AsConst();
    if (stated && *stated != directions) return {c_.Fail("its weights are not those of its directions")};
    ReadActivations(static_cast<size_t>(directions));
    batch_ = c_.ExtentOf(x, 1);
    steps_ = c_.ExtentOf(x, 0);
    if (c_.Has(4)) {
      Operand steps = c_.emit().FromDim(steps_);
      x = importing::CheckRange(c_, x, c_.In(4), c_.Integer(0), steps, "the length of a sequence");
    }
    lengths_ = c_.Has(4) ? c_.Unsqueeze(c_.Cast(c_.In(4), kInt64), {1}) : nullptr;
    Operands rows, hiddens, cells;
    for (int64_t d = 0; d < directions && !c_.failed(); ++d) {
      bool backwards = direction == "reverse" || d == 1;
      Results results = RunDirection(x, d, backwards, batch_first);
      if (c_.failed() || results.rows == nullptr || results.rows->is_placeholder) return {};
      rows.push_back(c_.Unsqueeze(results.rows, {1}));
      hiddens.push_back(c_.Unsqueeze(results.hidden, {0}));
      if (results.cell != nullptr) cells.push_back(c_.Unsqueeze(results.cell, {0}));
    }
    if (c_.failed()) return {};
    Operand y = c_.Concatenate(rows, 1), h = c_.Concatenate(hiddens, 0);
    Operand cell = cells.empty() ? nullptr : c_.Concatenate(cells, 0);
    if (batch_first) {
      constexpr int64_t kBatchOutside[] = {2, 0, 1, 3};
      y = c_.Transpose(y, kBatchOutside);
      h = c_.Transpose(h, kSwapped);
      cell = cell == nullptr ? nullptr : c_.Transpose(cell, kSwapped);
    }
    return {y, h, cell};
  }

 private:
  struct Results {
    Operand rows, hidden, cell;
  };
  // The matrix of a direction: (gates * hidden, inputs); integers with a scale and a zero point, of all or of each
  // column, are (inputs, gates * hidden).
  struct Matrix {
    Operand weights, scale = nullptr, zero_point = nullptr;
  };
  struct Weights {
    Matrix recurrent;
    Operand recurrent_bias;                                    // (gates * hidden)
    Operand input_peephole, output_peephole, forget_peephole;  // of LSTM, or null
  };

  void ReadActivations(size_t directions) {
    std::vector<std::string_view> names = c_.Texts("activations");
    std::vector<float> alphas = c_.Floats("activation_alpha"), betas = c_.Floats("activation_beta");
    size_t next_alpha = 0, next_beta = 0;
    for (size_t i = 0; i < directions * standard_.size(); ++i) {
      Activation activation = {standard_[i % standard_.size()], {}, {}};
      if (i < names.size()) activation.name = names[i];
      for (char& letter : activation.name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      const std::string& name = activation.name;
      bool has_alpha = name == "affine" || name == "leakyrelu" || name == "thresholdedrelu" || name == "scaledtanh" ||
                       name == "hardsigmoid" || name == "elu";
      bool has_beta = name == "affine" || name == "scaledtanh" || name == "hardsigmoid";
      if (has_alpha && next_alpha < alphas.size()) activation.alpha = alphas[next_alpha++];
      if (has_beta && next_beta < betas.size()) activation.beta = betas[next_beta++];
      activations_.push_back(activation);
    }
  }

  // Row `direction`, without that axis.
  Operand Row(Operand x, int64_t direction) { return c_.Squeeze(c_.SliceAxis(x, 0, direction, direction + 1), {0}); }
  Operand Part(size_t i, int64_t direction) { return Row(c_.In(i), direction); }
  // Row `direction`, a constant if x is one.
  Operand ConstantRow(Operand x, int64_t direction) {
    if (!x->constant || x->constant->rank() == 0 || direction >= x->constant->shape()[0]) return Row(x, direction);
    const Literal& all = *x->constant;
    Shape shape(all.shape().begin() + 1, all.shape().end());
    auto bytes = static_cast<size_t>(all.bytes() / all.shape()[0]);
    std::span<const std::byte> part(all.data() + static_cast<size_t>(direction) * bytes, bytes);
    std::string name = x->name.empty() ? "" : absl::StrCat(x->name, "_", direction);
    return c_.emit().Constant(Literal::FromBytes(all.dtype(), shape, part), name);
  }

  Matrix MatrixOf(Operand weights, size_t scale, int64_t direction) {
    if (!quantised_) return {Row(weights, direction)};
    return {ConstantRow(weights, direction), Part(scale, direction), ConstantRow(c_.In(scale + 1), direction)};
  }

  // Quantised values: (steps - zero_point) * scale.
  struct Quantised {
    Operand steps, zero_point, scale;
  };
  Quantised Quantise(Operand x) {
    Operand zero = c_.Number(0, x), one = c_.Number(1, x);
    Operand greatest = c_.Op("maximum", {c_.Op("max", {x}), zero}), least = c_.Op("minimum", {c_.Op("min", {x}), zero});
    Operand scale = c_.Div(c_.Sub(greatest, least), c_.Number(255, x));
    scale = c_.Where(c_.Op("greater", {scale, zero}), scale, one);
    auto in_range = [&](Operand y) {
      return c_.Op("clip", {c_.Op("round_half_even", {y})}, {{"a_min", 0.0}, {"a_max", 255.0}});
    };
    Operand zero_point = in_range(c_.Div(c_.Op("negative", {least}), scale));
    Operand steps = in_range(c_.Add(c_.Op("round_half_even", {c_.Div(x, scale)}), zero_point));
    return {c_.Cast(steps, kUInt8), c_.Cast(zero_point, kInt32), scale};
  }

  // x times the matrix. If that is quantised, so is x, and the product is one of integers.
  Operand Dense(Operand x, const Matrix& matrix) {
    if (!quantised_) return c_.Op("nn.dense", {x, matrix.weights});
    Quantised rows = Quantise(x);
    Operand sums = IntegerProduct(c_, rows.steps, rows.zero_point, matrix.weights, matrix.zero_point);
    return c_.Mul(c_.Cast(sums, kFloat32), c_.Mul(rows.scale, matrix.scale));
  }
  Operand Gate(Operand x, int64_t gate) {
    return c_.SliceAxis(x, c_.RankOf(x) - 1, gate * hidden_, (gate + 1) * hidden_);
  }
  Operand Clipped(Operand x) { return clip_ > 0 ? c_.Op("clip", {x}, {{"a_min", -clip_}, {"a_max", clip_}}) : x; }
  Operand Apply(int64_t direction, size_t which, Operand x) {
    return Activate(c_, activations_[static_cast<size_t>(direction) * standard_.size() + which], Clipped(x));
  }

  Operand Initial(size_t i, int64_t direction, bool batch_first, Operand x) {
    if (!c_.Has(i))
      return c_.BroadcastTo(c_.Op("full", {c_.Number(0, x)}, {{"shape", ir::AttrValue::List{1, hidden_}}}),
                            {batch_, hidden_});
    int64_t axis = batch_first ? 1 : 0;
    return c_.Squeeze(c_.SliceAxis(c_.In(i), axis, direction, direction + 1), {axis});
  }

  Results RunDirection(Operand x, int64_t direction, bool backwards, bool batch_first) {
    Weights weights = {.recurrent = MatrixOf(recurrent_weights_, 10, direction)};
    Operand input = Dense(x, MatrixOf(input_weights_, 8, direction));
    if (c_.Has(3)) {
      Operand bias = Part(3, direction);
      input = c_.Add(input, c_.SliceAxis(bias, 0, 0, gates_ * hidden_));
      weights.recurrent_bias = c_.SliceAxis(bias, 0, gates_ * hidden_, 2 * gates_ * hidden_);
    }
    bool is_lstm = gates_ == 4;
    if (is_lstm && c_.Has(7)) {
      Operand peepholes = Part(7, direction);
      weights.input_peephole = Gate(peepholes, 0);
      weights.output_peephole = Gate(peepholes, 1);
      weights.forget_peephole = Gate(peepholes, 2);
    }
    Operands state = {Initial(5, direction, batch_first, x)};
    if (is_lstm) state.push_back(Initial(6, direction, batch_first, x));
    if (c_.failed()) return {};
    const Sequence sequence = {.gates = input,
                               .steps = steps_,
                               .batch = batch_,
                               .hidden = hidden_,
                               .is_reversed = backwards,
                               .lengths = lengths_,
                               .wants_rows = c_.WantsOutput(0)};
    Recurrence result = RunSequence(c_, sequence, state, [&](Operand gates, const Operands& own) {
      return is_lstm       ? LstmStep(direction, gates, own, weights)
             : gates_ == 3 ? Operands{GruStep(direction, gates, own[0], weights)}
                           : Operands{RnnStep(direction, gates, own[0], weights)};
    });
    if (result.state.empty()) return {};
    return {result.rows, result.state[0], is_lstm ? result.state[1] : nullptr};
  }

  Operand WithBias(Operand x, Operand bias) { return bias == nullptr ? x : c_.Add(x, bias); }

  Operand RnnStep(int64_t direction, Operand gates, Operand h, const Weights& weights) {
    return Apply(direction, 0, c_.Add(gates, WithBias(Dense(h, weights.recurrent), weights.recurrent_bias)));
  }

  // Gates in the order z, r, h.
  Operand GruStep(int64_t direction, Operand gates, Operand h, const Weights& weights) {
    auto rows = [&](int64_t begin, int64_t end) {
      return Matrix{c_.SliceAxis(weights.recurrent.weights, 0, begin * hidden_, end * hidden_)};
    };
    auto bias = [&](int64_t begin, int64_t end) {
      return weights.recurrent_bias == nullptr
                 ? nullptr
                 : c_.SliceAxis(weights.recurrent_bias, 0, begin * hidden_, end * hidden_);
    };
    bool reset_after = c_.Int("linear_before_reset", 0) != 0;
    Operand z, r, candidate;
    if (reset_after) {
      Operand own = WithBias(Dense(h, weights.recurrent), weights.recurrent_bias);
      z = Apply(direction, 0, c_.Add(Gate(gates, 0), Gate(own, 0)));
      r = Apply(direction, 0, c_.Add(Gate(gates, 1), Gate(own, 1)));
      candidate = c_.Mul(r, Gate(own, 2));
    } else {
      Operand own = WithBias(Dense(h, rows(0, 2)), bias(0, 2));
      z = Apply(direction, 0, c_.Add(Gate(gates, 0), Gate(own, 0)));
      r = Apply(direction, 0, c_.Add(Gate(gates, 1), Gate(own, 1)));
      candidate = WithBias(Dense(c_.Mul(r, h), rows(2, 3)), bias(2, 3));
    }
    candidate = Apply(direction, 1, c_.Add(Gate(gates, 2), candidate));
    return c_.Add(c_.Mul(c_.Sub(c_.Number(1, z), z), candidate), c_.Mul(z, h));
  }

  // Gates in the order i, o, f, c.
  Operands LstmStep(int64_t direction, Operand gates, const Operands& own, const Weights& weights) {
    Operand h = own[0], cell = own[1];
    Operand all = c_.Add(gates, WithBias(Dense(h, weights.recurrent), weights.recurrent_bias));
    auto gate = [&](int64_t number, Operand peephole, Operand seen) {
      Operand x = Gate(all, number);
      return Apply(direction, 0, peephole == nullptr ? x : c_.Add(x, c_.Mul(peephole, seen)));
    };
    Operand input = gate(0, weights.input_peephole, cell);
    Operand forget =
        c_.Int("input_forget", 0) != 0 ? c_.Sub(c_.Number(1, input), input) : gate(2, weights.forget_peephole, cell);
    Operand candidate = Apply(direction, 1, Gate(all, 3));
    Operand next = c_.Add(c_.Mul(forget, cell), c_.Mul(input, candidate));
    Operand output = gate(1, weights.output_peephole, next);
    Activation last = activations_[static_cast<size_t>(direction) * standard_.size() + 2];
    return {c_.Mul(output, Activate(c_, last, next)), next};
  }

  NodeContext& c_;
  int64_t gates_, hidden_ = 0;
  std::vector<std::string> standard_;
  std::vector<Activation> activations_;
  bool quantised_ = false;
  Operand input_weights_ = nullptr, recurrent_weights_ = nullptr;
  double clip_ = 0;
  Dim batch_, steps_;
  Operand lengths_ = nullptr;
};

Operands RNN(NodeContext& c) { return Recurrent(c, 1, {"tanh"}).Run(); }
Operands GRU(NodeContext& c) { return Recurrent(c, 3, {"sigmoid", "tanh"}).Run(); }
Operands LSTM(NodeContext& c) { return Recurrent(c, 4, {"sigmoid", "tanh", "tanh"}).Run(); }

// com.microsoft
Operands DynamicQuantizeLSTM(NodeContext& c) {
  Recurrent lstm(c, 4, {"sigmoid", "tanh", "tanh"});
  lstm.TakeQuantised();
  return lstm.Run();
}

// Attention whose memory is a matrix that each step changes.
Operands LinearAttention(NodeContext& c) {
  int64_t q_heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
  if (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0) return {c.Fail("its numbers of heads do not fit")};
  std::string rule = c.Text("update_rule", "gated_delta");
  bool is_gated = rule.starts_with("gated"), is_delta = rule.ends_with("delta");
  DataType dtype = c.DTypeOf(c.In(0));
  Dim batch = c.ExtentOf(c.In(0), 0), steps = c.ExtentOf(c.In(0), 1);
  // (steps, batch, heads, rest): a step's part is one slice.
  auto unpack = [&](Operand x, int64_t heads) {
    Operand split = c.Reshape(c.Cast(x, kFloat32), {batch, steps, heads, FloorDiv(c.ExtentOf(x, 2), heads)});
    constexpr int64_t kStepsOutside[] = {1, 0, 2, 3};
    return c.Transpose(split, kStepsOutside);
  };
  Operand query = unpack(c.In(0), q_heads), key = unpack(c.In(1), kv_heads), value = unpack(c.In(2), kv_heads);
  Operand decay = is_gated ? unpack(c.In(4), kv_heads) : nullptr;
  Operand beta = is_delta ? unpack(c.In(5), c.ExtentOf(c.In(5), 2) == Dim(1) ? 1 : kv_heads) : nullptr;
  if (c.failed()) return {};
  Dim size = c.ExtentOf(key, 3), width = c.ExtentOf(value, 3);
  Operand memory = c.Has(3) ? c.Cast(c.In(3), kFloat32)
                            : c.BroadcastTo(c.emit().Number(0, kFloat32), {batch, kv_heads, size, width});
  Operand scale = c.emit().Number(c.Float("scale", 0), kFloat32);
  if (c.Float("scale", 0) == 0) scale = c.Op("rsqrt", {c.Cast(c.emit().FromDim(size), kFloat32)});
  const ir::Type* memory_type = c.emit().TensorType({batch, kv_heads, size, width}, kFloat32);
  const ir::Type* row_type = c.emit().TensorType({Dim::Any(), batch, q_heads, width}, kFloat32);
  Rolled rolled = Roll(
      c, c.emit().FromDim(steps), nullptr, {c.emit().Retyped(memory, memory_type)},
      [&](Operand index, const Operands& own) -> Step {
        auto at = [&](Operand x) { return c.Op("take", {x, index}, {{"axis", 0}}); };
        Operand state = own[0], k = at(key), v = at(value);
        if (is_gated) state = c.Mul(state, c.Unsqueeze(c.Op("exp", {at(decay)}), {3}));
        auto read = [&](Operand from, Operand by) {  // sums over the keys
          return c.Op("sum", {c.Mul(from, c.Unsqueeze(by, {3}))}, {{"axis", ir::AttrValue::List{2}}});
        };
        if (is_delta) v = c.Mul(at(beta), c.Sub(v, read(state, k)));
        state = c.Add(state, c.Mul(c.Unsqueeze(k, {3}), c.Unsqueeze(v, {2})));
        Operand seen =
            q_heads == kv_heads ? state : c.Op("repeat", {state}, {{"repeats", q_heads / kv_heads}, {"axis", 1}});
        Operand row = c.Mul(read(seen, at(query)), scale);
        return {nullptr, {c.emit().Retyped(state, memory_type)}, {c.emit().Retyped(c.Unsqueeze(row, {0}), row_type)}};
      });
  if (c.failed() || rolled.lists.empty()) return {};
  Operand rows = StackRows(c, rolled, 0);
  if (c.failed() || rows->is_placeholder) return {};
  constexpr int64_t kBatchOutside[] = {1, 0, 2, 3};
  Operand y = c.Reshape(c.Transpose(rows, kBatchOutside), {batch, steps, width * q_heads});
  return {c.Cast(y, dtype), c.Cast(rolled.state[0], c.Has(3) ? c.DTypeOf(c.In(3)) : dtype)};
}

constexpr OperatorRow kRows[] = {
    {"GRU", GRU},
    {"LSTM", LSTM},
    {"LinearAttention", LinearAttention},
    {"RNN", RNN},
    {"com.microsoft.DynamicQuantizeLSTM", DynamicQuantizeLSTM},
};

}  // namespace

std::span<const OperatorRow> RecurrentOperators() { return kRows; }

}  // namespace rvm::onnx::convert
