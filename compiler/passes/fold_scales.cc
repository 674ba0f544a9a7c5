// Multiplies constant scales into constant weights.
//
// Takes and returns A-normal form. A scale is a multiplication by (or division by) a constant of one element, or of one
// per index of one axis. It is dropped where it can go
//  - backwards, into the product that makes its operand: a convolution, dense layer or matmul with
//    constant weights. Between them may stand sums with constants, which are multiplied too;
//  - backwards, into another scale, if that multiplies a cast of integers, such as the sums of a quantised product;
//    sums with constants may stand between them, too, and a sum of two such scales;
//  - forwards, into the weights of the product that takes its result;
//  - from the second operand of a matmul of two computed matrices to the first, if it is one number: the second one,
//    such as a decoder's keys, is then read as it is.
// On these ways it passes pooling, if it is along the channels; if it is positive, also relu and maxima; backwards,
// transposes; and if it is one number, views, transposes, and matmuls of two computed matrices. Nothing else may use
// what is between.
//
// `nn.batch_norm` with constant statistics is x * s + t, with s and t per channel, computed here. Where s finds no
// weights, x * s + t replaces the square root and the division.
//
// Scales and weights are multiplied in float64 and rounded once. A product is then rounded at another place, as sums
// are that a schedule orders otherwise. So only float32 and float64 take part, and only scales that leave each weight
// finite and no smaller than normal numbers are. Large weights that several calls share stay one copy.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "base/literal.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// Smaller constants may be copied.
constexpr int64_t kMaxCopiedBytes = int64_t{16} << 10;

// One factor, or one per index of `axis`.
struct Scale {
  std::optional<int64_t> axis;
  std::vector<double> factors;

  bool is_positive() const {
    return std::all_of(factors.begin(), factors.end(), [](double factor) { return factor > 0; });
  }
  double at(size_t index) const { return axis ? factors[index] : factors[0]; }
};

bool IsFloat(const ir::TensorType* type) {
  return type != nullptr && (type->dtype.dtype == kFloat32 || type->dtype.dtype == kFloat64);
}

int64_t RankOf(const Expr* expr) { return static_cast<int64_t>(TensorOf(expr)->shape.dims.size()); }

int64_t AxisOf(const ir::Call& call, const ir::TensorType& data) {
  int64_t axis = call.attrs.GetInt("axis");
  return axis < 0 ? axis + static_cast<int64_t>(data.shape.dims.size()) : axis;
}

// Returns the elements of a constant along the only axis of a tensor of rank `rank` along which they differ, or one
// element; nullopt if they differ along more.
std::optional<Scale> ElementsOf(const Literal& constant, int64_t rank) {
  Scale scale;
  for (int64_t i = 0; i < constant.rank(); ++i) {
    if (constant.shape()[i] == 1) continue;
    if (scale.axis) return std::nullopt;
    scale.axis = i + rank - constant.rank();
  }
  for (int64_t i = 0; i < constant.num_elements(); ++i) scale.factors.push_back(constant.DoubleAt(i));
  return scale.factors.empty() ? std::nullopt : std::optional(std::move(scale));
}

bool AllFinite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

struct ScaledOperand {
  Expr* data;
  Scale scale;
};

// Returns the scale that a multiplication or division by a constant applies to a variable of the same type.
std::optional<ScaledOperand> ReadScale(const ir::Call& call) {
  const std::string_view op = ir::OpCallee(&call)->name;
  if ((op != "multiply" && op != "divide") || !IsFloat(TensorOf(&call))) return std::nullopt;
  const size_t constant = ConstantOf(call.args[1]) != nullptr ? 1 : 0;
  const Literal* literal = ConstantOf(call.args[constant]);
  Expr* data = call.args[1 - constant];
  if (literal == nullptr || (op == "divide" && constant == 0)) return std::nullopt;
  if (data->expr_kind != ir::ExprKind::kVar || !ir::TypesEqual(data->type, call.type)) return std::nullopt;
  std::optional<Scale> scale = ElementsOf(*literal, RankOf(data));
  if (!scale) return std::nullopt;
  if (op == "divide") {
    for (double& factor : scale->factors) factor = 1 / factor;
  }
  if (!AllFinite(scale->factors)) return std::nullopt;
  return ScaledOperand{data, *std::move(scale)};
}

