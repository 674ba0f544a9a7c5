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
  if (Has(i)) return inputs_[i];
  return Fail(absl::StrCat("input ", i, " is missing"));
}

Operands NodeContext::All() {
  if (inputs_.empty()) Fail("it has no inputs");
  Operands all;
  for (size_t i = 0; i < inputs_.size(); ++i) all.push_back(In(i));
  return all;
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
