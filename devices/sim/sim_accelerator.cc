#include "devices/sim/sim_accelerator.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "devices/sim/plan_product.h"
#include "devices/sim/plan_steps.h"
#include "devices/sim/tile_function.h"
#include "serialization/device_contract.h"

namespace rvm::target {
namespace {

constexpr std::string_view kProducts[] = {"nn.dense",  "nn.batch_matmul", "nn.conv1d",        "nn.conv2d",
                                          "nn.conv3d", "qnn.dense",       "qnn.batch_matmul", "qnn.conv2d"};
constexpr std::string_view kCast[] = {"cast"};
constexpr std::string_view kMean[] = {"nn.global_avg_pool2d"};
constexpr std::string_view kView[] = {"nn.batch_flatten", "reshape", "squeeze"};
constexpr std::string_view kBias[] = {"nn.bias_add", "add"};
constexpr std::string_view kRequantize[] = {"qnn.requantize"};
constexpr std::string_view kDequantize[] = {"qnn.dequantize"};
constexpr std::string_view kResidual[] = {"qnn.add"};
constexpr std::string_view kBound[] = {"maximum", "minimum", "clip", "nn.relu"};

// A layer of a quantised network, up to the sum with another branch.
constexpr PatternStep kLayer[] = {{kProducts},    {kBias, true},     {kRequantize, true},
                                  {kBound, true}, {kResidual, true}, {kBound, true}};
// The last layer, whose result is real numbers.
constexpr PatternStep kLastLayer[] = {{kProducts}, {kBias, true}, {kDequantize}};
// The mean of an image, of bytes.
constexpr PatternStep kMeanOfImage[] = {{kCast}, {kMean}, {kView, true}, {kCast, true}};
constexpr PatternStep kRescaledMean[] = {{kCast}, {kMean}, {kView, true}, {kRequantize}};

constexpr Pattern kPatterns[] = {
    {"layer", kLayer}, {"last_layer", kLastLayer}, {"mean", kMeanOfImage}, {"rescaled_mean", kRescaledMean}};

// Returns the extents of the product's result: those of the composite's, with the axes that views left out.
std::optional<Dims> DimsOfProduct(const Composite& composite, size_t product) {
  Dims dims = composite.calls.back().dims;
  for (size_t i = composite.calls.size(); i-- > product + 1;) {
    if (!IsView(composite.calls[i])) continue;
    const Dims& before = composite.calls[i - 1].dims;
    std::optional<std::vector<size_t>> axes = AxesOfView(before, composite.calls[i].dims);
    if (!axes) return std::nullopt;
    Dims whole(before.size(), Dim(1));
    for (size_t axis = 0; axis < axes->size(); ++axis) whole[(*axes)[axis]] = dims[axis];
    dims = std::move(whole);
  }
  return dims;
}

// Returns the function that computes the composite; nullopt if the accelerator has none.
std::optional<TileFunction> Plan(const Composite& composite) {
  size_t calls = NumCallsOfProduct(composite);
  if (composite.calls.size() < calls) return std::nullopt;
  std::optional<Dims> dims = DimsOfProduct(composite, calls - 1);
  if (!dims || dims->size() != composite.calls[calls - 1].dims.size()) return std::nullopt;
  std::optional<TileFunction> function = PlanProduct(composite, *dims);
  if (!function || !PlanSteps(composite, calls, *function) || !FitsBounds(*function)) return std::nullopt;
  const CompositeCall& last = composite.calls.back();
  function->result.argument = composite.num_arguments;
  function->result.dtype = last.dtype;
  function->result.dims = last.dims;
  for (Place& place : function->result.places) place.may_broadcast = false;
  return function;
}

class SimCode : public AcceleratorCode {
 public:
  absl::Status Add(uint32_t kernel, const Composite& composite) override {
    std::optional<TileFunction> function = Plan(composite);
    if (!function) return absl::UnimplementedError("its extents are not known");
    // Behind the arguments, the result and the workspace.
    RVM_ASSIGN_OR_RETURN(std::string text, WriteTileFunction(*function, device_contract::FunctionName(kernel, 0),
                                                             composite.num_arguments + 2));
    text_ += text;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<uint8_t>> Finish() override { return std::vector<uint8_t>(text_.begin(), text_.end()); }

 private:
  std::string text_;
};

}  // namespace

std::span<const Pattern> SimAccelerator::patterns() const { return kPatterns; }
bool SimAccelerator::Accepts(const Composite& composite) const { return Plan(composite).has_value(); }
std::unique_ptr<AcceleratorCode> SimAccelerator::NewCode() const { return std::make_unique<SimCode>(); }

}  // namespace rvm::target