// The normalisation data * scale + shift.
struct Normalisation {
  Expr* data;
  Scale scale;
  std::vector<double> shift;
};

// Returns the effect of a call of `nn.batch_norm`, if its statistics are constants.
std::optional<Normalisation> ReadNormalisation(const ir::Call& call) {
  const ir::TensorType* data = TensorOf(call.args[0]);
  if (!IsFloat(data)) return std::nullopt;
  const Literal* vectors[4];
  for (size_t i = 0; i < 4; ++i) {
    vectors[i] = ConstantOf(call.args[i + 1]);
    if (vectors[i] == nullptr || vectors[i]->num_elements() != vectors[0]->num_elements()) return std::nullopt;
  }
  const auto& [gamma, beta, mean, variance] = vectors;
  Normalisation norm{call.args[0], {AxisOf(call, *data), {}}, {}};
  for (int64_t c = 0; c < gamma->num_elements(); ++c) {
    double scale = 1 / std::sqrt(variance->DoubleAt(c) + call.attrs.GetDouble("epsilon"));
    if (call.attrs.GetBool("scale")) scale *= gamma->DoubleAt(c);
    double shift = -mean->DoubleAt(c) * scale;
    if (call.attrs.GetBool("center")) shift += beta->DoubleAt(c);
    norm.scale.factors.push_back(scale);
    norm.shift.push_back(shift);
  }
  if (!AllFinite(norm.scale.factors) || !AllFinite(norm.shift)) return std::nullopt;
  return norm;
}

// ---- products

bool IsMatrixProduct(std::string_view op) { return op == "nn.dense" || op == "nn.matmul" || op == "nn.batch_matmul"; }
bool IsConvolution(std::string_view op) { return op.starts_with("nn.") && ops::TakesFilters(op); }

// The axes of the weights, argument 1, along which run an axis of the result and one of argument 0.
struct WeightAxes {
  int64_t result, of_result;
  int64_t data, of_data;
};

// nullopt if the call is no product, or one whose weights have no such axes.
std::optional<WeightAxes> WeightAxesOf(const ir::Call& call) {
  const std::string_view op = ir::OpCallee(&call)->name;
  if (TensorOf(&call) == nullptr || TensorOf(call.args[0]) == nullptr || TensorOf(call.args[1]) == nullptr) {
    return std::nullopt;
  }
  const int64_t last = RankOf(call.args[0]) - 1, last_weight = RankOf(call.args[1]) - 1;
  if (IsMatrixProduct(op)) {
    bool ta = op != "nn.dense" && call.attrs.GetBool("transpose_a");
    bool tb = op == "nn.dense" || call.attrs.GetBool("transpose_b");
    return WeightAxes{RankOf(&call) - 1, tb ? last_weight - 1 : last_weight, ta ? last - 1 : last,
                      tb ? last_weight : last_weight - 1};
  }
  if (!IsConvolution(op)) return std::nullopt;
  const std::string data = call.attrs.GetString("data_layout"), kernel = call.attrs.GetString("kernel_layout");
  const std::string& given = call.attrs.GetString("out_layout");
  const std::string out = given.empty() ? data : given;
  auto place = [](const std::string& layout, char axis) { return static_cast<int64_t>(layout.find(axis)); };
  WeightAxes axes{place(out, 'C'), place(kernel, 'O'), place(data, 'C'), place(kernel, 'I')};
  if (call.attrs.GetInt("groups") == 1) return axes;
  // The channels of a transposed convolution's groups share an axis of the filters.
  if (op.ends_with("_transpose")) return std::nullopt;
  const Dims& filters = TensorOf(call.args[1])->shape.dims;
  bool is_depthwise =
      filters[axes.of_data].AsConst() == 1 && filters[axes.of_result].AsConst() == call.attrs.GetInt("groups");
  axes.of_data = is_depthwise ? axes.of_result : -1;
  return axes;
}

