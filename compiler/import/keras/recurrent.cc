// Recurrent layers as loops: one function that calls itself for each layer and direction, whatever the number of steps.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/keras/windows.h"
#include "compiler/import/loops.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Roll;
using importing::Rolled;
using importing::StackRows;
using importing::Step;
using importing::Term;

Values NoCall(LayerContext& c) { return {{c.Unsupported("a cell outside of a recurrent layer")}}; }
constexpr LayerRow kCellRow = {"cell", NoCall};

// A cell: what inputs contribute to its gates, and its next state.
class Cell {
 public:
  Cell(LayerContext& outer, Layer layer, size_t axes)
      : layer_(std::move(layer)), context_(outer.importer(), outer.emit(), layer_, kCellRow, {}), axes_(axes) {
    kernel_ = context_.Weight("kernel");
    recurrent_ = context_.Weight("recurrent_kernel");
    bias_ = context_.Weight("bias");
    units_ = context_.Extents(axes == 0 ? "units" : "filters", 1)[0];
  }
  Cell(const Cell&) = delete;

  int64_t units() const { return units_; }
  size_t num_states() const { return is("LSTMCell") || is("ConvLSTMCell") ? 2 : 1; }

  // Returns what inputs contribute, (any..., size), or images, (batch, space..., channels).
  Operand Gates(Operand x) {
    LayerContext& c = context_;
    if (c.failed()) return x;
    if (axes_ > 0) {
      const Windows windows = ReadWindows(c, x, axes_, "kernel_size");
      return WithBias(c, Convolved(c, x, kernel_, windows, 1), bias_, windows.data_layout);
    }
    Operand gates = c.Op("nn.matmul", {x, kernel_});
    if (bias_ == nullptr || c.failed()) return gates;
    // A GRU that resets afterwards has a second bias for its state.
    return c.Add(gates, c.RankOf(bias_) == 2 ? Row(bias_, 0) : bias_);
  }

  Operands Next(Operand gates, std::span<const Operand> state) {
    if (context_.failed()) return {state.begin(), state.end()};
    if (is("GRUCell")) return NextOfGru(gates, state[0]);
    LayerContext& c = context_;
    Operand sum = c.Add(gates, Recurrent(state[0]));
    if (is("SimpleRNNCell")) return {c.Activated(sum)};
    const Term input(c, Gate(sum, 0, true)), forget(c, Gate(sum, 1, true)), output(c, Gate(sum, 3, true));
    const Term cell = forget * Term(c, state[1]) + input * Term(c, c.Activated(Gate(sum, 2, false)));
    return {output * Term(c, c.Activated(cell)), cell};
  }

 private:
  bool is(std::string_view kind) const { return layer_.kind == kind; }

  Operand Row(Operand matrix, int64_t row) {
    return context_.Squeeze(context_.SliceAxis(matrix, 0, row, row + 1), {0});
  }

  // Returns the part of x that gate `number` has, after the activation of gates if `is_activated`.
  Operand Gate(Operand x, int64_t number, bool is_activated) {
    LayerContext& c = context_;
    if (c.failed()) return x;
    const int64_t axis = axes_ > 0 && !c.has_channels_last() ? 1 : c.RankOf(x) - 1;
    Operand gate = c.SliceAxis(x, axis, number * units_, (number + 1) * units_);
    return is_activated ? c.Activated(gate, "recurrent_activation") : gate;
  }

  Operand Recurrent(Operand state) {
    LayerContext& c = context_;
    if (axes_ == 0) return c.Op("nn.matmul", {state, recurrent_});
    Windows windows = {.kernel = c.Extents("kernel_size", axes_)};
    windows.strides.assign(axes_, 1);
    windows.dilations.assign(axes_, 1);
    windows.data_layout = DataLayout(c, axes_);
    SetPadding(c, state, "same", windows);
    return Convolved(c, state, recurrent_, windows, 1);
  }

