#include "compiler/passes/fold_call.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/element.h"
#include "base/literal.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/evaluate_op.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;

// Larger arguments would bloat the compile time.
constexpr int64_t kMaxArgBytes = int64_t{256} << 10;
// Elements of weights that are computed from constants, by all operators of a module together: some seconds.
constexpr int64_t kMaxComputedElements = int64_t{1} << 29;
// Products of a sum that take the time of an element of another operator.
constexpr int64_t kProductsPerElement = 4;

// The size of a tensor or a tuple of tensors.
struct Size {
  int64_t elements = 0, bytes = 0;
};

// nullopt if it is not known before the tensor is computed, or too large to count.
std::optional<Size> StaticSize(const ir::Type* type) {
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    Size sum;
    for (const ir::Type* field : tuple->fields) {
      std::optional<Size> size = StaticSize(field);
      if (!size) return std::nullopt;
      sum = {sum.elements + size->elements, sum.bytes + size->bytes};
    }
    return sum;
  }
  const auto* tensor = DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->shape.is_dims() || !tensor->dtype.is_concrete()) return std::nullopt;
  std::optional<Shape> shape = StaticShape(tensor->shape.dims);
  std::optional<int64_t> elements = shape ? NumElements(*shape) : std::nullopt;
  if (!elements || *elements > kMaxComputedElements) return std::nullopt;
  return Size{*elements, *elements * tensor->dtype.dtype.bytes()};
}

std::optional<Value> ConstantValue(const Expr* expr) {
  if (const auto* constant = DynCast<ir::Constant>(expr)) return Value::Tensor(constant->literal);
  const auto* tuple = DynCast<ir::Tuple>(expr);
  if (tuple == nullptr) return std::nullopt;
  std::vector<Value> fields;
  for (const Expr* field : tuple->fields) {
    const auto* constant = DynCast<ir::Constant>(field);
    if (constant == nullptr) return std::nullopt;
    fields.push_back(Value::Tensor(constant->literal));
  }
  return Value::Tuple(std::move(fields));
}

// Returns the elements of a constant under the shape of `type`: they are shared, so no size is too large. Null if
// `type` leaves the shape open.
Expr* Reshaped(const ir::Builder& at, const Expr* arg, const ir::Type* type) {
  const auto* constant = DynCast<ir::Constant>(arg);
  const auto* tensor = DynCast<ir::TensorType>(type);
  if (constant == nullptr || tensor == nullptr || !tensor->shape.is_dims()) return nullptr;
  const Literal& literal = constant->literal;
  std::optional<Shape> shape = StaticShape(tensor->shape.dims);
  if (!shape || NumElements(*shape) != literal.num_elements()) return nullptr;
  auto owner = std::make_shared<const Literal>(literal);
  const std::byte* elements = owner->data();
  return at.Constant(
      Literal(literal.dtype(), *std::move(shape), Buffer::Borrow(elements, literal.bytes(), std::move(owner))));
}

Expr* FromValue(const ir::Builder& at, const Value& value) {
  if (value.kind() == ValueKind::kTensor) return at.Constant(value.tensor());
  std::vector<Expr*> fields;
  for (const Value& field : value.fields()) fields.push_back(FromValue(at, field));
  return at.Tuple(std::move(fields));
}

// Gives a folded constant the name of the only weight among the arguments: it is that weight in another form.
Expr* Named(Expr* folded, const std::vector<const Expr*>& args) {
  auto* result = DynCast<ir::Constant>(folded);
  if (result == nullptr) return folded;
  const ir::Constant* weight = nullptr;
  for (const Expr* arg : args) {
    const auto* constant = DynCast<ir::Constant>(arg);
    if (constant == nullptr || constant->name.empty()) continue;
    if (weight != nullptr && weight->name != constant->name) return result;
    weight = constant;
  }
  if (weight != nullptr) result->name = weight->name;
  return result;
}

bool IsNarrowed(DataType from, DataType to) {
  return from.is_float() && to.is_float() && from.bits > to.bits && to.bits >= 16;
}

