// Computes transposed convolutions with constant filters as ordinary ones, whose results interleave.
//
// Takes and gives A-normal form, after placement: what runs on a device stays as it is. Along an axis of stride s, the
// results at positions q * s + r, a phase, are an ordinary convolution: with the taps j * s + (r + pad) % s, in reverse
// order, of the data that begin at q + (r + pad) / s. Neighbouring phases with equal numbers of taps and equal
// beginnings are one convolution, with channels for each phase. Along an axis of stride 1 there is one phase.
//
// The operator itself computes all phases with windows of one size, and rows that its padding cuts off. It stays where
// the filters are computed (docs/decisions/0040-phases-are-convolutions.md).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/dim.h"
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

// More convolutions than that are not made of one.
constexpr size_t kMaxParts = 9;

// Neighbouring phases of one axis that are one convolution.
struct Phases {
  int64_t count = 1;
  int64_t first_tap = 0;  // of the first phase; those of the next begin one further
  int64_t step = 1;       // from one tap of a phase to the next
  int64_t taps = 1;
  int64_t distance = 1;  // dilation of the convolution
  int64_t pad_before = 0, pad_after = 0;
};

struct Axis {
  int64_t count = 1;  // of phases
  Dim extent;         // of the result
  std::vector<Phases> phases;
};

// Attributes of a call, of data and results of layout NC..., filters of layout IO....
struct Transposed {
  const Literal* filters = nullptr;
  std::vector<Axis> axes;
  int64_t groups = 1;
  std::string op;      // the ordinary convolution
  std::string layout;  // of the images: "NCHW", "NHWC" and the like
  bool has_channels_last() const { return layout.ends_with('C'); }
  // Returns the number of the axis of space `k`.
  size_t SpaceAxis(size_t k) const { return k + (has_channels_last() ? 1 : 2); }

  bool is_ordinary() const {
    return std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.count == 1; });
  }
};

// Returns the phases of an axis; nullopt if one has no taps, or begins within the data or ends there.
std::optional<Axis> PhasesOf(const ops::Window& window, const Dim& data, const Dim& out) {
  Axis axis{.extent = out};
  // One element never meets another, as if the stride were larger.
  int64_t stride = data == Dim(1) ? std::max(window.stride, window.extent) : window.stride;
  if (stride > window.extent || (stride > 1 && window.dilation != 1)) return std::nullopt;
  axis.count = std::min(stride, out.AsConst().value_or(stride));
  if (axis.count < 1) return std::nullopt;
  Dim positions = FloorDiv(out + (stride - 1), stride);
  for (int64_t r = 0; r < axis.count; ++r) {
    int64_t tap = (r + window.pad_before) % stride, begin = (r + window.pad_before) / stride;
    Phases phase{.first_tap = tap, .step = stride, .distance = window.dilation};
    phase.taps = (window.extent - tap + stride - 1) / stride;
    phase.pad_before = (phase.taps - 1) * window.dilation - begin;
    Dim pad_after = positions + begin - data;
    if (!pad_after.is_const() || pad_after.constant() < 0 || phase.pad_before < 0) return std::nullopt;
    phase.pad_after = pad_after.constant();
    bool joins = !axis.phases.empty() && axis.phases.back().taps == phase.taps &&
                 axis.phases.back().pad_before == phase.pad_before &&
                 axis.phases.back().first_tap + axis.phases.back().count == tap;
    joins ? (void)++axis.phases.back().count : axis.phases.push_back(phase);
  }
  return axis;
}

