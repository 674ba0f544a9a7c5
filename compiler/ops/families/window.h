// Layouts and sliding windows of convolutions and poolings.
#ifndef RVM_COMPILER_OPS_FAMILIES_WINDOW_H_
#define RVM_COMPILER_OPS_FAMILIES_WINDOW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// The axes of a tensor by letter: "NCHW", "OHWI". `spatial` has the axes D, H, W in this order.
struct Layout {
  std::string letters;
  std::vector<size_t> spatial;

  explicit Layout(std::string text);
  size_t axis(char letter) const { return letters.find(letter); }
};

// Returns whether argument 1 of the operator is filters, with axes as `kernel_layout` names them.
bool TakesFilters(std::string_view op);

// The windows of one spatial axis.
struct Window {
  int64_t extent = 1;  // taps
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0, pad_after = 0;
  int64_t span() const { return (extent - 1) * dilation + 1; }
};

// Returns the number of windows that fit `input`. With `ceil_mode` the last one may extend past the end, but not begin
// in the padding after it.
Dim WindowCount(const Dim& input, const Window& window, bool ceil_mode = false);

// Windows from the attributes `strides`, `dilation`, `padding` (one number, one per axis, or all
// befores then all afters) for taps of `extents`. nullopt if they do not fit; reports an error if `context` is not
// null. Padding below 0 fits only if `may_be_negative`.
std::optional<std::vector<Window>> MakeWindows(const ir::Attrs& attrs, const std::vector<int64_t>& extents,
                                               TypeContext* context, bool may_be_negative = false);

// `values` as one per axis: a list of one is repeated.
std::vector<int64_t> PerAxis(std::vector<int64_t> values, size_t axes);

// Returns the attribute `name`, a pair [before, after] for each of `count` axes; nullopt if it is anything else, or has
// a negative number that is not allowed.
std::optional<std::vector<std::pair<int64_t, int64_t>>> PadWidths(const ir::Attrs& attrs, std::string_view name,
                                                                  size_t count, bool may_be_negative = false);

// Requires `layout` to be a permutation of `expected`.
bool CheckLayout(TypeContext& context, const std::string& layout, std::string_view expected, std::string_view attr);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_WINDOW_H_
