#include "compiler/import/onnx/model.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rvm::onnx {
namespace {

using importing::Field;
using importing::WireReader;
using importing::WireType;

// A reader of protobuf's own refuses more than 100 messages in each other; a graph in a graph is three.
constexpr int kMaxGraphDepth = 33;
constexpr size_t kMaxTypeDepth = 8;

using enum WireType;

bool ReadTensorFields(Bytes bytes, Tensor& tensor) {
  tensor.message = bytes;
  WireReader reader(bytes);
  Field field;
  bool ok = true;
  while (ok && reader.Next(field)) {
    if (field.number == 1)
      ok = ForEachNumber(field, 0, [&](uint64_t v) { tensor.dims.push_back(static_cast<int64_t>(v)); });
    if (field.Is(2, kVarint)) tensor.data_type = static_cast<int32_t>(field.value);
    if (field.Is(8, kBytes)) tensor.name = field.AsText();
    if (field.Is(14, kVarint)) tensor.is_external = field.value == 1;
  }
  return ok && reader.ok();
}

bool ReadShape(Bytes bytes, TypeInfo& type) {
  type.has_shape = true;
  WireReader reader(bytes);
  Field field;
  while (reader.Next(field)) {
    if (!field.Is(1, kBytes)) continue;
    Dimension dimension;
    WireReader dim(field.bytes);
    Field part;
    while (dim.Next(part)) {
      if (part.Is(1, kVarint)) dimension.value = part.AsInt();
      if (part.Is(2, kBytes)) dimension.param = part.AsText();
    }
    if (!dim.ok()) return false;
    type.shape.push_back(dimension);
  }
  return reader.ok();
}

bool ReadTensorType(Bytes bytes, TypeInfo& type) {
  WireReader reader(bytes);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kVarint)) type.data_type = static_cast<int32_t>(field.value);
    if (field.Is(2, kBytes) && !ReadShape(field.bytes, type)) return false;
  }
  return reader.ok();
}

bool ReadType(Bytes bytes, TypeInfo& type) {
  for (;;) {
    WireReader reader(bytes);
    Field field;
    Bytes element;
    TypeForm wrapper = TypeForm::kUnknown;
    while (reader.Next(field)) {
      if (field.type != kBytes) continue;
      switch (field.number) {
        case 1:
        case 8:
          type.form = field.number == 1 ? TypeForm::kTensor : TypeForm::kSparseTensor;
          if (!ReadTensorType(field.bytes, type)) return false;
          break;
        case 5: type.form = TypeForm::kMap; break;
        case 7: type.form = TypeForm::kOpaque; break;
        case 4:
        case 9:
          wrapper = field.number == 4 ? TypeForm::kSequence : TypeForm::kOptional;
          element = field.bytes;
          break;
        default: break;
      }
    }
    if (!reader.ok()) return false;
    if (wrapper == TypeForm::kUnknown) return true;
    if (type.wrappers.size() == kMaxTypeDepth) return false;
    type.wrappers.push_back(wrapper);
    // Field 1 of a sequence or an optional type is the type of its elements.
    WireReader inner(element);
    bytes = {};
    while (inner.Next(field)) {
      if (field.Is(1, kBytes)) bytes = field.bytes;
    }
    if (!inner.ok()) return false;
  }
}

bool ReadValueInfo(Bytes bytes, ValueInfo& value) {
  WireReader reader(bytes);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kBytes)) value.name = field.AsText();
    if (field.Is(2, kBytes) && !ReadType(field.bytes, value.type)) return false;
  }
  return reader.ok();
}

bool ReadOperatorSet(Bytes bytes, OperatorSet& set) {
  WireReader reader(bytes);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kBytes)) set.domain = field.AsText();
    if (field.Is(2, kVarint)) set.version = field.AsInt();
  }
  if (set.domain == "ai.onnx") set.domain = "";
  return reader.ok();
}

// Reads messages into a model; what is wrong first is in `error`.
class Reader {
 public:
  explicit Reader(Model& model) : model_(model) {}

