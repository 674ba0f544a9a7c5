// The operations of programs of loops (kernels/loops/program.h) as expressions of OpenCL C 1.2.
//
// Values have the OpenCL C type of their dtype; 16-bit floats compute in float, a bool is an int that is 0 or 1.
#ifndef RVM_COMPILER_LOWERING_OPENCL_EXPRESSION_H_
#define RVM_COMPILER_LOWERING_OPENCL_EXPRESSION_H_

#include <cstdint>
#include <string>

#include "base/data_type.h"
#include "base/dim.h"
#include "base/scalar_op.h"

namespace rvm::lowering {

const char* OpenClType(DataType dtype);        // of a value
const char* OpenClMemoryType(DataType dtype);  // of an element

// Returns a Dim over the parameters s0, s1, ..., in parentheses where needed; long.
std::string OpenClDim(const Dim& dim);
// `bits`: an integer, or the bits of a double.
std::string OpenClConstant(DataType dtype, int64_t bits);
// Returns the element whose bits are the low ones of a ulong.
std::string OpenClFromBits(DataType dtype, const std::string& bits);
std::string OpenClLoad(DataType dtype, const std::string& buffer, const std::string& at);
std::string OpenClStore(DataType dtype, const std::string& buffer, const std::string& at, const std::string& value);

// `dtype`: of the operands.
std::string OpenClUnary(UnaryOp op, DataType dtype, const std::string& x);
std::string OpenClBinary(BinaryOp op, DataType dtype, const std::string& x, const std::string& y);
std::string OpenClCast(DataType from, DataType to, const std::string& x);
// Returns whether OpenClBinary converts float operands to double.
bool ComputesInFloat64(BinaryOp op, DataType dtype);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_OPENCL_EXPRESSION_H_