// REQUIRES: IsNarrowed.
Literal Narrowed(const Literal& literal, DataType to) {
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(literal.num_elements() * to.bytes());
  WithElement(literal.dtype(), [&](auto from) {
    using From = decltype(from);
    WithElement(to, [&](auto element) {
      using To = decltype(element);
      // Other pairs do not occur.
      if constexpr (std::is_floating_point_v<From> && !std::is_integral_v<To> && !std::is_same_v<To, Bool>) {
        auto* out = reinterpret_cast<To*>(buffer->data());
        for (From value : literal.values<From>()) {
          if constexpr (std::is_floating_point_v<To>) {
            *out++ = static_cast<To>(value);
          } else {
            *out++ = To::From(static_cast<float>(value));
          }
        }
      }
    });
  });
  return {to, literal.shape(), std::move(buffer)};
}

}  // namespace

Expr* NarrowedConstants::Fold(const ir::Builder& at, const ops::OpDef& op, const std::vector<const Expr*>& args,
                              const ir::Type* type) {
  const auto* constant = op.name == "cast" ? DynCast<ir::Constant>(args[0]) : nullptr;
  const auto* tensor = constant == nullptr ? nullptr : DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->dtype.is_concrete()) return nullptr;
  const Literal& from = constant->literal;
  DataType to = tensor->dtype.dtype;
  if (!IsNarrowed(from.dtype(), to)) return nullptr;
  std::vector<Entry>& known = entries_[{from.data(), to}];
  for (const Entry& entry : known) {
    if (entry.from.dtype() == from.dtype() && entry.from.shape() == from.shape())
      return Named(at.Constant(entry.to), args);
  }
  known.push_back({from, Narrowed(from, to)});
  return Named(at.Constant(known.back().to), args);
}

namespace {

// Finds the constants that something else takes than calls on constants.
class ConstantUses {
 public:
  explicit ConstantUses(absl::flat_hash_set<const std::byte*>& used) : used_(used) {}

  void Visit(const Expr* root) {
    const Expr* named = nullptr;  // a constant that a let gives a name
    ir::ForEachExpr(root, [&](const Expr* expr) {
      if (const auto* let = DynCast<ir::Let>(expr)) {
        named = DynCast<ir::Constant>(let->value);
        if (IsComputed(let->value)) computed_[let->var] = DynCast<ir::Constant>(let->value);
        return true;
      }
      const auto* constant = DynCast<ir::Constant>(expr);
      if (constant != nullptr && constant != named) Add(*constant);
      const auto* use = DynCast<ir::VarExpr>(expr);
      auto found = use == nullptr ? computed_.end() : computed_.find(use->var);
      if (found != computed_.end() && found->second != nullptr) Add(*found->second);
      return expr->expr_kind != ir::ExprKind::kCall || !IsComputed(expr);
    });
  }

 private:
  void Add(const ir::Constant& constant) {
    if (constant.literal.bytes() > kMaxFoldedBytes) used_.insert(constant.literal.data());
  }

  // Returns whether the value is a constant, or what operators make of constants.
  bool IsComputed(const Expr* expr) {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) return computed_.contains(use->var);
    if (expr->expr_kind == ir::ExprKind::kConstant) return true;
    const std::vector<Expr*>* parts = nullptr;
    if (const auto* tuple = DynCast<ir::Tuple>(expr)) parts = &tuple->fields;
    if (ir::OpCallee(expr) != nullptr) parts = &ir::Cast<ir::Call>(expr)->args;
    if (parts == nullptr) return false;
    if (auto found = known_.find(expr); found != known_.end()) return found->second;
    const bool is_computed =
        WithStack([&] { return std::ranges::all_of(*parts, [&](const Expr* part) { return IsComputed(part); }); });
    return known_[expr] = is_computed;
  }

  absl::flat_hash_set<const std::byte*>& used_;
  absl::flat_hash_map<const ir::Var*, const ir::Constant*> computed_;  // null: by operators
  absl::flat_hash_map<const Expr*, bool> known_;                       // calls and tuples: whether they are computed
};

}  // namespace

ComputedWeights::ComputedWeights(const ir::Module& module) : elements_left_(kMaxComputedElements) {
  for (const ir::GlobalFunction& global : module.functions) ConstantUses(used_).Visit(global.function->body);
}

