#include "compiler/import/onnx/import.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/import/onnx/testing/model_writer.h"
#include "compiler/text/printer.h"

namespace rvm::onnx {
namespace {

using namespace testing;  // NOLINT: the words that models are made of

absl::StatusOr<importing::FileBytes> NoFiles(std::string_view) { return absl::NotFoundError("no such file"); }

absl::StatusOr<ImportedModel> ImportGraph(const Message& graph, ImportOptions options = {}) {
  std::string bytes = MakeModel(graph);
  options.files = NoFiles;
  return Import({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options);
}

std::string TextOf(const Message& graph, ImportOptions options = {}) {
  absl::StatusOr<ImportedModel> model = ImportGraph(graph, std::move(options));
  return model.ok() ? text::PrintModule(model->module) : std::string(model.status().message());
}

TEST(Import, KeepsTheNamesOfExtents) {
  std::string text =
      TextOf(MakeGraph({MakeNode("MatMul", {"x", "w"}, {"y"})},
                       {ValueOf("x", 1, {"batch", "8"}), ValueOf("w", 1, {"8", "4"})}, {ValueOf("y", 1, {})}));
  EXPECT_NE(text.find("%x: Tensor[(batch, 8), float32]"), std::string::npos) << text;
}

// x.reshape(x.shape[0], -1) leaves no arithmetic behind.
TEST(Import, ComputesShapesWhileImporting) {
  Message graph = MakeGraph(
      {MakeNode("Shape", {"x"}, {"s"}), MakeNode("Gather", {"s", "zero"}, {"n"}),
       MakeNode("Concat", {"n", "rest"}, {"t"}, {IntAttribute("axis", 0)}), MakeNode("Reshape", {"x", "t"}, {"y"})},
      {ValueOf("x", 1, {"n", "3", "5"})}, {ValueOf("y", 1, {})}, {Int64Tensor("zero", {0}), Int64Tensor("rest", {-1})});
  std::string text = TextOf(graph);
  EXPECT_NE(text.find("reshape(%x, newshape=[0, 15])"), std::string::npos) << text;
  EXPECT_EQ(text.find("shape_of"), std::string::npos) << text;
}

// (batch * time, 16) made of (batch, time, 16), and back: products of extents are divided by their factors.
TEST(Import, DividesProductsOfExtents) {
  Message graph = MakeGraph(
      {MakeNode("Shape", {"x"}, {"s"}), MakeNode("Gather", {"s", "zero"}, {"n"}),
       MakeNode("Gather", {"s", "one"}, {"t"}), MakeNode("Mul", {"n", "t"}, {"nt"}),
       MakeNode("Concat", {"nt", "rest"}, {"flat"}, {IntAttribute("axis", 0)}),
       MakeNode("Reshape", {"x", "flat"}, {"y"}), MakeNode("MatMul", {"y", "w"}, {"z"}),
       MakeNode("Concat", {"n", "rest", "four"}, {"deep"}, {IntAttribute("axis", 0)}),
       MakeNode("Reshape", {"z", "deep"}, {"r"})},
      {ValueOf("x", 1, {"n", "t", "16"}), ValueOf("w", 1, {"16", "8"})}, {ValueOf("r", 1, {})},
      {Int64Tensor("zero", {0}), Int64Tensor("one", {1}), Int64Tensor("rest", {-1}), Int64Tensor("four", {4})});
  std::string text = TextOf(graph);
  EXPECT_NE(text.find("reshape(%x, newshape=[-1, 16])"), std::string::npos) << text;
  EXPECT_EQ(text.find("floor_divide"), std::string::npos) << text;
}

TEST(Import, FitsGivenValuesToTheirInputs) {
  Message graph = MakeGraph({MakeNode("Mul", {"x", "factor"}, {"y"})},
                            {ValueOf("x", 1, {"n"}), ValueOf("factor", 1, {"1"})}, {ValueOf("y", 1, {})});
  ImportOptions options;
  auto give = [&](Literal value) {
    options.frozen["factor"] = std::move(value);
    return TextOf(graph, options);
  };
  EXPECT_NE(give(Literal::ScalarInt(kInt64, 3)).find("Constant([3f], (1), float32)"), std::string::npos)
      << TextOf(graph, options);
  EXPECT_EQ(give(Literal::ScalarInt(kBool, 1)), "the value given to input `factor`: saw bool; expected float32");
  EXPECT_EQ(give(Literal::Full(kFloat32, {2}, 1)),
            "the value given to input `factor`: saw the shape (2); expected the shape (1)");
}

TEST(Import, RefusesShapesOfWrongExtents) {
  Message graph = MakeGraph({MakeNode("Relu", {"x"}, {"y"})}, {ValueOf("x", 1, {"n"})}, {ValueOf("y", 1, {})});
  for (std::string extent : {"", "-3", "1.5", "99999999999999999999", "a b", "n +", "+ n", "2 n", "n + 1)"}) {
    ImportOptions options;
    options.shapes["x"] = {extent};
    EXPECT_EQ(TextOf(graph, options), "the shape given to input `x`: saw the extent `" + extent +
                                          "`; expected a number, a name, an expression such as `n + 1`, or `?`");
  }
}

TEST(Import, FreezesInputsAndFixesShapes) {
  Message graph = MakeGraph({MakeNode("Reshape", {"x", "to"}, {"y"})},
                            {ValueOf("x", 1, {"n", "m"}), ValueOf("to", 7, {"1"})}, {ValueOf("y", 1, {})});
  ImportOptions options;
  options.frozen.emplace("to", Literal::FromValues<int64_t>(kInt64, {1}, std::vector<int64_t>{-1}));
  options.shapes.emplace("x", std::vector<std::string>{"2", "k"});
  std::string text = TextOf(graph, options);
  EXPECT_NE(text.find("%x: Tensor[(2, k), float32]"), std::string::npos) << text;
  EXPECT_EQ(text.find("%to"), std::string::npos) << text;
}

TEST(Import, ListsAllThatIsNotSupportedAtOnce) {
  Message graph = MakeGraph({MakeNode("Frobnicate", {"x"}, {"a"}), MakeNode("Frobnicate", {"a"}, {"b"}),
                             MakeNode("StringSplit", {"x"}, {"c"})},
                            {ValueOf("x", 1, {"3"})}, {ValueOf("c", 1, {})});
  EXPECT_EQ(TextOf(graph),
            "Frobnicate: this operator is not supported (the node of `a`, the node of `b`)\n"
            "StringSplit: this operator is not supported (the node of `c`)");
}

// The report includes uses of an operator or an input that is not supported, and the contents of such an operator.
TEST(Import, ListsWhatIsBehindWhatIsNotSupported) {
  Message branch = MakeGraph({MakeNode("Twiddle", {"a"}, {"t"})}, {}, {ValueOf("t", 1, {})});
  Message graph =
      MakeGraph({MakeNode("Frobnicate", {"x"}, {"a"}), MakeNode("Cast", {"a"}, {"b"}, {IntAttribute("to", 8)}),
                 MakeNode("If", {"a"}, {"c"}, {GraphAttribute("then_branch", branch)})},
                {ValueOf("x", 1, {"3"}), ValueOf("s", 8, {"n"}), ValueOf("q", 23, {"n"})}, {ValueOf("c", 1, {})});
  EXPECT_EQ(TextOf(graph),
            "Cast: strings, which Relay has not (the node of `b`)\n"
            "Frobnicate: this operator is not supported (the node of `a`)\n"
            "Twiddle: this operator is not supported (the node of `t`)\n"
            "an input: `q` is of dtype float4e2m1, which Relay has not (`q`)\n"
            "an input: `s` is of strings, which Relay has not (`s`)");
}

TEST(Import, NamesAreShownReadably) {
  Message graph =
      MakeGraph({MakeNode("Fro\xff", {"x"}, {"\x1b[2Ja"})}, {ValueOf("x", 1, {"3"})}, {ValueOf("\x1b[2Ja", 1, {})});
  EXPECT_EQ(TextOf(graph), "Fro\\xff: this operator is not supported (the node of `\\x1b[2Ja`)");
}

TEST(Import, NamesTheNodeOfAMistake) {
  Message graph =
      MakeGraph({MakeNode("MatMul", {"x", "x"}, {"y"})}, {ValueOf("x", 1, {"2", "3"})}, {ValueOf("y", 1, {})});
  std::string text = TextOf(graph);
  EXPECT_TRUE(text.starts_with("MatMul: ")) << text;
  EXPECT_TRUE(text.ends_with("(the node of `y`)")) << text;
}

TEST(Import, BoundsWhatFunctionsExpandTo) {
  // f0 calls f1 twice, which calls f2 twice, and so on.
  Message model;
  model.Number(1, 8).Sub(8, Message().Number(2, 18)).Sub(8, Message().Text(1, "own").Number(2, 1));
  model.Sub(7,
            MakeGraph({MakeNode("f0", {"x"}, {"y"}).Text(7, "own")}, {ValueOf("x", 1, {"3"})}, {ValueOf("y", 1, {})}));
  for (int i = 0; i < 40; ++i) {
    std::string callee = i == 39 ? "Relu" : "f" + std::to_string(i + 1);
    std::string_view domain = i == 39 ? "" : "own";
    Message function = Message().Text(1, "f" + std::to_string(i)).Text(4, "a").Text(5, "c").Text(10, "own");
    function.Sub(7, MakeNode(callee, {"a"}, {"b"}).Text(7, domain))
        .Sub(7, MakeNode(callee, {"b"}, {"c"}).Text(7, domain));
    function.Sub(9, Message().Number(2, 18)).Sub(9, Message().Text(1, "own").Number(2, 1));
    model.Sub(25, function);
  }
  absl::StatusOr<ImportedModel> imported =
      Import({reinterpret_cast<const uint8_t*>(model.bytes().data()), model.bytes().size()}, {.files = NoFiles});
  EXPECT_NE(imported.status().message().find("expand to too many nodes"), absl::string_view::npos);
}

}  // namespace
}  // namespace rvm::onnx