  Operands NextOfGru(Operand gates, Operand state) {
    LayerContext& c = context_;
    const bool resets_after = c.Bool("reset_after", false);
    Operand own;
    if (resets_after) {
      own = Recurrent(state);
      if (bias_ != nullptr) own = c.Add(own, Row(bias_, 1));
    } else {
      own = c.Op("nn.matmul", {state, c.SliceAxis(recurrent_, 1, 0, 2 * units_)});
    }
    auto gate = [&](int64_t number) {
      Operand sum = c.Add(Gate(gates, number, false), Gate(own, number, false));
      return Term(c, c.Activated(sum, "recurrent_activation"));
    };
    if (c.failed()) return {state};
    const Term update = gate(0), reset = gate(1), old(c, state);
    const Term more =
        resets_after ? reset * Term(c, Gate(own, 2, false))
                     : Term(c, c.Op("nn.matmul", {reset * old, c.SliceAxis(recurrent_, 1, 2 * units_, 3 * units_)}));
    const Term candidate(c, c.Activated(Term(c, Gate(gates, 2, false)) + more));
    return {update * old + (1.0 - update) * candidate};
  }

  const Layer layer_;
  LayerContext context_;
  const size_t axes_;  // of space; 0: vectors
  Operand kernel_, recurrent_, bias_;
  int64_t units_;
};

using Cells = std::vector<std::unique_ptr<Cell>>;

bool IsCell(std::string_view kind) { return kind == "LSTMCell" || kind == "GRUCell" || kind == "SimpleRNNCell"; }

void AddCells(LayerContext& c, const Layer& layer, Cells& cells);

// Adds the cells of an RNN or of a stack.
void AddPartsOf(LayerContext& c, const Layer& layer, Cells& cells) {
  for (const Part& part : PartsOf(layer)) {
    absl::StatusOr<Layer> inner = ReadPart(layer, part);
    if (inner.ok()) {
      AddCells(c, *inner, cells);
    } else {
      c.emit().Fail(inner.status());
    }
  }
}

// Adds the cells that a description names: one, or those of a stack.
void AddCells(LayerContext& c, const Layer& layer, Cells& cells) {
  if (layer.kind == "StackedRNNCells") return AddPartsOf(c, layer, cells);
  if (!IsCell(layer.kind) || layer.is_custom) {
    c.Unsupported(absl::StrCat("the cell `", layer.kind, "`; `relayvm.import_keras(model)` exports it by JAX"));
    return;
  }
  cells.push_back(std::make_unique<Cell>(
      c, Layer{.kind = layer.kind, .name = layer.name, .path = layer.path, .config = layer.config}, 0));
}

Cells CellsOf(LayerContext& c) {
  Cells cells;
  const Layer& layer = c.layer();
  if (layer.kind == "RNN") {
    AddPartsOf(c, layer, cells);
    if (cells.empty() && !c.failed()) c.Fail("it has no cell");
    return cells;
  }
  const size_t axes = c.space_axes();
  std::string kind = axes > 0 ? "ConvLSTMCell" : absl::StrCat(layer.kind, "Cell");
  cells.push_back(std::make_unique<Cell>(c,
                                         Layer{.kind = std::move(kind),
                                               .name = layer.name,
                                               .path = absl::StrCat(layer.path, "/cell"),
                                               .config = layer.config},
                                         axes));
  return cells;
}

struct Run {
  Operand output = nullptr;
  Operands state;
};

// Runs a recurrent layer. `has_order_of_sequence`: rows have it also where the layer goes backwards.
class RecurrentRun {
 public:
  RecurrentRun(LayerContext& c, const Value& input, bool has_order_of_sequence)
      : c_(c), mask_(input.mask), has_order_of_sequence_(has_order_of_sequence), cells_(CellsOf(c)) {
    if (c.failed()) return;
    Operand x = c.Cast(input.tensor, c.dtype());
    rank_ = c.RankOf(x);
    if (rank_ != static_cast<int64_t>(c.space_axes()) + 3) {
      c.Fail(absl::StrCat("its input has rank ", rank_));
      return;
    }
    gates_ = GatesOf(StepsOutside(x));
  }

