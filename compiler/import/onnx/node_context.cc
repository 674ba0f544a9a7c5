#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx {
NodeContext::NodeContext(Importer& importer, const Node& node, Scope& scope, const OperatorRow& row, int64_t opset)
    : Steps(importer.emit_), importer_(importer), node_(node), scope_(scope), row_(row), opset_(opset) {
  for (std::string_view input : node.inputs) inputs_.push_back(input.empty() ? nullptr : scope.Find(input));
}

// ---- inputs

Operand NodeContext::In(size_t i) {
  if (!Has(i)) return Fail(absl::StrCat("input ", i, " is missing"));
  if (inputs_[i]->packed) {
    const PackedForm form = *inputs_[i]->packed;
    Operand codes = Op("unpack_bits", {inputs_[i]}, {{"bits", form.bits}});
    if (form.is_signed()) codes = Sub(Cast(codes, kInt8), emit().Integer(int64_t{1} << (form.bits - 1), kInt8));
    codes->stored_bits = form.bits;
    inputs_[i] = codes;
  }
  return inputs_[i];
}

Operand NodeContext::InBytes(size_t i) {
  if (!Has(i) || !inputs_[i]->packed) return In(i);
  const PackedForm form = *inputs_[i]->packed;
  const Literal& bytes = *inputs_[i]->constant;
  Shape shape = bytes.shape();
  shape.back() *= 8 / form.bits;
  std::vector<uint8_t> codes = UnpackBits(bytes, form.bits, bytes.num_elements() * (8 / form.bits));
  const int half = form.is_signed() ? 1 << (form.bits - 1) : 0;
  for (uint8_t& code : codes) code = static_cast<uint8_t>(code - half);
  inputs_[i] = emit().Constant(Literal::FromBytes(form.dtype, std::move(shape), std::as_bytes(std::span(codes))),
                               inputs_[i]->name);
  inputs_[i]->stored_bits = form.bits;
  return inputs_[i];
}

namespace {

// Returns the bytes of the transpose of a matrix of integers of `bits` bits; null if its rows do not fill whole bytes.
std::optional<Literal> TurnedBits(const Literal& bytes, int64_t bits) {
  const int64_t in_byte = 8 / bits;
  if (bytes.rank() != 2 || bytes.shape()[0] % in_byte != 0) return std::nullopt;
  const auto rows = static_cast<size_t>(bytes.shape()[0]), columns = static_cast<size_t>(bytes.shape()[1] * in_byte);
  std::vector<uint8_t> codes = UnpackBits(bytes, bits, static_cast<int64_t>(rows * columns));
  std::vector<uint8_t> turned(codes.size() / static_cast<size_t>(in_byte), 0);
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = column * rows + row, shift = at % static_cast<size_t>(in_byte) * static_cast<size_t>(bits);
      uint8_t& byte = turned[at / static_cast<size_t>(in_byte)];
      byte = static_cast<uint8_t>(byte | codes[row * columns + column] << shift);
    }
  }
  Shape shape = {static_cast<int64_t>(columns), bytes.shape()[0] / in_byte};
  return Literal::FromValues<uint8_t>(kUInt8, std::move(shape), turned);
}

}  // namespace

Operand NodeContext::Wide(size_t i, bool sums_columns) {
  if (!Has(i) || !inputs_[i]->packed) return Cast(In(i), kInt32);
  const PackedForm form = *inputs_[i]->packed;
  Operand bytes = inputs_[i];
  std::optional<Literal> turned = sums_columns ? TurnedBits(*bytes->constant, form.bits) : std::nullopt;
  if (turned) bytes = emit().Constant(*std::move(turned), absl::StrCat(bytes->name, "_turned"));
  Operand codes = Cast(Op("unpack_bits", {bytes}, {{"bits", form.bits}}), kInt32);
  if (form.is_signed()) codes = Sub(codes, emit().Integer(int64_t{1} << (form.bits - 1), kInt32));
  constexpr int64_t kTurned[] = {1, 0};
  return turned ? Transpose(codes, kTurned) : codes;
}

Operands NodeContext::All() {
  if (inputs_.empty()) Fail("it has no inputs");
  Operands all;
  for (size_t i = 0; i < inputs_.size(); ++i) all.push_back(In(i));
  return all;
}