std::optional<Transposed> Describe(const ir::Call& call) {
  const ops::OpDef* op = ir::OpCallee(&call);
  std::string letters;
  Transposed conv;
  for (const char* axes : {"W", "HW", "DHW"}) {
    std::string ordinary = absl::StrCat("nn.conv", std::strlen(axes), "d");
    if (op != nullptr && op->name == ordinary + "_transpose") letters = axes, conv.op = ordinary;
  }
  if (letters.empty()) return std::nullopt;
  const ir::Attrs& attrs = call.attrs;
  const auto* filters = DynCast<ir::Constant>(call.args[1]);
  const ir::TensorType *data = TensorOf(call.args[0]), *out = TensorOf(&call);
  bool is_here = attrs.Find(target::kDeviceAttr) == nullptr && DynCast<ir::VarExpr>(call.args[0]) != nullptr;
  if (filters == nullptr || data == nullptr || out == nullptr || !is_here) return std::nullopt;
  const std::string out_layout = attrs.GetString("out_layout");
  conv.layout = attrs.GetString("data_layout");
  if ((conv.layout != "NC" + letters && conv.layout != "N" + letters + "C") ||
      (!out_layout.empty() && out_layout != conv.layout) || attrs.GetString("kernel_layout") != "IO" + letters) {
    return std::nullopt;
  }
  conv.filters = &filters->literal;
  conv.groups = attrs.GetInt("groups");
  const Shape& shape = conv.filters->shape();
  std::optional<std::vector<ops::Window>> windows = ops::MakeWindows(attrs, {shape.begin() + 2, shape.end()}, nullptr);
  if (!windows) return std::nullopt;
  size_t parts = 1;
  for (size_t k = 0; k < windows->size(); ++k) {
    std::optional<Axis> axis =
        PhasesOf((*windows)[k], data->shape.dims[conv.SpaceAxis(k)], out->shape.dims[conv.SpaceAxis(k)]);
    if (!axis) return std::nullopt;
    parts *= axis->phases.size();
    conv.axes.push_back(*std::move(axis));
  }
  return parts <= kMaxParts ? std::optional(std::move(conv)) : std::nullopt;
}

// Returns the filters (I, O / groups, taps...) of some phases, as (O * phases, I / groups, taps...) of an ordinary
// convolution.
Literal FiltersOf(const Transposed& conv, const std::vector<Phases>& phases) {
  const Shape& from = conv.filters->shape();
  int64_t inputs = from[0] / conv.groups, outputs = from[1], count = 1;
  Shape shape = {conv.groups * outputs, inputs};
  for (const Phases& axis : phases) count *= axis.count, shape.push_back(axis.taps);
  shape[0] *= count;
  int64_t bytes = conv.filters->dtype().bytes(), taps = 1, window = 1;
  for (size_t k = 0; k < phases.size(); ++k) taps *= phases[k].taps, window *= from[k + 2];
  // The place of a tap in a window of the transposed convolution, by phase and then by tap.
  std::vector<int64_t> places;
  for (int64_t phase = 0; phase < count; ++phase) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t place = 0, stride = 1, rest_of_phase = phase, rest_of_tap = tap;
      for (size_t k = phases.size(); k-- > 0;) {
        const Phases& axis = phases[k];
        int64_t reversed = axis.taps - 1 - rest_of_tap % axis.taps;
        place += (axis.first_tap + rest_of_phase % axis.count + reversed * axis.step) * stride;
        stride *= from[k + 2];
        rest_of_phase /= axis.count;
        rest_of_tap /= axis.taps;
      }
      places.push_back(place);
    }
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(NumElements(shape).value_or(0) * bytes);
  std::byte* to = buffer->data();
  for (int64_t group = 0; group < conv.groups; ++group) {
    for (int64_t output = 0; output < outputs; ++output) {
      for (int64_t phase = 0; phase < count; ++phase) {
        for (int64_t input = 0; input < inputs; ++input) {
          const std::byte* windows =
              conv.filters->data() + ((group * inputs + input) * outputs + output) * window * bytes;
          for (int64_t tap = 0; tap < taps; ++tap, to += bytes) {
            int64_t place = places[static_cast<size_t>(phase * taps + tap)];
            std::memcpy(to, windows + place * bytes, static_cast<size_t>(bytes));
          }
        }
      }
    }
  }
  return Literal(conv.filters->dtype(), std::move(shape), buffer);
}

// Makes the convolutions of one call.
class PhaseBuilder {
 public:
  PhaseBuilder(const Transposed& conv, const ir::Call& call, ir::Builder at, std::vector<Binding>& chain)
      : conv_(conv), call_(call), at_(at), chain_(chain) {}

  Expr* Run() {
    if (conv_.is_ordinary()) {
      std::vector<Phases> only;
      for (const Axis& axis : conv_.axes) only.push_back(axis.phases[0]);
      return Convolve(only);
    }
    // Each axis of positions, with its phases behind it, becomes one.
    std::vector<int64_t> shape(conv_.SpaceAxis(0), 0);
    shape.resize(conv_.SpaceAxis(conv_.axes.size()), -3);
    if (conv_.has_channels_last()) shape.push_back(0);
    return Cut(Call("reshape", {Join({})}, {{"newshape", ir::IntList(shape)}}));
  }

 private:
  Expr* Call(std::string_view op, std::vector<Expr*> args, ir::Attrs attrs) {
    return at_.Bind("phases", ops::BuildCall(at_, op, std::move(args), std::move(attrs)), chain_);
  }

