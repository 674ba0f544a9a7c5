#include "compiler/import/onnx/model.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "compiler/import/onnx/tensor_data.h"
#include "compiler/import/onnx/testing/model_writer.h"

namespace rvm::onnx {
namespace {

using importing::Field;
using importing::WireReader;
using importing::WireType;

using testing::Message;

Bytes AsBytes(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

absl::StatusOr<FileBytes> NoFiles(std::string_view) { return absl::NotFoundError("no such file"); }

absl::StatusOr<Literal> Elements(const Message& tensor) {
  absl::StatusOr<Tensor> read = ReadTensor(AsBytes(tensor.bytes()));
  return read.ok() ? ReadElements(*read, NoFiles) : read.status();
}

TEST(WireReader, ReadsEachTypeOfField) {
  std::string bytes = Message().Number(1, 300).Text(2, "abc").bytes() + std::string("\x1d\0\0\x80\x3f", 5);
  WireReader reader(AsBytes(bytes));
  Field field;
  ASSERT_TRUE(reader.Next(field));
  EXPECT_TRUE(field.Is(1, WireType::kVarint) && field.value == 300);
  ASSERT_TRUE(reader.Next(field));
  EXPECT_TRUE(field.Is(2, WireType::kBytes) && field.AsText() == "abc");
  ASSERT_TRUE(reader.Next(field));
  EXPECT_TRUE(field.Is(3, WireType::kFixed32) && field.AsFloat() == 1.0f);
  EXPECT_FALSE(reader.Next(field));
  EXPECT_TRUE(reader.ok());
}

TEST(WireReader, StopsWhereBytesEnd) {
  for (std::string bytes : {std::string("\x0a\x05"), std::string("\x08\xff\xff"), std::string("\x0d\x01"),
                            std::string("\x0b"), std::string(11, '\xff')}) {
    WireReader reader(AsBytes(bytes));
    Field field;
    while (reader.Next(field)) {
    }
    EXPECT_FALSE(reader.ok()) << bytes.size();
  }
}

TEST(ReadModel, ReadsGraphsInAttributes) {
  Message inner = testing::MakeGraph({testing::MakeNode("Relu", {"x"}, {"y"})}, {}, {});
  std::string bytes = testing::MakeModel(
      testing::MakeGraph({testing::MakeNode("If", {"c"}, {"z"}, {testing::GraphAttribute("then_branch", inner)})},
                         {testing::ValueOf("c", 9, {})}, {}));
  absl::StatusOr<Model> model = ReadModel(AsBytes(bytes));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->graph->nodes.size(), 1u);
  const Attribute* branch = model->graph->nodes[0].Find("then_branch");
  ASSERT_TRUE(branch != nullptr && branch->graph != nullptr);
  EXPECT_EQ(branch->graph->nodes[0].op_type, "Relu");
  EXPECT_EQ(model->operator_sets[0].version, 18);
}

TEST(ReadModel, RefusesEveryPrefix) {
  std::string bytes =
      testing::MakeModel(testing::MakeGraph({testing::MakeNode("Add", {"x", "x"}, {"y"})},
                                            {testing::ValueOf("x", 1, {"n", "3"})}, {testing::ValueOf("y", 1, {})}));
  for (size_t size = 0; size + 6 < bytes.size(); ++size) {  // the opset stands behind the graph
    std::string prefix = bytes.substr(0, size);
    EXPECT_FALSE(ReadModel(AsBytes(prefix)).ok()) << size;
  }
}

TEST(ReadModel, BoundsNesting) {
  Message graph = testing::MakeGraph({}, {}, {});
  for (int i = 0; i < 2000; ++i)
    graph = testing::MakeGraph({testing::MakeNode("If", {"c"}, {"y"}, {testing::GraphAttribute("then_branch", graph)})},
                               {}, {});
  std::string bytes = testing::MakeModel(graph);
  EXPECT_EQ(ReadModel(AsBytes(bytes)).status().message(), "graphs are nested more than 33 deep");
}

TEST(ReadElements, ReadsNumbersAndRawBytes) {
  absl::StatusOr<Literal> numbers = Elements(testing::Int64Tensor("t", {1, -2, 3}));
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->IntAt(1), -2);
  absl::StatusOr<Literal> raw = Elements(Message().Number(1, 2).Number(2, 3).Text(9, std::string("\x05\xff", 2)));
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_EQ(raw->IntAt(1), -1);
}

TEST(ReadElements, RefusesWhatDoesNotFit) {
  struct {
    Message tensor;
    std::string_view message;
  } cases[] = {
      {Message().Number(1, 3).Number(2, 3).Text(9, "ab").Text(8, "w"),
       "tensor `w` of shape (3) has 2 bytes of elements"},
      {Message().Number(1, uint64_t{1} << 62).Number(1, 16).Number(2, 1).Text(8, "w"),
       "tensor `w` of shape (4611686018427387904, 16) has 0 elements"},
      {Message().Number(1, 1).Number(2, 8), "strings, which Relay has not"},
      {Message().Number(1, 1).Number(2, 19), "dtype float8e5m2, which Relay has not"},
      {Message().Number(1, 1).Number(2, 9).Text(9, "\x02"), "a tensor of bools has an element that is neither 0 nor 1"},
  };
  for (const auto& [tensor, message] : cases) EXPECT_EQ(std::string(Elements(tensor).status().message()), message);
}

}  // namespace
}  // namespace rvm::onnx
