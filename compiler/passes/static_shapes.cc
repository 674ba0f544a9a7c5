// Replaces `dyn.` operators whose shape is known by operators with attributes.
//
// Takes a specialised module. Shape arithmetic on extents is evaluated on dims (ops/dim_values.h). A `dyn.` operator
// becomes its twin with attributes where these can say what its arguments say (ops/static_twins.h), so that it fuses
// and is scheduled like one that the program writes. A `dyn.reshape` that splits an axis into extents of a parameter of
// its function becomes `reshape_like`. An `arange` of known length is filled without counting. A check of an extent
// that the type of the operand has already is dropped.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/dim_bounds.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/dim_values.h"
#include "compiler/ops/static_twins.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

bool Same(const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; }

class ShapeSpecializer : public Rewriter {
 public:
  explicit ShapeSpecializer(ir::Arena& arena)
      : Rewriter(arena),
        evaluator_([](const Expr* expr) { return expr->type; },
                   [this](const ir::Var* var) -> const Expr* {
                     auto found = values_.find(var);
                     return found == values_.end() ? nullptr : found->second;
                   }) {}

  Expr* RewriteBody(const ir::Function& function) {
    auto outer = std::exchange(params_, function.params);
    Expr* body = Rewrite(function.body);
    params_ = std::move(outer);
    return body;
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Expr* value = Rewrite(let.value);
    values_.emplace(let.var, value);
    chain.push_back({let.var, value, let.span});
  }

  Expr* RewriteNode(Expr* expr) override {
    if (const auto* function = DynCast<ir::Function>(expr)) {
      auto outer = std::exchange(params_, function->params);
      Expr* result = RewriteChildren(expr);
      params_ = std::move(outer);
      return result;
    }
    Expr* result = RewriteChildren(expr);
    const ops::OpDef* op = ir::OpCallee(result);
    if (op == nullptr) return result;
    const auto& call = *Cast<ir::Call>(result);
    Expr* replaced = nullptr;
    if (ops::StaticTwinOf(*op) != nullptr) replaced = WithAttributes(*op, call);
    if (replaced == nullptr && op->name == "dyn.reshape") replaced = LikeParameter(call);
    if (op->name == "arange") replaced = Filled(call);
    if (op->name == "check_extent") replaced = Checked(call);
    return replaced == nullptr ? result : replaced;
  }

 private:
  Expr* WithAttributes(const ops::OpDef& op, const ir::Call& call) {
    std::vector<const ir::Type*> types = ir::TypesOf(call.args);
    ops::KnownArguments known{types, [&](size_t arg) { return evaluator_.Elements(call.args[arg]); },
                              [&](size_t arg) -> const Literal* {
                                const Expr* value = call.args[arg];
                                if (const auto* use = DynCast<ir::VarExpr>(value)) {
                                  auto found = values_.find(use->var);
                                  value = found == values_.end() ? value : found->second;
                                }
                                const auto* constant = DynCast<ir::Constant>(value);
                                return constant == nullptr ? nullptr : &constant->literal;
                              }};
    std::optional<ops::StaticCall> twin = ops::ToStaticCall(op, call.attrs, known, call.type);
    if (!twin) return nullptr;
    std::vector<Expr*> args;
    for (size_t arg : twin->args) args.push_back(call.args[arg]);
    // Mistakes in the program are reported when it runs.
    if (!ops::ResultType(arena_, *twin->op, twin->attrs, args).ok()) return nullptr;
    return At(call.span).CallOp(twin->op, std::move(args), std::move(twin->attrs), call.type);
  }

  // Returns the first axis of `type` from which on it has the extents `dims`.
  static std::optional<size_t> FindExtents(const ir::Type* type, std::span<const Dim> dims) {
    const auto* tensor = DynCast<ir::TensorType>(type);
    if (tensor == nullptr || !tensor->shape.is_dims()) return std::nullopt;
    const Dims& own = tensor->shape.dims;
    for (size_t first = 0; first + dims.size() <= own.size(); ++first) {
      if (std::equal(dims.begin(), dims.end(), own.begin() + static_cast<std::ptrdiff_t>(first), Same)) return first;
    }
    return std::nullopt;
  }

  // Returns the call with extents of a parameter in place of those that `newshape` computes: where `in` and `out` first
  // differ, axes of `in` become axes that a parameter has, and constants follow.
  Expr* LikeParameter(const ir::Call& call) {
    const ir::TensorType *from = TensorOf(call.args[0]), *to = TensorOf(&call);
    if (from == nullptr || to == nullptr) return nullptr;
    std::span<const Dim> in(from->shape.dims), out(to->shape.dims);
    size_t before = 0;
    while (before < std::min(in.size(), out.size()) && Same(in[before], out[before])) ++before;
    for (size_t last = out.size(); last > before + 1; --last) {
      std::span<const Dim> taken = out.subspan(before, last - before);
      for (size_t end = before + 1; end <= in.size(); ++end) {
        if (!Same(Product(in.subspan(before, end - before)), Product(taken))) continue;
        for (ir::Var* param : params_) {
          std::optional<size_t> first = FindExtents(param->type, taken);
          if (!first) continue;
          if (Expr* like = ReshapeLike(call, {before, end}, param, {*first, *first + taken.size()})) return like;
        }
      }
    }
    return nullptr;
  }