  // Returns the results of the chosen phases of the first axes and of all phases of the others, of shape (N, C,
  // positions, phases, positions, phases, ...), or with C last.
  Expr* Join(std::vector<Phases> chosen) {
    if (chosen.size() == conv_.axes.size()) return Spread(Convolve(chosen), chosen);
    std::vector<Expr*> parts;
    const auto axis = static_cast<int64_t>(conv_.SpaceAxis(2 * chosen.size()) + 1);  // of these phases
    for (const Phases& phases : conv_.axes[chosen.size()].phases) {
      chosen.push_back(phases);
      parts.push_back(Join(chosen));
      chosen.pop_back();
    }
    if (parts.size() == 1) return parts[0];
    return Call("concatenate", {at_.Tuple(std::move(parts))}, {{"axis", axis}});
  }

  Expr* Convolve(const std::vector<Phases>& phases) {
    std::vector<int64_t> befores, afters, distances;
    for (const Phases& axis : phases) {
      befores.push_back(axis.pad_before);
      afters.push_back(axis.pad_after);
      distances.push_back(axis.distance);
    }
    befores.insert(befores.end(), afters.begin(), afters.end());
    ir::Attrs attrs = {{"padding", ir::IntList(befores)},
                       {"dilation", ir::IntList(distances)},
                       {"groups", conv_.groups},
                       {"data_layout", conv_.layout},
                       {"out_dtype", *call_.attrs.Find("out_dtype")}};
    Expr* filters = at_.Constant(FiltersOf(conv_, phases));
    return Call(conv_.op, {at_.Use(ir::Cast<ir::VarExpr>(call_.args[0])->var), filters}, std::move(attrs));
  }

  // (N, C * phases, positions...) with axes for phases, each behind that of its positions; or the same with C last.
  Expr* Spread(Expr* sums, const std::vector<Phases>& phases) {
    int64_t first = conv_.groups * conv_.filters->shape()[1], rest = 1;
    for (const Phases& axis : phases) rest *= axis.count;
    const auto axes = static_cast<int64_t>(phases.size());
    const int64_t channels = conv_.has_channels_last() ? 1 + axes : 1;
    // The axes of phases are behind that of the channels.
    const int64_t space = conv_.has_channels_last() ? 1 : 2 + axes;
    std::vector<int64_t> order = {0};
    if (!conv_.has_channels_last()) order.push_back(channels);
    for (int64_t k = 0; k < axes; ++k) {
      // Takes the first part of the axis of channels, then of the phases of all axes from k on.
      std::vector<int64_t> shape(static_cast<size_t>(channels + k), 0);
      shape.insert(shape.end(), {-4, first, rest, -2});
      sums = Call("reshape", {sums}, {{"newshape", ir::IntList(shape)}});
      first = phases[static_cast<size_t>(k)].count;
      rest /= first;
      order.push_back(space + k);
      order.push_back(channels + 1 + k);
    }
    if (conv_.has_channels_last()) order.push_back(channels);
    return Call("transpose", {sums}, {{"axes", ir::IntList(order)}});
  }

  // Drops what the last positions have beyond the result.
  Expr* Cut(Expr* joined) {
    std::vector<int64_t> begin, end, axes;
    for (size_t k = 0; k < conv_.axes.size(); ++k) {
      const Axis& axis = conv_.axes[k];
      if (FloorMod(axis.extent, axis.count) == Dim(0)) continue;
      if (!axis.extent.is_const()) return joined;  // of another type than the call
      begin.push_back(0);
      end.push_back(axis.extent.constant());
      axes.push_back(static_cast<int64_t>(conv_.SpaceAxis(k)));
    }
    if (axes.empty()) return joined;
    return Call("strided_slice", {joined},
                {{"begin", ir::IntList(begin)}, {"end", ir::IntList(end)}, {"axes", ir::IntList(axes)}});
  }

  const Transposed& conv_;
  const ir::Call& call_;
  const ir::Builder at_;
  std::vector<Binding>& chain_;
};

class PhaseSplitter : public CallSplitter {
 public:
  using CallSplitter::CallSplitter;

 private:
  void Split(const ir::Call& call, std::vector<Binding>& steps) override {
    std::optional<Transposed> conv = Describe(call);
    if (conv) PhaseBuilder(*conv, call, At(call.span), steps).Run();
  }
};

absl::StatusOr<ir::Module> SplitPhases(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return PhaseSplitter(*module.arena).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kSplitPhases = {.name = "split_phases",
                           .summary = "ordinary convolutions in place of transposed ones",
                           .run = SplitPhases,
                           .needs = Form::kANormal,
                           .keeps_effect_order = true};

}  // namespace rvm::passes