// ---- what lies between

// An operator of one tensor that commutes with scales, and with which.
enum class Passing : uint8_t { kNone, kAny, kPositive };

Passing AlongChannels(std::string_view op) {
  if (op == "nn.relu" || op == "nn.leaky_relu") return Passing::kPositive;
  if (op.find("max_pool") != op.npos) return Passing::kPositive;
  return op.find("avg_pool") != op.npos ? Passing::kAny : Passing::kNone;
}

// Returns the scale of the operand that scales the result; nullopt if the operator does not commute with scales.
std::optional<Scale> ScaleBefore(const ir::Call& call, const Scale& scale) {
  const ops::OpDef& op = *ir::OpCallee(&call);
  if (call.args.size() != 1 || !IsFloat(TensorOf(&call)) || TensorOf(call.args[0]) == nullptr) return std::nullopt;
  if (!scale.axis && (op.is_reshape || op.name == "transpose")) return scale;
  if (op.is_reshape) return std::nullopt;
  if (op.name == "transpose") return Scale{AxesOf(call)[static_cast<size_t>(*scale.axis)], scale.factors};
  const Passing passing = AlongChannels(op.name);
  if (passing == Passing::kNone || (passing == Passing::kPositive && !scale.is_positive())) return std::nullopt;
  bool is_pool = op.name.find("pool") != op.name.npos;
  bool fits = !is_pool || !scale.axis || *scale.axis == static_cast<int64_t>(call.attrs.GetString("layout").find('C'));
  return fits ? std::optional(scale) : std::nullopt;
}

// Returns whether a scale along the same axis of both, or by one number, can stand before or behind the call.
bool Passes(const ir::Call& call, const Scale& scale) {
  std::optional<Scale> before = ScaleBefore(call, scale);
  return before && before->axis == scale.axis;
}

// Stores the elements, each times a factor, which follow each other, or times one factor if `step` is 0. Returns
// whether that loses no more than rounding.
template <typename T>
bool Multiply(std::span<const T> elements, const double* factors, size_t step, T* products) {
  constexpr double kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  bool loses = false;
  for (size_t i = 0; i < elements.size(); ++i) {
    const double element = elements[i], factor = factors[i * step], product = element * factor;
    const bool vanishes = factor != 0 && std::abs(element) >= kMin && std::abs(product) < kMin;
    loses |= vanishes || !(std::abs(product) <= kMax);
    products[i] = static_cast<T>(product);
  }
  return !loses;
}

// Returns the constant with its elements multiplied, by the factor of their index along `axis`. nullopt if that loses
// more than rounding.
template <typename T>
std::optional<Literal> ScaledAs(const Literal& constant, int64_t axis, const Scale& scale) {
  const std::span<const T> elements = constant.values<T>();
  const size_t extent = scale.axis ? static_cast<size_t>(constant.shape()[axis]) : 1;
  size_t run = scale.axis ? 1 : elements.size();  // elements of one factor that follow each other
  for (int64_t i = axis + 1; scale.axis && i < constant.rank(); ++i) run *= static_cast<size_t>(constant.shape()[i]);
  // The last axis is multiplied by all factors at once.
  const size_t step = scale.axis && run == 1 ? 1 : 0, count = step == 1 ? extent : run;
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(constant.bytes());
  T* products = reinterpret_cast<T*>(buffer->data());
  for (size_t at = 0; at < elements.size(); at += count) {
    const double* factors = &scale.factors[step == 1 ? 0 : at / run % extent];
    if (!Multiply(elements.subspan(at, count), factors, step, products + at)) return std::nullopt;
  }
  return Literal(constant.dtype(), constant.shape(), buffer);
}

