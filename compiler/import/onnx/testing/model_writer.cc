#include "compiler/import/onnx/testing/model_writer.h"

namespace rvm::onnx::testing {
namespace {

void AppendVarint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

}  // namespace

Message& Message::Number(uint32_t field, uint64_t value) {
  AppendVarint(bytes_, uint64_t{field} << 3);
  AppendVarint(bytes_, value);
  return *this;
}

Message& Message::Text(uint32_t field, std::string_view value) {
  AppendVarint(bytes_, uint64_t{field} << 3 | 2);
  AppendVarint(bytes_, value.size());
  bytes_ += value;
  return *this;
}

Message MakeNode(std::string_view op, std::vector<std::string_view> inputs, std::vector<std::string_view> outputs,
                 std::vector<Message> attributes) {
  Message node;
  for (std::string_view input : inputs) node.Text(1, input);
  for (std::string_view output : outputs) node.Text(2, output);
  node.Text(4, op);
  for (const Message& attribute : attributes) node.Sub(5, attribute);
  return node;
}

Message IntAttribute(std::string_view name, int64_t value) {
  return Message().Text(1, name).Number(3, static_cast<uint64_t>(value)).Number(20, 2);
}

Message GraphAttribute(std::string_view name, const Message& graph) {
  return Message().Text(1, name).Sub(6, graph).Number(20, 5);
}

Message ValueOf(std::string_view name, int32_t data_type, std::vector<std::string_view> shape) {
  Message dims;
  for (std::string_view extent : shape) {
    bool is_number = extent.find_first_not_of("0123456789") == std::string_view::npos;
    dims.Sub(1, is_number ? Message().Number(1, std::stoull(std::string(extent))) : Message().Text(2, extent));
  }
  Message tensor = Message().Number(1, static_cast<uint64_t>(data_type)).Sub(2, dims);
  return Message().Text(1, name).Sub(2, Message().Sub(1, tensor));
}

Message Int64Tensor(std::string_view name, std::vector<int64_t> values) {
  Message tensor;
  tensor.Number(1, values.size()).Number(2, 7);
  for (int64_t value : values) tensor.Number(7, static_cast<uint64_t>(value));
  return tensor.Text(8, name);
}

Message MakeGraph(std::vector<Message> nodes, std::vector<Message> inputs, std::vector<Message> outputs,
                  std::vector<Message> initializers) {
  Message graph;
  for (const Message& node : nodes) graph.Sub(1, node);
  for (const Message& tensor : initializers) graph.Sub(5, tensor);
  for (const Message& input : inputs) graph.Sub(11, input);
  for (const Message& output : outputs) graph.Sub(12, output);
  return graph;
}

std::string MakeModel(const Message& graph) {
  return Message().Number(1, 8).Sub(7, graph).Sub(8, Message().Number(2, 18)).bytes();
}

}  // namespace rvm::onnx::testing
