// Parts of convolutions, pooling and products that floats and integers share.
#ifndef RVM_COMPILER_IMPORT_TFLITE_LAYERS_H_
#define RVM_COMPILER_IMPORT_TFLITE_LAYERS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {

// Windows over the height and the width of images.
struct Window {
  std::array<int64_t, 2> kernel{}, strides{1, 1}, dilations{1, 1};
  Dims borders;  // widths of the border: those before both axes, and then those behind

  bool HasBorder() const;
};

// Reads the window of a pooling node; a mistake, and nullopt, if it makes no sense.
std::optional<Window> ReadPool(NodeContext& c);
// Returns the attributes of pooling; a mistake if the border is not known.
ir::Attrs PoolAttrs(NodeContext& c, const Window& window);

// Returns the extents of filters of rank 4; a mistake, and nullopt, if they are not known.
std::optional<std::array<int64_t, 4>> FilterShape(NodeContext& c, Operand filters);

// A convolution node. The filters of a depthwise one are (1, height, width, channels), else (channels out, height,
// width, channels in).
struct Convolution {
  Window window;
  bool is_depthwise = false;
  int64_t groups = 1, channels = 1, depth = 1;  // depth: products in a sum
};
std::optional<Convolution> ReadConvolution(NodeContext& c, bool is_depthwise);
// Returns x convolved with the filters of the node, around which x is padded with `border`.
Operand Convolve(NodeContext& c, const Convolution& convolution, Operand x, Operand filters, double border,
                 std::string_view out_dtype = "");

// A transposed convolution of x (batch, height, width, channels) with filters (channels out, height, width, channels
// in), in the shape that input 0 says.
Operand ConvolveTransposed(NodeContext& c, Operand x, Operand filters, std::string_view out_dtype = "");

// Returns x as rows of FULLY_CONNECTED with weights of that depth: a matrix unless the node keeps the axes.
Operand RowsOf(NodeContext& c, Operand x, int64_t depth);

// For each place of an axis of a resized image, the place that it is read from, and, from LinearTaps, a second one with
// its weight in 1024ths.
struct Taps {
  std::vector<int64_t> first, second, weights;
};
Taps NearestTaps(int64_t from, int64_t to, bool aligns, bool is_half);
Taps LinearTaps(int64_t from, int64_t to, bool aligns, bool is_half);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_LAYERS_H_
