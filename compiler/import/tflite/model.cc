#include "compiler/import/tflite/model.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::tflite {
namespace {

// Numbers of fields in TensorFlow Lite's schema, by table.
struct ModelField {
  static constexpr int kCodes = 1, kGraphs = 2, kBuffers = 4, kSignatures = 7;
};
struct CodeField {
  static constexpr int kOld = 0, kCustom = 1, kCode = 3;
};
struct GraphField {
  static constexpr int kTensors = 0, kInputs = 1, kOutputs = 2, kNodes = 3;
};
struct TensorField {
  static constexpr int kShape = 0, kType = 1, kBuffer = 2, kName = 3, kQuantization = 4, kIsVariable = 5, kSparsity = 6,
                       kSignature = 7;
};
struct QuantizationField {
  static constexpr int kScale = 2, kZeroPoint = 3, kAxis = 6;
};
struct SparsityField {
  static constexpr int kOrder = 0, kBlockMap = 1, kLevels = 2;
};
struct LevelField {
  static constexpr int kIsSparse = 0, kExtent = 1, kSegmentsType = 2, kSegments = 3, kIndicesType = 4, kIndices = 5;
};
struct NodeField {
  static constexpr int kCode = 0, kInputs = 1, kOutputs = 2, kOptions = 4, kCustom = 5, kOptions2 = 12;
};
struct SignatureField {
  static constexpr int kInputs = 0, kOutputs = 1, kKey = 2, kGraph = 4;
};
struct NameField {
  static constexpr int kName = 0, kTensor = 1;
};
struct BufferField {
  static constexpr int kData = 0, kOffset = 1, kSize = 2;
};

constexpr std::string_view kOperators[] = {
#define RVM_TFLITE_OPERATOR(name) #name,
#include "compiler/import/tflite/operators.def"
#undef RVM_TFLITE_OPERATOR
};
constexpr int kCustom = 32;
constexpr size_t kMaxName = 100;  // of a custom operator

struct TypeRow {
  std::string_view name;
  std::optional<DataType> dtype;
};
constexpr TypeRow kTypes[] = {{"float32", kFloat32}, {"float16", kFloat16}, {"int32", kInt32},      {"uint8", kUInt8},
                              {"int64", kInt64},     {"string", {}},        {"bool", kBool},        {"int16", kInt16},
                              {"complex64", {}},     {"int8", kInt8},       {"float64", kFloat64},  {"complex128", {}},
                              {"uint64", kUInt64},   {"resource", {}},      {"variant", {}},        {"uint32", kUInt32},
                              {"uint16", kUInt16},   {"int4", kInt8},       {"bfloat16", kBFloat16}};

std::string OperatorName(const Table& code) {
  // Old files have the number in a byte; new ones in both, if it fits there.
  const int number = std::max<int>(code.Number<int8_t>(CodeField::kOld, 0), code.Number<int32_t>(CodeField::kCode, 0));
  if (number == kCustom) return absl::StrCat("CUSTOM.", Abseil(code.Text(CodeField::kCustom).substr(0, kMaxName)));
  if (number < 0 || number >= static_cast<int>(std::size(kOperators))) return absl::StrCat("operator ", number);
  return std::string(kOperators[number]);
}

class ModelReader {
 public:
  explicit ModelReader(Buffer& buffer) : buffer_(buffer), root_(&buffer, buffer.Follow(0)) {}

  absl::StatusOr<Model> Read() {
    const std::vector<Table> codes = root_.Children(ModelField::kCodes);
    for (const Table& code : codes) names_.push_back(OperatorName(code));
    buffers_ = root_.Children(ModelField::kBuffers);
    Model model;
    for (const Table& graph : root_.Children(ModelField::kGraphs)) {
      model.graphs.push_back(ReadGraph(graph));
      if (buffer_.is_malformed || !mistake_.empty()) break;
    }
    if (buffer_.is_malformed) return absl::InvalidArgumentError("an offset of the file leads outside of it");
    if (!mistake_.empty()) return absl::InvalidArgumentError(mistake_);
    if (model.graphs.empty()) return absl::InvalidArgumentError("the file has no graph");
    ReadSignatures(model);
    if (buffer_.is_malformed) return absl::InvalidArgumentError("an offset of the file leads outside of it");
    if (!mistake_.empty()) return absl::InvalidArgumentError(mistake_);
    return model;
  }

