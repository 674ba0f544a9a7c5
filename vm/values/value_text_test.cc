#include "vm/values/value_text.h"

#include <gtest/gtest.h>

#include <string>

#include "vm/testing/program_builder.h"

namespace rvm::vm {
namespace {

class ValueTextTest : public ::testing::Test {
 protected:
  // Returns the parsed value, or the first line of the error.
  std::string Read(TypeId type, std::string_view text) {
    auto value = ParseValueText(b_.executable(), type, text);
    if (value.ok()) return value->ToString();
    std::string message(value.status().message());
    return message.substr(0, message.find('\n'));
  }
  testing::ProgramBuilder b_;
};

TEST_F(ValueTextTest, ScalarsTakeTheDTypeOfTheType) {
  EXPECT_EQ(Read(b_.Scalar(kInt32), " -7 "), "-7");
  EXPECT_EQ(Read(b_.Scalar(kFloat32), "-2.5"), "-2.5f");
  EXPECT_EQ(Read(b_.Scalar(kFloat32), "1"), "1f");
  EXPECT_EQ(Read(b_.Scalar(kFloat64), "1e-3f64"), "0.001f64");
  EXPECT_EQ(Read(b_.Scalar(kFloat32), "-inff"), "-inff");
  EXPECT_EQ(Read(b_.Scalar(kInt64), "1i64"), "1i64");
  EXPECT_EQ(Read(b_.Scalar(kUInt64), "18446744073709551615"), "18446744073709551615u64");
  EXPECT_EQ(Read(b_.Scalar(kBool), "True"), "True");
}

TEST_F(ValueTextTest, ScalarsThatDoNotFit) {
  EXPECT_EQ(Read(b_.Scalar(kInt8), "128"), "at column 1: `128` is out of the range of int8");
  EXPECT_EQ(Read(b_.Scalar(kInt32), "1i64"), "at column 1: saw `1i64`; expected int32");
  EXPECT_EQ(Read(b_.Scalar(kInt32), "1.5"), "at column 1: saw `1`; expected int32");
  EXPECT_EQ(Read(b_.Scalar(kInt32), ""), "at column 1: saw the end; expected int32");
  EXPECT_EQ(Read(b_.Scalar(kInt32), "1 2"), "at column 3: saw `2`; expected the end");
}

TEST_F(ValueTextTest, Tensors) {
  TypeId any = b_.TensorOf(kFloat32, {TypeDesc::kUnknownDim, 2});
  EXPECT_EQ(Read(any, "[[1, 2], [3, 4.5f]]"), "[[1f, 2f], [3f, 4.5f]]");
  EXPECT_EQ(Read(any, "[]"), "Constant([], (0, 2), float32)");
  EXPECT_EQ(Read(any, "Constant([], (0, 2), float32)"), "Constant([], (0, 2), float32)");
  EXPECT_EQ(Read(any, "Constant([], (1, 2), float32)"), "at column 30: saw `[]` of the shape (1, 2)");
  EXPECT_EQ(Read(any, "Constant([], (0, 3), float32)"),
            "at column 1: saw the shape (0, 3); expected Tensor[(?, 2), float32]");
  EXPECT_EQ(Read(any, "Constant([], (-1, 2), float32)"), "at column 17: an extent cannot be -1");
  EXPECT_EQ(Read(any, "[[1, 2], [3]]"), "at column 13: this list has 1 elements; the one before it has 2");
  EXPECT_EQ(Read(any, "[[1]]"), "at column 1: saw the shape (1, 1); expected Tensor[(?, 2), float32]");
}

TEST_F(ValueTextTest, Structures) {
  auto [list, cons] = b_.IntList();
  (void)cons;
  EXPECT_EQ(Read(list, "Cons(1, Cons(2, Nil()))"), "Cons(1, Cons(2, Nil))");
  EXPECT_EQ(Read(list, "[1, 2]"), "Cons(1, Cons(2, Nil))");
  EXPECT_EQ(Read(list, "Snoc"), "at column 1: saw `Snoc`; expected a constructor of List[int32]: `Nil`, `Cons`");
  EXPECT_EQ(Read(list, "Cons(1)"), "at column 7: saw `)`; expected `,`");
  TypeId pair = b_.TupleOf({b_.Scalar(kInt32), list});
  EXPECT_EQ(Read(pair, "(1, [])"), "(1, Nil)");
  EXPECT_EQ(Read(b_.RefOf(pair), "ref((1, []))"), "ref((1, Nil))");
  EXPECT_EQ(Read(b_.TupleOf({}), "()"), "()");
}

TEST_F(ValueTextTest, NestsAsDeepAsTheText) {
  auto [list, cons] = b_.IntList();
  (void)cons;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "Cons(1, ";
  text += "Nil" + std::string(100'000, ')');
  EXPECT_EQ(Read(list, text), text);
}

TEST_F(ValueTextTest, LinesAndComments) {
  TypeId i32 = b_.Scalar(kInt32), row = b_.TensorOf(kInt32, {TypeDesc::kUnknownDim});
  EXPECT_EQ(Read(row, "// primes\n[2, 3, /* odd */\n 5]\n"), "[2, 3, 5]");
  EXPECT_EQ(Read(row, "[2,\n 3,\n x]"), "at line 3, column 2: saw `x`; expected int32");
  EXPECT_EQ(Read(i32, "x\n"), "at column 1: saw `x`; expected int32");
  EXPECT_EQ(Read(i32, "/* 1"), "at column 1: saw `/`; expected int32");
  EXPECT_EQ(ParseValueText(b_.executable(), row, "[2,\n 3\t, x]").status().message(),
            "at line 2, column 6: saw `x`; expected int32\n   3 , x]\n       ^");
}

TEST_F(ValueTextTest, Sequences) {
  std::vector<TypeId> types = {b_.Scalar(kInt32), b_.TensorOf(kFloat32, {2}), b_.Scalar(kBool)};
  auto read = [&](std::string_view text) {
    auto values = ParseValueTexts(b_.executable(), types, text);
    if (!values.ok()) return std::string(values.status().message().substr(0, values.status().message().find('\n')));
    std::string all;
    for (const Value& value : *values) all += value.ToString() + ";";
    return all;
  };
  EXPECT_EQ(read("1\n[2, 3]\nTrue\n"), "1;[2f, 3f];True;");
  EXPECT_EQ(read("1, [2, 3], True"), "1;[2f, 3f];True;");
  EXPECT_EQ(read("1 [2, 3]"), "value 3 of 3, at column 9: saw the end; expected `True` or `False`");
  EXPECT_EQ(read("1 [2, 3]\n\n"), "value 3 of 3, at line 1, column 9: saw the end; expected `True` or `False`");
  EXPECT_EQ(read("1 [2, 3] True 4"), "at column 15: saw `4`; expected the end: there are 3 parameters");
}

}  // namespace
}  // namespace rvm::vm
