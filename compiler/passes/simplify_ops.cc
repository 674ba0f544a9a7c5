// Drops operator calls that give back an operand, joins transposes, and makes outer products of products over one term.
//
// Takes a specialised module. A call is replaced by its operand where it has the operand's type and provably its
// elements, bit by bit: a reshape, broadcast or cast to the type that is there, a copy, a mark that no later pass
// reads, a transpose that keeps the order of the axes, arithmetic with a neutral element, a cast back from a wider
// dtype; so is a field of the results of dropout or batch normalisation that is an argument. A transpose of a transpose
// is one transpose. Imported models and inlined functions of any rank are full of these. A convolution with transposed
// filters takes the filters themselves under another layout, and an operator that broadcasts takes an operand as it is
// before it is broadcast: later passes find constants there. A product by the transpose of a constant matrix reads the
// matrix. A product that sums over an extent of 1, as the gradient
// of a weight that multiplies one row, becomes a multiplication of a column and a row, which fuses with what adds it
// up. A reshape of normalised rows of channels is group normalisation.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// `x op right` is x, and if the operator commutes so is `right op x`.
struct NeutralElement {
  std::string_view op;
  double element;
  bool commutes;
  bool holds_for_floats;  // -0 + 0 is 0
};
constexpr NeutralElement kNeutralElements[] = {
    {"add", 0, true, false},        {"subtract", 0, false, true},      {"multiply", 1, true, true},
    {"divide", 1, false, true},     {"floor_divide", 1, false, false}, {"logical_and", 1, true, false},
    {"logical_or", 0, true, false},
};

// Larger constants are not searched.
constexpr int64_t kMaxElements = 65536;

bool IsFull(const Expr* expr, double element) {
  const auto* constant = DynCast<ir::Constant>(expr);
  if (constant == nullptr || constant->literal.num_elements() > kMaxElements) return false;
  for (int64_t i = 0; i < constant->literal.num_elements(); ++i) {
    double value = constant->literal.DoubleAt(i);
    if (value != element || std::signbit(value)) return false;
  }
  return true;
}

// Every value of `narrow` is one of `wide`.
bool IsWider(DataType wide, DataType narrow) {
  if (wide.bits <= narrow.bits) return false;
  return wide.is_float() ? narrow.is_float() : wide.code == narrow.code;
}

