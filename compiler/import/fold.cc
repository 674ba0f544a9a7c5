// Computes values in the importer instead of adding a step: constants, and integer tensors whose elements are extents.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"
#include "compiler/ops/dim_values.h"
#include "compiler/ops/evaluate_op.h"

namespace rvm::importing {
namespace {

// Shape arithmetic is small; what is greater is left to the compiler.
constexpr int64_t kMaxElements = 4096;

std::optional<int64_t> CountElements(const ir::Type* type) {
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) {
    int64_t total = 0;
    for (const ir::Type* field : tuple->fields) {
      std::optional<int64_t> count = CountElements(field);
      if (!count || __builtin_add_overflow(total, *count, &total)) return std::nullopt;
    }
    return total;
  }
  const auto* tensor = ir::DynCast<ir::TensorType>(type);
  std::optional<Shape> shape = tensor == nullptr ? std::nullopt : StaticShape(tensor->shape.dims);
  return shape ? NumElements(*shape) : std::nullopt;
}

std::optional<rvm::Value> ConstantValue(Operand operand) {
  if (operand->constant) return rvm::Value::Tensor(*operand->constant);
  if (operand->fields.empty()) return std::nullopt;
  std::vector<rvm::Value> fields;
  for (Operand field : operand->fields) {
    if (!field->constant) return std::nullopt;
    fields.push_back(rvm::Value::Tensor(*field->constant));
  }
  return rvm::Value::Tuple(std::move(fields));
}

bool IsDeterministic(std::string_view op) { return !op.starts_with("random.") && !op.starts_with("annotation."); }

bool IsCheap(const ops::OpDef& op, int64_t elements) {
  switch (op.fusion) {
    case ops::FusionClass::kElementwise:
    case ops::FusionClass::kBroadcast:
    case ops::FusionClass::kInjective:
    case ops::FusionClass::kReduction: return elements <= kMaxElements;
    case ops::FusionClass::kContraction:
    case ops::FusionClass::kOpaque: return elements <= 512;
  }
  return false;
}

bool IsSymbolic(Operand operand) {
  if (operand->elements) return true;
  return std::any_of(operand->fields.begin(), operand->fields.end(), IsSymbolic);
}

// Returns the elements of an integer tensor as dims; nullopt for other operands.
std::optional<ops::DimTensor> ElementsOf(Operand operand) {
  if (operand->constant) return ops::ToDimTensor(*operand->constant);
  const auto* tensor = ir::DynCast<ir::TensorType>(operand->type);
  if (!operand->elements || tensor == nullptr) return std::nullopt;
  return ops::DimTensor{tensor->dtype.dtype, *StaticShape(tensor->shape.dims), *operand->elements};
}

std::optional<ops::DimValue> DimValueOf(Operand operand) {
  if (operand->fields.empty()) {
    std::optional<ops::DimTensor> tensor = ElementsOf(operand);
    return tensor ? std::optional(ops::DimValue{false, {std::move(tensor)}}) : std::nullopt;
  }
  ops::DimValue value{.is_tuple = true};
  for (Operand field : operand->fields) value.fields.push_back(ElementsOf(field));
  return value;
}

}  // namespace

Operand Emitter::FoldElements(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args,
                              const ir::Type* result) {
  std::vector<const ir::Type*> types;
  std::vector<std::optional<ops::DimValue>> values;
  for (Operand arg : args) {
    types.push_back(arg->type);
    values.push_back(DimValueOf(arg));
  }
  std::optional<ops::DimValue> value = ops::EvaluateOnDims(op, attrs, types, values, result);
  if (!value) return nullptr;
  std::vector<Operand> fields;
  const auto* tuple = ir::DynCast<ir::TupleType>(result);
  for (size_t i = 0; i < value->fields.size(); ++i) {
    std::optional<ops::DimTensor>& field = value->fields[i];
    if (!field) return nullptr;
    for (const Dim& dim : field->elements) {
      if (dim.is_any() || IsLongDim(dim)) return nullptr;
    }
    if (std::optional<Literal> literal = ops::ToLiteral(*field)) {
      fields.push_back(Constant(*std::move(literal)));
    } else {
      if (field->dtype.is_bool()) return nullptr;
      fields.push_back(New(tuple != nullptr ? tuple->fields[i] : result));
      fields.back()->elements = std::move(field->elements);
    }
  }
  return value->is_tuple ? Tuple(std::move(fields)) : fields[0];
}

Operand Emitter::Fold(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args,
                      const ir::Type* result) {
  if (!IsDeterministic(op.name)) return nullptr;
  if (std::any_of(args.begin(), args.end(), IsSymbolic)) {
    return std::all_of(args.begin(), args.end(), [](Operand a) { return IsSymbolic(a) || ConstantValue(a); })
               ? FoldElements(op, attrs, args, result)
               : nullptr;
  }
  int64_t total = 0;
  std::vector<rvm::Value> values;
  for (Operand arg : args) {
    std::optional<int64_t> count = CountElements(arg->type);
    std::optional<rvm::Value> value = ConstantValue(arg);
    if (!value || !count || __builtin_add_overflow(total, *count, &total)) return nullptr;
    values.push_back(*std::move(value));
  }
  if (!IsCheap(op, total)) return nullptr;
  if (!op.count_op.empty()) {
    absl::StatusOr<rvm::Value> counts = ops::EvaluateOp(*ops::FindOp(op.count_op), attrs, values);
    if (!counts.ok()) return nullptr;
    for (int64_t i = 0; i < counts->tensor().num_elements(); ++i) {
      if (counts->tensor().IntAt(i) > kMaxElements) return nullptr;
    }
  } else if (std::optional<int64_t> count = CountElements(result); !count || !IsCheap(op, *count)) {
    return nullptr;
  }
  absl::StatusOr<rvm::Value> value = ops::EvaluateOp(op, attrs, values);
  if (!value.ok()) return nullptr;
  if (value->kind() == ValueKind::kTensor) return Constant(value->tensor());
  std::vector<Operand> fields;
  for (const rvm::Value& field : value->fields()) fields.push_back(Constant(field.tensor()));
  return Tuple(std::move(fields));
}

}  // namespace rvm::importing
