// The attributes of ONNX that convolution and pooling share.
#ifndef RVM_COMPILER_IMPORT_ONNX_WINDOWS_H_
#define RVM_COMPILER_IMPORT_ONNX_WINDOWS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/windows.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx {

using importing::ImageLayout;
using importing::Windows;

// Reads and checks the attributes of a node whose input x is (batch, channels, space...).
Windows ReadWindows(NodeContext& c, Operand x, std::vector<int64_t> kernel);
// Returns the extents of a kernel; those that its attribute says and its type does not are checked when the program
// runs.
Dims KernelExtents(NodeContext& c, Operand& weight);
// Makes `auto_pad` numbers in windows.pads or, where extents are not known, x padded.
Operand PadSame(NodeContext& c, Operand x, double value, Windows& windows);
// Returns the same for a kernel of these extents, which may be unknown. `value`: a scalar of the dtype of x.
Operand PadSame(NodeContext& c, Operand x, Operand value, const Dims& kernel, Windows& windows);
// Returns a convolution by the node's attributes, without bias. `out_dtype` as in Convolve. `border`: what x is padded
// with, a scalar of its dtype; null: 0.
Operand PlainConv(NodeContext& c, Operand x, Operand weight, std::string_view out_dtype = "", Operand border = nullptr);

// Returns the averages of windows of x, by the node's attributes.
Operand AveragePooled(NodeContext& c, Operand x);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_WINDOWS_H_
