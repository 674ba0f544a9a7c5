// Elements of ONNX tensors as literals, and ONNX's numbering of dtypes.
#ifndef RVM_COMPILER_IMPORT_ONNX_TENSOR_DATA_H_
#define RVM_COMPILER_IMPORT_ONNX_TENSOR_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"
#include "compiler/import/onnx/model.h"

namespace rvm::onnx {

// Returns the dtype of that TensorProto.DataType, or nullopt: there are no strings, no complex numbers, no numbers of
// fewer than 8 bits but in constants, and of the floats of 8 bits only float8e4m3fn.
std::optional<DataType> ToDataType(int32_t data_type);
// Integers of fewer than 8 bits, and the dtype that has one in each byte; nullopt for other data types.
struct PackedDataType {
  DataType dtype;
  int64_t bits;
};
std::optional<PackedDataType> ToPackedDataType(int32_t data_type);
// "float8e4m3fn", "string"; "data type 99" where ONNX 1.22 knows none.
std::string DataTypeName(int32_t data_type);
// "strings are not supported"; what is wrong with a dtype that ToDataType does not know.
std::string UnsupportedDataType(int32_t data_type);

using importing::ExternalFiles;
using importing::FileBytes;

// Returns the elements. kInvalidArgument: they do not fit the shape; kUnimplemented: the dtype.
absl::StatusOr<Literal> ReadElements(const Tensor& tensor, const ExternalFiles& files);
absl::StatusOr<Literal> ReadElements(const SparseTensor& tensor, const ExternalFiles& files);
// Returns the bytes of integers of `bits` bits as they are stored: those of rows, if rows fill whole bytes, else a
// vector.
absl::StatusOr<Literal> ReadPackedBytes(const Tensor& tensor, int64_t bits, const ExternalFiles& files);
// Integers of `bits` bits that bytes hold, the lowest bits first, one in each byte: a vector of `count`.
std::vector<uint8_t> UnpackBits(const Literal& bytes, int64_t bits, int64_t count);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_TENSOR_DATA_H_
