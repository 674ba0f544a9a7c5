// Steps of convolution, pooling and matmul in importers of all formats.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_WINDOWS_H_
#define RVM_COMPILER_IMPORT_BLOCKS_WINDOWS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/steps.h"

namespace rvm::importing {

struct Windows {
  size_t axes = 0;  // of space
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;               // befores, then afters
  bool is_same = false, is_lower = false;  // ONNX's auto_pad: as many windows as strides fit; the odd element before
};

// "NCHW" and the like, of that many axes of space.
std::string_view ImageLayout(size_t axes);

// "NHWC" and the like.
std::string_view ChannelsLastLayout(size_t axes);

// Returns the convolution of x (batch, channels, space...) with weight (channels out, channels in of a group,
// space...). `out_dtype` is of the sums and the result; empty: that of x. `has_channels_last`: x and the result are
// (batch, space..., channels).
Operand Convolve(Steps& c, Operand x, Operand weight, const Windows& windows, int64_t groups,
                 std::string_view out_dtype = "", bool has_channels_last = false);
// Returns the same for a kernel whose extents only the running program knows: its windows are gathered first, which
// takes memory. `transposes`: weight is (channels in, channels out of a group, space...), and its space is turned
// around, as a transposed convolution wants it of an input that was dilated and padded.
Operand ConvolveGathered(Steps& c, Operand x, Operand weight, const Windows& windows, int64_t groups, bool transposes,
                         std::string_view out_dtype = "");
// For each axis of space of x in turn, two: the places of windows, and the elements of a window, of `kernel` extents.
Operand GatherWindows(Steps& c, Operand x, const Dims& kernel, const Windows& windows, bool turns = false);
// Returns x with a border, `widths` before and after each of its axes in turn.
Operand PadBy(Steps& c, Operand x, double value, const Dims& widths);
// Returns the same with a scalar of the dtype of x. `mode`: that of `nn.pad`.
Operand PadWith(Steps& c, Operand x, Operand value, const Dims& widths, std::string_view mode = "constant");
// Returns the matmul of matrices, batches of them, or vectors, as numpy has it. `out_dtype` as in Convolve.
Operand MatrixProduct(Steps& c, Operand a, Operand b, std::string_view out_dtype = "");

// ---- pooling
ir::Attrs PoolAttrs(const Windows& windows, bool ceil_mode);
std::string PoolName(std::string_view kind, const Windows& windows);  // of "max" or "avg"
// Returns the value of a border that no window takes for its greatest element.
double LeastOf(DataType dtype);
// x with a border of `value` in space.
Operand PadSpace(Steps& c, Operand x, double value, const Windows& windows);
// For each window of x, padded, its elements along a last axis.
Operand WindowElements(Steps& c, Operand x, const Windows& windows);
// Returns the numbers of the greatest elements of windows, counted in the whole input.
Operand MaxIndices(Steps& c, Operand x, const Windows& windows, bool column_major);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_WINDOWS_H_
