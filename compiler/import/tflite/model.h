// Contents of a .tflite file, with all numbers of tensors and buffers checked.
#ifndef RVM_COMPILER_IMPORT_TFLITE_MODEL_H_
#define RVM_COMPILER_IMPORT_TFLITE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "compiler/import/flatbuffer.h"
#include "compiler/import/tflite/sparse.h"

namespace rvm::tflite {

using importing::Bytes;
using importing::flatbuffer::Buffer;
using importing::flatbuffer::Table;

struct Tensor {
  std::string_view name;
  std::vector<int64_t> shape;  // -1: an unknown extent
  int type = 0;                // of the enumeration TensorType
  Bytes data;                  // empty: no constant
  bool is_variable = false;
  std::vector<float> scales;  // of a quantised tensor: one, or one for each position of `axis`
  std::vector<int64_t> zero_points;
  int64_t axis = 0;
  std::optional<Sparsity> sparsity;  // of a constant: which elements `data` has
};

struct Node {
  std::string op;                        // "CONV_2D", "CUSTOM.Name"; "operator 250" where its number is not known
  std::vector<int32_t> inputs, outputs;  // numbers of tensors; -1: left out
  Table options;
  Bytes custom;  // options of a custom operator
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<int32_t> inputs, outputs;
  std::vector<Node> nodes;
};

// A graph that the model offers as a function.
struct Signature {
  std::string_view name;
  size_t graph = 0;
  std::map<int32_t, std::string_view> names;  // of inputs and outputs, by the numbers of their tensors
};

struct Model {
  // Without signatures the first one is the model. Others are bodies of control flow.
  std::vector<Graph> graphs;
  std::vector<Signature> signatures;
};

// kInvalidArgument where the bytes are no model. `buffer` must outlive the model.
absl::StatusOr<Model> ReadModel(Buffer& buffer);

// The elements of constants of 4 bits are read as int8.
constexpr int kInt4 = 17;

// Returns nullopt for types that Relay has not.
std::optional<DataType> ToDataType(int type);
// "complex64"; "type 99" where it is not known.
std::string TypeName(int type);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_MODEL_H_
