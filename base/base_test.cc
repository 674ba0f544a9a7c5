#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/data_type.h"
#include "base/dim.h"
#include "base/edit_distance.h"
#include "base/element.h"
#include "base/literal.h"
#include "base/stack_guard.h"
#include "base/value.h"

namespace rvm {
namespace {

TEST(DataTypeTest, TextRoundTrips) {
  for (const char* name : {"bool", "int8", "uint64", "float16", "float32", "bfloat16", "float32x4"}) {
    ASSERT_TRUE(ParseDataType(name).has_value()) << name;
    EXPECT_EQ(ParseDataType(name)->ToString(), name);
  }
  for (const char* name : {"int7", "float8", "int32x", "int32x1", "uintx", "int032", "bool8"}) {
    EXPECT_FALSE(ParseDataType(name).has_value()) << name;
  }
}

TEST(DataTypeTest, EveryRowOfTheTable) {
  for (const DataTypeInfo& info : DataTypeTable()) {
    EXPECT_EQ(ParseDataType(info.name), info.dtype) << info.name;
    EXPECT_TRUE(IsStorable(info.dtype)) << info.name;
    EXPECT_EQ(WithElement(info.dtype, [](auto element) { return static_cast<int64_t>(sizeof element); }),
              info.dtype.bytes());
    Literal one = Literal::Scalar(info.dtype, 1);
    EXPECT_EQ(one, Literal::ScalarInt(info.dtype, 1)) << info.name;
    EXPECT_EQ(one.DoubleAt(0), 1) << info.name;
    EXPECT_EQ(one.IntAt(0), 1) << info.name;
    std::string_view text = info.suffix;
    if (!text.empty()) EXPECT_EQ(TakeLiteralSuffix(text), info.dtype) << info.name;
    EXPECT_TRUE(text.empty()) << info.name;
  }
  EXPECT_FALSE(IsStorable({TypeCode::kFloat, 8, 1}));
  EXPECT_FALSE(IsStorable({TypeCode::kFloat, 32, 4}));
}

TEST(DataTypeTest, TheLongestSuffixIsTaken) {
  std::string_view text = "2.5bf16";
  EXPECT_EQ(TakeLiteralSuffix(text), kBFloat16);
  EXPECT_EQ(text, "2.5");
  text = "1q";
  EXPECT_EQ(TakeLiteralSuffix(text), std::nullopt);
}

TEST(DataTypeTest, NamesWithoutAWidth) {
  EXPECT_EQ(ParseDataType("int")->ToString(), "int32");
  EXPECT_EQ(ParseDataType("float")->ToString(), "float32");
}

TEST(DataTypeTest, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = float{Half{static_cast<uint16_t>(bits)}};
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float{Half::From(value)}));
    } else {
      EXPECT_EQ(Half::From(value).bits, bits);
    }
  }
  EXPECT_EQ(Half::From(65520.0f).bits, 0x7c00);  // halfway rounds to infinity
  EXPECT_EQ(Half::From(65519.0f).bits, 0x7bff);
}

TEST(DataTypeTest, Float8SaturatesAndHasOneNan) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    float value = float{Float8E4M3FN{static_cast<uint8_t>(bits)}};
    EXPECT_EQ(std::isnan(value), (bits & 0x7f) == 0x7f) << bits;
    EXPECT_EQ(Float8E4M3FN::From(value).bits, bits);
  }
  struct Case {
    float value;
    int bits;
  };
  for (const Case& c : {Case{1, 0x38},
                        {0x1p-6f, 0x08},
                        {0x1p-9f, 0x01},
                        {0x1p-10f, 0x00},
                        {0x1.8p-10f, 0x01},
                        {0x1.8p-9f, 0x02},
                        {448, 0x7e},
                        {464, 0x7e},
                        {1e9f, 0x7e},
                        {-INFINITY, 0xfe},
                        {17, 0x58},
                        {19, 0x5a},
                        {-0.0f, 0x80}}) {
    EXPECT_EQ(Float8E4M3FN::From(c.value).bits, c.bits) << c.value;
  }
}

