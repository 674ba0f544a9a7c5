#include "compiler/lowering/fused_function.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/ir/primitive.h"
#include "compiler/ops/derive_type.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::lowering {
namespace {

// A name longer than this helps nobody.
constexpr size_t kMaxNameLength = 120;

// Value of a variable of the primitive's body: one tensor, or the tensors of a tuple.
struct Binding {
  const ir::Type* type;  // dims over the kernel's symbols
  std::vector<te::Tensor> tensors;
  const Literal* literal = nullptr;  // a constant, also known by value
};

class PrimitiveLowering {
 public:
  explicit PrimitiveLowering(ir::Arena& arena) : arena_(arena) {}

  absl::StatusOr<LoweredKernel> Run(const ir::Function& function);

 private:
  void BindParam(const ir::Var& param);
  absl::StatusOr<Binding> LowerExpr(const ir::Expr* expr);
  absl::StatusOr<Binding> LowerCall(const ir::Call& call);
  static Binding LowerConstant(const ir::Constant& constant);
  // Returns the symbol that is element `element` of `tensor`.
  Dim ValueSymbol(const te::Tensor& tensor, int64_t element);
  // `derived` with the extents that `type`, the type of a call whose shape an argument decides, says in constants and
  // in variables of the parameters' types: values of elements are known only when the kernel is called.
  const ir::Type* Refined(const ir::Type* derived, const ir::Type* type);
  // `dim` over symbols: the same variable is the same symbol, and so is the same expression of variables; anything else
  // unknown is a new one.
  Dim SymbolFor(const Dim& dim);

  ir::Arena& arena_;
  LoweredKernel kernel_;
  absl::flat_hash_map<const ir::Var*, Binding> bindings_;
  absl::flat_hash_map<int64_t, Dim> symbol_of_variable_;
  absl::flat_hash_map<std::string, Dim> symbol_of_expression_;  // by canonical text
};

Dim PrimitiveLowering::SymbolFor(const Dim& dim) {
  if (dim.is_const()) return dim;
  auto fresh = [&] {
    int64_t id = kernel_.desc.num_symbols++;
    return Dim::Var(id, absl::StrCat("s", id));
  };
  if (dim.kind() != DimKind::kVar) {
    std::string text = CanonicalText(dim);
    if (text.empty()) return fresh();
    auto [it, added] = symbol_of_expression_.try_emplace(std::move(text));
    if (added) it->second = fresh();
    return it->second;
  }
  auto [it, added] = symbol_of_variable_.try_emplace(dim.id());
  if (added) it->second = fresh();
  return it->second;
}

void PrimitiveLowering::BindParam(const ir::Var& param) {
  const auto* tensor = ir::DynCast<ir::TensorType>(param.type);
  RVM_CHECK(tensor != nullptr && tensor->shape.is_dims(), "a primitive function's parameter is no tensor");
  Dims dims;
  for (const Dim& dim : tensor->shape.dims) dims.push_back(SymbolFor(dim));
  DataType dtype = tensor->dtype.dtype;
  te::Tensor input = te::Input(static_cast<int64_t>(kernel_.computation.inputs.size()), param.name, dtype, dims);
  kernel_.computation.inputs.push_back(input);
  kernel_.desc.params.push_back({dtype, dims});
  bindings_[&param] = {ir::MakeTensorType(arena_, dims, dtype), {input}, nullptr};
}

// Constants that are scalars or decide shapes become immediates of the computation; others are parameters.
Binding PrimitiveLowering::LowerConstant(const ir::Constant& constant) {
  const Literal& literal = constant.literal;
  RVM_CHECK(literal.num_elements() <= ir::kMaxImmediates, "a large constant stands inside a primitive function");
  DataType dtype = literal.dtype();
  Dims dims = ToDims(literal.shape());
  te::Tensor tensor = te::ComputeTensor("constant", dtype, dims, [&](std::span<const te::Expr> indices) {
    auto element = [&](int64_t i) {
      return dtype.is_float() ? te::FloatConst(dtype, literal.DoubleAt(i)) : te::IntConst(dtype, literal.IntAt(i));
    };
    if (literal.num_elements() == 0) return te::Const(dtype, 0);
    te::Expr result = element(literal.num_elements() - 1);
    te::Expr flat = ops::FlatIndex(indices, dims);
    for (int64_t i = literal.num_elements() - 1; i-- > 0;) {
      result = te::Select(te::Binary(te::BinaryOp::kEqual, flat, te::Index(i)), element(i), result);
    }
    return result;
  });
  return {constant.type, {tensor}, &literal};
}

const ir::Type* PrimitiveLowering::Refined(const ir::Type* derived, const ir::Type* type) {
  if (const auto* tuple = ir::DynCast<ir::TupleType>(derived)) {
    std::vector<const ir::Type*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      fields.push_back(Refined(tuple->fields[i], ir::DynCast<ir::TupleType>(type)->fields[i]));
    }
    return arena_.New<ir::TupleType>(std::move(fields));
  }
  const auto &tensor = *ir::DynCast<ir::TensorType>(derived), &typed = *ir::DynCast<ir::TensorType>(type);
  Dims dims = tensor.shape.dims;
  auto is_symbol = [&](const Dim& leaf) {
    return leaf.kind() == DimKind::kVar && symbol_of_variable_.contains(leaf.id());
  };
  auto symbol = [&](const Dim& leaf) { return std::optional(symbol_of_variable_.at(leaf.id())); };
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim& known = typed.shape.dims[i];
    if (!dims[i].is_const() && IsArithmeticOf(known, is_symbol)) dims[i] = SubstituteDim(known, symbol);
  }
  return ir::MakeTensorType(arena_, std::move(dims), tensor.dtype.dtype);
}