  Run Go(const Operands& given) {
    if (c_.failed()) return {};
    const Operands initial = Initial(given);
    if (c_.failed()) return {};
    const bool wants_rows = c_.Bool("return_sequences", false);
    const bool zeroes_rows = mask_ != nullptr && c_.Bool("zero_output_for_mask", false);
    const bool is_reversed = c_.Bool("go_backwards", false);
    const Rolled rolled = Loop(initial, wants_rows || zeroes_rows, zeroes_rows, is_reversed);
    if (c_.failed() || rolled.state.empty() || rolled.state[0]->is_placeholder) return {};
    Keep(rolled.state);
    if (!wants_rows && !zeroes_rows) return {rolled.state[RowState()], rolled.state};
    // Rows are in the order in which they are computed.
    Operand rows = StackRows(c_, rolled, 0);
    if (wants_rows) {
      if (is_reversed && has_order_of_sequence_) rows = c_.Op("reverse", {rows}, {{"axis", 0}});
      return {StepsOutside(rows), rolled.state};
    }
    const Dim steps = c_.ExtentOf(gates_, 0);
    return {c_.Squeeze(c_.SliceAxis(rows, 0, steps - 1, steps), {0}), rolled.state};
  }

 private:
  // Returns x with its first two axes swapped.
  Operand StepsOutside(Operand x) {
    std::vector<int64_t> axes = {1, 0};
    for (int64_t i = 2; !c_.failed() && i < c_.RankOf(x); ++i) axes.push_back(i);
    return c_.Transpose(x, axes);
  }

  // The part of the state that is also the row of a step: the first one of the last cell.
  size_t RowState() const { return NumStates() - cells_.back()->num_states(); }

  // Runs the cells over all steps. A step that does not count leaves the state as it is; its row is the one before, or
  // 0.
  Rolled Loop(const Operands& initial, bool wants_rows, bool zeroes_rows, bool is_reversed) {
    Operand mask = MaskOfSteps(), limit = c_.emit().FromDim(c_.ExtentOf(gates_, 0));
    return Roll(c_, limit, nullptr, initial, [&](Operand index, const Operands& own) -> Step {
      Operand at = is_reversed ? c_.Sub(c_.Sub(limit, c_.Integer(1)), index) : index;
      Operands next = Next(c_.Op("take", {gates_, at}, {{"axis", 0}}), own);
      if (c_.failed()) return {nullptr, own, {}};
      Operand row = next[RowState()];
      if (mask != nullptr) {
        Operand counts = c_.Op("take", {mask, at}, {{"axis", 0}});
        row = c_.Where(counts, row, zeroes_rows ? c_.Number(0, row) : own[RowState()]);
        for (size_t i = 0; i < next.size(); ++i) next[i] = c_.Where(counts, next[i], own[i]);
      }
      for (size_t i = 0; i < next.size(); ++i) next[i] = c_.emit().Retyped(next[i], own[i]->type);
      if (!wants_rows) return {nullptr, next, {}};
      Dims dims = c_.DimsOf(initial[RowState()]);
      dims.insert(dims.begin(), Dim::Any());
      return {nullptr, next, {c_.emit().Retyped(c_.Unsqueeze(row, {0}), c_.emit().TensorType(dims, c_.DTypeOf(row)))}};
    });
  }

  // Returns what all inputs contribute to the gates of the cell. Several cells read the inputs themselves.
  Operand GatesOf(Operand x) {
    if (cells_.size() > 1) return x;
    if (c_.space_axes() == 0) return cells_[0]->Gates(x);
    // Images of all steps are one batch.
    const Dims dims = c_.DimsOf(x);
    Dims joined(dims.begin() + 1, dims.end());
    joined[0] = dims[0] * dims[1];
    Operand gates = cells_[0]->Gates(c_.Reshape(x, joined));
    if (c_.failed()) return gates;
    Dims split = c_.DimsOf(gates);
    split[0] = dims[1];
    split.insert(split.begin(), dims[0]);
    return c_.Reshape(gates, split);
  }

  Operands Next(Operand gates, const Operands& state) {
    if (cells_.size() == 1) return cells_[0]->Next(gates, state);
    Operands next;
    Operand x = gates;
    for (const std::unique_ptr<Cell>& cell : cells_) {
      const auto own = std::span(state).subspan(next.size(), cell->num_states());
      const Operands after = cell->Next(cell->Gates(x), own);
      next.insert(next.end(), after.begin(), after.end());
      x = after[0];
    }
    return next;
  }

