// The fused recurrent operator: LSTM, GRU and plain layers, whose weights are one vector.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/blocks/recurrence.h"
#include "compiler/import/checks.h"
#include "compiler/import/mxnet/importer.h"

namespace rvm::mxnet {
namespace {

using importing::KnownExtent;
using importing::Recurrence;

constexpr int64_t kMaxHidden = int64_t{1} << 24;

struct Weights {
  Operand input, recurrent;            // (gates * hidden, inputs), (gates * hidden, hidden)
  Operand input_bias, recurrent_bias;  // (gates * hidden)
};

// Takes tensors off the vector of weights, one behind the other.
class Packed {
 public:
  Packed(NodeContext& c, Operand vector) : c_(c), vector_(vector) {}

  Operand Take(int64_t rows, int64_t columns) {
    const int64_t begin = place_, count = rows * std::max<int64_t>(columns, 1);
    place_ += count;
    const Dims dims = columns == 0 ? Dims{rows} : Dims{rows, columns};
    const Literal* constant = c_.ConstantOf(vector_);
    const bool is_inside = constant != nullptr && place_ <= constant->num_elements();
    if (!is_inside || !c_.SpendCopy(count * constant->dtype().bytes())) {
      return c_.Reshape(c_.SliceAxis(vector_, 0, begin, place_), dims);
    }
    const auto size = static_cast<size_t>(constant->dtype().bytes());
    const std::span<const std::byte> bytes(constant->data() + static_cast<size_t>(begin) * size,
                                           static_cast<size_t>(count) * size);
    return c_.emit().Constant(Literal::FromBytes(constant->dtype(), *StaticShape(dims), bytes));
  }
  int64_t taken() const { return place_; }

