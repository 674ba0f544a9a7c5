// Computes convolutions without the taps of their filters that meet nothing but padding, and deep ones tap by tap.
//
// Takes and gives A-normal form, after placement: what runs on a device stays as it is. A filter that is spread over
// more than the image, by its dilation or on a small image, has taps that read padding at every position: they go. A
// convolution of many channels whose taps are apart is a sum of products, one for each tap, at the positions where that
// tap meets the image. That leaves out what is multiplied by padding, and the weights of one product stay in the cache
// (docs/decisions/0091-convolutions-by-taps.md).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "base/value.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;

// Positions of an axis up to which it is looked at: no filter spreads over so large an image.
constexpr int64_t kMaxPositions = int64_t{1} << 16;
// Products of one tap that pay for a sum of its own in memory.
constexpr int64_t kMinDepth = 192;
// Part of the products that meet the image up to which it pays to leave out the others.
constexpr double kMaxUseful = 0.8;
// Products of all taps whose weights for a tile of columns are beyond the cache of a core.
constexpr int64_t kMinDepthBeyondCache = 4096;
// Positions that share the weights of a tap.
constexpr int64_t kMinPositions = 64;

// Neighbouring positions of one axis that read the same taps, and what they read of the image.
struct Run {
  int64_t begin = 0, end = 0;  // positions
  int64_t first_tap = 0, end_tap = 0;
  int64_t image_begin = 0, image_end = 0;
  int64_t pad_before = 0, pad_after = 0;

  int64_t count() const { return end - begin; }
  int64_t taps() const { return end_tap - first_tap; }
};

struct Axis {
  ops::Window window;
  int64_t image = 0;      // extent
  int64_t positions = 0;  // extent of the result
  Run whole;              // all positions, with the taps that meet the image anywhere
  std::vector<Run> taps;  // of `whole`, each with the positions where it meets the image

  // Returns the part of the products with taps of `whole` that meet the image.
  double Useful() const {
    double useful = 0;
    for (const Run& tap : taps) useful += static_cast<double>(tap.count());
    return useful / static_cast<double>(positions * whole.taps());
  }
};

// Returns the run with the image that its positions read.
Run Placed(Run run, const ops::Window& window, int64_t image) {
  const int64_t first = run.begin * window.stride + run.first_tap * window.dilation - window.pad_before;
  const int64_t last = (run.end - 1) * window.stride + (run.end_tap - 1) * window.dilation - window.pad_before;
  run.image_begin = std::max<int64_t>(first, 0);
  run.image_end = std::min(last + 1, image);
  run.pad_before = std::max<int64_t>(-first, 0);
  run.pad_after = std::max<int64_t>(last + 1 - image, 0);
  return run;
}

// nullopt if no tap meets the image, or one in between does not, or the axis is long.
std::optional<Axis> AxisOf(const ops::Window& window, int64_t image, int64_t positions) {
  if (positions < 1 || positions > kMaxPositions) return std::nullopt;
  Axis axis{.window = window, .image = image, .positions = positions};
  for (int64_t tap = 0; tap < window.extent; ++tap) {
    // Positions i with 0 <= i * stride + from < image.
    const int64_t from = tap * window.dilation - window.pad_before;
    const int64_t begin = from >= 0 ? 0 : (-from + window.stride - 1) / window.stride;
    const int64_t end = from >= image ? 0 : std::min(positions, (image - from + window.stride - 1) / window.stride);
    if (begin >= end) continue;
    if (!axis.taps.empty() && axis.taps.back().end_tap != tap) return std::nullopt;
    axis.taps.push_back(Placed({begin, end, tap, tap + 1}, window, image));
  }
  if (axis.taps.empty()) return std::nullopt;
  axis.whole = Placed({0, positions, axis.taps.front().first_tap, axis.taps.back().end_tap}, window, image);
  return axis;
}

// A convolution with constant filters on an image of known extents.
struct Convolution {
  const Literal* filters = nullptr;
  ops::Layout data = ops::Layout(""), kernel = ops::Layout("");
  std::vector<Axis> axes;
  bool is_by_taps = false;
};