  size_t NumStates() const {
    size_t count = 0;
    for (const std::unique_ptr<Cell>& cell : cells_) count += cell->num_states();
    return count;
  }
  std::string NameOfState(size_t i) const { return absl::StrCat(c_.layer().path, "/state_", i); }

  Operands Initial(const Operands& given) {
    Operands initial;
    if (!given.empty()) {
      if (given.size() != NumStates()) {
        c_.Fail(absl::StrCat("it is called with ", given.size(), " states; it has ", NumStates()));
      }
      for (Operand state : given) {
        if (state == nullptr) {
          c_.Fail("it is called with some of its states alone");
          return {};
        }
        initial.push_back(c_.Cast(state, c_.dtype()));
      }
      return initial;
    }
    const bool is_stateful = c_.Bool("stateful", false);
    for (const std::unique_ptr<Cell>& cell : cells_) {
      for (size_t i = 0; i < cell->num_states(); ++i) {
        Operand* kept = is_stateful ? c_.importer().FindState(NameOfState(initial.size())) : nullptr;
        if (is_stateful && kept == nullptr) {
          c_.Unsupported("`stateful` of this kind of layer");
          return {};
        }
        initial.push_back(kept != nullptr ? c_.Cast(*kept, c_.dtype()) : Zeros(cell->units()));
      }
    }
    return initial;
  }

  // Returns a first state: a vector for each element of the batch, or an image of the extents that gates have.
  Operand Zeros(int64_t units) {
    Dims dims = {c_.ExtentOf(gates_, 1), Dim(units)};
    if (c_.space_axes() > 0) {
      const Dims& gates = c_.DimsOf(gates_);
      dims.assign(gates.begin() + 1, gates.end());
      dims[c_.has_channels_last() ? dims.size() - 1 : 1] = units;
    }
    return c_.BroadcastTo(c_.emit().Number(0, c_.dtype()), dims);
  }

  Operand MaskOfSteps() {
    if (mask_ == nullptr) return nullptr;
    Operand mask = StepsOutside(c_.Cast(mask_, kBool));
    std::vector<int64_t> axes;
    for (int64_t i = 2; i < rank_; ++i) axes.push_back(i);
    return c_.Unsqueeze(mask, axes);
  }

  // Stores the last state of a stateful layer.
  void Keep(const Operands& state) {
    if (!c_.Bool("stateful", false)) return;
    for (size_t i = 0; i < state.size(); ++i) {
      if (Operand* kept = c_.importer().FindState(NameOfState(i))) *kept = c_.Cast(state[i], kFloat32);
    }
  }

  LayerContext& c_;
  const Operand mask_;
  const bool has_order_of_sequence_;
  const Cells cells_;
  Operand gates_ = nullptr;  // (steps, batch, ...)
  int64_t rank_ = 0;
};

// Returns the states that a call gives, by keyword or behind the sequence in its list.
Operands GivenStates(const LayerContext& c) {
  Operands states;
  if (const GivenArgument* given = c.Find("initial_state", 1)) {
    for (const Value& value : given->values) states.push_back(value.tensor);
  }
  for (size_t i = 1; states.empty() && i < c.inputs().size(); ++i) {
    for (size_t j = i; j < c.inputs().size(); ++j) states.push_back(c.inputs()[j].tensor);
  }
  return states;
}

bool HasSequence(LayerContext& c) {
  if (!c.inputs().empty() && c.inputs()[0].tensor != nullptr) return true;
  c.Fail("it is called without a sequence");
  return false;
}

Values Recurrent(LayerContext& c) {
  if (!HasSequence(c)) return {};
  const Run run = RecurrentRun(c, c.inputs()[0], false).Go(GivenStates(c));
  if (c.failed()) return {};
  Values results = {{run.output, c.Bool("return_sequences", false) ? c.Mask() : nullptr}};
  for (Operand state : run.state) {
    if (c.Bool("return_state", false)) results.push_back({state});
  }
  return results;
}

const LayerRow* FindRecurrent(std::string_view kind);

