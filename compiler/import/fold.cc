// Computes values in the importer instead of adding a step: constants, and integer tensors whose elements are extents.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"
#include "compiler/ops/evaluate_op.h"

namespace rvm::importing {
namespace {

// Shape arithmetic is small; what is greater is left to the compiler.
constexpr int64_t kMaxElements = 4096;
constexpr int64_t kMaxSymbols = 256;

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

// The arguments whose elements the operator only moves, as bits; 0 for operators that do more.
uint32_t MovedArguments(std::string_view op) {
  if (op == "where") return 6;
  for (std::string_view moves : {"reshape", "expand_dims", "squeeze", "concatenate", "stack", "take", "strided_slice",
                                 "transpose", "gather", "reverse", "broadcast_to", "tile", "repeat", "copy", "split"}) {
    if (op == moves) return 1;
  }
  return 0;
}

bool IsSymbolic(Operand operand) {
  if (operand->elements) return true;
  return std::any_of(operand->fields.begin(), operand->fields.end(), IsSymbolic);
}

// The elements of an integer tensor as dims, at the end of `dims`.
bool AppendElements(Operand operand, std::vector<Dim>& dims) {
  if (operand->elements) {
    dims.insert(dims.end(), operand->elements->begin(), operand->elements->end());
    return true;
  }
  if (!operand->constant || !operand->constant->dtype().is_integral()) return false;
  if (operand->constant->num_elements() > kMaxSymbols) return false;
  for (int64_t i = 0; i < operand->constant->num_elements(); ++i) dims.emplace_back(operand->constant->IntAt(i));
  return true;
}

Shape StaticShapeOf(Operand operand) { return *StaticShape(ir::DynCast<ir::TensorType>(operand->type)->shape.dims); }

// A tensor of that shape that holds the places of its elements in `dims`, which it appends them to.
std::optional<rvm::Value> Places(Operand operand, std::vector<Dim>& dims) {
  if (!operand->fields.empty()) {
    std::vector<rvm::Value> fields;
    for (Operand field : operand->fields) {
      std::optional<rvm::Value> places = Places(field, dims);
      if (!places) return std::nullopt;
      fields.push_back(*places);
    }
    return rvm::Value::Tuple(std::move(fields));
  }
  size_t first = dims.size();
  if (!AppendElements(operand, dims)) return std::nullopt;
  std::vector<int64_t> numbers(dims.size() - first);
  std::iota(numbers.begin(), numbers.end(), static_cast<int64_t>(first));
  return rvm::Value::Tensor(Literal::FromValues<int64_t>(kInt64, StaticShapeOf(operand), numbers));
}

// A number that the dim is at least, if one is known: extents are not negative.
std::optional<int64_t> LowerBound(const Dim& dim) {
  if (dim.is_const()) return dim.constant();
  if (dim.kind() == DimKind::kVar) return 0;
  if (!dim.is_binary()) return std::nullopt;
  std::optional<int64_t> a = LowerBound(dim.lhs()), b = LowerBound(dim.rhs());
  if (!a || !b || *a < 0 || *b < 0) return std::nullopt;
  if (dim.kind() == DimKind::kSub) return std::nullopt;
  // The others grow with both operands.
  bool wraps = dim.kind() == DimKind::kFloorMod || (dim.kind() == DimKind::kFloorDiv && !dim.rhs().is_const());
  if (wraps) return 0;
  if (dim.kind() == DimKind::kBroadcast) return std::min(*a, *b);
  return OverflowsBinaryDim(dim.kind(), *a, *b) ? 0 : EvaluateBinaryDim(dim.kind(), *a, *b);
}

bool IsNatural(const Dim& dim) { return LowerBound(dim).value_or(-1) >= 0; }

std::optional<Dim> Combine(std::string_view op, const Dim& a, const Dim& b) {
  if (op == "add") return a + b;
  if (op == "subtract") return a - b;
  if (op == "multiply") return a * b;
  if (op == "maximum") return Max(a, b);
  if (op == "minimum") return Min(a, b);
  bool is_positive = b.is_const() && b.constant() > 0;
  if (op == "floor_divide" && is_positive) return FloorDiv(a, b);
  if (op == "floor_mod" && is_positive) return FloorMod(a, b);
  if (op == "divide" && is_positive && IsNatural(a)) return FloorDiv(a, b);
  if (op == "trunc_mod" && is_positive && IsNatural(a)) return FloorMod(a, b);
  return std::nullopt;
}

// Whether a < b, where that is certain.
std::optional<bool> IsLess(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return a.constant() < b.constant();
  if (CompareDims(a, b) == DimEquality::kEqual) return false;
  if (a.is_const() && LowerBound(b).value_or(a.constant()) > a.constant()) return true;
  if (b.is_const() && LowerBound(a).value_or(b.constant() - 1) >= b.constant()) return false;
  return std::nullopt;
}

std::optional<bool> Compare(std::string_view op, const Dim& a, const Dim& b) {
  auto negate = [](std::optional<bool> value) { return value ? std::optional(!*value) : value; };
  if (op == "less") return IsLess(a, b);
  if (op == "greater") return IsLess(b, a);
  if (op == "greater_equal") return negate(IsLess(a, b));
  if (op == "less_equal") return negate(IsLess(b, a));
  if (op != "equal" && op != "not_equal") return std::nullopt;
  std::optional<bool> equal;
  DimEquality known = CompareDims(a, b);
  if (known != DimEquality::kUnknown) equal = known == DimEquality::kEqual;
  if (IsLess(a, b).value_or(false) || IsLess(b, a).value_or(false)) equal = false;
  return op == "equal" ? equal : negate(equal);
}

// Element by element in the shape of the result.
std::optional<std::vector<Dim>> Broadcasted(Operand operand, const Shape& shape) {
  std::vector<Dim> dims;
  if (!AppendElements(operand, dims)) return std::nullopt;
  Shape from = StaticShapeOf(operand);
  if (from == shape) return dims;
  int64_t count = NumElements(shape).value_or(kMaxElements + 1);
  if (count > kMaxSymbols) return std::nullopt;
  std::vector<Dim> result;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t back = 1; back <= shape.size(); ++back) {
      int64_t extent = shape[shape.size() - back], at = rest % extent;
      rest /= extent;
      if (back > from.size()) continue;
      int64_t own = from[from.size() - back];
      place += (own == 1 ? 0 : at) * stride;
      stride *= own;
    }
    result.push_back(dims[static_cast<size_t>(place)]);
  }
  return result;
}

