#include "compiler/lowering/kernel_recipe.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/symbol_numbers.h"
#include "kernels/schedule/schedule.h"

namespace rvm::lowering {
namespace {

using schedule::LoopNest;
using schedule::NestTensor;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::Tensor;
using te::TensorNode;

// State shared by all nests of a kernel: its symbols and its buffers.
class KernelScope {
 public:
  explicit KernelScope(const schedule::Schedule& schedule) : schedule_(schedule), symbols_(schedule) {}

  Dim Numbered(const Dim& dim) const { return symbols_.Numbered(dim); }

  uint32_t Buffer(const Tensor& tensor) {
    RVM_CHECK(tensor->kind != te::TensorKind::kSelf, "a scan has no buffer beside its tensor's");
    if (tensor->kind == te::TensorKind::kInput) return static_cast<uint32_t>(tensor->input_index);
    const schedule::TensorBuffer& buffer = schedule_.buffers.at(tensor.get());
    size_t first_result = schedule_.computation.inputs.size();
    if (buffer.is_output) return static_cast<uint32_t>(first_result + static_cast<size_t>(buffer.output));
    auto [it, added] = workspaces_.try_emplace(tensor.get(), made_.size());
    if (added) {
      made_.push_back({tensor.dtype(), Numbered(buffer.offset), Numbered(NumElements(tensor.dims()))});
    }
    return static_cast<uint32_t>(first_result + schedule_.computation.outputs.size() + it->second);
  }

  std::vector<RecipeWorkspace> TakeWorkspaces() { return std::move(made_); }

 private:
  const schedule::Schedule& schedule_;
  SymbolNumbers symbols_;
  absl::flat_hash_map<const TensorNode*, size_t> workspaces_;
  std::vector<RecipeWorkspace> made_;
};

class NestBuilder {
 public:
  NestBuilder(KernelScope& scope, const LoopNest& nest) : scope_(scope), nest_(nest) {}

  RecipeNest Run() {
    AddAxes(nest_.axes, recipe_.axes);
    if (nest_.update) AddLimits(*nest_.update);
    const Expr& first = nest_.tensors[0].value;
    if (first->kind == ExprKind::kReduce) AddReduction(*first);
    for (const NestTensor& t : nest_.tensors) AddTensor(t);
    return std::move(recipe_);
  }

 private:
  void AddAxes(const std::vector<IndexVar>& axes, Dims& extents) {
    for (const IndexVar& axis : axes) {
      axes_.emplace(axis.id, static_cast<uint32_t>(axes_.size()));
      extents.push_back(scope_.Numbered(axis.extent));
    }
  }

  uint32_t Add(RecipeStep step) {
    recipe_.steps.push_back(step);
    return static_cast<uint32_t>(recipe_.steps.size() - 1);
  }

  void AddLimits(const schedule::NestUpdate& update) {
    for (size_t axis = 0; axis < update.counts.size(); ++axis) {
      if (!update.counts[axis]) continue;
      uint32_t count = Value(update.counts[axis]);
      Add({.op = RecipeOp::kLimit, .dtype = kInt64, .a = static_cast<uint32_t>(axis), .b = count});
    }
  }

  // Nothing computed for the reduction is known after it.
  void AddReduction(const ExprNode& reduce) {
    AddAxes(reduce.axes, recipe_.reduce_axes);
    uint32_t value = Value(reduce.operands[0]);
    values_.clear();
    DataType dtype = reduce.dtype;
    values_[nest_.tensors[0].value.get()] =
        Add({.op = RecipeOp::kReduce, .function = static_cast<uint8_t>(reduce.reduce), .dtype = dtype, .a = value});
  }

  void AddTensor(const NestTensor& t) {
    uint32_t value = Value(t.value);
    DataType dtype = t.tensor.dtype();
    if (t.stored) {
      RecipeStep store{.op = RecipeOp::kStore, .dtype = dtype, .b = value, .buffer = scope_.Buffer(t.tensor)};
      store.a = Value(nest_.store_offset);
      if (nest_.update && nest_.update->condition) {
        store.op = RecipeOp::kStoreIf;
        store.c = Value(nest_.update->condition);
      }
      Add(store);
    }
    bool rounds = dtype.is_small_float();
    own_[t.tensor.get()] = rounds ? Add({.op = RecipeOp::kCast, .dtype = dtype, .a = value}) : value;
  }

  uint32_t Value(const Expr& root) {
    if (auto known = values_.find(root.get()); known != values_.end()) return known->second;
    for (const ExprNode* node : te::Postorder({root})) {
      if (!values_.contains(node)) values_.emplace(node, Step(*node));
    }
    return values_.at(root.get());
  }

