// Computes 3x3 convolutions by tiles of 4x4 results, with filters transformed here.
//
// Takes and gives A-normal form, after placement: what runs on a device stays as it is. `nn.conv2d` of float32 with
// constant filters, stride 1, one group and images of known extents, in either layout, becomes
// `nn.contrib_conv2d_winograd_without_weight_transform` where that takes less time; only the numbers of channels and
// of tiles decide (docs/decisions/0031-winograd.md has the measurements, and what it costs in accuracy and size).
#include "compiler/ops/families/winograd.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;

constexpr int64_t kTile = 4;
constexpr std::string_view kTiled = "nn.contrib_conv2d_winograd_without_weight_transform";

// Times in multiplications of a register tile: transforming a channel of a tile, and reading a number of the
// transformed filters from memory. Estimates; the layers in benchmarks/results/2026-11-23-vision.md agree with what
// they choose.
constexpr double kTransform = 350;
constexpr double kFilter = 8;
// The gain that pays for what it costs otherwise.
constexpr double kMinGain = 1.2;

bool AllAre(const std::vector<int64_t>& numbers, int64_t number) {
  for (int64_t n : numbers) {
    if (n != number) return false;
  }
  return true;
}

// Returns whether the call is a convolution that the transformed one can replace.
bool HasForm(const ir::Call& call) {
  if (ir::OpCallee(&call) == nullptr || ir::OpCallee(&call)->name != "nn.conv2d") return false;
  const ir::Attrs& attrs = call.attrs;
  const auto* filters = DynCast<ir::Constant>(call.args[1]);
  const ir::TensorType *data = TensorOf(call.args[0]), *out = TensorOf(&call);
  if (filters == nullptr || data == nullptr || out == nullptr || attrs.Find(target::kDeviceAttr) != nullptr)
    return false;
  const Shape& shape = filters->literal.shape();
  bool is_float = filters->literal.dtype() == kFloat32 && data->dtype.dtype == kFloat32 && out->dtype.dtype == kFloat32;
  const std::string layout = attrs.GetString("data_layout"), out_layout = attrs.GetString("out_layout");
  const bool fits = is_float && (layout == "NCHW" || layout == "NHWC") && attrs.GetString("kernel_layout") == "OIHW" &&
                    (out_layout.empty() || out_layout == layout) && attrs.GetInt("groups") == 1 &&
                    AllAre(attrs.GetInts("strides"), 1) && AllAre(attrs.GetInts("dilation"), 1) &&
                    shape[2] == ops::kWinogradTaps && shape[3] == ops::kWinogradTaps;
  const ops::Layout axes(layout);
  return fits && std::ranges::all_of(axes.spatial, [&](size_t axis) { return out->shape.dims[axis].is_const(); });
}

// Returns whether tiles of the results take less time than single ones. A batch of unknown extent counts as one image.
bool Pays(const Dims& out, const ops::Layout& layout, const Shape& filters) {
  auto results = static_cast<double>(filters[0]), channels = static_cast<double>(filters[1]);
  const Dim &batch = out[layout.axis('N')], &rows = out[layout.axis('H')], &columns = out[layout.axis('W')];
  double images = static_cast<double>(batch.is_const() ? batch.constant() : 1);
  auto tiles = [](const Dim& extent) { return static_cast<double>((extent.constant() + kTile - 1) / kTile); };
  double points = (kTile + ops::kWinogradTaps - 1) * (kTile + ops::kWinogradTaps - 1);
  double count = images * tiles(rows) * tiles(columns);
  double positions = images * static_cast<double>(rows.constant()) * static_cast<double>(columns.constant());
  double directly = ops::kWinogradTaps * ops::kWinogradTaps * positions * results * channels;
  double by_tiles = points * results * channels * (count + kFilter) + kTransform * (results + channels) * count;
  return directly > by_tiles * kMinGain;
}

class WinogradRewriter : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* call = DynCast<ir::Call>(expr);
    if (call == nullptr || !HasForm(*call)) return RewriteChildren(expr);
    const Literal& filters = DynCast<ir::Constant>(call->args[1])->literal;
    const std::string layout = call->attrs.GetString("data_layout");
    if (!Pays(TensorOf(call)->shape.dims, ops::Layout(layout), filters.shape())) return expr;
    const ir::Builder at = At(call->span);
    Expr* transformed = At(call->args[1]->span).Constant(ops::TransformedFilters(filters, kTile));
    ir::Call* tiled =
        ops::BuildCall(at, kTiled, {call->args[0], transformed},
                       {{"tile_size", kTile}, {"padding", *call->attrs.Find("padding")}, {"data_layout", layout}});
    return ir::TypesEqual(tiled->type, call->type) ? tiled : expr;
  }
};

absl::StatusOr<ir::Module> Winograd(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return WinogradRewriter(*module.arena).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kWinograd = {.name = "winograd",
                        .summary = "3x3 convolutions by tiles of 4x4 results",
                        .run = Winograd,
                        .needs = Form::kANormal,
                        .keeps_effect_order = true};

}  // namespace rvm::passes