bool IsIndexType(DataType dtype) { return dtype == kInt64 || dtype == kInt32; }

}  // namespace

Operand Emitter::FoldElements(const ops::OpDef& op, const ir::Attrs& attrs, std::span<const Operand> args,
                              const ir::Type* result) {
  std::optional<int64_t> count = CountElements(result);
  if (!count || *count > kMaxSymbols) return nullptr;
  auto make = [&](const ir::Type* type, std::vector<Dim> dims) -> Operand {
    Operand operand = New(type);
    const auto& tensor = *ir::DynCast<ir::TensorType>(type);
    if (std::optional<Shape> numbers = StaticShape(Dims(dims.begin(), dims.end()));
        numbers && IsIndexType(tensor.dtype.dtype)) {
      Literal literal = Literal::FromValues<int64_t>(kInt64, StaticShapeOf(operand), *numbers);
      if (tensor.dtype.dtype == kInt64) return Constant(std::move(literal));
      std::vector<int32_t> narrow(numbers->begin(), numbers->end());
      return Constant(Literal::FromValues<int32_t>(kInt32, literal.shape(), narrow));
    }
    operand->elements = std::move(dims);
    return operand;
  };
  if (uint32_t moved = MovedArguments(op.name); moved != 0) {
    std::vector<rvm::Value> values;
    std::vector<Dim> dims;
    for (size_t i = 0; i < args.size(); ++i) {
      std::optional<rvm::Value> value = (moved >> i & 1) != 0 ? Places(args[i], dims) : ConstantValue(args[i]);
      if (!value) return nullptr;
      values.push_back(*value);
    }
    absl::StatusOr<rvm::Value> places = ops::EvaluateOp(op, attrs, values);
    if (!places.ok()) return nullptr;
    auto pick = [&](const rvm::Value& at, const ir::Type* type) {
      std::vector<Dim> picked;
      for (int64_t place : at.tensor().values<int64_t>()) picked.push_back(dims[static_cast<size_t>(place)]);
      return make(type, std::move(picked));
    };
    const auto* tuple = ir::DynCast<ir::TupleType>(result);
    if (tuple == nullptr) return pick(*places, result);
    std::vector<Operand> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) fields.push_back(pick(places->fields()[i], tuple->fields[i]));
    return Tuple(std::move(fields));
  }
  const auto* tensor = ir::DynCast<ir::TensorType>(result);
  if (tensor == nullptr) return nullptr;
  if (op.name == "cast" && IsIndexType(tensor->dtype.dtype)) return make(result, *args[0]->elements);
  if (op.name == "prod" && *count == 1) {
    Dim product = 1;
    for (const Dim& dim : *args[0]->elements) product = product * dim;
    return make(result, {product});
  }
  if (args.size() != 2) return nullptr;
  Shape shape = *StaticShape(tensor->shape.dims);
  std::optional<std::vector<Dim>> a = Broadcasted(args[0], shape), b = Broadcasted(args[1], shape);
  if (!a || !b) return nullptr;
  if (tensor->dtype.dtype.is_bool()) {
    std::vector<uint8_t> truths;
    for (size_t i = 0; i < a->size(); ++i) {
      std::optional<bool> truth = Compare(op.name, (*a)[i], (*b)[i]);
      if (!truth) return nullptr;
      truths.push_back(*truth);
    }
    return Constant(Literal::FromValues<uint8_t>(kBool, shape, truths));
  }
  std::vector<Dim> dims;
  for (size_t i = 0; i < a->size(); ++i) {
    std::optional<Dim> dim = Combine(op.name, (*a)[i], (*b)[i]);
    if (!dim || IsLongDim(*dim)) return nullptr;
    dims.push_back(*dim);
  }
  return make(result, std::move(dims));
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
