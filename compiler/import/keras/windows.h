// Windows: the extents of convolutions and pooling, with the border that Keras' padding means.
#ifndef RVM_COMPILER_IMPORT_KERAS_WINDOWS_H_
#define RVM_COMPILER_IMPORT_KERAS_WINDOWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/keras/importer.h"

namespace rvm::keras {

struct Windows {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;  // before all axes, then behind them
  std::string data_layout;    // "NHWC"
  size_t axes() const { return kernel.size(); }
  // Returns the axis of x that axis `i` of space is.
  int64_t AxisOf(size_t i) const { return static_cast<int64_t>(i) + (data_layout[1] == 'C' ? 2 : 1); }
};

// Returns the letters of that many axes of space: "HW".
std::string SpaceLetters(size_t axes);
// Returns "NHWC" or "NCHW", as the layer's data format says.
std::string DataLayout(const LayerContext& c, size_t axes);

// Reads the windows of a layer from the members of its config: the kernel from `kernel`, and the padding of x.
// `strides_are_kernel`: strides are those extents where the config has none. A mistake if they do not fit x.
Windows ReadWindows(LayerContext& c, Operand x, size_t axes, std::string_view kernel, bool strides_are_kernel = false);
// Sets the border that `padding` means for x: "valid", "same" or "causal". Only strides above 1 need known extents.
void SetPadding(LayerContext& c, Operand x, std::string_view padding, Windows& windows);

// Returns the convolution of x with a kernel (space..., channels of a group, channels out), without a bias.
Operand Convolved(LayerContext& c, Operand x, Operand kernel, const Windows& windows, int64_t groups);
// Returns x with a vector added along its channels; x itself for a null vector.
Operand WithBias(LayerContext& c, Operand x, Operand bias, std::string_view layout);

}  // namespace rvm::keras

#endif  // RVM_COMPILER_IMPORT_KERAS_WINDOWS_H_
