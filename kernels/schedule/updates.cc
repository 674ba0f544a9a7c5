#include "kernels/schedule/updates.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::Tensor;
using te::TensorKind;
using te::TensorNode;

// Returns the tensors that the expressions read, each once.
std::vector<Tensor> ReadsOf(const std::vector<Expr>& expressions) {
  std::vector<Tensor> reads;
  absl::flat_hash_set<const TensorNode*> seen;
  for (const ExprNode* node : te::Postorder(expressions)) {
    if (node->kind == ExprKind::kRead && seen.insert(node->tensor.get()).second) reads.push_back(node->tensor);
  }
  return reads;
}

class UpdateFinder {
 public:
  explicit UpdateFinder(const te::Computation& computation) : computation_(computation) { CountReaders(); }

  // Returns the updates that give the output; no steps if it is not made in this way.
  OutputUpdates Find(size_t output) const {
    OutputUpdates found{.output = output};
    Tensor tensor = computation_.outputs[output];
    while (tensor->kind == TensorKind::kCompute) {
      if (!tensor->update || tensor.rank() == 0) return {};
      bool is_last = found.steps.empty();
      if (!is_last && (IsOutput(tensor) || readers_.at(tensor.get()) > 1)) return {};
      found.steps.insert(found.steps.begin(), {tensor, Tensor()});
      tensor = tensor->update->base;
    }
    if (found.steps.empty() || tensor->kind != TensorKind::kInput || !MayBegin(tensor, output)) return {};
    found.input = tensor->input_index;
    for (OutputUpdates::Step& step : found.steps) {
      if (!Complete(step, tensor)) return {};
    }
    return found;
  }

 private:
  static std::vector<Tensor> AllReads(const Tensor& tensor) {
    std::vector<Expr> definitions = {tensor->body};
    if (tensor->update) {
      std::vector<Expr> update = Expressions(*tensor->update);
      definitions.insert(definitions.end(), update.begin(), update.end());
    }
    std::vector<Tensor> reads = ReadsOf(definitions);
    bool reads_base = !tensor->update || std::any_of(reads.begin(), reads.end(), [&](const Tensor& read) {
      return read.get() == tensor->update->base.get();
    });
    if (!reads_base) reads.push_back(tensor->update->base);
    return reads;
  }

  void CountReaders() {
    std::vector<Tensor> pending = computation_.outputs;
    absl::flat_hash_set<const TensorNode*> seen;
    while (!pending.empty()) {
      Tensor tensor = pending.back();
      pending.pop_back();
      if (tensor->kind != TensorKind::kCompute || !seen.insert(tensor.get()).second) continue;
      for (const Tensor& read : AllReads(tensor)) {
        ++readers_[read.get()];
        pending.push_back(read);
      }
    }
  }

  bool IsOutput(const Tensor& tensor) const {
    return std::any_of(computation_.outputs.begin(), computation_.outputs.end(),
                       [&](const Tensor& output) { return output.get() == tensor.get(); });
  }

  // Returns whether the elements of the input are those of the tensor, or the first of them. A tensor that is longer is
  // made in this way only if the extent of the input is not known: the call costs more than to copy a small tensor.
  static bool BeginsWith(const Tensor& tensor, const Tensor& input) {
    size_t outer = 0;
    while (outer + 1 < tensor.rank() && tensor.dims()[outer] == Dim(1) && input.dims()[outer] == Dim(1)) ++outer;
    auto behind = static_cast<std::ptrdiff_t>(outer) + 1;
    return std::equal(tensor.dims().begin() + behind, tensor.dims().end(), input.dims().begin() + behind) &&
           (tensor.dims()[outer] == input.dims()[outer] || !input.dims()[outer].is_const());
  }

