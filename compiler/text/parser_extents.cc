// Extents with names in attributes: `reshape(%x, newshape=[n, 4])` is `dyn.reshape(%x, ...)` of a vector whose first
// element is read from the shape of a variable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {
namespace {

constexpr int kMaxDepth = 8;  // of nested lists

// Returns whether `value` is a name or a list with a name.
bool HasName(const ir::AttrValue& value, int depth = 0) {
  if (value.AsString() != nullptr) return true;
  const ir::AttrValue::List* list = value.AsList();
  return list != nullptr && depth < kMaxDepth &&
         std::any_of(list->begin(), list->end(), [&](const ir::AttrValue& v) { return HasName(v, depth + 1); });
}

bool HoldsNumbers(ops::AttrType type) {
  return type == ops::AttrType::kInt || type == ops::AttrType::kInts || type == ops::AttrType::kAny;
}

}  // namespace

// Returns the extent `name`, read from the shape of the innermost variable whose annotation has it; null if none has.
ir::Expr* Parser::ExtentNamed(const std::string& name, ir::Span span) {
  const ir::TypeParam* param = FindTypeParam(name);
  if (param == nullptr) return nullptr;
  for (size_t i = scope_.size(); i-- > 0;) {
    const auto* type = scope_[i]->annotation == nullptr ? nullptr : ir::DynCast<ir::TensorType>(scope_[i]->annotation);
    if (type == nullptr || !type->shape.is_dims()) continue;
    const Dims& dims = type->shape.dims;
    auto found = std::find(dims.begin(), dims.end(), Dim::Var(param->id, param->name));
    if (found == dims.end()) continue;
    auto call = [&](const char* op, std::vector<ir::Expr*> args, ir::Attrs attrs) {
      return arena_.New<ir::Call>(arena_.New<ir::OpExpr>(ops::FindOp(op), span), std::move(args), std::move(attrs),
                                  span);
    };
    ir::Expr* shape = call("shape_of", {arena_.New<ir::VarExpr>(scope_[i], span)}, {{"dtype", "int64"}});
    return call("take", {shape, MakeConstant(Literal::ScalarInt(kInt64, found - dims.begin()), span)}, {{"axis", 0}});
  }
  return nullptr;
}

// Returns the value of an attribute as an expression; null if a part is neither a number nor the extent of a variable.
ir::Expr* Parser::AttributeAsArgument(const ir::AttrValue& value, ir::Span span, int depth) {
  if (const int64_t* integer = value.AsInt()) return MakeConstant(Literal::ScalarInt(kInt64, *integer), span);
  if (const double* number = value.AsDouble()) return MakeConstant(Literal::Scalar(kFloat32, *number), span);
  if (const std::string* name = value.AsString()) return ExtentNamed(*name, span);
  const ir::AttrValue::List* list = value.AsList();
  if (list == nullptr || list->empty() || depth == kMaxDepth) return nullptr;
  std::vector<ir::Expr*> elements;
  for (const ir::AttrValue& element : *list) {
    elements.push_back(AttributeAsArgument(element, span, depth + 1));
    if (elements.back() == nullptr) return nullptr;
  }
  auto* tuple = arena_.New<ir::Tuple>(std::move(elements), span);
  return arena_.New<ir::Call>(arena_.New<ir::OpExpr>(ops::FindOp("stack"), span), std::vector<ir::Expr*>{tuple},
                              ir::Attrs{{"axis", 0}}, span);
}

// Replaces a call whose attributes name extents by a call of the `dyn.` variant, whose arguments they are. Leaves other
// calls, and those that have no such variant or name extents of no variable, to the check of attributes.
void Parser::MoveExtentsToArguments(ir::Call& call) {
  const auto* callee = ir::DynCast<ir::OpExpr>(call.callee);
  if (callee == nullptr) return;
  const ops::OpDef& op = *callee->op;
  bool has_name = std::any_of(call.attrs.entries().begin(), call.attrs.entries().end(), [&](const ir::Attr& attr) {
    auto spec = std::find_if(op.attrs.begin(), op.attrs.end(), [&](const auto& s) { return s.name == attr.name; });
    return spec != op.attrs.end() && HoldsNumbers(spec->type) && HasName(attr.value);
  });
  const ops::OpDef* variant = has_name ? ops::FindOp(absl::StrCat("dyn.", Abseil(op.name))) : nullptr;
  if (variant == nullptr) return;
  std::vector<ir::Expr*> args;
  ir::Attrs attrs;
  for (const ops::Input& input : variant->inputs) {
    const ir::AttrValue* value = call.attrs.Find(input.name);
    auto same = std::find_if(op.inputs.begin(), op.inputs.end(), [&](const auto& i) { return i.name == input.name; });
    auto position = static_cast<size_t>(same - op.inputs.begin());
    ir::Expr* arg = nullptr;
    if (same == op.inputs.end() && value != nullptr) {
      arg = AttributeAsArgument(*value, callee->span, 0);
    } else if (same != op.inputs.end() && position < call.args.size()) {
      arg = call.args[position];
    }
    if (arg == nullptr && input.is_optional) break;
    if (arg == nullptr) return;
    args.push_back(arg);
  }
  for (const ir::Attr& attr : call.attrs.entries()) {
    auto is_same = [&](const auto& input) { return input.name == attr.name; };
    bool is_argument = std::any_of(variant->inputs.begin(), variant->inputs.end(), is_same);
    if (!is_argument) attrs.Set(attr.name, attr.value, attr.span);
  }
  call.callee = arena_.New<ir::OpExpr>(variant, callee->span);
  call.args = std::move(args);
  call.attrs = std::move(attrs);
}

}  // namespace rvm::text
