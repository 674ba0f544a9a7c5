// Computes dense layers of one operand as one layer, on devices with a library of products.
//
// Takes and gives A-normal form, after placement. Layers with constant weights, with or without a constant row of
// biases behind each, become one with the weights below each other; their results are slices of its result, which
// readers on a GPU read where they are. One product fills a GPU better than several, and is one launch. On the host
// this loses (docs/decisions/0035-graph-passes.md), and nothing is done.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/dim.h"
#include "base/literal.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"
#include "devices/device_kinds.h"
#include "serialization/device_contract.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

using ConstantUses = absl::flat_hash_map<const void*, int>;

// Minimum number of rows. Fewer are summed up by warps, which go on with what follows, as the gates of a recurrent
// step.
constexpr int64_t kMinRows = 16;

bool HasFewRows(const ir::TensorType& result) {
  const Dims& dims = result.shape.dims;
  std::optional<int64_t> rows = NumElements(Dims(dims.begin(), dims.end() - 1)).AsConst();
  return rows && *rows < kMinRows;
}

// A dense layer, and the sum with its biases if that is all that uses it.
struct Layer {
  const ir::Let* dense = nullptr;
  const ir::Let* sum = nullptr;
  const Literal* weights = nullptr;
  const Literal* bias = nullptr;

  const ir::Call& call() const { return *Cast<ir::Call>(dense->value); }
  const ir::Var* result() const { return (sum != nullptr ? sum : dense)->var; }
  int64_t outputs() const { return weights->shape()[0]; }
};

bool AreOneProduct(const Layer& a, const Layer& b) {
  return VarOf(a.call().args[0]) == VarOf(b.call().args[0]) && a.weights->dtype() == b.weights->dtype() &&
         TensorOf(&a.call())->dtype.dtype == TensorOf(&b.call())->dtype.dtype &&
         (a.bias == nullptr) == (b.bias == nullptr) &&
         target::DeviceOf(a.call().attrs) == target::DeviceOf(b.call().attrs);
}

// Returns the elements of the constants, one behind the other along the first axis.
Literal Joined(const std::vector<const Literal*>& parts) {
  Shape shape = parts[0]->shape();
  shape[0] = 0;
  int64_t bytes = 0;
  for (const Literal* part : parts) shape[0] += part->shape()[0], bytes += part->bytes();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes);
  std::byte* to = buffer->data();
  for (const Literal* part : parts) {
    std::memcpy(to, part->data(), static_cast<size_t>(part->bytes()));
    to += part->bytes();
  }
  return Literal(parts[0]->dtype(), std::move(shape), buffer);
}

class DenseCombiner : public Rewriter {
 public:
  // `uses`: of variables in the function; `constants`: of constants in the module, by their data.
  DenseCombiner(ir::Arena& arena, const UseCounts& uses, const ConstantUses& constants)
      : Rewriter(arena), uses_(uses), constants_(constants) {}

  Expr* Rewrite(Expr* expr) override {
    if (expr->expr_kind == ir::ExprKind::kLet) FindLayers(expr);
    return Rewriter::Rewrite(expr);
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    auto group = group_of_.find(let.var);
    if (group == group_of_.end()) return Rewriter::RewriteLet(let, chain);
    if (combined_[group->second] == nullptr) combined_[group->second] = Combine(groups_[group->second], chain);
    auto begin = begin_of_.find(let.var);
    if (begin == begin_of_.end()) return;  // the sum stands for it
    const auto axis = static_cast<int64_t>(TensorOf(let.value)->shape.dims.size()) - 1;
    const Layer& first = groups_[group->second][0];
    int64_t end = begin->second + TensorOf(let.value)->shape.dims.back().constant();
    ir::Call* slice =
        ops::BuildCall(At(let.value->span), "strided_slice", {At(let.value->span).Use(combined_[group->second])},
                       {{"begin", ir::IntList(std::vector<int64_t>{begin->second})},
                        {"end", ir::IntList(std::vector<int64_t>{end})},
                        {"axes", ir::IntList(std::vector<int64_t>{axis})}});
    chain.push_back({let.var, Placed(slice, first), let.span});
  }

 private:
  // Finds the layers in a chain of lets that are one product.
  void FindLayers(Expr* block) {
    std::vector<Layer> layers;
    absl::flat_hash_map<const ir::Var*, size_t> by_var;
    for (const auto* let = DynCast<ir::Let>(block); let != nullptr; let = DynCast<ir::Let>(let->body)) {
      if (group_of_.contains(let->var)) return;  // the rest of a chain that is known
      if (std::optional<Layer> layer = LayerOf(*let)) {
        by_var[let->var] = layers.size();
        layers.push_back(*layer);
      } else {
        AddBias(*let, by_var, layers);
      }
    }
    std::vector<bool> is_taken(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      std::vector<Layer> group;
      for (size_t k = i; k < layers.size(); ++k) {
        if (is_taken[k] || !AreOneProduct(layers[i], layers[k])) continue;
        is_taken[k] = true;
        group.push_back(layers[k]);
      }
      if (group.size() > 1) AddGroup(std::move(group));
    }
  }

