#include "compiler/ops/evaluate_op.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "compiler/ops/derive_type.h"
#include "kernels/te/evaluate.h"

namespace rvm::ops {

namespace {

// `name` is the name of the operator in messages.
absl::StatusOr<Value> Evaluate(const OpDef& op, std::string_view name, const ir::Attrs& attrs,
                               std::span<const Value> args) {
  ir::Arena arena;
  te::Computation computation;
  std::vector<Literal> literals;
  std::vector<const ir::Type*> types;
  std::vector<const Literal*> values;
  auto add = [&](const Value& value) -> const ir::Type* {
    const Literal& literal = value.tensor();
    Dims dims = ToDims(literal.shape());
    computation.inputs.push_back(te::Input(static_cast<int64_t>(literals.size()), "in", literal.dtype(), dims));
    literals.push_back(literal);
    return ir::MakeTensorType(arena, dims, literal.dtype());
  };
  for (const Value& arg : args) {
    values.push_back(arg.kind() == ValueKind::kTensor ? &arg.tensor() : nullptr);
    if (arg.kind() == ValueKind::kTensor) {
      types.push_back(add(arg));
    } else {
      std::vector<const ir::Type*> fields;
      for (const Value& field : arg.fields()) fields.push_back(add(field));
      types.push_back(arena.New<ir::TupleType>(std::move(fields)));
    }
  }
  RVM_ASSIGN_OR_RETURN(DerivedResult derived, DeriveResult(op.type_relation, name, attrs, types, values, arena,
                                                           [](size_t, int64_t) { return Dim::Any(); }));
  std::vector<te::TensorSpec> specs;
  const auto* tuple = ir::DynCast<ir::TupleType>(derived.result);
  auto add_spec = [&](const ir::Type* type) {
    const auto* tensor = ir::DynCast<ir::TensorType>(type);
    specs.push_back({tensor->dtype.dtype, tensor->shape.dims});
  };
  if (tuple == nullptr)
    add_spec(derived.result);
  else
    for (const ir::Type* field : tuple->fields) add_spec(field);
  for (const te::TensorSpec& spec : specs) {
    if (IsStorable(spec.dtype)) continue;
    return absl::UnimplementedError(absl::StrCat("`", absl::string_view(name.data(), name.size()), "` gives `",
                                                 spec.dtype.ToString(), "`, and nothing runs vectors yet"));
  }
  computation.outputs = op.compute(ComputeContext(computation.inputs, attrs, specs));
  RVM_ASSIGN_OR_RETURN(std::vector<Literal> results, te::Evaluate(computation, literals));
  if (tuple == nullptr) return Value::Tensor(results[0]);
  std::vector<Value> fields;
  for (Literal& result : results) fields.push_back(Value::Tensor(std::move(result)));
  return Value::Tuple(std::move(fields));
}

}  // namespace

Literal ToIntegers(const Literal& literal) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < literal.num_elements(); ++i) values.push_back(literal.IntAt(i));
  return Literal::FromValues<int64_t>(kInt64, literal.shape(), values);
}

absl::StatusOr<Value> EvaluateOp(const OpDef& op, const ir::Attrs& attrs, std::span<const Value> args) {
  if (op.count_op.empty()) return Evaluate(op, op.name, attrs, args);
  RVM_ASSIGN_OR_RETURN(Value count, Evaluate(*FindOp(op.count_op), op.name, attrs, args));
  std::vector<Value> with_count(args.begin(), args.end());
  with_count.push_back(std::move(count));
  return Evaluate(*FindOp(op.fill_op), op.name, attrs, with_count);
}

}  // namespace rvm::ops