// Returns whether the convolution is computed tap by tap.
bool PaysByTaps(const Convolution& conv, const ir::Call& call) {
  const DataType dtype = conv.filters->dtype();
  const bool is_float = dtype == kFloat32 && TensorOf(&call)->dtype.dtype == dtype;
  const int64_t depth = conv.filters->shape()[conv.kernel.axis('I')];
  if (!is_float || call.attrs.GetInt("groups") != 1 || depth < kMinDepth) return false;
  int64_t taps = 1, positions = 1;
  double useful = 1;
  bool is_apart = false;
  for (const Axis& axis : conv.axes) {
    if (axis.window.stride != 1) return false;
    taps *= axis.whole.taps();
    positions *= axis.positions;
    useful *= axis.Useful();
    is_apart |= axis.window.dilation > 1 && axis.whole.taps() > 1;
  }
  return is_apart && positions >= kMinPositions && (useful <= kMaxUseful || taps * depth >= kMinDepthBeyondCache);
}

std::optional<Convolution> Describe(const ir::Call& call) {
  const ops::OpDef* op = ir::OpCallee(&call);
  const bool is_conv = op != nullptr && (op->name == "nn.conv1d" || op->name == "nn.conv2d" || op->name == "nn.conv3d");
  if (!is_conv || call.attrs.Find(target::kDeviceAttr) != nullptr) return std::nullopt;
  Convolution conv;
  conv.filters = ConstantOf(call.args[1]);
  const ir::TensorType *image = TensorOf(call.args[0]), *result = TensorOf(&call);
  const bool is_here = DynCast<ir::VarExpr>(call.args[0]) != nullptr;
  if (conv.filters == nullptr || image == nullptr || result == nullptr || !is_here) return std::nullopt;
  conv.data = ops::Layout(call.attrs.GetString("data_layout"));
  conv.kernel = ops::Layout(call.attrs.GetString("kernel_layout"));
  const std::string given = call.attrs.GetString("out_layout");
  if (!given.empty() && given != conv.data.letters) return std::nullopt;
  std::vector<int64_t> taps;
  for (size_t axis : conv.kernel.spatial) taps.push_back(conv.filters->shape()[axis]);
  std::optional<std::vector<ops::Window>> windows = ops::MakeWindows(call.attrs, taps, nullptr);
  if (!windows || windows->size() != conv.data.spatial.size()) return std::nullopt;
  bool has_useless_taps = false;
  for (size_t k = 0; k < windows->size(); ++k) {
    const std::optional<int64_t> extent = image->shape.dims[conv.data.spatial[k]].AsConst(),
                                 positions = result->shape.dims[conv.data.spatial[k]].AsConst();
    if (!extent || !positions) return std::nullopt;
    std::optional<Axis> axis = AxisOf((*windows)[k], *extent, *positions);
    if (!axis) return std::nullopt;
    has_useless_taps |= axis->whole.taps() < axis->window.extent;
    conv.axes.push_back(*std::move(axis));
  }
  conv.is_by_taps = PaysByTaps(conv, call);
  return conv.is_by_taps || has_useless_taps ? std::optional(std::move(conv)) : std::nullopt;
}

// Makes the convolutions of one call.
class ConvolutionBuilder {
 public:
  ConvolutionBuilder(const Convolution& conv, const ir::Call& call, ir::Builder at, std::vector<Binding>& chain)
      : conv_(conv), call_(call), at_(at), chain_(chain) {}

  // Null if the filters cannot be cut.
  Expr* Build() {
    if (conv_.is_by_taps) return Sum({});
    std::vector<Run> runs;
    for (const Axis& axis : conv_.axes) runs.push_back(axis.whole);
    return Convolve(runs);
  }

 private:
  Expr* Call(std::string_view op, std::vector<Expr*> args, ir::Attrs attrs) {
    return at_.Bind("tap", ops::BuildCall(at_, op, std::move(args), std::move(attrs)), chain_);
  }

  // Returns the sum of the products of all taps, those of the first axes chosen.
  Expr* Sum(std::vector<Run> chosen) {
    if (chosen.size() == conv_.axes.size()) return Spread(Convolve(chosen), chosen);
    Expr* sum = nullptr;
    for (const Run& tap : conv_.axes[chosen.size()].taps) {
      chosen.push_back(tap);
      Expr* products = Sum(chosen);
      chosen.pop_back();
      if (products == nullptr) return nullptr;
      sum = sum == nullptr ? products : Call("add", {sum, products}, {});
    }
    return sum;
  }