  absl::Status ReadModel(Bytes bytes) {
    WireReader reader(bytes);
    Field field;
    while (reader.Next(field)) {
      if (field.Is(1, kVarint)) model_.ir_version = field.AsInt();
      if (field.type != kBytes) continue;
      bool ok = true;
      switch (field.number) {
        case 2: model_.producer = field.AsText(); break;
        case 7: ok = (model_.graph = ReadGraph(field.bytes)) != nullptr; break;
        case 8: ok = ReadOperatorSet(field.bytes, model_.operator_sets.emplace_back()); break;
        case 25: ok = ReadFunction(field.bytes, model_.functions.emplace_back()); break;
        default: break;
      }
      if (!ok) return Malformed();
    }
    if (!reader.ok()) return Malformed();
    if (model_.graph == nullptr) return absl::InvalidArgumentError("this is no ONNX model: it has no graph");
    return absl::OkStatus();
  }

 private:
  absl::Status Malformed() const {
    return absl::InvalidArgumentError(error_.empty() ? "this is no ONNX model, or it is cut off" : error_);
  }

  bool ReadAttribute(Bytes bytes, Attribute& attribute) {
    attribute.message = bytes;
    WireReader reader(bytes);
    Field field;
    AttributeType seen = AttributeType::kUndefined;
    while (reader.Next(field)) {
      switch (field.number) {
        case 1:
          if (field.type == kBytes) attribute.name = field.AsText();
          break;
        case 21:
          if (field.type == kBytes) attribute.referenced = field.AsText();
          break;
        case 20:
          if (field.type == kVarint) attribute.type = static_cast<AttributeType>(field.value);
          break;
        case 6:
          if (field.type != kBytes) return false;
          attribute.graph = ReadGraph(field.bytes);
          if (attribute.graph == nullptr) return false;
          seen = AttributeType::kGraph;
          break;
        case 2: seen = AttributeType::kFloat; break;
        case 3: seen = AttributeType::kInt; break;
        case 4: seen = AttributeType::kString; break;
        case 5: seen = AttributeType::kTensor; break;
        case 7: seen = AttributeType::kFloats; break;
        case 8: seen = AttributeType::kInts; break;
        case 9: seen = AttributeType::kStrings; break;
        default: break;
      }
    }
    // Files of the first versions of the format do not name the type.
    if (attribute.type == AttributeType::kUndefined) attribute.type = seen;
    return reader.ok();
  }

  bool ReadNode(Bytes bytes, Node& node) {
    WireReader reader(bytes);
    Field field;
    while (reader.Next(field)) {
      if (field.type != kBytes) continue;
      switch (field.number) {
        case 1: node.inputs.push_back(field.AsText()); break;
        case 2: node.outputs.push_back(field.AsText()); break;
        case 3: node.name = field.AsText(); break;
        case 4: node.op_type = field.AsText(); break;
        case 5:
          if (!ReadAttribute(field.bytes, node.attributes.emplace_back())) return false;
          break;
        case 7: node.domain = field.AsText(); break;
        case 8: node.overload = field.AsText(); break;
        default: break;
      }
    }
    if (node.domain == "ai.onnx") node.domain = "";
    if (reader.ok() && node.op_type.empty()) error_ = "a node of the model names no operator";
    return reader.ok() && !node.op_type.empty();
  }

  bool ReadSparseTensor(Bytes bytes, SparseTensor& tensor) {
    WireReader reader(bytes);
    Field field;
    bool ok = true;
    while (ok && reader.Next(field)) {
      if (field.Is(1, kBytes)) ok = ReadTensorFields(field.bytes, tensor.values);
      if (field.Is(2, kBytes)) ok = ReadTensorFields(field.bytes, tensor.indices);
      if (field.number == 3)
        ok = ForEachNumber(field, 0, [&](uint64_t v) { tensor.dims.push_back(static_cast<int64_t>(v)); });
    }
    return ok && reader.ok();
  }

  const Graph* ReadGraph(Bytes bytes) {
    if (depth_ == kMaxGraphDepth) {
      error_ = absl::StrCat("graphs are nested more than ", kMaxGraphDepth, " deep");
      return nullptr;
    }
    ++depth_;
    Graph& graph = model_.graphs.emplace_back();
    bool ok = ReadGraphFields(bytes, graph);
    --depth_;
    return ok ? &graph : nullptr;
  }

