// Recurrent layers: LSTM, RNN and SVDF. Their states are variables of the model.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/recurrence.h"
#include "compiler/import/checks.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

using importing::Recurrence;
using importing::Sequence;

constexpr int64_t kSwapped[] = {1, 0, 2};

Operand InOrNull(NodeContext& c, size_t i) { return c.Has(i) ? c.In(i) : nullptr; }

Operand Clipped(NodeContext& c, Operand x, double limit) {
  return limit > 0 ? c.Op("clip", {x}, {{"a_min", -limit}, {"a_max", limit}}) : x;
}

// Gates of an LSTM, as the inputs of a node are ordered.
enum Gate : size_t { kInput, kForget, kCell, kOutput, kGates };

struct Lstm {
  Operand input[kGates]{}, recurrent[kGates]{}, auxiliary[kGates]{}, peephole[kGates]{}, bias[kGates]{}, norm[kGates]{};
  Operand projection = nullptr, projection_bias = nullptr;
  int activation = 0;
  double cell_clip = 0, projection_clip = 0;

  // The gate for input is one minus the one for forgetting.
  bool IsCoupled() const { return input[kInput] == nullptr; }
  Gate First() const { return IsCoupled() ? kForget : kInput; }
};

// Reads the inputs of a direction, of which `first` is the first one behind x.
Lstm ReadLstm(NodeContext& c, size_t first) {
  Lstm lstm;
  for (size_t gate = 0; gate < kGates; ++gate) {
    lstm.input[gate] = InOrNull(c, first + gate);
    lstm.recurrent[gate] = InOrNull(c, first + 4 + gate);
    lstm.bias[gate] = InOrNull(c, first + 11 + gate);
  }
  lstm.peephole[kInput] = InOrNull(c, first + 8);
  lstm.peephole[kForget] = InOrNull(c, first + 9);
  lstm.peephole[kOutput] = InOrNull(c, first + 10);
  lstm.projection = InOrNull(c, first + 15);
  lstm.projection_bias = InOrNull(c, first + 16);
  lstm.activation = c.options().Number<int8_t>(0, 0);
  lstm.cell_clip = c.options().Number<float>(1, 0);
  lstm.projection_clip = c.options().Number<float>(2, 0);
  for (size_t gate = lstm.First(); gate < kGates; ++gate) {
    if (lstm.input[gate] == nullptr || lstm.recurrent[gate] == nullptr || lstm.bias[gate] == nullptr) {
      c.Fail("weights or a bias of a gate are missing");
    }
  }
  return lstm;
}

// Refuses parts that some of the gates lack.
void CheckGates(NodeContext& c, const Lstm& lstm, const Operand (&parts)[kGates], std::string_view what) {
  const std::span<const Operand> gates = std::span(parts).subspan(lstm.First());
  const auto given = std::ranges::count_if(gates, [](Operand part) { return part != nullptr; });
  if (given != 0 && std::cmp_less(given, gates.size())) c.Fail(absl::StrCat(Abseil(what), " of a gate are missing"));
}

// (x - mean) / sqrt(variance) of each row, times a weight for each element.
Operand LayerNorm(NodeContext& c, Operand x, Operand weight) {
  const ir::Attrs attrs = {{"axis", ir::IntList({{-1}})}, {"keepdims", true}};
  Operand centred = c.Sub(x, c.Op("mean", {x}, attrs));
  Operand variance = c.Op("mean", {c.Mul(centred, centred)}, attrs);
  return c.Mul(c.Mul(centred, c.Op("rsqrt", {c.Add(variance, c.Number(1e-8, x))})), weight);
}

// Returns the products of the gates, of what does not depend on the state: one matrix, gates side by side.
Operand JoinGates(NodeContext& c, const Lstm& lstm, const Operand (&parts)[kGates]) {
  return c.Concatenate(Operands(parts + lstm.First(), parts + kGates), 0);
}