TEST(NameTest, NearestIsBySpellingThenByEdits) {
  constexpr std::string_view kKnown[] = {"%sum", "@foldl", "--print-after", "--params", "batch_norm",
                                         "List", "x",      "sum_of"};
  struct Case {
    std::string_view name, nearest;
  };
  for (const Case& c : std::initializer_list<Case>{{"foldl", "@foldl"},
                                                   {"%fodll", "@foldl"},
                                                   {"list", "List"},
                                                   {"BatchNorm", "batch_norm"},
                                                   {"--print_after", "--print-after"},
                                                   {"--prams", "--params"},
                                                   {"sumof", "sum_of"},
                                                   {"X", "x"},
                                                   {"y", ""},
                                                   {"%y", ""},
                                                   {"histogram", ""},
                                                   {"", ""}}) {
    EXPECT_EQ(NearestName(c.name, kKnown), c.nearest) << c.name;
  }
  EXPECT_EQ(NameDistance("sotfmax", "softmax"), 1);
  EXPECT_EQ(NameDistance("Soft_Max", "softmax"), 0);
  EXPECT_EQ(NameDistance("a", "b"), INT_MAX);
  EXPECT_EQ(DidYouMean("foldl", kKnown), "; did you mean `@foldl`?");
  constexpr std::string_view kEqual[] = {"abd", "abc"};
  EXPECT_EQ(NearestName("abe", kEqual), "abc");
  constexpr std::string_view kSpelt[] = {"SUM", "Sum"};
  EXPECT_EQ(NearestName("sum", kSpelt), "Sum");
}

TEST(DimTest, ConstructorsSimplify) {
  Dim n = Dim::Var(1, "n");
  EXPECT_EQ((n + 0), n);
  EXPECT_EQ((n * 1), n);
  EXPECT_EQ((Dim(2) + 3), Dim(5));
  EXPECT_EQ((n - n), Dim(0));
  EXPECT_EQ(((n + 1) * 2).ToString(), "(n + 1) * 2");
  EXPECT_TRUE((Dim::Any() + 1).is_any());
}

TEST(DimTest, ComparesPolynomials) {
  Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m");
  EXPECT_EQ(CompareDims((n + 1) * (m + 1), n * m + n + m + 1), DimEquality::kEqual);
  EXPECT_EQ(CompareDims(n + 1, n + 2), DimEquality::kDifferent);
  EXPECT_EQ(CompareDims(n, m), DimEquality::kUnknown);
  EXPECT_EQ(CompareDims(Dim::Any(), Dim::Any()), DimEquality::kUnknown);
  EXPECT_EQ(CanonicalText((n + 1) * (m + 1)), CanonicalText(m + n * m + n + 1));
  EXPECT_NE(CanonicalText(n + 1), CanonicalText(n + 2));
  EXPECT_NE(CanonicalText(n), CanonicalText(m));
  EXPECT_NE(CanonicalText(n - n + 3), CanonicalText(4));
  EXPECT_EQ(CanonicalText(n + Dim::Any()), "");
  Dim many = 0;
  for (int64_t id = 0; id < 100; ++id) many = many + Dim::Var(id, "v");
  EXPECT_EQ(CanonicalText(many), CanonicalText(many));
  EXPECT_NE(CanonicalText(many), CanonicalText(many + 1));
  EXPECT_EQ(CompareDims(3, 4), DimEquality::kDifferent);
}

TEST(DimTest, DividesMultiples) {
  Dim n = Dim::Var(1, "n");
  EXPECT_EQ(FloorDiv(n * 6, 3), n * 2);
  EXPECT_EQ(FloorDiv(n * 3, 3), n);
  EXPECT_EQ(FloorMod(n * 6, 3), Dim(0));
  EXPECT_EQ(FloorDiv(n * 2, 3).kind(), DimKind::kFloorDiv);
  EXPECT_EQ(FloorDiv(n * 2, 0).kind(), DimKind::kFloorDiv);
  EXPECT_EQ(FloorDiv(FloorDiv(n + 1, 2), 3), FloorDiv(n + 1, 6));
  EXPECT_EQ(FloorDiv(FloorDiv(n, int64_t{1} << 62), 4).rhs(), Dim(4));
  EXPECT_EQ(FloorDiv(n * 4 + 5, 4), n + 1);
  EXPECT_EQ(FloorDiv(n * 4 - Dim(1) + 0, 4).kind(), DimKind::kFloorDiv);
  EXPECT_EQ(FloorDiv(n * 2 + (-1), 2), n + (-1));
}

