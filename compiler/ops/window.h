// Layouts and windows: what convolutions and poolings share.
#ifndef RVM_COMPILER_OPS_WINDOW_H_
#define RVM_COMPILER_OPS_WINDOW_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Axes of a tensor by letter: "NCHW", "OHWI". Spatial axes come in the order D, H, W.
struct Layout {
  std::string letters;
  std::vector<size_t> spatial;

  explicit Layout(std::string text);
  size_t axis(char letter) const { return letters.find(letter); }
};

// The windows of one spatial axis.
struct Window {
  int64_t extent = 1;  // taps
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0, pad_after = 0;
  int64_t span() const { return (extent - 1) * dilation + 1; }
};

// How many windows fit `input`; with `ceil_mode` the last one may hang over, but not begin in the padding behind it.
Dim WindowCount(const Dim& input, const Window& window, bool ceil_mode = false);

// Windows from the attributes `strides`, `dilation`, `padding` (one number, one per axis, or all
// befores then all afters) for taps of `extents`. nullopt after an error was reported, if `context` is given.
std::optional<std::vector<Window>> MakeWindows(const ir::Attrs& attrs, const std::vector<int64_t>& extents,
                                               TypeContext* context);

// `values` as one per axis: a list of one is repeated.
std::vector<int64_t> PerAxis(std::vector<int64_t> values, size_t axes);

// The attribute `name`, a pair [before, after] for each of `count` axes, not negative unless that is allowed; nullopt
// if it is none.
std::optional<std::vector<std::pair<int64_t, int64_t>>> PadWidths(const ir::Attrs& attrs, std::string_view name,
                                                                  size_t count, bool may_be_negative = false);

// Checks that `layout` has exactly the letters of `expected` (an order of them).
bool CheckLayout(TypeContext& context, const std::string& layout, std::string_view expected, std::string_view attr);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_WINDOW_H_