Operands LstmStep(NodeContext& c, const Lstm& lstm, Operand products, const Operands& state, int64_t cells) {
  Operand sums = c.Add(products, c.Op("nn.dense", {state[0], JoinGates(c, lstm, lstm.recurrent)}));
  Operand cell = state[1];
  auto gate = [&](Gate number, Operand at) {
    const auto place = static_cast<int64_t>(number - lstm.First());
    Operand sum = c.SliceAxis(sums, 1, place * cells, (place + 1) * cells);
    if (lstm.peephole[number] != nullptr) sum = c.Add(sum, c.Mul(at, lstm.peephole[number]));
    // With a norm the bias is behind it.
    if (lstm.norm[number] != nullptr) sum = c.Add(LayerNorm(c, sum, lstm.norm[number]), lstm.bias[number]);
    return number == kCell ? c.Activation(sum, lstm.activation) : c.Op("sigmoid", {sum});
  };
  Operand forget = gate(kForget, cell);
  Operand input = lstm.IsCoupled() ? c.Sub(c.Number(1, forget), forget) : gate(kInput, cell);
  cell = Clipped(c, c.Add(c.Mul(forget, cell), c.Mul(input, gate(kCell, cell))), lstm.cell_clip);
  Operand output = c.Mul(gate(kOutput, cell), c.Activation(cell, lstm.activation));
  if (lstm.projection != nullptr) {
    output = c.Op("nn.dense", {output, lstm.projection});
    if (lstm.projection_bias != nullptr) output = c.Add(output, lstm.projection_bias);
    output = Clipped(c, output, lstm.projection_clip);
  }
  return {output, cell};
}

// One direction over x (steps, batch, inputs); `initial`: the output and the cells.
Recurrence RunLstm(NodeContext& c, const Lstm& lstm, Operand x, Operand auxiliary, const Operands& initial,
                   bool is_reversed) {
  if (c.failed()) return {};
  Operand products = c.Op("nn.dense", {x, JoinGates(c, lstm, lstm.input)});
  if (auxiliary != nullptr && lstm.auxiliary[kForget] != nullptr) {
    products = c.Add(products, c.Op("nn.dense", {auxiliary, JoinGates(c, lstm, lstm.auxiliary)}));
  }
  if (lstm.norm[kForget] == nullptr) products = c.Add(products, JoinGates(c, lstm, lstm.bias));
  const auto cells = importing::KnownExtent(c, lstm.recurrent[kForget], 0, "weights"),
             outputs = importing::KnownExtent(c, lstm.recurrent[kForget], 1, "weights");
  if (!cells || !outputs) return {};
  const Sequence sequence = {.gates = products,
                             .steps = c.ExtentOf(x, 0),
                             .batch = c.ExtentOf(x, 1),
                             .hidden = *outputs,
                             .is_reversed = is_reversed};
  return RunSequence(c, sequence, initial,
                     [&](Operand gates, const Operands& state) { return LstmStep(c, lstm, gates, state, *cells); });
}

// Returns a state of a batch whose extent the input says.
Operand StateFor(NodeContext& c, size_t i, Operand x) {
  Operand state = c.In(i);
  if (c.failed() || c.RankOf(state) != 2) return c.failed() ? state : c.Fail("a state has not rank 2");
  const Dim batch = c.ExtentOf(x, 1);
  if (CompareDims(c.ExtentOf(state, 0), batch) == DimEquality::kEqual) return state;
  if (c.ExtentOf(state, 0).is_const() && batch.is_const()) return c.Fail("a state has another batch than its input");
  return c.emit().Retyped(state, c.emit().TensorType({batch, c.ExtentOf(state, 1)}, c.DTypeOf(state)));
}

// x as (steps, batch, inputs), and results back.
struct Layout {
  bool is_time_major = false, is_step = false;

  Operand Sequence(NodeContext& c, Operand x) const {
    if (c.failed()) return x;
    if (c.RankOf(x) != (is_step ? 2 : 3)) return c.Fail("its input has another rank");
    if (is_step) return c.Unsqueeze(x, {0});
    return is_time_major ? x : c.Transpose(x, kSwapped);
  }
  Operand Result(NodeContext& c, Operand rows) const {
    if (is_step) return c.Squeeze(rows, {0});
    return is_time_major ? rows : c.Transpose(rows, kSwapped);
  }
};

bool HasFloats(NodeContext& c) {
  Operand x = c.In(0);
  const Tensor* input = c.Input(0);
  if (c.failed()) return false;
  if (c.DTypeOf(x) == kFloat32 && input->scales.empty()) return true;
  c.Unsupported("recurrent layers of quantised activations");
  return false;
}