bool NodeContext::OutputExtentIsOfInput(size_t output, size_t input, size_t axis) const {
  if (output >= node_.outputs.size() || input >= node_.inputs.size()) return false;
  auto find = [&](const std::vector<ValueInfo>& values, std::string_view name) -> const Dimension* {
    for (const ValueInfo& value : values) {
      if (value.name == name) return axis < value.type.shape.size() ? &value.type.shape[axis] : nullptr;
    }
    return nullptr;
  };
  const Dimension* from = find(importer_.model_.graph->inputs, node_.inputs[input]);
  const Dimension* to = find(importer_.model_.graph->outputs, node_.outputs[output]);
  if (from == nullptr || to == nullptr) return false;
  return from->value ? from->value == to->value : !from->param.empty() && from->param == to->param;
}

// ---- attributes

const Attribute* NodeContext::Find(std::string_view name) const {
  const Attribute* found = node_.Find(name);
  // In a function's body an attribute may be that of the call, which may be that of a call in turn.
  const Scope* scope = &scope_;
  while (found != nullptr && !found->referenced.empty()) {
    while (scope != nullptr && scope->call == nullptr) scope = scope->outer;
    if (scope == nullptr) return nullptr;
    std::string_view wanted = found->referenced;
    found = scope->call->Find(wanted);
    for (const Attribute& standard : scope->function->default_attributes) {
      if (found == nullptr && standard.name == wanted) return &standard;
    }
    scope = scope->call_scope;
  }
  return found;
}

int64_t NodeContext::Int(std::string_view name, int64_t otherwise) const {
  const Attribute* attribute = Find(name);
  return attribute == nullptr ? otherwise : attribute->Int();
}

double NodeContext::Float(std::string_view name, double otherwise) const {
  const Attribute* attribute = Find(name);
  return attribute == nullptr ? otherwise : attribute->Float();
}

std::string NodeContext::Text(std::string_view name, std::string_view otherwise) const {
  const Attribute* attribute = Find(name);
  return std::string(attribute == nullptr ? otherwise : attribute->Text());
}

std::vector<int64_t> NodeContext::Ints(std::string_view name) const {
  const Attribute* attribute = Find(name);
  return attribute == nullptr ? std::vector<int64_t>() : attribute->Ints();
}

std::vector<float> NodeContext::Floats(std::string_view name) const {
  const Attribute* attribute = Find(name);
  return attribute == nullptr ? std::vector<float>() : attribute->Floats();
}

std::vector<std::string_view> NodeContext::Texts(std::string_view name) const {
  const Attribute* attribute = Find(name);
  return attribute == nullptr ? std::vector<std::string_view>() : attribute->Texts();
}

std::optional<Literal> NodeContext::TensorAttr(std::string_view name) {
  const Attribute* attribute = Find(name);
  std::optional<Tensor> tensor = attribute == nullptr ? std::nullopt : attribute->Tensor();
  if (!tensor) return std::nullopt;
  absl::StatusOr<Literal> literal = ReadElements(*tensor, importer_.options_.files);
  if (literal.ok()) return *std::move(literal);
  emit().Fail(literal.status());
  return std::nullopt;
}

Operand NodeContext::PackedAttr(std::string_view name) {
  const Attribute* attribute = Find(name);
  std::optional<Tensor> tensor = attribute == nullptr ? std::nullopt : attribute->Tensor();
  std::optional<PackedDataType> type = tensor ? ToPackedDataType(tensor->data_type) : std::nullopt;
  if (!type) return nullptr;
  absl::StatusOr<Operand> constant = importer_.PackedConstant(*tensor, *type);
  if (constant.ok()) return *constant;
  emit().Fail(constant.status());
  return emit().Placeholder();
}

const Graph* NodeContext::GraphAttr(std::string_view name) {
  const Attribute* attribute = Find(name);
  if (attribute != nullptr && attribute->graph != nullptr) return attribute->graph;
  Fail(absl::StrCat("its attribute `", std::string(name), "` is missing"));
  return nullptr;
}

DataType NodeContext::DTypeAttr(std::string_view name, DataType otherwise) {
  if (!HasAttr(name)) return otherwise;
  int32_t number = static_cast<int32_t>(Int(name, 0));
  if (std::optional<DataType> dtype = ToDataType(number)) return *dtype;
  Unsupported(UnsupportedDataType(number));
  return otherwise;
}

// ---- subgraphs

Operands NodeContext::Body(const Graph& graph, const Operands& inputs) { return importer_.Body(graph, inputs, scope_); }

}  // namespace rvm::onnx