  uint32_t Operand(const ExprNode& node, size_t i) const { return values_.at(node.operands[i].get()); }

  uint32_t Step(const ExprNode& node) {
    RecipeStep step{.dtype = node.dtype};
    switch (node.kind) {
      case ExprKind::kIntConst: step.bits = node.int_value; break;
      case ExprKind::kFloatConst: step.bits = std::bit_cast<int64_t>(node.float_value); break;
      case ExprKind::kIndex:
        step.op = RecipeOp::kIndex;
        step.a = axes_.at(node.index.id);
        break;
      case ExprKind::kDim:
        step.op = RecipeOp::kExtent;
        step.a = static_cast<uint32_t>(recipe_.extents.size());
        recipe_.extents.push_back(scope_.Numbered(node.dim));
        break;
      case ExprKind::kRead:
        if (auto own = own_.find(node.tensor.get()); own != own_.end()) return own->second;
        step.op = RecipeOp::kLoad;
        step.a = Operand(node, 0);
        // Only the first tensor of a nest may be a scan.
        step.buffer = scope_.Buffer(node.tensor->kind == te::TensorKind::kSelf ? nest_.tensors[0].tensor : node.tensor);
        break;
      case ExprKind::kUnary:
        step.op = RecipeOp::kUnary;
        step.function = static_cast<uint8_t>(node.unary);
        step.a = Operand(node, 0);
        break;
      case ExprKind::kBinary:
        step.op = RecipeOp::kBinary;
        step.function = static_cast<uint8_t>(node.binary);
        step.a = Operand(node, 0);
        step.b = Operand(node, 1);
        break;
      case ExprKind::kSelect:
        step.op = RecipeOp::kSelect;
        step.a = Operand(node, 0);
        step.b = Operand(node, 1);
        step.c = Operand(node, 2);
        break;
      case ExprKind::kCast:
      case ExprKind::kBitcast:
        step.op = node.kind == ExprKind::kCast ? RecipeOp::kCast : RecipeOp::kBitcast;
        step.a = Operand(node, 0);
        break;
      case ExprKind::kReduce: RVM_UNREACHABLE("a reduction is not at the root of a nest's first tensor");
    }
    return Add(step);
  }

  KernelScope& scope_;
  const LoopNest& nest_;
  RecipeNest recipe_;
  absl::flat_hash_map<int64_t, uint32_t> axes_;  // by variable
  absl::flat_hash_map<const ExprNode*, uint32_t> values_;
  absl::flat_hash_map<const TensorNode*, uint32_t> own_;  // of this nest, rounded
};

// Sorts the rows of a tensor by its keys (te::OrderTensor).
RecipeNest OrderNest(KernelScope& scope, const Tensor& tensor) {
  Dim rows = NumElements(std::span(tensor.dims()).first(tensor.rank() - 2));
  const Dim& keys = tensor.dims().back();
  RecipeNest nest{.axes = {scope.Numbered(rows)}, .extents = {scope.Numbered(keys), scope.Numbered(keys * 4)}};
  auto times = static_cast<uint8_t>(BinaryOp::kMultiply);
  nest.steps = {{.op = RecipeOp::kIndex, .dtype = kInt64},
                {.op = RecipeOp::kExtent, .dtype = kInt64, .a = 0},
                {.op = RecipeOp::kExtent, .dtype = kInt64, .a = 1},
                {.op = RecipeOp::kBinary, .function = times, .dtype = kInt64, .a = 0, .b = 2},
                {.op = RecipeOp::kOrder, .dtype = kInt64, .a = 3, .b = 1, .buffer = scope.Buffer(tensor)}};
  return nest;
}

}  // namespace

absl::StatusOr<PortableKernel> MakePortableKernel(const schedule::Schedule& schedule) {
  KernelScope scope(schedule);
  PortableKernel kernel;
  for (const LoopNest& nest : schedule.nests) {
    RecipeNest recipe = NestBuilder(scope, nest).Run();
    size_t axes = recipe.axes.size() + recipe.reduce_axes.size();
    if (axes > kMaxRecipeAxes) {
      return absl::UnimplementedError(absl::StrCat("kernel `", schedule.computation.name, "` loops over ", axes,
                                                   " axes; portable executables handle ", kMaxRecipeAxes));
    }
    kernel.recipe.nests.push_back(std::move(recipe));
    const Tensor& first = nest.tensors[0].tensor;
    if (first->is_ordered) kernel.recipe.nests.push_back(OrderNest(scope, first));
  }
  kernel.recipe.workspaces = scope.TakeWorkspaces();
  kernel.workspace = scope.Numbered(schedule.workspace);
  return kernel;
}

}  // namespace rvm::lowering
