// From dual code to functions at the program's own types: what `jvp(f)` is.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/passes/differentiate/forward.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Type;

Expr* Forward::Pair(ir::Var* value, ir::Var* tangent, const Type* type, std::vector<ir::Binding>& chain,
                    ir::Span span) {
  const ir::Builder at = At(span);
  if (type->type_kind == ir::TypeKind::kTensor) {
    if (!types_.HasFloats(type)) return at.Use(value);
    return at.Tuple({at.Use(value), at.Use(tangent)});
  }
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return Convert(Conversion::kPair, {at.Use(value), at.Use(tangent)}, type, span);
  std::vector<Expr*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    ir::Var* v = at.Bind("v", at.Project(at.Use(value), i), chain)->var;
    ir::Var* d = at.Bind("d", at.Project(at.Use(tangent), i), chain)->var;
    fields.push_back(Pair(v, d, tuple->fields[i], chain, span));
  }
  return at.Tuple(std::move(fields));
}

Expr* Forward::Part(ir::Var* boxed, size_t part, const Type* type, std::vector<ir::Binding>& chain, ir::Span span) {
  const ir::Builder at = At(span);
  if (type->type_kind == ir::TypeKind::kTensor) {
    if (types_.HasFloats(type)) return at.Project(at.Use(boxed), part);
    return part == 0 ? at.Use(boxed) : ZerosLike(boxed, span);
  }
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) {
    return Convert(part == 0 ? Conversion::kValue : Conversion::kTangent, {at.Use(boxed)}, type, span);
  }
  std::vector<Expr*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    ir::Var* field = at.Bind("v", at.Project(at.Use(boxed), i), chain)->var;
    fields.push_back(Part(field, part, tuple->fields[i], chain, span));
  }
  return at.Tuple(std::move(fields));
}

ir::Function* Forward::Transformed(const ir::Function& function, ir::Span span) {
  bool ok = CheckArguments(function, span);
  const Type* result_type = TypeOf(function).result;
  if (FindUncopied(result_type) != nullptr || types_.IsInert(result_type)) {
    Refuse(span, DiagnosticKind::kResultWithoutGradient,
           absl::StrCat("the function gives a `", ir::TypeToString(result_type),
                        "`; expected floating-point tensors, in tuples or data types"));
    ok = false;
  }
  if (!ok) return nullptr;
  const ir::Builder at = At(span);
  Block block{&constants_};
  std::vector<ir::Var*> params, tangents;
  for (const ir::Var* param : function.params) {
    params.push_back(at.DeclaredVar(param->name, param->type));
    tangents.push_back(at.DeclaredVar(absl::StrCat("d", param->name), param->type));
    Dual dual{params.back(), tangents.back()};
    if (param->type->type_kind != ir::TypeKind::kTensor) {
      Expr* pair = Pair(params.back(), tangents.back(), param->type, block.chain, span);
      dual = BoxedVar(Bind(block, param->name, pair, span), param->type);
    }
    vars_[param] = dual;
  }
  Dual result = Eval(function.body, block);
  Expr* both = nullptr;
  if (result_type->type_kind == ir::TypeKind::kTensor) {
    result = TakeApart(result, block, span);
    both = AsBoxed(result, result_type, block, span);
  } else {
    ir::Var* boxed = Bind(block, "t", AsBoxed(result, result_type, block, span), span);
    Expr* value = Part(boxed, 0, result_type, block.chain, span);
    both = at.Tuple({value, Part(boxed, 1, result_type, block.chain, span)});
  }
  std::vector<ir::Binding> chain = constants_.chain;
  chain.insert(chain.end(), block.chain.begin(), block.chain.end());
  params.insert(params.end(), tangents.begin(), tangents.end());
  return at.Function(function.type_params, std::move(params), ir::MakeLets(shared_.arena, chain, both));
}

}  // namespace rvm::passes