// Merges both directions as the config says; returns both where its mode is null.
Operands Merged(LayerContext& c, Operand forward, Operand backward) {
  const JsonValue* mode = c.layer().config->Find("merge_mode");
  if (mode != nullptr && mode->is_null()) return {forward, backward};
  const std::string name = c.Text("merge_mode", "concat");
  if (name == "concat") return {c.Concatenate({forward, backward}, c.RankOf(forward) - 1)};
  if (name == "mul") return {c.Mul(forward, backward)};
  Operand sum = c.Add(forward, backward);
  if (name == "sum") return {sum};
  if (name == "ave") return {c.Mul(sum, c.Number(0.5, sum))};
  return {c.Unsupported(absl::StrCat("the merge mode `", name, "`"))};
}

Values Bidirectional(LayerContext& c) {
  if (!HasSequence(c)) return {};
  const std::vector<Part> parts = PartsOf(c.layer());
  if (parts.size() != 2) return {{c.Unsupported("a layer inside that is not recurrent")}};
  const Operands given = GivenStates(c);
  const size_t half = given.size() / 2;
  std::vector<Run> runs;
  bool has_rows = false, has_state = false;
  for (size_t i = 0; i < 2; ++i) {
    absl::StatusOr<Layer> inner = ReadPart(c.layer(), parts[i]);
    const LayerRow* row = inner.ok() ? FindRecurrent(inner->kind) : nullptr;
    if (row == nullptr || inner->is_custom) return {{c.Unsupported("a layer inside that is not recurrent")}};
    // Without a layer of its own the way back is that of the layer, backwards.
    JsonValue turned;
    if (i == 1 && Member(c.layer().config, "backward_layer") == nullptr) {
      turned = *inner->config;
      JsonValue::Object& members = std::get<JsonValue::Object>(turned.value);
      for (size_t j = 0; j < members.keys.size(); ++j) {
        if (members.keys[j] == "go_backwards") members.values[j].value = !BoolOf(inner->config, "go_backwards", false);
      }
      inner->config = &turned;
    }
    LayerContext context(c.importer(), c.emit(), *inner, *row, {});
    has_rows = context.Bool("return_sequences", false);
    has_state = context.Bool("return_state", false);
    const auto own = std::span(given).subspan(i * half, half);
    runs.push_back(RecurrentRun(context, c.inputs()[0], i == 1).Go({own.begin(), own.end()}));
    if (c.failed()) return {};
  }
  Values results;
  for (Operand merged : Merged(c, runs[0].output, runs[1].output)) {
    results.push_back({merged, has_rows ? c.Mask() : nullptr});
  }
  for (const Run& run : runs) {
    for (Operand state : run.state) {
      if (has_state) results.push_back({state});
    }
  }
  return results;
}

// Applies a layer to each step: steps are elements of a batch.
Values TimeDistributed(LayerContext& c) {
  Operand x = c.In();
  const std::vector<Part> parts = PartsOf(c.layer());
  if (c.failed()) return {};
  if (parts.empty() || c.RankOf(x) < 2) return {{c.Fail("it has no layer, or its input no steps")}};
  const Dims dims = c.DimsOf(x);
  Dims joined(dims.begin() + 1, dims.end());
  joined[0] = dims[0] * dims[1];
  const Values results = c.CallPart(*parts[0].json, parts[0].path, {{.values = {{c.Reshape(x, joined)}}}});
  if (c.failed() || results.empty()) return {};
  Operand y = results[0].tensor;
  if (y == nullptr || y->is_placeholder) return {{y}};
  Dims split = c.DimsOf(y);
  split[0] = dims[1];
  split.insert(split.begin(), dims[0]);
  return {{c.Reshape(y, split), c.Mask()}};
}

constexpr LayerRow kRows[] = {
    {"Bidirectional", Bidirectional},
    {"ConvLSTM1D", Recurrent, "1"},
    {"ConvLSTM2D", Recurrent, "2"},
    {"ConvLSTM3D", Recurrent, "3"},
    {"GRU", Recurrent},
    {"LSTM", Recurrent},
    {"RNN", Recurrent},
    {"SimpleRNN", Recurrent},
    {"TimeDistributed", TimeDistributed},
};

const LayerRow* FindRecurrent(std::string_view kind) {
  for (const LayerRow& row : kRows) {
    if (row.name == kind && row.convert == Recurrent) return &row;
  }
  return nullptr;
}

}  // namespace

std::span<const LayerRow> RecurrentLayers() { return kRows; }

}  // namespace rvm::keras
