// How `channels_last` computes a convolution, for those who measure one apart from its network.
#ifndef RVM_COMPILER_PASSES_LAYOUTS_CHANNELS_LAST_H_
#define RVM_COMPILER_PASSES_LAYOUTS_CHANNELS_LAST_H_

#include <array>
#include <cstdint>
#include <optional>

#include "compiler/ir/attrs.h"
#include "compiler/ir/expr.h"

namespace rvm::passes {

// A network has so many convolutions; the layout of fewer is that of what is around them.
inline constexpr int64_t kMinConvolutionsOfNetwork = 2;
// The axes of NCHW in the order of NHWC.
inline constexpr std::array<int64_t, 4> kAxesOfNhwc = {0, 2, 3, 1};

// Returns the attributes with which the pass computes an operator of a network: a 2D convolution on an image in NHWC,
// or in NCHW with a result in NHWC, if the image has few channels and is not there in NHWC. nullopt: it stays as it is.
std::optional<ir::Attrs> WithChannelsLast(const ir::Call& convolution, bool has_image_in_last);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_LAYOUTS_CHANNELS_LAST_H_
