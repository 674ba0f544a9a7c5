// Protobuf messages of ONNX models, written field by field. For tests.
#ifndef RVM_COMPILER_IMPORT_ONNX_TESTING_MODEL_WRITER_H_
#define RVM_COMPILER_IMPORT_ONNX_TESTING_MODEL_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rvm::onnx::testing {

class Message {
 public:
  Message& Number(uint32_t field, uint64_t value);
  Message& Text(uint32_t field, std::string_view value);
  Message& Sub(uint32_t field, const Message& value) { return Text(field, value.bytes()); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Message MakeNode(std::string_view op, std::vector<std::string_view> inputs, std::vector<std::string_view> outputs,
                 std::vector<Message> attributes = {});
Message IntAttribute(std::string_view name, int64_t value);
Message GraphAttribute(std::string_view name, const Message& graph);
// Returns a graph's input or output; extents are numbers or names.
Message ValueOf(std::string_view name, int32_t data_type, std::vector<std::string_view> shape);
Message Int64Tensor(std::string_view name, std::vector<int64_t> values);
Message MakeGraph(std::vector<Message> nodes, std::vector<Message> inputs, std::vector<Message> outputs,
                  std::vector<Message> initializers = {});
// Returns the bytes of a model of that graph, of opset 18.
std::string MakeModel(const Message& graph);

}  // namespace rvm::onnx::testing

#endif  // RVM_COMPILER_IMPORT_ONNX_TESTING_MODEL_WRITER_H_