 private:
  NodeContext& c_;
  Operand vector_;
  int64_t place_ = 0;
};

Operand Gate(NodeContext& c, Operand x, int64_t gate, int64_t hidden) {
  return c.SliceAxis(x, c.RankOf(x) - 1, gate * hidden, (gate + 1) * hidden);
}

// Returns the next state. Gates: of an LSTM input, forget, candidate, output; of a GRU reset, update, candidate.
Operands NextState(NodeContext& c, const std::string& mode, Operand gates, const Operands& state,
                   const Weights& weights, int64_t hidden) {
  Operand own = c.Add(c.Op("nn.dense", {state[0], weights.recurrent}), weights.recurrent_bias);
  auto sum = [&](int64_t gate) { return c.Add(Gate(c, gates, gate, hidden), Gate(c, own, gate, hidden)); };
  auto sigmoid = [&](int64_t gate) { return c.Op("sigmoid", {sum(gate)}); };
  if (mode == "lstm") {
    Operand cell = c.Add(c.Mul(sigmoid(1), state[1]), c.Mul(sigmoid(0), c.Op("tanh", {sum(2)})));
    return {c.Mul(sigmoid(3), c.Op("tanh", {cell})), cell};
  }
  if (mode == "gru") {
    Operand reset = sigmoid(0), update = sigmoid(1);
    Operand given = Gate(c, gates, 2, hidden), kept = c.Mul(reset, Gate(c, own, 2, hidden));
    Operand candidate = c.Op("tanh", {c.Add(given, kept)});
    return {c.Add(c.Mul(c.Sub(c.Number(1, update), update), candidate), c.Mul(update, state[0]))};
  }
  return {c.Op(mode == "rnn_relu" ? "nn.relu" : "tanh", {c.Add(gates, own)})};
}

struct Layers {
  std::string mode;
  int64_t gates = 1, hidden = 1, layers = 1, directions = 1, inputs = 1;
  size_t states = 1;
};

std::optional<Layers> ReadLayers(NodeContext& c, Operand x) {
  Layers layers = {.mode = c.Text("mode", "")};
  for (const char* name : {"use_sequence_length", "projection_size", "lstm_state_clip_min", "lstm_state_clip_max"}) {
    c.Refuse(name);
  }
  layers.hidden = c.IntWithin("state_size", 1, 1, kMaxHidden);
  layers.layers = c.IntWithin("num_layers", 1, 1, 1024);
  layers.directions = c.Bool("bidirectional", false) ? 2 : 1;
  const bool is_lstm = layers.mode == "lstm", is_gru = layers.mode == "gru";
  if (!is_lstm && !is_gru && layers.mode != "rnn_relu" && layers.mode != "rnn_tanh") {
    c.Fail(absl::StrCat("`mode`: saw `", ReadableText(layers.mode.substr(0, 40)),
                        "`; expected lstm, gru, rnn_relu or rnn_tanh"));
  }
  layers.gates = is_lstm ? 4 : is_gru ? 3 : 1;
  layers.states = is_lstm ? 2 : 1;
  if (!c.failed() && c.RankOf(x) != 3) c.Fail("its input has not rank 3: (steps, batch, numbers)");
  const std::optional<int64_t> inputs = c.failed() ? std::nullopt : KnownExtent(c, x, 2, "input");
  if (!inputs) return std::nullopt;
  if (*inputs > kMaxHidden) {
    c.Fail(absl::StrCat("its input has ", *inputs, " numbers; expected at most ", kMaxHidden));
    return std::nullopt;
  }
  layers.inputs = *inputs;
  return layers;
}

// Returns the weights of all layers and directions, and behind them all biases.
std::vector<Weights> TakeWeights(NodeContext& c, const Layers& layers) {
  Packed packed(c, c.In(1));
  std::vector<Weights> all;
  const int64_t rows = layers.gates * layers.hidden;
  for (int64_t i = 0; i < layers.layers * layers.directions; ++i) {
    const int64_t inputs = i < layers.directions ? layers.inputs : layers.directions * layers.hidden;
    Operand input = packed.Take(rows, inputs);
    all.push_back({.input = input, .recurrent = packed.Take(rows, layers.hidden)});
    if (c.failed()) return all;
  }
  for (Weights& weights : all) {
    weights.input_bias = packed.Take(rows, 0);
    weights.recurrent_bias = packed.Take(rows, 0);
  }
  const Dim extent = c.ExtentOf(c.In(1), 0);
  if (!c.failed() && extent.is_const() && extent.constant() != packed.taken()) {
    c.Fail(absl::StrCat("its weights are ", extent.constant(), " numbers; expected ", packed.taken()));
  }
  return all;
}

Operands Rnn(NodeContext& c) {
  Operand x = c.In(0);
  const std::optional<Layers> layers = ReadLayers(c, x);
  if (!layers) return {};
  const std::vector<Weights> weights = TakeWeights(c, *layers);
  const Dims dims = c.DimsOf(x);
  Operands initial;
  for (size_t i = 0; i < layers->states && !c.failed(); ++i) {
    // Zeros whose batch the graph leaves open broadcast.
    initial.push_back(c.BroadcastTo(c.In(2 + i), {layers->layers * layers->directions, dims[1], layers->hidden}));
  }
  if (c.failed()) return {};
  std::vector<Operands> last(initial.size());
  for (int64_t layer = 0; layer < layers->layers; ++layer) {
    Operands rows;
    for (int64_t direction = 0; direction < layers->directions; ++direction) {
      const int64_t number = layer * layers->directions + direction;
      const Weights& own = weights[static_cast<size_t>(number)];
      Operands state;
      for (Operand part : initial) state.push_back(c.Squeeze(c.SliceAxis(part, 0, number, number + 1), {0}));
      const importing::Sequence sequence = {.gates = c.Add(c.Op("nn.dense", {x, own.input}), own.input_bias),
                                            .steps = dims[0],
                                            .batch = dims[1],
                                            .hidden = layers->hidden,
                                            .is_reversed = direction == 1};
      Recurrence result = RunSequence(c, sequence, state, [&](Operand gates, const Operands& before) {
        return NextState(c, layers->mode, gates, before, own, layers->hidden);
      });
      if (c.failed() || result.state.empty()) return {};
      rows.push_back(result.rows);
      for (size_t i = 0; i < last.size(); ++i) last[i].push_back(c.Unsqueeze(result.state[i], {0}));
    }
    x = c.Concatenate(rows, 2);
  }
  Operands results = {x};
  if (c.Bool("state_outputs", false)) {
    for (const Operands& part : last) results.push_back(c.Concatenate(part, 0));
  }
  return results;
}

// Joins vectors of weights, now where all are constants, so that the operator can take its tensors off them.
Operands JoinParams(NodeContext& c) {
  const Operands& vectors = c.All();
  if (c.failed()) return {};
  std::vector<const Literal*> parts;
  int64_t bytes = 0, count = 0;
  for (Operand vector : vectors) {
    const Literal* part = c.ConstantOf(vector);
    if (part == nullptr || c.RankOf(vector) != 1 || part->dtype() != kFloat32) break;
    parts.push_back(part);
    bytes += part->bytes();
    count += part->num_elements();
  }
  if (parts.size() != vectors.size() || !c.SpendCopy(bytes)) return {c.Concatenate(vectors, c.Int("dim", 0))};
  std::vector<std::byte> joined;
  joined.reserve(static_cast<size_t>(bytes));
  for (const Literal* part : parts) joined.insert(joined.end(), part->data(), part->data() + part->bytes());
  return {c.emit().Constant(Literal::FromBytes(kFloat32, {count}, joined))};
}

constexpr OperatorRow kRows[] = {
    {"RNN", Rnn},
    {"_rnn_param_concat", JoinParams},
};

}  // namespace

std::span<const OperatorRow> RecurrentOperators() { return kRows; }

}  // namespace rvm::mxnet
