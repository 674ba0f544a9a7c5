// The attributes that convolution and pooling share.
#ifndef RVM_COMPILER_IMPORT_ONNX_WINDOWS_H_
#define RVM_COMPILER_IMPORT_ONNX_WINDOWS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx {

struct Windows {
  size_t axes = 0;  // of space
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads;               // befores, then afters
  bool is_same = false, is_lower = false;  // auto_pad: as many windows as strides fit; the odd element before
};

ir::AttrValue::List AttrList(std::span<const int64_t> values);
// "NCHW" and the like, of that many axes of space.
std::string_view ImageLayout(size_t axes);

// Reads and checks the attributes of a node whose input x is (batch, channels, space...).
Windows ReadWindows(NodeContext& c, Operand x, std::vector<int64_t> kernel);
// Makes `auto_pad` numbers in windows.pads or, where extents are not known, x padded.
Operand PadSame(NodeContext& c, Operand x, double value, Windows& windows);
// A convolution by the node's attributes, without bias.
Operand PlainConv(NodeContext& c, Operand x, Operand weight);
// ONNX's MatMul, which takes vectors too.
Operand MatrixProduct(NodeContext& c, Operand a, Operand b);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_WINDOWS_H_