Dim PrimitiveLowering::ValueSymbol(const te::Tensor& tensor, int64_t element) {
  RVM_CHECK(tensor->kind == te::TensorKind::kInput, "a kernel computes a value that decides its own shapes");
  size_t input = static_cast<size_t>(tensor->input_index);
  for (const te::Computation::ValueSymbol& known : kernel_.computation.values) {
    if (known.input == input && known.element == element) return known.symbol;
  }
  uint32_t id = kernel_.desc.num_symbols++;
  Dim symbol = Dim::Value(id, absl::StrCat("s", id));
  kernel_.computation.values.push_back({symbol, input, element});
  kernel_.desc.values.push_back({id, static_cast<uint32_t>(input), static_cast<uint32_t>(element)});
  return symbol;
}

absl::StatusOr<Binding> PrimitiveLowering::LowerCall(const ir::Call& call) {
  RVM_CHECK(ir::OpCallee(&call) != nullptr, "a primitive function calls something that is no operator");
  const ops::OpDef& op = *ir::OpCallee(&call);
  std::vector<const ir::Type*> arg_types;
  std::vector<const Literal*> arg_values;
  std::vector<te::Tensor> inputs;
  std::vector<te::Tensor> whole_args;  // of those arguments that are no tuples
  for (const ir::Expr* arg : call.args) {
    RVM_ASSIGN_OR_RETURN(Binding binding, LowerExpr(arg));
    whole_args.push_back(binding.tensors.size() == 1 ? binding.tensors[0] : te::Tensor());
    arg_types.push_back(binding.type);
    arg_values.push_back(binding.literal);
    inputs.insert(inputs.end(), binding.tensors.begin(), binding.tensors.end());
  }
  RVM_ASSIGN_OR_RETURN(ops::DerivedResult derived, ops::DeriveResult(op, call.attrs, arg_types, arg_values, arena_,
                                                                     [&](size_t arg, int64_t element) {
                                                                       return ValueSymbol(whole_args[arg], element);
                                                                     }));
  bool has_values = std::any_of(op.inputs.begin(), op.inputs.end(),
                                [](const ops::Input& input) { return input.decides_shape || input.may_decide_shape; });
  if (has_values) derived.result = Refined(derived.result, call.type);
  for (const ops::DimCheck& check : derived.checks) {
    kernel_.desc.checks.push_back({check.a, check.b, check.relation, check.what});
  }
  std::vector<te::TensorSpec> specs;
  auto add_spec = [&](const ir::Type* type) {
    const auto* tensor = ir::DynCast<ir::TensorType>(type);
    RVM_CHECK(tensor != nullptr, "an operator's result is neither a tensor nor a tuple of tensors");
    specs.push_back({tensor->dtype.dtype, tensor->shape.dims});
  };
  if (const auto* tuple = ir::DynCast<ir::TupleType>(derived.result)) {
    for (const ir::Type* field : tuple->fields) add_spec(field);
  } else {
    add_spec(derived.result);
  }
  std::vector<te::Tensor> outputs = op.compute(ops::ComputeContext(inputs, call.attrs, specs));
  RVM_CHECK(outputs.size() == specs.size(), "an operator computed another number of tensors than its type has");

  std::string& name = kernel_.desc.name;
  if (name.size() < kMaxNameLength) {
    std::string_view plain = op.name.substr(op.name.rfind('.') + 1);
    absl::StrAppend(&name, name.empty() ? "" : "_", absl::string_view(plain.data(), plain.size()));
  }
  return Binding{derived.result, std::move(outputs), nullptr};
}