 private:
  Graph ReadGraph(const Table& table) {
    Graph graph;
    for (const Table& tensor : table.Children(GraphField::kTensors)) {
      graph.tensors.push_back(ReadTensor(tensor));
      if (!mistake_.empty()) return graph;
    }
    graph.inputs = Numbers(table, GraphField::kInputs, graph);
    graph.outputs = Numbers(table, GraphField::kOutputs, graph);
    for (const Table& table_of_node : table.Children(GraphField::kNodes)) {
      const uint32_t code = table_of_node.Number<uint32_t>(NodeField::kCode, 0);
      if (code >= names_.size()) {
        mistake_ = absl::StrCat("an operator is number ", code, " of a list of ", names_.size());
        return graph;
      }
      const Table options = table_of_node.Child(NodeField::kOptions);
      graph.nodes.push_back({names_[code], Numbers(table_of_node, NodeField::kInputs, graph),
                             Numbers(table_of_node, NodeField::kOutputs, graph),
                             options ? options : table_of_node.Child(NodeField::kOptions2),
                             table_of_node.Elements(NodeField::kCustom, 1)});
      if (!mistake_.empty()) return graph;
    }
    return graph;
  }

  // Empty names, and those of no tensor, are left out.
  void ReadSignatures(Model& model) {
    for (const Table& table : root_.Children(ModelField::kSignatures)) {
      Signature& signature = model.signatures.emplace_back();
      signature.name = table.Text(SignatureField::kKey);
      signature.graph = table.Number<uint32_t>(SignatureField::kGraph, 0);
      if (signature.graph >= model.graphs.size()) {
        mistake_ = absl::StrCat("a signature is of graph ", signature.graph, " of ", model.graphs.size());
        return;
      }
      for (int field : {SignatureField::kInputs, SignatureField::kOutputs}) {
        for (const Table& named : table.Children(field)) {
          const auto tensor = named.Number<uint32_t>(NameField::kTensor, 0);
          const std::string_view name = named.Text(NameField::kName);
          if (tensor >= model.graphs[signature.graph].tensors.size() || name.empty()) continue;
          signature.names.try_emplace(static_cast<int32_t>(tensor), name);
        }
      }
    }
  }

  std::vector<int32_t> Numbers(const Table& table, int field, const Graph& graph) {
    std::vector<int32_t> numbers = table.Numbers<int32_t>(field);
    for (int32_t number : numbers) {
      if (number >= -1 && number < static_cast<int64_t>(graph.tensors.size())) continue;
      mistake_ = absl::StrCat("a tensor is number ", number, " of a list of ", graph.tensors.size());
    }
    return numbers;
  }

  Tensor ReadTensor(const Table& table) {
    Tensor tensor;
    tensor.name = table.Text(TensorField::kName);
    for (int32_t extent : table.Numbers<int32_t>(TensorField::kShape)) tensor.shape.push_back(extent);
    // The signature has the unknown extents, which are 1 in the shape.
    const std::vector<int32_t> signature = table.Numbers<int32_t>(TensorField::kSignature);
    if (signature.size() == tensor.shape.size()) tensor.shape.assign(signature.begin(), signature.end());
    tensor.type = table.Number<int8_t>(TensorField::kType, 0);
    tensor.is_variable = table.Number<uint8_t>(TensorField::kIsVariable, 0) != 0;
    tensor.data = Data(table.Number<uint32_t>(TensorField::kBuffer, 0));
    if (const Table quantization = table.Child(TensorField::kQuantization)) {
      tensor.scales = quantization.Numbers<float>(QuantizationField::kScale);
      tensor.zero_points = quantization.Numbers<int64_t>(QuantizationField::kZeroPoint);
      tensor.zero_points.resize(tensor.scales.size(), 0);
      tensor.axis = quantization.Number<int32_t>(QuantizationField::kAxis, 0);
    }
    if (const Table sparsity = table.Child(TensorField::kSparsity)) tensor.sparsity = ReadSparsity(sparsity);
    return tensor;
  }