Operands UnidirectionalLstm(NodeContext& c) {
  if (!HasFloats(c)) return {};
  const bool is_step = c.row().variant == "step";
  const Layout layout{.is_time_major = c.options().Number<uint8_t>(3, 0) != 0, .is_step = is_step};
  if (is_step && c.options().Number<int8_t>(3, 0) != 0) return {c.Unsupported("the basic kernel of LSTM")};
  Lstm lstm = ReadLstm(c, 1);
  for (size_t gate = 0; gate < kGates; ++gate) lstm.norm[gate] = InOrNull(c, 20 + gate);
  CheckGates(c, lstm, lstm.norm, "weights of norms");
  Operand x = layout.Sequence(c, c.In(0));
  if (c.failed()) return {};
  const Recurrence done = RunLstm(c, lstm, x, nullptr, {StateFor(c, 18, x), StateFor(c, 19, x)}, /*is_reversed=*/false);
  if (c.failed() || done.state.size() != 2) return {};
  c.Assign(18, done.state[0]);
  c.Assign(19, done.state[1]);
  return {layout.Result(c, done.rows)};
}

// Returns the results of two directions: side by side in one, or one each.
Operands BothWays(NodeContext& c, const Layout& layout, const Recurrence& forward, const Recurrence& backward,
                  bool merges) {
  if (c.failed() || forward.rows == nullptr || backward.rows == nullptr) return {};
  Operand a = layout.Result(c, forward.rows), b = layout.Result(c, backward.rows);
  return merges ? Operands{c.Concatenate({a, b}, 2)} : Operands{a, b};
}

Operands BidirectionalLstm(NodeContext& c) {
  if (!HasFloats(c)) return {};
  const Layout layout{.is_time_major = c.options().Number<uint8_t>(4, 1) != 0};
  Lstm forward = ReadLstm(c, 1), backward = ReadLstm(c, 18);
  for (size_t gate = 0; gate < kGates; ++gate) {
    forward.auxiliary[gate] = InOrNull(c, 40 + gate);
    backward.auxiliary[gate] = InOrNull(c, 44 + gate);
  }
  CheckGates(c, forward, forward.auxiliary, "auxiliary weights");
  CheckGates(c, backward, backward.auxiliary, "auxiliary weights");
  Operand x = layout.Sequence(c, c.In(0)), auxiliary = c.Has(39) ? layout.Sequence(c, c.In(39)) : nullptr;
  if (c.failed()) return {};
  // Without weights of its own the auxiliary input is what the second direction reads.
  const bool is_crossed = auxiliary != nullptr && forward.auxiliary[kForget] == nullptr;
  const Recurrence first = RunLstm(c, forward, x, auxiliary, {StateFor(c, 35, x), StateFor(c, 36, x)}, false);
  const Recurrence second =
      RunLstm(c, backward, is_crossed ? auxiliary : x, auxiliary, {StateFor(c, 37, x), StateFor(c, 38, x)}, true);
  Operands results = BothWays(c, layout, first, second, c.options().Number<uint8_t>(3, 0) != 0);
  if (results.empty() || c.failed()) return {};
  for (size_t i = 0; i < 2; ++i) {
    c.Assign(35 + i, first.state[i]);
    c.Assign(37 + i, second.state[i]);
  }
  return results;
}

// ---- RNN

struct Rnn {
  Operand input, recurrent, bias;
  int activation = 0;
};

Recurrence RunRnn(NodeContext& c, const Rnn& rnn, Operand x, Operand initial, bool is_reversed) {
  if (c.failed()) return {};
  Operand products = c.Add(c.Op("nn.dense", {x, rnn.input}), rnn.bias);
  const auto outputs = importing::KnownExtent(c, rnn.recurrent, 0, "weights");
  if (!outputs) return {};
  const Sequence sequence = {.gates = products,
                             .steps = c.ExtentOf(x, 0),
                             .batch = c.ExtentOf(x, 1),
                             .hidden = *outputs,
                             .is_reversed = is_reversed};
  return RunSequence(c, sequence, {initial}, [&](Operand gates, const Operands& state) -> Operands {
    return {c.Activation(c.Add(gates, c.Op("nn.dense", {state[0], rnn.recurrent})), rnn.activation)};
  });
}

