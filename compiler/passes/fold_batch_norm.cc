// Folds batch normalisation with constant statistics into the convolution or dense layer before it.
//
// Takes and returns A-normal form. `nn.batch_norm` is x * s + t, with s and t per channel. Where the moments, gamma and
// beta are constants, s and t are computed here, in float64. If x is the result of a convolution or dense layer with
// constant filters, by itself or plus a constant bias, and nothing else uses it, the filters (and that bias) are
// multiplied by s and only `+ t` is left. Elsewhere x * s + t replaces the square root and the division. Only float32
// and float64, and only where every s and t is finite: scaled filters of 16 bits would be less precise.
#include <cmath>
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
#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// The normalisation x * scale + shift along an axis of x.
struct Normalisation {
  Expr* data;
  int64_t axis;
  std::vector<double> scale, shift;
};

const Literal* ConstantOf(const Expr* expr) {
  const auto* constant = DynCast<ir::Constant>(expr);
  return constant == nullptr ? nullptr : &constant->literal;
}

int64_t AxisOf(const ir::Call& call, const ir::TensorType& data) {
  int64_t axis = call.attrs.GetInt("axis");
  return axis < 0 ? axis + static_cast<int64_t>(data.shape.dims.size()) : axis;
}

// What a call of `nn.batch_norm` does, if its statistics are constants.
std::optional<Normalisation> ReadNormalisation(const ir::Call& call) {
  const ir::TensorType* data = TensorOf(call.args[0]);
  if (data == nullptr || (data->dtype.dtype != kFloat32 && data->dtype.dtype != kFloat64)) return std::nullopt;
  const Literal* vectors[4];
  for (size_t i = 0; i < 4; ++i) {
    vectors[i] = ConstantOf(call.args[i + 1]);
    if (vectors[i] == nullptr || vectors[i]->num_elements() != vectors[0]->num_elements()) return std::nullopt;
  }
  const auto& [gamma, beta, mean, variance] = vectors;
  Normalisation norm{call.args[0], AxisOf(call, *data), {}, {}};
  for (int64_t c = 0; c < gamma->num_elements(); ++c) {
    double scale = 1 / std::sqrt(variance->DoubleAt(c) + call.attrs.GetDouble("epsilon"));
    if (call.attrs.GetBool("scale")) scale *= gamma->DoubleAt(c);
    double shift = -mean->DoubleAt(c) * scale;
    if (call.attrs.GetBool("center")) shift += beta->DoubleAt(c);
    if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
    norm.scale.push_back(scale);
    norm.shift.push_back(shift);
  }
  return norm;
}

// The axis of the filters, argument 1, along which the result's axis `axis` runs; nullopt if the call is no layer with
// filters or they have no such axis.
std::optional<size_t> FilterAxis(const ir::Call& call, int64_t axis) {
  std::string_view op = ir::OpCallee(&call)->name;
  if (op == "nn.dense") {
    const ir::TensorType* type = TensorOf(&call);
    bool is_last = type != nullptr && axis + 1 == static_cast<int64_t>(type->shape.dims.size());
    return is_last ? std::optional<size_t>(0) : std::nullopt;
  }
  constexpr std::string_view kTransposed = "_transpose";
  bool transposed = op.ends_with(kTransposed);
  if (transposed) op.remove_suffix(kTransposed.size());
  bool is_convolution = op == "nn.conv1d" || op == "nn.conv2d" || op == "nn.conv3d";
  // The channels of a transposed convolution's groups share an axis of the filters.
  if (!is_convolution || (transposed && call.attrs.GetInt("groups") != 1)) return std::nullopt;
  std::string out = call.attrs.GetString("out_layout");
  if (out.empty()) out = call.attrs.GetString("data_layout");
  size_t place = call.attrs.GetString("kernel_layout").find('O');
  if (static_cast<size_t>(axis) != out.find('C') || place == std::string::npos) return std::nullopt;
  return place;
}

// The constant with its elements along `axis` multiplied by `scale`.
Literal Scaled(const Literal& constant, size_t axis, const std::vector<double>& scale) {
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(constant.bytes());
  int64_t inner = 1, extent = constant.shape()[axis], size = constant.dtype().bytes();
  for (size_t i = axis + 1; i < constant.shape().size(); ++i) inner *= constant.shape()[i];
  for (int64_t i = 0; i < constant.num_elements(); ++i) {
    double value = constant.DoubleAt(i) * scale[static_cast<size_t>(i / inner % extent)];
    StoreDouble(constant.dtype(), buffer->data() + i * size, value);
  }
  return Literal(constant.dtype(), constant.shape(), buffer);
}

// The values in `dtype`, along axis 0 of a tensor with `ones` more axes of one element.
Literal VectorOf(DataType dtype, const std::vector<double>& values, int64_t ones) {
  Shape shape = {static_cast<int64_t>(values.size())};
  for (int64_t i = 0; i < ones; ++i) shape.push_back(1);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(shape[0] * dtype.bytes());
  for (size_t i = 0; i < values.size(); ++i) {
    StoreDouble(dtype, buffer->data() + static_cast<int64_t>(i) * dtype.bytes(), values[i]);
  }
  return Literal(dtype, std::move(shape), buffer);
}