  static Sparsity ReadSparsity(const Table& table) {
    Sparsity sparsity;
    for (int32_t axis : table.Numbers<int32_t>(SparsityField::kOrder)) sparsity.order.push_back(axis);
    for (int32_t axis : table.Numbers<int32_t>(SparsityField::kBlockMap)) sparsity.block_map.push_back(axis);
    for (const Table& level : table.Children(SparsityField::kLevels)) {
      sparsity.levels.push_back({.is_sparse = level.Number<int8_t>(LevelField::kIsSparse, 0) != 0,
                                 .extent = level.Number<int32_t>(LevelField::kExtent, 0),
                                 .segments = Indices(level, LevelField::kSegmentsType, LevelField::kSegments),
                                 .indices = Indices(level, LevelField::kIndicesType, LevelField::kIndices)});
    }
    return sparsity;
  }

  // A union of vectors of int32, uint16 and uint8.
  static std::vector<int64_t> Indices(const Table& level, int type, int field) {
    std::vector<int64_t> indices;
    const Table vector = level.Child(field);
    if (!vector) return indices;
    auto append = [&](const auto& numbers) { indices.assign(numbers.begin(), numbers.end()); };
    const auto kind = level.Number<uint8_t>(type, 0);
    if (kind == 1) append(vector.Numbers<int32_t>(0));
    if (kind == 2) append(vector.Numbers<uint16_t>(0));
    if (kind == 3) append(vector.Numbers<uint8_t>(0));
    return indices;
  }

  // Number 0 is the empty buffer of tensors without data. Large data stands behind the tables.
  Bytes Data(uint32_t number) {
    if (number == 0) return {};
    if (number >= buffers_.size()) {
      mistake_ = absl::StrCat("a buffer is number ", number, " of a list of ", buffers_.size());
      return {};
    }
    const Table& table = buffers_[number];
    const Bytes inside = table.Elements(BufferField::kData, 1);
    const auto offset = table.Number<uint64_t>(BufferField::kOffset, 0),
               size = table.Number<uint64_t>(BufferField::kSize, 0);
    if (!inside.empty() || offset <= 1) return inside;
    const uint64_t all = buffer_.bytes.size();
    if (offset > all || size > all - offset) {
      buffer_.is_malformed = true;
      return {};
    }
    return buffer_.bytes.subspan(offset, size);
  }

  Buffer& buffer_;
  Table root_;
  std::vector<Table> buffers_;
  std::vector<std::string> names_;
  std::string mistake_;
};

}  // namespace

absl::StatusOr<Model> ReadModel(Buffer& buffer) {
  constexpr std::string_view kIdentifier = "TFL3";
  const Bytes bytes = buffer.bytes;
  if (bytes.size() < 8 || !std::equal(kIdentifier.begin(), kIdentifier.end(), bytes.begin() + 4)) {
    return absl::InvalidArgumentError("no TensorFlow Lite model: bytes 4 to 7 are not `TFL3`");
  }
  return ModelReader(buffer).Read();
}

std::optional<DataType> ToDataType(int type) {
  return type < 0 || type >= static_cast<int>(std::size(kTypes)) ? std::nullopt : kTypes[type].dtype;
}

std::string TypeName(int type) {
  return type < 0 || type >= static_cast<int>(std::size(kTypes)) ? absl::StrCat("type ", type)
                                                                 : std::string(kTypes[type].name);
}

}  // namespace rvm::tflite
