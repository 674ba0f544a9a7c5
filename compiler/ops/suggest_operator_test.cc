#include "compiler/ops/suggest_operator.h"

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/ops/op_def.h"
#include "gtest/gtest.h"

namespace rvm::ops {
namespace {

std::string LastPart(std::string_view name) { return std::string(name.substr(name.rfind('.') + 1)); }

// `batch_norm` as `BatchNorm`.
std::string CamelCase(std::string_view name) {
  std::string result;
  bool is_first = true;
  for (char c : name) {
    if (c != '_') result += is_first ? static_cast<char>(std::toupper(c)) : c;
    is_first = c == '_';
  }
  return result;
}

TEST(ForeignNamesTest, MeanOperatorsAndNameNone) {
  std::set<std::string_view> seen;
  for (const ForeignName& row : ForeignNames()) {
    EXPECT_TRUE(row.name.starts_with("@") || FindOp(row.name) != nullptr) << row.other << " means " << row.name;
    EXPECT_EQ(FindOp(row.other), nullptr) << row.other << " is an operator itself";
    EXPECT_TRUE(seen.insert(row.other).second) << row.other << " has two rows";
    EXPECT_EQ(SuggestOperator(row.other).name, row.name);
    EXPECT_EQ(SuggestOperator(row.other).hint, row.hint);
  }
  EXPECT_GT(seen.size(), 150u);
}

TEST(SuggestOperatorTest, FindsEachOperatorInOtherSpellings) {
  std::set<std::string_view> foreign;
  for (const ForeignName& row : ForeignNames()) foreign.insert(row.other);
  for (const OpDef* op : AllOps()) {
    std::string last = LastPart(op->name);
    std::string camel = CamelCase(last);
    for (const std::string& spelling : {camel, "torch." + last}) {
      if (foreign.contains(spelling)) continue;  // `Max` is elementwise in ONNX
      Suggestion near = SuggestOperator(spelling);
      EXPECT_EQ(near.distance, 0) << spelling;
      // Another operator may have the same last part, and a foreign name may be meant: `mul` is not `qnn.mul`.
      bool is_foreign = foreign.contains(LastPart(spelling)) || foreign.contains(last);
      if (!is_foreign) EXPECT_EQ(CamelCase(LastPart(near.name)), camel) << spelling << " suggests " << near.name;
    }
  }
}

TEST(SuggestOperatorTest, FindsEachOperatorInSpiteOfASwap) {
  for (const OpDef* op : AllOps()) {
    std::string last = LastPart(op->name);
    if (last.size() < 4) continue;
    std::swap(last[1], last[2]);
    EXPECT_LE(SuggestOperator(last).distance, 1) << last;
  }
}

struct Case {
  const char* written;
  const char* meant;
};
class SuggestTest : public testing::TestWithParam<Case> {};

TEST_P(SuggestTest, Suggests) { EXPECT_EQ(SuggestOperator(GetParam().written).name, GetParam().meant); }

INSTANTIATE_TEST_SUITE_P(Names, SuggestTest,
                         testing::ValuesIn<Case>({
                             {"softmx", "nn.softmax"},
                             {"sotfmax", "nn.softmax"},
                             {"reLu", "nn.relu"},
                             {"batchnorm", "nn.batch_norm"},
                             {"BatchNormalization", "nn.batch_norm"},
                             {"sigmiod", "sigmoid"},
                             {"pad", "nn.pad"},  // not `dyn.nn.pad`
                             {"conv2d", "nn.conv2d"},
                             {"nn.Conv2d", "nn.conv2d"},
                             {"vision.relu", "nn.relu"},
                             {"resize2d", "image.resize2d"},
                             {"unsqueze", "expand_dims"},  // a foreign name that is misspelt
                             {"Concat", "concatenate"},
                             {"Gemm", "nn.dense"},
                             {"mul", "multiply"},
                             {"Max", "maximum"},
                             {"MAX", "max"},
                             {"ReduceSum", "sum"},
                             {"torch.cat", "concatenate"},
                             {"np.mul", "multiply"},  // not `qnn.mul`
                             {"fold", "@foldl"},
                             {"x", ""},
                             {"frobnicate", ""},
                         }));

}  // namespace
}  // namespace rvm::ops