  // Returns what the runs of positions give, with zeros at the others.
  Expr* Spread(Expr* products, const std::vector<Run>& runs) {
    ir::AttrValue::List widths(conv_.data.letters.size(), ir::AttrValue::List{0, 0});
    if (products == nullptr) return nullptr;
    bool is_whole = true;
    for (size_t k = 0; k < runs.size(); ++k) {
      const int64_t before = runs[k].begin, after = conv_.axes[k].positions - runs[k].end;
      widths[conv_.data.spatial[k]] = ir::AttrValue::List{before, after};
      is_whole &= before == 0 && after == 0;
    }
    if (is_whole) return products;
    return Call("nn.pad", {products, at_.Constant(Literal::Full(conv_.filters->dtype(), {}, 0))},
                {{"pad_width", std::move(widths)}});
  }

  Expr* Convolve(const std::vector<Run>& runs) {
    std::vector<int64_t> befores, afters, distances, taps, begin, end, first, last, image_axes, kernel_axes;
    bool cuts_image = false;
    for (size_t k = 0; k < runs.size(); ++k) {
      const Run& run = runs[k];
      const Axis& axis = conv_.axes[k];
      befores.push_back(run.pad_before);
      afters.push_back(run.pad_after);
      distances.push_back(run.taps() == 1 ? 1 : axis.window.dilation);
      taps.push_back(run.taps());
      image_axes.push_back(static_cast<int64_t>(conv_.data.spatial[k]));
      begin.push_back(run.image_begin);
      end.push_back(run.image_end);
      // The rest of the image, behind the last window, is not read.
      const ops::Window window{run.taps(), axis.window.stride, distances.back(), run.pad_before, run.pad_after};
      cuts_image |= run.image_begin > 0 || ops::WindowCount(axis.image, window) != Dim(run.count());
      kernel_axes.push_back(static_cast<int64_t>(conv_.kernel.spatial[k]));
      first.push_back(run.first_tap);
      last.push_back(run.end_tap);
    }
    befores.insert(befores.end(), afters.begin(), afters.end());
    const ops::OpDef* slice = ops::FindOp("strided_slice");
    const std::optional<ir::Attrs> of_taps = ops::WithDefaults(
        *slice, {{"begin", ir::IntList(first)}, {"end", ir::IntList(last)}, {"axes", ir::IntList(kernel_axes)}});
    if (!of_taps) return nullptr;
    absl::StatusOr<Value> filters = ops::EvaluateOp(*slice, *of_taps, std::vector{Value::Tensor(*conv_.filters)});
    if (!filters.ok()) return nullptr;
    Expr* image = at_.Use(ir::Cast<ir::VarExpr>(call_.args[0])->var);
    if (cuts_image) {
      image = Call("strided_slice", {image},
                   {{"begin", ir::IntList(begin)}, {"end", ir::IntList(end)}, {"axes", ir::IntList(image_axes)}});
    }
    ir::Attrs attrs = call_.attrs;
    attrs.Set("padding", ir::IntList(befores));
    attrs.Set("dilation", ir::IntList(distances));
    if (!attrs.IsNone("kernel_size")) attrs.Set("kernel_size", ir::IntList(taps));
    return Call(ir::OpCallee(&call_)->name, {image, at_.Constant(filters->tensor())}, std::move(attrs));
  }

  const Convolution& conv_;
  const ir::Call& call_;
  const ir::Builder at_;
  std::vector<Binding>& chain_;
};

class TapSplitter : public CallSplitter {
 public:
  using CallSplitter::CallSplitter;

 private:
  void Split(const ir::Call& call, std::vector<Binding>& steps) override {
    std::optional<Convolution> conv = Describe(call);
    if (conv && ConvolutionBuilder(*conv, call, At(call.span), steps).Build() == nullptr) steps.clear();
  }
};

absl::StatusOr<ir::Module> SplitTaps(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return TapSplitter(*module.arena).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kSplitTaps = {.name = "split_taps",
                         .summary = "convolutions without what is multiplied by padding, deep ones tap by tap",
                         .run = SplitTaps,
                         .needs = Form::kANormal,
                         .keeps_effect_order = true};

}  // namespace rvm::passes