TEST(DimTest, DivisionByZeroIsZero) {
  EXPECT_EQ(EvaluateBinaryDim(DimKind::kFloorDiv, 7, 0), 0);
  EXPECT_EQ(EvaluateBinaryDim(DimKind::kFloorMod, -7, 3), 2);
  EXPECT_EQ(EvaluateBinaryDim(DimKind::kFloorDiv, -7, 3), -3);
  EXPECT_EQ(EvaluateBinaryDim(DimKind::kFloorDiv, std::numeric_limits<int64_t>::min(), -1),
            std::numeric_limits<int64_t>::min());
}

TEST(LiteralTest, ConvertsAndWraps) {
  EXPECT_EQ(Literal::ScalarInt(kInt8, 200).IntAt(0), -56);
  EXPECT_EQ(Literal::Scalar(kUInt8, 300).IntAt(0), 255);
  EXPECT_EQ(Literal::Scalar(kInt32, std::nan("")).IntAt(0), 0);
  EXPECT_EQ(Literal::Scalar(kFloat16, 1.5).DoubleAt(0), 1.5);
}

TEST(LiteralTest, BuffersAreAlignedZeros) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{2} << 20, (int64_t{5} << 20) + 3}) {
    for (int round = 0; round < 2; ++round) {
      std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes);
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
      EXPECT_EQ(std::count(buffer->data(), buffer->data() + bytes, std::byte{0}), bytes);
      std::fill_n(buffer->data(), bytes, std::byte{1});
    }
  }
}

// Each mapping is given back whole: a process may have only so many.
TEST(LiteralTest, BigBuffersGiveTheirMemoryBack) {
  auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  int64_t bytes = (int64_t{5} << 20) + 3;
  Buffer::Allocate(bytes);
  auto before = mappings();
  std::vector<std::shared_ptr<Buffer>> kept;
  for (int i = 0; i < 1000; ++i) {
    kept.push_back(Buffer::Allocate(bytes));
    kept.back()->data()[bytes - 1] = std::byte{1};
    if (i % 3 != 0) kept.pop_back();
  }
  kept.clear();
  EXPECT_LE(mappings(), before + 10);
}

TEST(ValueTest, PrintsRelay) {
  Value one = Value::Tensor(Literal::ScalarInt(kInt32, 1));
  Value list = Value::Adt("Cons", {one, Value::Adt("Nil", {})});
  EXPECT_EQ(list.ToString(), "Cons(1, Nil)");
  EXPECT_EQ(Value::Tuple({one}).ToString(), "(1,)");
  EXPECT_EQ(Value::Ref(Value::Tensor(Literal::Scalar(kFloat32, 0.1))).ToString(), "ref(0.1f)");
  float data[] = {1, 2, 3, 4};
  EXPECT_EQ(Value::Tensor(Literal::FromValues<float>(kFloat32, {2, 2}, data)).ToString(), "[[1f, 2f], [3f, 4f]]");
  EXPECT_EQ(Value::Tensor(Literal::Full(kFloat32, {0, 3}, 0)).ToString(), "Constant([], (0, 3), float32)");
  EXPECT_EQ(Value::Tensor(Literal::ScalarInt(kUInt64, -1)).ToString(), "18446744073709551615u64");
}

TEST(ValueTest, LongListsDoNotRecurse) {
  Value list = Value::Adt("Nil", {});
  for (int i = 0; i < 1000000; ++i) list = Value::Adt("Cons", {Value::Tuple({}), std::move(list)});
  Value copy = list;
  EXPECT_EQ(DiffValues(list, copy), "");
  EXPECT_GT(list.ToString().size(), 1000000u);
}

TEST(ValueTest, DiffNamesThePlace) {
  Value a = Value::Tuple({Value::Tensor(Literal::Scalar(kFloat32, 1)), Value::Tensor(Literal::ScalarInt(kInt32, 2))});
  Value b = Value::Tuple({Value::Tensor(Literal::Scalar(kFloat32, 1)), Value::Tensor(Literal::ScalarInt(kInt32, 3))});
  EXPECT_EQ(DiffValues(a, b), "at value.1: element 0: 2 vs 3");
}

int Depth(int n) {
  return WithStack([&]() -> int { return n == 0 ? 0 : 1 + Depth(n - 1); });
}

TEST(StackGuardTest, RecursesAMillionDeep) {
#if __has_feature(thread_sanitizer)
  constexpr int kDepth = 10'000;  // it notes each call, and has room for some tens of thousands
#else
  constexpr int kDepth = 1'000'000;
#endif
  EXPECT_EQ(Depth(kDepth), kDepth);
}

}  // namespace
}  // namespace rvm