  bool ReadGraphFields(Bytes bytes, Graph& graph) {
    WireReader reader(bytes);
    Field field;
    bool ok = true;
    while (ok && reader.Next(field)) {
      if (field.type != kBytes) continue;
      switch (field.number) {
        case 1: ok = ReadNode(field.bytes, graph.nodes.emplace_back()); break;
        case 2: graph.name = field.AsText(); break;
        case 5: ok = ReadTensorFields(field.bytes, graph.initializers.emplace_back()); break;
        case 11: ok = ReadValueInfo(field.bytes, graph.inputs.emplace_back()); break;
        case 12: ok = ReadValueInfo(field.bytes, graph.outputs.emplace_back()); break;
        case 13: ok = ReadValueInfo(field.bytes, graph.values.emplace_back()); break;
        case 15: ok = ReadSparseTensor(field.bytes, graph.sparse_initializers.emplace_back()); break;
        default: break;
      }
    }
    return ok && reader.ok();
  }

  bool ReadFunction(Bytes bytes, Function& function) {
    WireReader reader(bytes);
    Field field;
    bool ok = true;
    while (ok && reader.Next(field)) {
      if (field.type != kBytes) continue;
      switch (field.number) {
        case 1: function.name = field.AsText(); break;
        case 4: function.inputs.push_back(field.AsText()); break;
        case 5: function.outputs.push_back(field.AsText()); break;
        case 6: function.attributes.push_back(field.AsText()); break;
        case 7: ok = ReadNode(field.bytes, function.nodes.emplace_back()); break;
        case 9: ok = ReadOperatorSet(field.bytes, function.operator_sets.emplace_back()); break;
        case 10: function.domain = field.AsText(); break;
        case 11: ok = ReadAttribute(field.bytes, function.default_attributes.emplace_back()); break;
        case 13: function.overload = field.AsText(); break;
        default: break;
      }
    }
    if (function.domain == "ai.onnx") function.domain = "";
    return ok && reader.ok();
  }

  Model& model_;
  int depth_ = 0;
  std::string error_;
};

// The last field of that number, as protobuf has it.
std::optional<Field> LastField(Bytes message, uint32_t number, WireType type) {
  WireReader reader(message);
  Field field;
  std::optional<Field> last;
  while (reader.Next(field)) {
    if (field.Is(number, type)) last = field;
  }
  return last;
}

}  // namespace

float Attribute::Float() const {
  std::optional<Field> field = LastField(message, 2, kFixed32);
  return field ? field->AsFloat() : 0;
}

int64_t Attribute::Int() const {
  std::optional<Field> field = LastField(message, 3, kVarint);
  return field ? field->AsInt() : 0;
}

std::string_view Attribute::Text() const {
  std::optional<Field> field = LastField(message, 4, kBytes);
  return field ? field->AsText() : std::string_view();
}

std::vector<float> Attribute::Floats() const {
  std::vector<float> values;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.number != 7) continue;
    ForEachNumber(field, 4, [&](uint64_t v) { values.push_back(Field{.value = v}.AsFloat()); });
  }
  return values;
}

std::vector<int64_t> Attribute::Ints() const {
  std::vector<int64_t> values;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.number == 8) ForEachNumber(field, 0, [&](uint64_t v) { values.push_back(static_cast<int64_t>(v)); });
  }
  return values;
}

std::vector<std::string_view> Attribute::Texts() const {
  std::vector<std::string_view> values;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(9, kBytes)) values.push_back(field.AsText());
  }
  return values;
}

std::optional<Tensor> Attribute::Tensor() const {
  std::optional<Field> field = LastField(message, 5, kBytes);
  onnx::Tensor tensor;
  if (!field || !ReadTensorFields(field->bytes, tensor)) return std::nullopt;
  return tensor;
}

std::optional<TypeInfo> Attribute::Type() const {
  std::optional<Field> field = LastField(message, 14, kBytes);
  TypeInfo type;
  if (!field || !ReadType(field->bytes, type)) return std::nullopt;
  return type;
}

const Attribute* Node::Find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

absl::StatusOr<Model> ReadModel(Bytes bytes) {
  Model model;
  if (absl::Status status = Reader(model).ReadModel(bytes); !status.ok()) return status;
  return model;
}

absl::StatusOr<Tensor> ReadTensor(Bytes bytes) {
  Tensor tensor;
  if (!ReadTensorFields(bytes, tensor)) return absl::InvalidArgumentError("this is no ONNX tensor, or it is cut off");
  return tensor;
}

}  // namespace rvm::onnx
