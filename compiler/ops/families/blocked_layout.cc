#include "compiler/ops/families/blocked_layout.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/derive_type.h"

namespace rvm::ops {
namespace {

bool IsBlockPart(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

// "NCHW" for "NCHW4n4c".
std::string Plain(std::string layout) {
  layout.erase(std::remove_if(layout.begin(), layout.end(), IsBlockPart), layout.end());
  return layout;
}

// The layouts of the data, the filters and the result of a convolution.
struct Layouts {
  explicit Layouts(const ir::Attrs& attrs)
      : data(attrs.GetString("data_layout")),
        kernel(attrs.GetString("kernel_layout")),
        out(attrs.GetString("out_layout")) {
    if (out.empty()) out = data;
  }
  std::string data, kernel, out;
};

ir::Attrs PlainAttrs(ir::Attrs attrs) {
  Layouts layouts(attrs);
  attrs.Set("data_layout", Plain(layouts.data));
  attrs.Set("kernel_layout", Plain(layouts.kernel));
  attrs.Set("out_layout", Plain(layouts.out));
  return attrs;
}

ir::Attrs TransformAttrs(const std::string& from, const std::string& to) {
  return ir::Attrs{{"src_layout", from}, {"dst_layout", to}};
}

}  // namespace

bool HasBlockedLayout(const ir::Attrs& attrs) {
  Layouts layouts(attrs);
  auto has_blocks = [](const std::string& layout) {
    return std::any_of(layout.begin(), layout.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return has_blocks(layouts.data) || has_blocks(layouts.kernel) || has_blocks(layouts.out);
}

Solve BlockedLayoutRelation(TypeContext& context, std::string_view op) {
  Layouts layouts(context.attrs());
  if (FindOp(op) == nullptr) {
    return context.Fail(
        DiagnosticKind::kLayoutMismatch,
        absl::StrCat("`data_layout` is \"", layouts.data,
                     "\"; expected the letters N and C and those of 1 to 3 axes of space, with blocks"));
  }
  auto derive = [&](std::string_view name, const ir::Attrs& attrs, std::vector<const ir::Type*> types) {
    auto result =
        DeriveResult(*FindOp(name), attrs, types, {}, context.arena(), [](size_t, int64_t) { return Dim::Any(); });
    if (result.ok()) return result->result;
    context.Fail(DiagnosticKind::kLayoutMismatch, std::string(result.status().message()));
    return static_cast<const ir::Type*>(nullptr);
  };
  auto transformed = [&](const ir::Type* type, const std::string& from, const std::string& to) {
    return derive("layout_transform", TransformAttrs(from, to), {type});
  };
  const ir::Type* data = transformed(context.arg(0), layouts.data, Plain(layouts.data));
  if (data == nullptr) return Solve::kFailed;
  const ir::Type* weight = transformed(context.arg(1), layouts.kernel, Plain(layouts.kernel));
  if (weight == nullptr) return Solve::kFailed;
  const ir::Type* plain = derive(op, PlainAttrs(context.attrs()), {data, weight});
  if (plain == nullptr) return Solve::kFailed;
  const ir::Type* out = transformed(plain, Plain(layouts.out), layouts.out);
  return out == nullptr ? Solve::kFailed : context.Result(out);
}

std::vector<te::Tensor> ComputeBlockedLayout(const ComputeContext& context, std::string_view op) {
  Layouts layouts(context.attrs());
  ir::Arena arena;
  auto compute = [&](std::string_view name, const ir::Attrs& attrs, std::vector<te::Tensor> inputs, DataType dtype) {
    std::vector<const ir::Type*> types;
    for (const te::Tensor& input : inputs) types.push_back(ir::MakeTensorType(arena, input.dims(), input.dtype()));
    DerivedResult derived =
        *DeriveResult(*FindOp(name), attrs, types, {}, arena, [](size_t, int64_t) { return Dim::Any(); });
    te::TensorSpec outputs[] = {{dtype, ir::DynCast<ir::TensorType>(derived.result)->shape.dims}};
    return FindOp(name)->compute(ComputeContext(inputs, attrs, outputs))[0];
  };
  auto transformed = [&](const te::Tensor& x, const std::string& from, const std::string& to) {
    return from == to ? x : compute("layout_transform", TransformAttrs(from, to), {x}, x.dtype());
  };
  te::Tensor data = transformed(context.input(0), layouts.data, Plain(layouts.data));
  te::Tensor weight = transformed(context.input(1), layouts.kernel, Plain(layouts.kernel));
  te::Tensor result = compute(op, PlainAttrs(context.attrs()), {data, weight}, context.output().dtype);
  return {transformed(result, Plain(layouts.out), layouts.out)};
}

ir::Expr* WithPlainLayouts(const ir::Builder& at, const OpDef& op, const std::vector<ir::Expr*>& args,
                           const ir::Attrs& attrs) {
  auto has = [&](std::string_view name) { return attrs.Find(name) != nullptr; };
  bool is_convolution =
      op.name.starts_with("nn.conv") && has("data_layout") && has("kernel_layout") && has("out_layout");
  if (!is_convolution || !HasBlockedLayout(attrs)) return nullptr;
  Layouts layouts(attrs);
  auto transformed = [&](ir::Expr* x, const std::string& from, const std::string& to) {
    return from == to ? x : BuildCall(at, "layout_transform", {x}, TransformAttrs(from, to));
  };
  ir::Expr* data = transformed(args[0], layouts.data, Plain(layouts.data));
  ir::Expr* weight = transformed(args[1], layouts.kernel, Plain(layouts.kernel));
  ir::Expr* result = BuildCall(at, op.name, {data, weight}, PlainAttrs(attrs));
  return transformed(result, Plain(layouts.out), layouts.out);
}

}  // namespace rvm::ops