  // Returns whether the output has or begins with the elements of the input, and is not another output too.
  bool MayBegin(const Tensor& input, size_t output) const {
    const Tensor& tensor = computation_.outputs[output];
    bool is_first =
        std::none_of(computation_.outputs.begin(), computation_.outputs.begin() + static_cast<std::ptrdiff_t>(output),
                     [&](const Tensor& other) { return other.get() == tensor.get(); });
    return is_first && input.dtype() == tensor.dtype() && input.rank() == tensor.rank() && BeginsWith(tensor, input);
  }

  // Returns whether one of the expressions reads the input, directly or through other tensors.
  static bool DependsOn(const std::vector<Expr>& expressions, const Tensor& input) {
    std::vector<Tensor> pending = ReadsOf(expressions);
    absl::flat_hash_set<const TensorNode*> seen;
    while (!pending.empty()) {
      Tensor tensor = pending.back();
      pending.pop_back();
      if (tensor.get() == input.get()) return true;
      if (tensor->kind != TensorKind::kCompute || !seen.insert(tensor.get()).second) continue;
      for (const Tensor& read : AllReads(tensor)) pending.push_back(read);
    }
    return false;
  }

  // Sets the values of the step if they must be computed before. Returns false if the input decides where it writes.
  static bool Complete(OutputUpdates::Step& step, const Tensor& input) {
    const te::TensorUpdate& update = *step.tensor->update;
    std::vector<Expr> places = Expressions(update);
    places.erase(places.begin());
    if (DependsOn(places, input)) return false;
    if (!DependsOn({update.position.value}, input)) return true;
    // The positions of counted axes are many, and few of them run.
    if (std::any_of(update.counts.begin(), update.counts.end(), [](const Expr& count) { return bool(count); }))
      return false;
    Dims dims;
    for (const te::IndexVar& axis : update.axes) dims.push_back(axis.extent);
    te::ExprPool pool;
    step.values = te::Stored(te::ComputeTensor("values", step.tensor.dtype(), dims, [&](std::span<const Expr> indices) {
      te::Rewrite rewrite;
      for (size_t i = 0; i < indices.size(); ++i) rewrite.variables[update.axes[i].id] = indices[i];
      rewrite.read = [&](const Tensor& read, std::vector<Expr> at) { return read(at); };
      return pool.Copy(update.position.value, rewrite);
    }));
    return true;
  }

  const te::Computation& computation_;
  absl::flat_hash_map<const TensorNode*, int64_t> readers_;
};

}  // namespace

std::vector<OutputUpdates> FindUpdates(const te::Computation& computation,
                                       const absl::flat_hash_set<size_t>& left_out) {
  bool has_updates = std::any_of(computation.outputs.begin(), computation.outputs.end(),
                                 [](const Tensor& output) { return output->update != nullptr; });
  if (!has_updates) return {};
  std::vector<OutputUpdates> updates;
  UpdateFinder finder(computation);
  for (size_t output = 0; output < computation.outputs.size(); ++output) {
    if (left_out.contains(output)) continue;
    OutputUpdates found = finder.Find(output);
    if (!found.steps.empty()) updates.push_back(std::move(found));
  }
  return updates;
}

std::optional<size_t> FindLateRead(const Schedule& schedule) {
  for (const Schedule::Update& update : schedule.updates) {
    const Tensor& input = schedule.computation.inputs[static_cast<size_t>(update.input)];
    bool has_begun = false;
    for (const LoopNest& nest : schedule.nests) {
      auto buffer = schedule.buffers.find(nest.tensors[0].tensor.get());
      bool is_output = buffer != schedule.buffers.end() && buffer->second.is_output;
      has_begun |= nest.update && is_output && buffer->second.output == update.output;
      if (!has_begun) continue;
      for (const ExprNode* node : te::Postorder(ReadExpressions(nest))) {
        if (node->kind == ExprKind::kRead && node->tensor.get() == input.get())
          return static_cast<size_t>(update.output);
      }
    }
  }
  return std::nullopt;
}

}  // namespace rvm::schedule