Expr* ComputedWeights::Fold(const ir::Builder& at, const ops::OpDef& op, const ir::Attrs& attrs,
                            const std::vector<const Expr*>& args, const ir::Type* type) {
  // A product takes more time than to read what it gives, which is kept beside its factors then.
  const bool is_product = op.fusion == ops::FusionClass::kContraction;
  const bool computes = is_product || op.fusion == ops::FusionClass::kElementwise ||
                        op.fusion == ops::FusionClass::kBroadcast || op.fusion == ops::FusionClass::kReduction;
  const bool is_part = op.name == "strided_slice" || op.name == "split";
  const std::optional<Size> size = computes || is_part ? StaticSize(type) : std::nullopt;
  if (!size) return nullptr;
  std::vector<Value> values;
  int64_t bytes = 0, elements = size->elements;
  // The square of m x k x n for a product of m x k by k x n elements.
  auto square = static_cast<double>(size->elements);
  for (const Expr* arg : args) {
    const auto* constant = DynCast<ir::Constant>(arg);
    if (constant == nullptr || (!is_product && used_.contains(constant->literal.data()))) return nullptr;
    bytes += constant->literal.bytes();
    elements = std::max(elements, constant->literal.num_elements());
    square *= static_cast<double>(constant->literal.num_elements());
    values.push_back(Value::Tensor(constant->literal));
  }
  if (is_product) elements = std::max(elements, static_cast<int64_t>(std::sqrt(square)) / kProductsPerElement);
  if (size->bytes > std::max(bytes, kMaxFoldedBytes) || elements > elements_left_) return nullptr;
  if (is_part) {
    const std::optional<Value> part = Take(op, attrs, values[0].tensor(), size->bytes);
    return part ? Named(FromValue(at, *part), args) : nullptr;
  }
  elements_left_ -= elements;
  absl::StatusOr<Value> result = ops::EvaluateOp(op, attrs, values);
  return result.ok() ? Named(FromValue(at, *result), args) : nullptr;
}

std::optional<Value> ComputedWeights::Take(const ops::OpDef& op, const ir::Attrs& attrs, const Literal& whole,
                                           int64_t bytes) {
  Parts& known = parts_[whole.data()];
  for (const Part& part : known.parts) {
    const bool is_same = part.op == &op && part.attrs == attrs && part.whole.dtype() == whole.dtype() &&
                         part.whole.shape() == whole.shape();
    if (is_same) return part.value;
  }
  if (known.bytes + bytes > whole.bytes()) return std::nullopt;
  absl::StatusOr<Value> value = ops::EvaluateOp(op, attrs, std::vector{Value::Tensor(whole)});
  if (!value.ok()) return std::nullopt;
  known.bytes += bytes;
  elements_left_ -= bytes / whole.dtype().bytes();
  known.parts.push_back({whole, &op, attrs, *value});
  return *std::move(value);
}

Expr* FoldCall(const ir::Builder& at, const ops::OpDef& op, const ir::Attrs& attrs,
               const std::vector<const Expr*>& args, const ir::Type* type) {
  if (op.is_reshape) {
    if (Expr* reshaped = Reshaped(at, args[0], type)) return Named(reshaped, {args[0]});
  }
  std::optional<Size> result_size = StaticSize(type);
  if (!result_size || result_size->bytes > kMaxFoldedBytes) return nullptr;
  std::vector<Value> values;
  int64_t bytes = 0;
  for (const Expr* arg : args) {
    std::optional<Value> value = ConstantValue(arg);
    if (!value) return nullptr;
    if (value->kind() == ValueKind::kTensor)
      bytes += value->tensor().bytes();
    else
      for (const Value& field : value->fields()) bytes += field.tensor().bytes();
    values.push_back(*std::move(value));
  }
  if (bytes > kMaxArgBytes) return nullptr;
  absl::StatusOr<Value> result = ops::EvaluateOp(op, attrs, values);
  if (!result.ok()) return nullptr;
  Expr* folded = FromValue(at, *result);
  return op.name == "shape_of" ? folded : Named(folded, args);
}

}  // namespace rvm::passes