std::optional<Literal> Scaled(const Literal& constant, int64_t axis, const Scale& scale) {
  RVM_CHECK(constant.dtype() == kFloat32 || constant.dtype() == kFloat64, "weights that are scaled are wide");
  return constant.dtype() == kFloat32 ? ScaledAs<float>(constant, axis, scale)
                                      : ScaledAs<double>(constant, axis, scale);
}

// Returns the values in `dtype`, along `axis` of tensors of rank `rank`, with ones for the axes behind it.
Literal VectorOf(DataType dtype, const std::vector<double>& values, int64_t axis, int64_t rank) {
  Shape shape = {static_cast<int64_t>(values.size())};
  shape.resize(static_cast<size_t>(rank - axis), 1);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(shape[0] * dtype.bytes());
  for (size_t i = 0; i < values.size(); ++i) {
    StoreDouble(dtype, buffer->data() + static_cast<int64_t>(i) * dtype.bytes(), values[i]);
  }
  return Literal(dtype, std::move(shape), buffer);
}

using ConstantUses = absl::flat_hash_map<const void*, size_t>;  // by the address of the elements

class ScaleFolder : public Rewriter {
 public:
  ScaleFolder(ir::Arena& arena, const Expr* body, const ConstantUses& constants)
      : Rewriter(arena), constants_(constants) {
    CountUses(body, uses_);
    ir::ForEachExpr(body, [&](const Expr* expr) {
      if (const ir::Var* tuple = NormalisedOf(expr)) ++normalised_uses_[tuple];
      return true;
    });
  }

