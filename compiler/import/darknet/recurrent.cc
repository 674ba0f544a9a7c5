// Recurrent layers. The first axis of their inputs is time: one sequence, whose state begins as zeros.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/norms.h"
#include "compiler/import/blocks/recurrence.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/darknet/importer.h"
#include "compiler/import/shapes.h"

namespace rvm::darknet {
namespace {

using importing::KnownExtent;
using importing::Recurrence;
using importing::Windows;

// Runs over `gates`, (steps, numbers), with `states` vectors of `hidden` numbers as state. The result is (steps,
// hidden).
Operand Run(LayerContext& c, Operand gates, int64_t hidden, size_t states, importing::NextState next_state) {
  const Dims dims = c.DimsOf(gates);
  if (c.failed()) return gates;
  const importing::Sequence sequence = {
      .gates = c.Reshape(gates, {dims[0], 1, dims[1]}), .steps = dims[0], .batch = 1, .hidden = hidden};
  Operand zeros = c.Op("zeros", {}, {{"shape", ir::IntList({{int64_t{1}, hidden}})}, {"dtype", "float32"}});
  const Recurrence result = RunSequence(c, sequence, Operands(states, zeros), next_state);
  return result.rows == nullptr ? c.emit().Placeholder() : c.Reshape(result.rows, {dims[0], hidden});
}

// Returns the next hidden state of a plain recurrent layer.
Operand NextHidden(LayerContext& c, Operand input, Operand own, Operand state) {
  Operand sum = c.Add(input, own);
  return c.Bool("shortcut") ? c.Add(state, sum) : sum;
}

Operand Rnn(LayerContext& c) {
  Operand x = c.Rows();
  const int64_t outputs = c.Int("output", 1, 1), hidden = c.Int("hidden", outputs, 1);
  const int64_t log = c.Int("logistic", 0, 0, 2);
  const bool is_normalised = c.Bool("batch_normalize");
  const std::optional<int64_t> inputs = KnownExtent(c, x, 1, "input");
  if (!inputs) return x;
  const Filters of_input = c.TakeConnected(hidden, *inputs, is_normalised);
  const Filters of_state = c.TakeConnected(hidden, hidden, is_normalised);
  const Filters of_output = c.TakeConnected(outputs, hidden, is_normalised);
  const std::string_view own = log == 2 ? "loggy" : log == 1 ? "logistic" : c.Text("activation", "logistic");
  Operand rows =
      Run(c, c.Activated(c.Connected(x, of_input)), hidden, 1, [&](Operand gates, const Operands& state) -> Operands {
        return {NextHidden(c, gates, c.Activated(c.Connected(state[0], of_state), own), state[0])};
      });
  return c.Activated(c.Connected(rows, of_output));
}

// The connected layers of a gated layer, that of the state for each gate, then that of the input.
struct Gates {
  std::vector<Filters> of_state, of_input;
};
Gates TakeGates(LayerContext& c, size_t count, int64_t hidden, int64_t inputs) {
  Gates gates;
  const bool is_normalised = c.Bool("batch_normalize");
  for (size_t i = 0; i < count; ++i) gates.of_state.push_back(c.TakeConnected(hidden, hidden, is_normalised));
  for (size_t i = 0; i < count; ++i) gates.of_input.push_back(c.TakeConnected(hidden, inputs, is_normalised));
  return gates;
}

// Returns the part of the gates that depends on the inputs alone: (steps, gates * hidden).
Operand InputGates(LayerContext& c, Operand x, const Gates& gates) {
  Operands parts;
  for (const Filters& filters : gates.of_input) parts.push_back(c.Connected(x, filters));
  return c.Concatenate(parts, 1);
}

Operand GatePart(LayerContext& c, Operand gates, int64_t number, int64_t hidden) {
  return c.SliceAxis(gates, 1, number * hidden, (number + 1) * hidden);
}

// Gates: update, reset, candidate.
Operand Gru(LayerContext& c) {
  Operand x = c.Rows();
  const int64_t hidden = c.Int("output", 1, 1);
  const std::string_view candidate_of = c.Bool("tanh") ? "tanh" : "sigmoid";
  const std::optional<int64_t> inputs = KnownExtent(c, x, 1, "input");
  if (!inputs) return x;
  const Gates gates = TakeGates(c, 3, hidden, *inputs);
  return Run(c, InputGates(c, x, gates), hidden, 1, [&](Operand input, const Operands& state) -> Operands {
    auto gate = [&](int64_t i, Operand from) {
      return c.Add(GatePart(c, input, i, hidden), c.Connected(from, gates.of_state[static_cast<size_t>(i)]));
    };
    Operand update = c.Op("sigmoid", {gate(0, state[0])}), reset = c.Op("sigmoid", {gate(1, state[0])});
    Operand candidate = c.Op(candidate_of, {gate(2, c.Mul(state[0], reset))});
    return {c.Add(c.Mul(update, state[0]), c.Mul(c.Sub(c.Number(1, update), update), candidate))};
  });
}

// Gates: input, forget, output, candidate.
Operand Lstm(LayerContext& c) {
  Operand x = c.Rows();
  const int64_t hidden = c.Int("output", 1, 1);
  const std::optional<int64_t> inputs = KnownExtent(c, x, 1, "input");
  if (!inputs) return x;
  const Gates gates = TakeGates(c, 4, hidden, *inputs);
  return Run(c, InputGates(c, x, gates), hidden, 2, [&](Operand input, const Operands& state) -> Operands {
    auto gate = [&](int64_t i, std::string_view activation) {
      Operand own = c.Connected(state[0], gates.of_state[static_cast<size_t>(i)]);
      return c.Op(activation, {c.Add(GatePart(c, input, i, hidden), own)});
    };
    Operand cell = c.Add(c.Mul(gate(1, "sigmoid"), state[1]), c.Mul(gate(0, "sigmoid"), gate(3, "tanh")));
    return {c.Mul(gate(2, "sigmoid"), c.Op("tanh", {cell})), cell};
  });
}

// Returns a recurrent layer of images, by convolutions that keep their extents.
Operand Crnn(LayerContext& c) {
  Operand x = c.Image();
  c.Refuse({"xnor"});
  const int64_t size = c.Int("size", 3, 1, 255), groups = c.Int("groups", 1, 1);
  const int64_t dilation = size == 1 ? 1 : c.Int("dilation", 1, 1, 255);
  const int64_t pad = c.Has("padding") && !c.Bool("pad") ? c.Int("padding", 0, 0, 255) : size / 2;
  if (c.Int("stride", 1, 1) != 1 || size % 2 == 0 || pad != size / 2) {
    return c.Unsupported("a recurrent convolution that changes the extents of its input");
  }
  const int64_t outputs = c.Int("output", c.Int("output_filters", 1, 1), 1),
                hidden = c.Int("hidden", c.Int("hidden_filters", 1, 1), 1);
  const auto extents = c.ImageExtents(x);
  if (!extents) return x;
  const auto [channels, height, width] = *extents;
  if (channels % groups != 0 || hidden % groups != 0 || outputs % groups != 0) {
    return c.Fail("its channels are no multiple of its groups");
  }
  const bool is_normalised = c.Bool("batch_normalize");
  auto take = [&](int64_t to, int64_t from) {
    return c.TakeConvolution({to, from / groups, size, size}, is_normalised);
  };
  const Filters of_input = take(hidden, channels), of_state = take(hidden, hidden), of_output = take(outputs, hidden);
  const int64_t reach = pad * dilation;
  const Windows windows = {.axes = 2,
                           .kernel = {size, size},
                           .strides = {1, 1},
                           .dilations = {dilation, dilation},
                           .pads = {reach, reach, reach, reach}};
  auto convolved = [&](Operand image, const Filters& filters) {
    Operand y = Convolve(c, image, filters.weights, windows, groups);
    return c.Activated(c.Add(y, AlongChannels(c, filters.bias, y)));
  };
  const Dims image = {1, hidden, height, width};
  const Dim numbers = importing::Product(image);
  if (!numbers.is_const()) return c.Fail("its state has too many elements");
  Operand rows = Run(c, c.AsRows(convolved(x, of_input)), numbers.constant(), 1,
                     [&](Operand gates, const Operands& state) -> Operands {
                       Operand own = c.AsRows(convolved(c.Reshape(state[0], image), of_state));
                       return {NextHidden(c, gates, own, state[0])};
                     });
  const Dims dims = c.DimsOf(rows);
  if (c.failed()) return rows;
  return convolved(c.Reshape(rows, {dims[0], hidden, height, width}), of_output);
}

constexpr LayerRow kRows[] = {
    {"crnn", Crnn},
    {"gru", Gru},
    {"lstm", Lstm},
    {"rnn", Rnn},
};

}  // namespace

std::span<const LayerRow> RecurrentLayers() { return kRows; }

}  // namespace rvm::darknet