  static Dim Product(std::span<const Dim> dims) {
    Dim product = 1;
    for (const Dim& dim : dims) product = product * dim;
    return product;
  }

  // Returns the axes `replaced` of the operand of `call`, a reshape, with the extents that the axes `taken` of `like`
  // have; then the other axes in the shape of the call. Null if attributes cannot say that.
  Expr* ReshapeLike(const ir::Call& call, std::pair<size_t, size_t> replaced, ir::Var* like,
                    std::pair<size_t, size_t> taken) {
    const ops::OpDef* op = ops::FindOp("reshape_like");
    auto axis = [](size_t i) { return static_cast<int64_t>(i); };
    std::optional<ir::Attrs> attrs = ops::WithDefaults(*op, {{"lhs_begin", axis(replaced.first)},
                                                             {"lhs_end", axis(replaced.second)},
                                                             {"rhs_begin", axis(taken.first)},
                                                             {"rhs_end", axis(taken.second)}});
    const ir::Builder at = At(call.span);
    std::vector<Expr*> args = {call.args[0], at.Use(like)};
    absl::StatusOr<const ir::Type*> type = ops::ResultType(arena_, *op, *attrs, args);
    if (!type.ok()) return nullptr;
    const Dims &split = DynCast<ir::TensorType>(*type)->shape.dims, &out = TensorOf(&call)->shape.dims;
    if (split.size() == out.size() && std::equal(split.begin(), split.end(), out.begin(), Same)) {
      return at.CallOp(op, std::move(args), *std::move(attrs), call.type);
    }
    std::array<const ir::Type*, 2> types = {*type, call.args[1]->type};
    ops::KnownArguments known{types, [](size_t) { return std::vector<Dim>(); },
                              [](size_t) -> const Literal* { return nullptr; }};
    std::optional<ops::StaticCall> rest = ops::ToStaticCall(*ir::OpCallee(&call), call.attrs, known, call.type);
    if (!rest) return nullptr;
    Expr* inner = at.CallOp(op, std::move(args), *std::move(attrs), *type);
    return at.CallOp(rest->op, {inner}, std::move(rest->attrs), call.type);
  }

  // `arange_fill` with the count `stop - start`, where the step is 1 and the type says that this is the extent.
  Expr* Filled(const ir::Call& call) {
    const ir::TensorType *type = TensorOf(&call), *stop_type = TensorOf(call.args[1]);
    if (type == nullptr || type->shape.dims[0].is_const() || type->shape.dims[0].is_any()) return nullptr;
    std::vector<Dim> start = evaluator_.Elements(call.args[0]), stop = evaluator_.Elements(call.args[1]),
                     step = evaluator_.Elements(call.args[2]);
    bool is_count = start.size() == 1 && stop.size() == 1 && step.size() == 1 && step[0] == Dim(1) &&
                    Same(stop[0] - start[0], type->shape.dims[0]);
    const auto *first = DynCast<ir::VarExpr>(call.args[0]), *last = DynCast<ir::VarExpr>(call.args[1]);
    if (!is_count || last == nullptr || (start[0] != Dim(0) && first == nullptr)) return nullptr;
    const ir::Builder at = At(call.span);
    Expr* count = at.Use(last->var);
    if (start[0] != Dim(0)) {
      if (!ir::TypesEqual(first->type, last->type)) return nullptr;
      count = ops::BuildCall(at, "subtract", {count, at.Use(first->var)});
    }
    if (stop_type->dtype.dtype != kInt64) count = ops::BuildCall(at, "cast", {count}, {{"dtype", "int64"}});
    std::vector<Expr*> args = call.args;
    args.push_back(count);
    return at.CallOp(ops::FindOp("arange_fill"), std::move(args), call.attrs, call.type);
  }

  // Returns the operand of a check that its type makes superfluous; null if it does not.
  Expr* Checked(const ir::Call& call) {
    const ir::TensorType* type = TensorOf(call.args[0]);
    std::vector<Dim> expected = evaluator_.Elements(call.args[1]);
    if (type == nullptr || expected.size() != 1 || !ir::TypesEqual(type, call.type)) return nullptr;
    auto axis = static_cast<size_t>(call.attrs.GetInt("axis"));
    return axis < type->shape.dims.size() && Same(type->shape.dims[axis], expected[0]) ? call.args[0] : nullptr;
  }

  absl::flat_hash_map<const ir::Var*, const Expr*> values_;  // of lets
  std::vector<ir::Var*> params_;                             // of the function around
  ops::DimEvaluator evaluator_;
};

absl::StatusOr<ir::Module> StaticShapes(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return ShapeSpecializer(*module.arena).RewriteBody(*global.function);
  });
}

}  // namespace

const Pass kStaticShapes = {.name = "static_shapes",
                            .summary = "attributes in place of shapes that are arguments, where these are known",
                            .run = StaticShapes,
                            .keeps_effect_order = true};

}  // namespace rvm::passes