  Expr* Rewrite(Expr* expr) override {
    return WithStack([&] { return RewriteBlock(expr); });
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = renamed_.find(use->var);
      return found == renamed_.end() ? RewriteChildren(expr) : At(expr->span).Use(found->second);
    }
    auto norm = normalised_.find(NormalisedOf(expr));
    return norm == normalised_.end() ? RewriteChildren(expr) : At(expr->span).Use(norm->second);
  }

  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Binding step = {let.var, Rewrite(let.value), let.span};
    if (std::optional<Normalisation> norm = FindNormalisation(step)) {
      step.value = Normalise(*norm, let.span, chain);
      step.var = At(let.span).Var(let.var->name, step.value->type);
      normalised_[let.var] = step.var;
      uses_.insert({step.var, VarUses(uses_[let.var])});
    } else if (ir::TypesEqual(step.value->type, let.var->type)) {
      Fold(step, chain);
      if (const auto* use = DynCast<ir::VarExpr>(step.value)) return Rename(let.var, use->var);
    }
    chain.push_back(step);
    places_[step.var] = {&chain, chain.size() - 1};
  }

 private:
  struct Place {
    std::vector<Binding>* chain;
    size_t index;
  };

  Expr* RewriteBlock(Expr* expr) {
    std::vector<Binding> chain;
    for (; const auto* let = DynCast<ir::Let>(expr); expr = let->body) RewriteLet(*let, chain);
    Binding tail = {nullptr, RewriteNode(expr), expr->span};
    Fold(tail, chain);
    // Bindings that were dropped have no value any more.
    std::vector<Binding> kept;
    for (const Binding& binding : chain) {
      if (binding.value != nullptr) kept.push_back(binding);
    }
    return ir::MakeBlock(arena_, std::move(kept), tail.value);
  }

  // Folds one step, behind `chain`: its value becomes a variable if it is a scale that moved backwards.
  void Fold(Binding& step, std::vector<Binding>& chain) {
    if (ir::OpCallee(step.value) == nullptr) return;
    const auto& call = *Cast<ir::Call>(step.value);
    std::optional<ScaledOperand> scaled = ReadScale(call);
    if (scaled && Backward(*scaled->data, scaled->scale, chain)) {
      step.value = scaled->data;
    } else if (IsProduct(call)) {
      Forward(step, chain);
      MoveToFirst(step, chain);
    }
  }

  // Returns the effect of the step if it is a normalisation by constants. Its other results, the moving statistics,
  // must not be used.
  std::optional<Normalisation> FindNormalisation(const Binding& step) {
    if (ir::OpCallee(step.value) == nullptr || ir::OpCallee(step.value)->name != "nn.batch_norm") return std::nullopt;
    if (uses_[step.var].all != normalised_uses_[step.var]) return std::nullopt;
    return ReadNormalisation(*Cast<ir::Call>(step.value));
  }

  static bool IsProduct(const ir::Call& call) {
    const std::string_view op = ir::OpCallee(&call)->name;
    return IsMatrixProduct(op) || IsConvolution(op);
  }

  // Returns the variable t of `t.0`.
  static const ir::Var* NormalisedOf(const Expr* expr) {
    const auto* project = DynCast<ir::Project>(expr);
    const auto* use = project == nullptr || project->index != 0 ? nullptr : DynCast<ir::VarExpr>(project->tuple);
    return use == nullptr ? nullptr : use->var;
  }

  void Rename(const ir::Var* var, ir::Var* stands_for_it) {
    renamed_[var] = stands_for_it;
    uses_[stands_for_it].all += uses_[var].all - 1;
  }

  Expr* Normalise(const Normalisation& norm, ir::Span span, std::vector<Binding>& chain) {
    const ir::Builder at = At(span);
    const ir::TensorType& type = *TensorOf(norm.data);
    const int64_t axis = *norm.scale.axis, rank = RankOf(norm.data);
    Expr* data = norm.data;
    if (!Backward(*data, norm.scale, chain)) {
      Expr* scale = at.Constant(VectorOf(type.dtype.dtype, norm.scale.factors, axis, rank));
      data = at.Bind("scaled", ops::BuildCall(at, "multiply", {data, scale}), chain);
    }
    Expr* shift = at.Constant(VectorOf(type.dtype.dtype, norm.shift, axis, rank));
    return ops::BuildCall(at, "add", {data, shift});
  }

  // Returns the operator call in this block that gives `data`, if nothing else uses it; else null.
  Binding* OnlyUse(const Expr& data, std::vector<Binding>& chain) {
    const auto* use = DynCast<ir::VarExpr>(&data);
    auto place = use == nullptr ? places_.end() : places_.find(use->var);
    if (place == places_.end() || place->second.chain != &chain || uses_[use->var].all != 1) return nullptr;
    Binding& binding = chain[place->second.index];
    if (binding.value == nullptr || ir::OpCallee(binding.value) == nullptr) return nullptr;
    return ir::TypesEqual(binding.value->type, binding.var->type) ? &binding : nullptr;
  }

  // Returns the weights multiplied along `axis`; nullopt if they are no constant that may be.
  std::optional<Literal> ScaledWeights(const ir::Call& call, int64_t axis, const Scale& scale) const {
    const Literal* constant = ConstantOf(call.args[1]);
    if (constant == nullptr || !IsFloat(TensorOf(&call)) || constant->dtype() != TensorOf(&call)->dtype.dtype) {
      return std::nullopt;
    }
    auto uses = constants_.find(constant->data());
    if (constant->bytes() > kMaxCopiedBytes && uses != constants_.end() && uses->second > 1) return std::nullopt;
    if (scale.axis && (axis < 0 || axis >= constant->rank() ||
                       constant->shape()[axis] != static_cast<int64_t>(scale.factors.size()))) {
      return std::nullopt;
    }
    return Scaled(*constant, axis, scale);
  }

  void ReplaceArg(Binding& binding, size_t i, Expr* arg) {
    const auto& call = *Cast<ir::Call>(binding.value);
    std::vector<Expr*> args = call.args;
    args[i] = arg;
    binding.value = At(call.span).Call(call.callee, std::move(args), call.attrs, call.type);
  }
  void ReplaceConstant(Binding& binding, size_t i, Literal literal) {
    ReplaceArg(binding, i, At(Cast<ir::Call>(binding.value)->args[i]->span).Constant(std::move(literal)));
  }

  // Multiplies what makes `data` by the scale, if weights can do that. Otherwise nothing changes.
  bool Backward(const Expr& data, const Scale& scale, std::vector<Binding>& chain) {
    Binding* binding = OnlyUse(data, chain);
    if (binding == nullptr) return false;
    const auto& call = *Cast<ir::Call>(binding->value);
    const std::string_view op = ir::OpCallee(&call)->name;
    if (IsProduct(call)) {
      std::optional<WeightAxes> axes = WeightAxesOf(call);
      if (!axes || (scale.axis && *scale.axis != axes->result)) return false;
      if (ConstantOf(call.args[1]) == nullptr) return BackwardIntoOperand(call, scale, chain);
      std::optional<Literal> weights = ScaledWeights(call, axes->of_result, scale);
      if (weights) ReplaceConstant(*binding, 1, *std::move(weights));
      return weights.has_value();
    }
    if (op == "add" || op == "subtract" || op == "nn.bias_add") return BackwardThroughSum(*binding, scale, chain);
    if (op == "multiply" || op == "divide") return BackwardIntoScale(*binding, scale, chain);
    const std::optional<Scale> before = ScaleBefore(call, scale);
    return before && Backward(*call.args[0], *before, chain);
  }

  // Moves a scale backwards into an operand of a matmul of two computed matrices.
  bool BackwardIntoOperand(const ir::Call& call, const Scale& scale, std::vector<Binding>& chain) {
    if (scale.axis || !IsMatrixProduct(ir::OpCallee(&call)->name)) return false;
    return std::any_of(call.args.begin(), call.args.end(), [&](const Expr* operand) {
      return TensorOf(operand)->dtype.dtype == TensorOf(&call)->dtype.dtype && Backward(*operand, scale, chain);
    });
  }

  // Makes one scale of two, where the first is that of integers.
  bool BackwardIntoScale(Binding& binding, const Scale& scale, std::vector<Binding>& chain) {
    Expr* both = ScaledOnce(binding, scale, chain);
    if (both != nullptr) binding.value = both;
    return both != nullptr;
  }

  // Returns a scale of integers times another scale, as one; null if the binding is something else.
  Expr* ScaledOnce(const Binding& binding, const Scale& scale, std::vector<Binding>& chain) {
    const auto& call = *Cast<ir::Call>(binding.value);
    std::optional<ScaledOperand> first = ReadScale(call);
    if (!first || (first->scale.axis && scale.axis && *first->scale.axis != *scale.axis)) return nullptr;
    const Binding* maker = OnlyUse(*first->data, chain);
    if (maker == nullptr || ir::OpCallee(maker->value)->name != "cast") return nullptr;
    const ir::TensorType* integers = TensorOf(Cast<ir::Call>(maker->value)->args[0]);
    if (integers == nullptr || integers->dtype.dtype.is_float()) return nullptr;
    const int64_t rank = RankOf(first->data), axis = first->scale.axis.value_or(scale.axis.value_or(rank - 1));
    std::vector<double> factors(std::max(first->scale.factors.size(), scale.factors.size()));
    for (size_t i = 0; i < factors.size(); ++i) factors[i] = first->scale.at(i);
    std::optional<Literal> both = Scaled(VectorOf(TensorOf(&call)->dtype.dtype, factors, axis, rank), 0, scale);
    if (!both) return nullptr;
    const ir::Builder at = At(call.span);
    return ops::BuildCall(at, "multiply", {first->data, at.Constant(*std::move(both))});
  }

  // Multiplies both operands of a sum by the scale, where both are scales of integers, as in a quantised network whose
  // branches meet.
  bool BackwardIntoBoth(const ir::Call& sum, const Scale& scale, std::vector<Binding>& chain) {
    Binding* operands[2];
    Expr* scaled[2];
    for (size_t i : {0, 1}) {
      const bool is_whole = ir::TypesEqual(sum.args[i]->type, sum.type);
      operands[i] = is_whole ? OnlyUse(*sum.args[i], chain) : nullptr;
      scaled[i] = operands[i] == nullptr ? nullptr : ScaledOnce(*operands[i], scale, chain);
      if (scaled[i] == nullptr) return false;
    }
    for (size_t i : {0, 1}) operands[i]->value = scaled[i];
    return true;
  }

  bool BackwardThroughSum(Binding& binding, const Scale& scale, std::vector<Binding>& chain) {
    const auto& call = *Cast<ir::Call>(binding.value);
    const size_t i = ConstantOf(call.args[1]) != nullptr ? 1 : 0;
    const Literal* constant = ConstantOf(call.args[i]);
    const Expr& data = *call.args[1 - i];
    if (constant == nullptr) return BackwardIntoBoth(call, scale, chain);
    if (!IsFloat(TensorOf(&call)) || !ir::TypesEqual(data.type, call.type)) return false;
    const int64_t rank = RankOf(&data);
    std::optional<Literal> scaled;
    if (ir::OpCallee(&call)->name == "nn.bias_add") {
      if (i == 0 || (scale.axis && AxisOf(call, *TensorOf(&data)) != *scale.axis)) return false;
      scaled = Scaled(*constant, 0, scale);
    } else if (!scale.axis) {
      scaled = Scaled(*constant, 0, scale);
    } else {
      // One term for all channels becomes one for each.
      std::optional<Scale> terms = ElementsOf(*constant, rank);
      if (!terms || (terms->axis && *terms->axis != *scale.axis)) return false;
      Scale each{scale.axis, std::vector<double>(scale.factors.size())};
      for (size_t c = 0; c < each.factors.size(); ++c) each.factors[c] = terms->at(c);
      scaled = Scaled(VectorOf(constant->dtype(), each.factors, *scale.axis, rank), 0, scale);
    }
    if (!scaled || !Backward(data, scale, chain)) return false;
    ReplaceConstant(binding, i, *std::move(scaled));
    return true;
  }

  // Drops a scale from what makes the operand of a product, and multiplies the weights by it.
  void Forward(Binding& product, std::vector<Binding>& chain) {
    const auto& call = *Cast<ir::Call>(product.value);
    std::optional<WeightAxes> axes = WeightAxesOf(call);
    if (!axes || ConstantOf(call.args[1]) == nullptr) return;
    std::vector<const ir::Call*> between;
    Binding* user = &product;
    for (Binding* maker;; user = maker) {
      maker = OnlyUse(*Cast<ir::Call>(user->value)->args[0], chain);
      if (maker == nullptr) return;
      const auto& made = *Cast<ir::Call>(maker->value);
      if (std::optional<ScaledOperand> scaled = ReadScale(made)) {
        const Scale& scale = scaled->scale;
        bool passes =
            std::all_of(between.begin(), between.end(), [&](const ir::Call* op) { return Passes(*op, scale); });
        if (!passes || (scale.axis && *scale.axis != axes->data)) return;
        std::optional<Literal> weights = ScaledWeights(call, axes->of_data, scale);
        if (!weights) return;
        ReplaceConstant(product, 1, *std::move(weights));
        Drop({maker, user, 0, *scaled});
        return;
      }
      if (made.args.size() != 1) return;
      between.push_back(&made);
    }
  }

  // A scale by one number in what makes an operand of a product, if there is one and nothing else uses what is between:
  // the binding of the scale, and that of the call that takes its result as operand `arg`.
  struct FoundScale {
    Binding* maker = nullptr;
    Binding* user = nullptr;
    size_t arg = 0;
    ScaledOperand scaled = {};
  };
  std::optional<FoundScale> FindNumber(Binding& product, size_t operand, std::vector<Binding>& chain) {
    FoundScale found{.user = &product, .arg = operand};
    while (true) {
      found.maker = OnlyUse(*Cast<ir::Call>(found.user->value)->args[found.arg], chain);
      if (found.maker == nullptr) return std::nullopt;
      const auto& made = *Cast<ir::Call>(found.maker->value);
      if (std::optional<ScaledOperand> scaled = ReadScale(made); scaled && !scaled->scale.axis) {
        found.scaled = *std::move(scaled);
        return found;
      }
      if (made.args.size() != 1 || !Passes(made, Scale{{}, {1.0}})) return std::nullopt;
      found.user = found.maker;
      found.arg = 0;
    }
  }

  // Moves a scale by one number from the second operand of a matmul of two computed matrices to the first, unless that
  // is known to be larger.
  void MoveToFirst(Binding& product, std::vector<Binding>& chain) {
    const auto& call = *Cast<ir::Call>(product.value);
    const DataType dtype = TensorOf(&call)->dtype.dtype;
    bool fits = IsMatrixProduct(ir::OpCallee(&call)->name) && IsFloat(TensorOf(&call)) &&
                ConstantOf(call.args[0]) == nullptr && TensorOf(call.args[0])->dtype.dtype == dtype &&
                !IsLarger(TensorOf(call.args[0])->shape.dims, TensorOf(call.args[1])->shape.dims);
    std::optional<FoundScale> found = fits ? FindNumber(product, 1, chain) : std::nullopt;
    if (!found || TensorOf(found->scaled.data)->dtype.dtype != dtype) return;
    std::optional<FoundScale> first = FindNumber(product, 0, chain);
    if (!first && Backward(*call.args[0], found->scaled.scale, chain)) return Drop(*found);
    double factor = found->scaled.scale.factors[0] * (first ? first->scaled.scale.factors[0] : 1.0);
    if (std::abs(factor) < std::numeric_limits<float>::min() || std::abs(factor) > std::numeric_limits<float>::max())
      return;
    const ir::Builder at = At(call.span);
    Expr* data = first ? first->scaled.data : call.args[0];
    Expr* number = at.Constant(VectorOf(dtype, {factor}, RankOf(data) - 1, RankOf(data)));
    Expr* scaled = ops::BuildCall(at, "multiply", {data, number});
    if (!ir::TypesEqual(scaled->type, data->type)) return;
    Drop(*found);
    if (first) {
      first->maker->value = scaled;
      return;
    }
    Expr* named = at.Bind("scaled", scaled, chain);
    const ir::Var* var = Cast<ir::VarExpr>(named)->var;
    uses_[var].all = 1;
    places_[var] = {&chain, chain.size() - 1};
    ReplaceArg(product, 0, named);
  }

  // Returns whether all extents are known, and those of `a` are those of more elements.
  static bool IsLarger(const Dims& a, const Dims& b) {
    std::optional<int64_t> first = NumElements(a).AsConst(), second = NumElements(b).AsConst();
    return first && second && *first > *second;
  }

  // The scale's user takes what was scaled.
  void Drop(const FoundScale& found) {
    const ir::Call& made = *Cast<ir::Call>(found.maker->value);
    ReplaceArg(*found.user, found.arg, At(made.span).Use(Cast<ir::VarExpr>(found.scaled.data)->var));
    found.maker->value = nullptr;
  }

  const ConstantUses& constants_;
  UseCounts uses_;
  absl::flat_hash_map<const ir::Var*, size_t> normalised_uses_;  // of a tuple's first field
  absl::flat_hash_map<const ir::Var*, ir::Var*> normalised_;     // the results, by the tuples that are gone
  absl::flat_hash_map<const ir::Var*, Place> places_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;
};

absl::StatusOr<ir::Module> FoldScales(const ir::Module& module, PassContext&) {
  ConstantUses constants;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::ForEachExpr(global.function->body, [&](const Expr* expr) {
      const Literal* constant = ConstantOf(expr);
      if (constant != nullptr && constant->bytes() > kMaxCopiedBytes) ++constants[constant->data()];
      return true;
    });
  }
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return ScaleFolder(*module.arena, global.function->body, constants).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kFoldScales = {.name = "fold_scales",
                          .summary = "constant scales and batch normalisation multiplied into weights",
                          .run = FoldScales,
                          .needs = Form::kANormal,
                          .keeps_effect_order = true};

}  // namespace rvm::passes
