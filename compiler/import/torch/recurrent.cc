// LSTM, GRU and RNN, rolled: one function that calls itself per layer and direction, whatever the number of steps; and
// their cells.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/recurrence.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Recurrence;
using importing::Sequence;

constexpr int64_t kSwapped[] = {1, 0, 2};

struct Weights {
  Operand input, recurrent;            // (gates * hidden, inputs), (gates * hidden, hidden)
  Operand input_bias, recurrent_bias;  // or null
};

// Gates stand in the order of PyTorch: of an LSTM input, forget, cell, output; of a GRU reset, update, new.
using StepOf = Operands (*)(NodeContext& c, Operand gates, const Operands& state, const Weights& weights,
                            int64_t hidden);

Operand WithBias(NodeContext& c, Operand x, Operand bias) { return bias == nullptr ? x : c.Add(x, bias); }

Operand Gate(NodeContext& c, Operand x, int64_t gate, int64_t hidden) {
  return c.SliceAxis(x, c.RankOf(x) - 1, gate * hidden, (gate + 1) * hidden);
}

Operand Recurrent(NodeContext& c, Operand h, const Weights& weights) {
  return WithBias(c, c.Op("nn.dense", {h, weights.recurrent}), weights.recurrent_bias);
}

Operands LstmStep(NodeContext& c, Operand gates, const Operands& state, const Weights& weights, int64_t hidden) {
  Operand all = c.Add(gates, Recurrent(c, state[0], weights));
  auto sigmoid = [&](int64_t gate) { return c.Op("sigmoid", {Gate(c, all, gate, hidden)}); };
  Operand candidate = c.Op("tanh", {Gate(c, all, 2, hidden)});
  Operand cell = c.Add(c.Mul(sigmoid(1), state[1]), c.Mul(sigmoid(0), candidate));
  return {c.Mul(sigmoid(3), c.Op("tanh", {cell})), cell};
}

Operands GruStep(NodeContext& c, Operand gates, const Operands& state, const Weights& weights, int64_t hidden) {
  Operand own = Recurrent(c, state[0], weights);
  auto sum = [&](int64_t gate) { return c.Add(Gate(c, gates, gate, hidden), Gate(c, own, gate, hidden)); };
  Operand reset = c.Op("sigmoid", {sum(0)}), update = c.Op("sigmoid", {sum(1)});
  Operand candidate = c.Op("tanh", {c.Add(Gate(c, gates, 2, hidden), c.Mul(reset, Gate(c, own, 2, hidden)))});
  return {c.Add(c.Mul(c.Sub(c.Number(1, update), update), candidate), c.Mul(update, state[0]))};
}

Operands RnnStep(NodeContext& c, Operand gates, const Operands& state, const Weights& weights, int64_t) {
  return {c.Op(c.row().variant, {c.Add(gates, Recurrent(c, state[0], weights))})};
}

// One layer in one direction over x (steps, batch, inputs): its rows (steps, batch, hidden), then its last state.
Operands RunDirection(NodeContext& c, Operand x, const Operands& initial, const Weights& weights, bool backwards,
                      StepOf step_of) {
  Operand input = WithBias(c, c.Op("nn.dense", {x, weights.input}), weights.input_bias);
  std::optional<int64_t> hidden = c.ExtentOf(weights.recurrent, 1).AsConst();
  if (c.failed() || !hidden) return {};
  const Sequence sequence = {.gates = input,
                             .steps = c.ExtentOf(x, 0),
                             .batch = c.ExtentOf(x, 1),
                             .hidden = *hidden,
                             .is_reversed = backwards};
  Recurrence result = RunSequence(c, sequence, initial, [&](Operand gates, const Operands& state) {
    return step_of(c, gates, state, weights, *hidden);
  });
  if (result.state.empty()) return {};
  Operands results = {result.rows};
  results.insert(results.end(), result.state.begin(), result.state.end());
  return results;
}