Operands UnidirectionalRnn(NodeContext& c) {
  if (!HasFloats(c)) return {};
  const bool is_step = c.row().variant == "step";
  const Layout layout{.is_time_major = !is_step && c.options().Number<uint8_t>(0, 0) != 0, .is_step = is_step};
  const Rnn rnn = {c.In(1), c.In(2), c.In(3), c.options().Number<int8_t>(is_step ? 0 : 1, 0)};
  Operand x = layout.Sequence(c, c.In(0));
  if (c.failed()) return {};
  const Recurrence done = RunRnn(c, rnn, x, StateFor(c, 4, x), false);
  if (c.failed() || done.state.empty()) return {};
  c.Assign(4, done.state[0]);
  return {layout.Result(c, done.rows)};
}

Operands BidirectionalRnn(NodeContext& c) {
  if (!HasFloats(c)) return {};
  if (c.Has(9)) return {c.Unsupported("an auxiliary input")};
  const Layout layout{.is_time_major = c.options().Number<uint8_t>(0, 0) != 0};
  const int activation = c.options().Number<int8_t>(1, 0);
  Operand x = layout.Sequence(c, c.In(0));
  if (c.failed()) return {};
  const Recurrence first = RunRnn(c, {c.In(1), c.In(2), c.In(3), activation}, x, StateFor(c, 4, x), false);
  const Recurrence second = RunRnn(c, {c.In(5), c.In(6), c.In(7), activation}, x, StateFor(c, 8, x), true);
  Operands results = BothWays(c, layout, first, second, c.options().Number<uint8_t>(2, 0) != 0);
  if (results.empty() || c.failed()) return {};
  c.Assign(4, first.state[0]);
  c.Assign(8, second.state[0]);
  return results;
}

// Returns a layer whose filters are products of one over the features and one over the last steps (the memory): `rank`
// filters are summed up for a unit.
Operands Svdf(NodeContext& c) {
  if (!HasFloats(c)) return {};
  Operand x = c.In(0), features = c.In(1), times = c.In(2), state = c.In(4);
  const int64_t rank = c.options().Number<int32_t>(0, 0);
  if (c.failed()) return {};
  const auto filters = importing::KnownExtent(c, times, 0, "weights"),
             memory = importing::KnownExtent(c, times, 1, "weights");
  if (!filters || !memory) return {};
  if (rank < 1 || *filters % rank != 0 || *memory < 1) return {c.Fail(absl::StrCat("its rank is ", rank))};
  const Dim batch = c.ExtentOf(x, 0);
  Operand past = c.SliceAxis(c.Reshape(state, {batch, *filters, *memory}), 2, 1, *memory);
  Operand now = c.Unsqueeze(c.Op("nn.dense", {x, features}), {2});
  Operand all = *memory == 1 ? now : c.Concatenate({past, now}, 2);
  Operand sums = c.Op("sum", {c.Mul(all, times)}, {{"axis", ir::IntList({{2}})}});
  Operand units = c.Op("sum", {c.Reshape(sums, {batch, *filters / rank, rank})}, {{"axis", ir::IntList({{2}})}});
  if (c.Has(3)) units = c.Add(units, c.In(3));
  c.Assign(4, c.Reshape(all, {batch, *filters * *memory}));
  return {c.Activated(units, 1)};
}

constexpr OperatorRow kRows[] = {
    {"BIDIRECTIONAL_SEQUENCE_LSTM", BidirectionalLstm},
    {"BIDIRECTIONAL_SEQUENCE_RNN", BidirectionalRnn},
    {"LSTM", UnidirectionalLstm, "step"},
    {"RNN", UnidirectionalRnn, "step"},
    {"SVDF", Svdf},
    {"UNIDIRECTIONAL_SEQUENCE_LSTM", UnidirectionalLstm},
    {"UNIDIRECTIONAL_SEQUENCE_RNN", UnidirectionalRnn},
};

}  // namespace

std::span<const OperatorRow> RecurrentOperators() { return kRows; }

}  // namespace rvm::tflite