bool IsIdentity(const std::vector<int64_t>& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

class OpSimplifier : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Expr* value = Rewrite(let.value);
    if (ir::TypesEqual(value->type, let.var->type)) {
      if (const auto* use = DynCast<ir::VarExpr>(value)) {
        renamed_[let.var] = use->var;
        return;
      }
      if (OperatorCall(value) != nullptr) calls_[let.var] = OperatorCall(value);
      if (ir::OpCallee(value) != nullptr) tuples_[let.var] = Cast<ir::Call>(value);
    }
    chain.push_back({let.var, NameGivenArguments(value, chain), let.span});
  }

  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = renamed_.find(use->var);
      return found == renamed_.end() ? RewriteChildren(expr) : At(expr->span).Use(found->second);
    }
    Expr* result = RewriteChildren(expr);
    if (auto* project = DynCast<ir::Project>(result)) return SimplifyField(project);
    const ir::Call* call = OperatorCall(result);
    return call == nullptr ? result : Simplify(result, *call);
  }

 private:
  // Returns the call of an operator that gives one tensor.
  static const ir::Call* OperatorCall(const Expr* expr) {
    const auto* type = ir::OpCallee(expr) == nullptr ? nullptr : DynCast<ir::TensorType>(expr->type);
    return type != nullptr && type->shape.is_dims() ? Cast<ir::Call>(expr) : nullptr;
  }

  // Returns the call that gives `expr`, if it is one of `op` and its operand can stand elsewhere.
  const ir::Call* CallOf(const Expr* expr, std::string_view op) const {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? calls_.end() : calls_.find(use->var);
    const ir::Call* call = use == nullptr ? OperatorCall(expr) : found == calls_.end() ? nullptr : found->second;
    bool is_found = call != nullptr && ir::OpCallee(call)->name == op &&
                    (use == nullptr || call->args[0]->expr_kind == ir::ExprKind::kVar ||
                     call->args[0]->expr_kind == ir::ExprKind::kConstant);
    return is_found ? call : nullptr;
  }

  // A node has one parent: a variable or a constant is written again.
  Expr* OperandOf(const ir::Call& call) {
    const Expr* operand = call.args[0];
    if (const auto* use = DynCast<ir::VarExpr>(operand)) return At(use->span).Use(use->var);
    return operand->expr_kind == ir::ExprKind::kConstant ? RewriteChildren(call.args[0]) : call.args[0];
  }

  Expr* Simplify(Expr* expr, const ir::Call& call) {
    const ops::OpDef& op = *ir::OpCallee(&call);
    if (op.name == "transpose") return SimplifyTranspose(expr, call);
    if (op.name == "nn.matmul") return SimplifyMatmul(expr, call);
    if (ops::TakesFilters(op.name)) return SimplifyFilters(expr, call);
    if (op.name == "cast") {
      const ir::Call* inner = CallOf(call.args[0], "cast");
      if (inner != nullptr && ir::TypesEqual(call.type, inner->args[0]->type) && IsWider(Dtype(*inner), Dtype(call))) {
        return OperandOf(*inner);
      }
    }
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (GivesBack(op, call, i)) return call.args[i];
    }
    if (op.is_reshape) return SimplifyReshape(expr, call);
    return Broadcasts(op) ? SimplifyBroadcasts(expr, call) : expr;
  }

  static DataType Dtype(const ir::Call& call) { return DynCast<ir::TensorType>(call.type)->dtype.dtype; }

  // Returns whether the operator is an identity that no later pass reads: fusion reads those that it must not cross,
  // placement those that name a device.
  static bool IsSpentMark(const ops::OpDef& op) {
    return ops::IsIdentity(op) && op.fusion != ops::FusionClass::kOpaque && op.name != "on_device" &&
           op.name != "device_copy";
  }

  // Returns whether the call gives its argument `i`.
  static bool GivesBack(const ops::OpDef& op, const ir::Call& call, size_t i) {
    if (!ir::TypesEqual(call.args[i]->type, call.type)) return false;
    if (op.name == "cast" || (i == 0 && IsSpentMark(op))) return true;
    // Two extents that are unknown may differ.
    if (op.is_reshape || op.name == "broadcast_to") return i == 0 && !ContainsAny(call.type);
    for (const NeutralElement& neutral : kNeutralElements) {
      if (op.name != neutral.op || (Dtype(call).is_float() && !neutral.holds_for_floats)) continue;
      return (i == 0 || neutral.commutes) && IsFull(call.args[1 - i], neutral.element);
    }
    return false;
  }

  static bool ContainsAny(const ir::Type* type) {
    for (const Dim& dim : DynCast<ir::TensorType>(type)->shape.dims) {
      if (rvm::ContainsAny(dim)) return true;
    }
    return false;
  }

  // Binds the arguments that an operator gives as fields of its results, so that these can stand elsewhere.
  Expr* NameGivenArguments(Expr* value, std::vector<Binding>& chain) {
    const auto* type = ir::OpCallee(value) == nullptr ? nullptr : DynCast<ir::TupleType>(value->type);
    for (size_t i = 0; type != nullptr && i < type->fields.size(); ++i) {
      auto* call = Cast<ir::Call>(value);
      std::optional<size_t> given = ops::GivenArgument(*call, i);
      if (!given || call->args[*given]->expr_kind != ir::ExprKind::kCall) continue;
      const ir::Builder at = At(value->span);
      call->args[*given] = at.Use(at.Bind("t", call->args[*given], chain)->var);
    }
    return value;
  }

  Expr* SimplifyField(ir::Project* project) {
    const auto* use = DynCast<ir::VarExpr>(project->tuple);
    auto found = use == nullptr ? tuples_.end() : tuples_.find(use->var);
    const ir::Call* call = found == tuples_.end() ? DynCast<ir::Call>(project->tuple) : found->second;
    std::optional<size_t> given = call == nullptr ? std::nullopt : ops::GivenArgument(*call, project->index);
    if (!given || !ir::TypesEqual(call->args[*given]->type, project->type)) return project;
    if (call == project->tuple && call->args.size() == 1) return call->args[*given];
    const auto* argument = DynCast<ir::VarExpr>(call->args[*given]);
    if (argument == nullptr) return project;
    return At(project->span).Use(argument->var);
  }

  Expr* SimplifyTranspose(Expr* expr, const ir::Call& call) {
    std::vector<int64_t> axes = AxesOf(call);
    Expr* operand = call.args[0];
    const ir::Call* inner = CallOf(operand, "transpose");
    if (inner != nullptr) {
      std::vector<int64_t> first = AxesOf(*inner);
      for (int64_t& axis : axes) axis = first[axis];
      operand = OperandOf(*inner);
    }
    if (IsIdentity(axes) && ir::TypesEqual(operand->type, call.type)) return operand;
    if (inner == nullptr) return expr;
    ir::AttrValue::List list;
    for (int64_t axis : axes) list.push_back(axis);
    return At(call.span).CallOp(ir::OpCallee(inner), {operand}, {{"axes", std::move(list)}}, call.type);
  }

  // Normalises groups of channels as such where rows of them are normalised as channels of an image of another shape,
  // as exporters write it. Operators on images have other layouts; a reshape has not.
  Expr* SimplifyReshape(Expr* expr, const ir::Call& call) {
    const ir::Call* norm = CallOf(call.args[0], "nn.instance_norm");
    const ir::Call* rows = norm == nullptr ? nullptr : CallOf(norm->args[0], "reshape");
    if (rows == nullptr || norm->attrs.GetInt("axis") != 1 || !ir::TypesEqual(rows->args[0]->type, call.type))
      return expr;
    const Dims &dims = DynCast<ir::TensorType>(call.type)->shape.dims, &split = TensorOf(rows)->shape.dims;
    const bool is_plain = IsFull(norm->args[1], 1) && IsFull(norm->args[2], 0);
    const bool has_groups = dims.size() >= 3 && split.size() == 3 && dims[1].is_const() && split[1].is_const() &&
                            CompareDims(dims[0], split[0]) == DimEquality::kEqual && split[1].constant() > 0 &&
                            dims[1].constant() % split[1].constant() == 0;
    if (!is_plain || !has_groups) return expr;
    const ir::Builder at = At(norm->span);
    const DataType dtype = Dtype(call);
    auto vector = [&](int64_t value) { return at.Constant(Literal::Full(dtype, {dims[1].constant()}, value)); };
    return ops::BuildCall(at, "nn.group_norm", {OperandOf(*rows), vector(1), vector(0)},
                          {{"num_groups", split[1].constant()},
                           {"epsilon", *norm->attrs.Find("epsilon")},
                           {"center", false},
                           {"scale", false}});
  }

  // Takes operands as they are before they are broadcast, where another one has the shape of the result.
  Expr* SimplifyBroadcasts(Expr* expr, const ir::Call& call) {
    std::vector<Expr*> args = call.args;
    for (Expr*& arg : args) {
      const bool has_whole = std::ranges::any_of(
          args, [&](const Expr* other) { return other != arg && SameExtents(other->type, call.type); });
      for (std::string_view op : {"broadcast_to", "broadcast_to_like", "dyn.broadcast_to"}) {
        const ir::Call* broadcast = has_whole ? CallOf(arg, op) : nullptr;
        if (broadcast != nullptr) arg = OperandOf(*broadcast);
      }
    }
    if (args == call.args) return expr;
    return At(call.span).CallOp(ir::OpCallee(&call), std::move(args), call.attrs, call.type);
  }

  Expr* SimplifyFilters(Expr* expr, const ir::Call& call) {
    const ir::Call* transpose = CallOf(call.args[1], "transpose");
    if (transpose == nullptr) return expr;
    const std::string& layout = call.attrs.GetString("kernel_layout");
    const std::vector<int64_t> axes = AxesOf(*transpose);
    std::string own = layout;
    for (size_t i = 0; i < axes.size(); ++i) own[static_cast<size_t>(axes[i])] = layout[i];
    std::vector<Expr*> args = call.args;
    args[1] = OperandOf(*transpose);
    ir::Attrs attrs = call.attrs;
    attrs.Set("kernel_layout", std::move(own));
    return At(call.span).CallOp(ir::OpCallee(&call), std::move(args), std::move(attrs), call.type);
  }

  // Returns a matrix with one row or one column as a column (axis 0) or a row (axis 1).
  Expr* Along(Expr* matrix, bool is_column, bool is_along, ir::Span span) {
    if (is_along) return matrix;
    ir::Attrs attrs{{"newshape", is_column ? ir::IntList({{-1, 1}}) : ir::IntList({{1, -1}})}};
    return ops::BuildCall(At(span), "reshape", {matrix}, std::move(attrs));
  }

  // Reads a constant matrix as it is stored, in place of its transpose, which would be computed in each run where
  // several products read it.
  Expr* WithStoredFactor(Expr* expr, const ir::Call& call) {
    const ir::Call* transpose = CallOf(call.args[1], "transpose");
    const auto* stored = transpose == nullptr ? nullptr : DynCast<ir::Constant>(transpose->args[0]);
    if (stored == nullptr || stored->literal.rank() != 2 || IsIdentity(AxesOf(*transpose))) return expr;
    ir::Attrs attrs = call.attrs;
    attrs.Set("transpose_b", !call.attrs.GetBool("transpose_b"));
    return At(call.span).CallOp(ir::OpCallee(&call), {call.args[0], Rewrite(transpose->args[0])}, std::move(attrs),
                                call.type);
  }

  Expr* SimplifyMatmul(Expr* expr, const ir::Call& call) {
    if (Expr* stored = WithStoredFactor(expr, call); stored != expr) return stored;
    const auto& a = *DynCast<ir::TensorType>(call.args[0]->type);
    const auto& b = *DynCast<ir::TensorType>(call.args[1]->type);
    bool ta = call.attrs.GetBool("transpose_a"), tb = call.attrs.GetBool("transpose_b");
    if (!a.shape.is_dims() || !b.shape.is_dims() || a.shape.dims.size() != 2 || b.shape.dims.size() != 2) return expr;
    if (a.shape.dims[ta ? 0 : 1].AsConst() != 1 || b.shape.dims[tb ? 1 : 0].AsConst() != 1) return expr;
    Expr* column = Along(call.args[0], true, !ta, call.span);
    Expr* row = Along(call.args[1], false, !tb, call.span);
    Expr* product = ops::BuildCall(At(call.span), "multiply", {column, row});
    return ir::TypesEqual(product->type, call.type) ? product : expr;
  }

  absl::flat_hash_map<const ir::Var*, const ir::Call*> calls_;   // what variables are bound to
  absl::flat_hash_map<const ir::Var*, const ir::Call*> tuples_;  // operators that give some results
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;
};

absl::StatusOr<ir::Module> SimplifyOps(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return OpSimplifier(*module.arena).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kSimplifyOps = {
    .name = "simplify_ops",
    .summary = "operator calls that give back an operand dropped, transposes joined, outer products",
    .run = SimplifyOps};

}  // namespace rvm::passes