// `initial`: (layers * directions, batch, hidden) of each part of the state.
Operands Run(NodeContext& c, const Operands& initial, StepOf step_of) {
  Operand x = c.In("input");
  Operands params = c.List("params");
  int64_t layers = c.Int("num_layers", 1), directions = c.Bool("bidirectional", false) ? 2 : 1;
  bool has_biases = c.Bool("has_biases", true), batch_first = c.Bool("batch_first", false);
  if (c.Bool("train", false) && c.Float("dropout", 0) != 0) {
    return {c.Unsupported("training; call `eval()` of the module before it is exported")};
  }
  size_t per_layer = has_biases ? 4 : 2;
  if (c.failed() || layers < 1 || layers > 1024) return {c.failed() ? nullptr : c.Fail("`num_layers` is not in range")};
  if (params.size() != static_cast<size_t>(layers * directions) * per_layer) {
    return {c.Unsupported("weights of projections")};
  }
  if (c.RankOf(x) != 3) return {c.Unsupported("a packed sequence, or one without a batch")};
  if (batch_first) x = c.Transpose(x, kSwapped);
  std::vector<Operands> last(initial.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    Operands rows;
    for (int64_t direction = 0; direction < directions; ++direction) {
      int64_t number = layer * directions + direction;
      const Operand* own = &params[static_cast<size_t>(number) * per_layer];
      Weights weights = {own[0], own[1], has_biases ? own[2] : nullptr, has_biases ? own[3] : nullptr};
      Operands state;
      for (Operand part : initial) state.push_back(c.Squeeze(c.SliceAxis(part, 0, number, number + 1), {0}));
      Operands results = RunDirection(c, x, state, weights, direction == 1, step_of);
      if (c.failed() || results.size() != initial.size() + 1) return {};
      rows.push_back(results[0]);
      for (size_t i = 0; i < initial.size(); ++i) last[i].push_back(c.Unsqueeze(results[i + 1], {0}));
    }
    x = c.Concatenate(rows, 2);
  }
  Operands results = {batch_first ? c.Transpose(x, kSwapped) : x};
  for (const Operands& part : last) results.push_back(c.Concatenate(part, 0));
  return results;
}

// One step of a layer, without a sequence.
Operands RunCell(NodeContext& c, const Operands& state, StepOf step_of) {
  auto bias = [&](const char* name) { return c.Has(name) ? c.In(name) : nullptr; };
  Weights weights = {c.In("w_ih"), c.In("w_hh"), bias("b_ih"), bias("b_hh")};
  std::optional<int64_t> hidden =
      c.RankOf(weights.recurrent) == 2 ? c.ExtentOf(weights.recurrent, 1).AsConst() : std::nullopt;
  if (c.failed() || !hidden) return {c.failed() ? nullptr : c.Fail("its weights are no matrix of a known extent")};
  Operand gates = WithBias(c, c.Op("nn.dense", {c.In("input"), weights.input}), weights.input_bias);
  return c.failed() ? Operands{} : step_of(c, gates, state, weights, *hidden);
}

Operands LstmCell(NodeContext& c) {
  Operands state = c.List("hx");
  if (!c.failed() && state.size() != 2) c.Fail("its state has not 2 tensors");
  return c.failed() ? Operands{} : RunCell(c, state, LstmStep);
}
Operands GruCell(NodeContext& c) { return RunCell(c, {c.In("hx")}, GruStep); }
Operands RnnCell(NodeContext& c) { return RunCell(c, {c.In("hx")}, RnnStep); }
Operands Lstm(NodeContext& c) { return Run(c, c.List("hx"), LstmStep); }
Operands Gru(NodeContext& c) { return Run(c, {c.In("hx")}, GruStep); }
Operands Rnn(NodeContext& c) { return Run(c, {c.In("hx")}, RnnStep); }

constexpr OperatorRow kRows[] = {
    {"gru_cell", GruCell},
    {"lstm_cell", LstmCell},
    {"rnn_relu_cell", RnnCell, "nn.relu"},
    {"rnn_tanh_cell", RnnCell, "tanh"},
    {"gru", Gru},
    {"lstm", Lstm},
    {"rnn_relu", Rnn, "nn.relu"},
    {"rnn_tanh", Rnn, "tanh"},
};

}  // namespace

std::span<const OperatorRow> RecurrentOperators() { return kRows; }

}  // namespace rvm::torch::convert