  void AddGroup(std::vector<Layer> group) {
    int64_t begin = 0;
    for (const Layer& layer : group) {
      group_of_[layer.dense->var] = groups_.size();
      group_of_[layer.result()] = groups_.size();
      begin_of_[layer.result()] = begin;
      begin += layer.outputs();
    }
    groups_.push_back(std::move(group));
    combined_.push_back(nullptr);
  }

  std::optional<Layer> LayerOf(const ir::Let& let) const {
    const ops::OpDef* op = ir::OpCallee(let.value);
    if (op == nullptr || op->name != "nn.dense") return std::nullopt;
    const auto& call = *Cast<ir::Call>(let.value);
    const target::DeviceKind* kind = target::KindOfPlace(target::DeviceOf(call.attrs));
    const Literal* weights = ConstantOf(call.args[1]);
    const ir::TensorType* type = TensorOf(&call);
    bool fits = kind != nullptr && target::UsesTarget(*kind, device_contract::kPtxTarget) && weights != nullptr &&
                VarOf(call.args[0]) != nullptr && type != nullptr && !type->shape.dims.empty() &&
                type->shape.dims.back().is_const() && ir::TypesEqual(let.var->type, let.value->type);
    if (!fits || HasFewRows(*type) || weights->shape()[0] != type->shape.dims.back().constant()) return std::nullopt;
    // Weights that other calls share stay one copy.
    if (constants_.at(weights->data()) != 1) return std::nullopt;
    return Layer{.dense = &let, .weights = weights};
  }

  // If the step adds a row of biases to a layer that nothing else uses, it becomes part of the layer.
  void AddBias(const ir::Let& let, const absl::flat_hash_map<const ir::Var*, size_t>& by_var,
               std::vector<Layer>& layers) const {
    const ops::OpDef* op = ir::OpCallee(let.value);
    if (op == nullptr || (op->name != "add" && op->name != "nn.bias_add")) return;
    const auto& call = *Cast<ir::Call>(let.value);
    for (size_t i : {0, 1}) {
      auto found = by_var.find(VarOf(call.args[i]));
      const Literal* bias = ConstantOf(call.args[1 - i]);
      if (found == by_var.end() || bias == nullptr || bias->rank() != 1) continue;
      Layer& layer = layers[found->second];
      const auto last = static_cast<int64_t>(TensorOf(&layer.call())->shape.dims.size()) - 1;
      int64_t axis = op->name == "add" ? last : call.attrs.GetInt("axis");
      bool fits = bias->shape()[0] == layer.outputs() && (axis == last || axis == -1) &&
                  uses_.at(layer.dense->var).all == 1 && ir::TypesEqual(let.var->type, let.value->type) &&
                  ir::TypesEqual(let.value->type, layer.dense->value->type) &&
                  target::DeviceOf(call.attrs) == target::DeviceOf(layer.call().attrs);
      if (!fits) return;
      layer.sum = &let;
      layer.bias = bias;
      return;
    }
  }

  ir::Var* Combine(const std::vector<Layer>& group, std::vector<Binding>& chain) {
    const Layer& first = group[0];
    const ir::Call& call = first.call();
    const ir::Builder at = At(call.span);
    std::vector<const Literal*> weights, biases;
    for (const Layer& layer : group) {
      weights.push_back(layer.weights);
      if (layer.bias != nullptr) biases.push_back(layer.bias);
    }
    Expr* product = ops::BuildCall(at, "nn.dense", {call.args[0], at.Constant(Joined(weights))},
                                   {{"out_dtype", *call.attrs.Find("out_dtype")}});
    ir::VarExpr* result = at.Bind("parallel", Placed(Cast<ir::Call>(product), first), chain);
    if (biases.empty()) return result->var;
    ir::Call* sum = ops::BuildCall(at, "add", {result, at.Constant(Joined(biases))});
    return at.Bind("parallel", Placed(sum, first), chain)->var;
  }

  // Returns the call where the layer is.
  ir::Call* Placed(ir::Call* call, const Layer& layer) {
    ir::Attrs attrs = call->attrs;
    attrs.Set(target::kDeviceAttr, std::string(target::DeviceOf(layer.call().attrs)));
    return At(call->span).Call(call->callee, call->args, std::move(attrs), call->type);
  }

  const UseCounts& uses_;
  const ConstantUses& constants_;
  std::vector<std::vector<Layer>> groups_;
  std::vector<ir::Var*> combined_;  // by group: the variable of its result; null until the first of its steps
  absl::flat_hash_map<const ir::Var*, size_t> group_of_;
  absl::flat_hash_map<const ir::Var*, int64_t> begin_of_;  // the first column of a result
};

absl::StatusOr<ir::Module> CombineParallelDense(const ir::Module& module, PassContext& context) {
  if (context.devices == nullptr) return module;
  ConstantUses constants;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::ForEachExpr(global.function->body, [&](const Expr* expr) {
      if (const Literal* literal = ConstantOf(expr)) ++constants[literal->data()];
      return true;
    });
  }
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    UseCounts uses;
    CountUses(global.function->body, uses);
    return DenseCombiner(*module.arena, uses, constants).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kCombineParallelDense = {.name = "combine_parallel_dense",
                                    .summary = "dense layers of one operand as one, on GPUs",
                                    .run = CombineParallelDense,
                                    .needs = Form::kANormal,
                                    .keeps_effect_order = true};

}  // namespace rvm::passes