absl::StatusOr<Binding> PrimitiveLowering::LowerExpr(const ir::Expr* expr) {
  switch (expr->expr_kind) {
    case ir::ExprKind::kVar: return bindings_.at(ir::Cast<ir::VarExpr>(expr)->var);
    case ir::ExprKind::kConstant: return LowerConstant(*ir::Cast<ir::Constant>(expr));
    case ir::ExprKind::kCall: return LowerCall(*ir::Cast<ir::Call>(expr));
    case ir::ExprKind::kProject: {
      const auto& project = *ir::Cast<ir::Project>(expr);
      RVM_ASSIGN_OR_RETURN(Binding tuple, LowerExpr(project.tuple));
      const auto* type = ir::DynCast<ir::TupleType>(tuple.type);
      RVM_CHECK(type != nullptr && project.index < tuple.tensors.size(), "a projection in a primitive function");
      return Binding{type->fields[project.index], {tuple.tensors[project.index]}, nullptr};
    }
    case ir::ExprKind::kTuple: {
      Binding tuple;
      std::vector<const ir::Type*> types;
      for (const ir::Expr* field : ir::Cast<ir::Tuple>(expr)->fields) {
        RVM_ASSIGN_OR_RETURN(Binding binding, LowerExpr(field));
        RVM_CHECK(binding.tensors.size() == 1, "a nested tuple in a primitive function");
        types.push_back(binding.type);
        tuple.tensors.push_back(binding.tensors[0]);
      }
      tuple.type = arena_.New<ir::TupleType>(std::move(types));
      return tuple;
    }
    case ir::ExprKind::kGlobal:
    case ir::ExprKind::kOp:
    case ir::ExprKind::kConstructor:
    case ir::ExprKind::kFunction:
    case ir::ExprKind::kLet:
    case ir::ExprKind::kIf:
    case ir::ExprKind::kMatch:
    case ir::ExprKind::kRefCreate:
    case ir::ExprKind::kRefRead:
    case ir::ExprKind::kRefWrite: RVM_UNREACHABLE("a primitive function contains more than operator calls");
  }
}

absl::StatusOr<LoweredKernel> PrimitiveLowering::Run(const ir::Function& function) {
  for (const ir::Var* param : function.params) BindParam(*param);
  const ir::Expr* expr = function.body;
  while (const auto* let = ir::DynCast<ir::Let>(expr)) {
    RVM_ASSIGN_OR_RETURN(Binding value, LowerExpr(let->value));
    bindings_[let->var] = std::move(value);
    expr = let->body;
  }
  RVM_ASSIGN_OR_RETURN(Binding result, LowerExpr(expr));
  for (const te::Tensor& output : result.tensors) {
    kernel_.computation.outputs.push_back(output);
    kernel_.desc.results.push_back({output.dtype(), output.dims()});
  }
  kernel_.computation.name = kernel_.desc.name;
  kernel_.is_static = kernel_.desc.num_symbols == 0;
  return std::move(kernel_);
}

}  // namespace

absl::StatusOr<LoweredKernel> LowerPrimitive(ir::Arena& arena, const ir::Function& function) {
  return PrimitiveLowering(arena).Run(function);
}

}  // namespace rvm::lowering