class BatchNormFolder : public Rewriter {
 public:
  BatchNormFolder(ir::Arena& arena, const Expr* body) : Rewriter(arena) {
    CountUses(body, uses_);
    ir::ForEachExpr(body, [&](const Expr* expr) {
      const auto* let = DynCast<ir::Let>(expr);
      if (const ir::Var* tuple = let == nullptr ? nullptr : NormalisedOf(let->value)) ++normalised_uses_[tuple];
      return true;
    });
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    if (const ir::Var* tuple = NormalisedOf(let.value)) {
      if (auto norm = norms_.find(tuple); norm != norms_.end()) {
        chain.push_back({let.var, Normalise(norm->second, let.span, chain), let.span});
        return;
      }
    }
    const auto* call = DynCast<ir::Call>(let.value);
    bool is_norm = call != nullptr && ir::OpCallee(call) != nullptr && ir::OpCallee(call)->name == "nn.batch_norm";
    // The moving statistics, its other results, must not be used.
    if (is_norm && uses_[let.var].all == normalised_uses_[let.var]) {
      if (std::optional<Normalisation> norm = ReadNormalisation(*call)) {
        norms_.emplace(let.var, *std::move(norm));
        return;
      }
    }
    Rewriter::RewriteLet(let, chain);
    places_[let.var] = {&chain, chain.size() - 1};
  }

 private:
  struct Place {
    const std::vector<Binding>* chain;
    size_t index;
  };

  // The variable t of `t.0`.
  static const ir::Var* NormalisedOf(const Expr* expr) {
    const auto* project = DynCast<ir::Project>(expr);
    const auto* use = project == nullptr || project->index != 0 ? nullptr : DynCast<ir::VarExpr>(project->tuple);
    return use == nullptr ? nullptr : use->var;
  }

  Expr* Normalise(const Normalisation& norm, ir::Span span, std::vector<Binding>& chain) {
    const ir::Builder at = At(span);
    const ir::TensorType& type = *TensorOf(norm.data);
    int64_t ones = static_cast<int64_t>(type.shape.dims.size()) - norm.axis - 1;
    Expr* data = norm.data;
    if (!Scale(*data, norm, chain)) {
      Expr* scale = at.Constant(VectorOf(type.dtype.dtype, norm.scale, ones));
      data = at.Bind("scaled", ops::BuildCall(at, "multiply", {data, scale}), chain);
    }
    Expr* shift = at.Constant(VectorOf(type.dtype.dtype, norm.shift, ones));
    return ops::BuildCall(at, "add", {data, shift});
  }

  // Multiplies what makes `data` by the scale, if filters can do that.
  bool Scale(const Expr& data, const Normalisation& norm, std::vector<Binding>& chain) {
    const auto* use = DynCast<ir::VarExpr>(&data);
    auto place = use == nullptr ? places_.end() : places_.find(use->var);
    if (place == places_.end() || place->second.chain != &chain || uses_[use->var].all != 1) return false;
    Binding& binding = chain[place->second.index];
    const auto* call = DynCast<ir::Call>(binding.value);
    if (ir::OpCallee(call) == nullptr || !ir::TypesEqual(call->type, binding.var->type)) return false;
    const ir::TensorType* type = TensorOf(call);
    if (type == nullptr || call->args.size() != 2) return false;
    const Literal* constant = ConstantOf(call->args[1]);
    if (constant == nullptr || constant->dtype() != type->dtype.dtype) return false;
    std::optional<size_t> axis = FilterAxis(*call, norm.axis);
    bool is_bias = ir::OpCallee(call)->name == "nn.bias_add" && AxisOf(*call, *type) == norm.axis;
    if (is_bias) axis = 0;
    if (!axis || constant->shape()[*axis] != static_cast<int64_t>(norm.scale.size())) return false;
    if (is_bias && !Scale(*call->args[0], norm, chain)) return false;
    Expr* scaled = At(call->args[1]->span).Constant(Scaled(*constant, *axis, norm.scale));
    binding.value = At(call->span).Call(call->callee, {call->args[0], scaled}, call->attrs, call->type);
    return true;
  }

  UseCounts uses_;
  absl::flat_hash_map<const ir::Var*, size_t> normalised_uses_;  // of a tuple's first field, by a let
  absl::flat_hash_map<const ir::Var*, Normalisation> norms_;     // by the tuples of the calls that are dropped
  absl::flat_hash_map<const ir::Var*, Place> places_;
};

absl::StatusOr<ir::Module> FoldBatchNorm(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return BatchNormFolder(*module.arena, global.function->body).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kFoldBatchNorm = {.name = "fold_batch_norm",
                             .summary = "batch normalisation by constants multiplied into filters",
                             .run = FoldBatchNorm,
                             .needs = Form::kANormal,
                             .keeps_effect_order = true};

}  // namespace rvm::passes
