#include "tools/options.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kSpecs[] = {
    {"-o", "FILE", "output"},
    {"-O", "LEVEL", "level", /*attached=*/true},
    {"--params", "FILE", "weights"},
    {"--verbose", "", "talk"},
};

absl::StatusOr<Options> Parse(const std::vector<std::string>& args) { return ParseOptions(kSpecs, args); }
std::string ErrorOf(const std::vector<std::string>& args) { return std::string(Parse(args).status().message()); }

TEST(Options, MayStandAnywhere) {
  absl::StatusOr<Options> options = Parse({"a", "-O3", "-o", "x", "--params=p", "b", "--params", "q", "--verbose"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->positional(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options->Value("-O"), "3");
  EXPECT_EQ(options->Value("-o"), "x");
  EXPECT_EQ(options->Values("--params"), (std::vector<std::string>{"p", "q"}));
  EXPECT_TRUE(options->Has("--verbose"));
  EXPECT_EQ(options->Value("--none", "default"), "default");
}

TEST(Options, NumbersAreNoOptions) {
  absl::StatusOr<Options> options = Parse({"-1", "-.5", "-inff", "--", "--verbose"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->positional(), (std::vector<std::string>{"-1", "-.5", "-inff", "--verbose"}));
  EXPECT_EQ(Parse({"-"})->positional(), (std::vector<std::string>{"-"}));
}

TEST(Options, UnknownOnesAreSuggested) {
  EXPECT_EQ(ErrorOf({"--parms=x"}), "unknown option `--parms`; did you mean `--params`?");
  EXPECT_EQ(ErrorOf({"-o"}), "option `-o` needs a value: `-o FILE`");
  EXPECT_EQ(ErrorOf({"--verbose=1"}), "option `--verbose` takes no value");
}

TEST(Options, Numbers) {
  auto seconds = [](const std::string& text) { return Parse({"--params", text})->PositiveNumber("--params", 1); };
  EXPECT_EQ(*seconds("0.5"), 0.5);
  EXPECT_EQ(*seconds("10"), 10);
  for (const char* wrong : {"0", "-1", "inf", "nan", "1s", ""}) {
    EXPECT_EQ(seconds(wrong).status().message(),
              absl::StrCat("saw `", wrong, "` for --params; expected a number above 0, such as 10 or 0.5"));
  }
  auto bytes = [](const std::string& text) { return Parse({"--params", text})->Bytes("--params", 1); };
  EXPECT_EQ(*bytes("4096"), 4096);
  EXPECT_EQ(*bytes("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(*bytes("1.5K"), 1536);
  EXPECT_EQ(*bytes("2G"), int64_t{2} << 30);
  for (const char* wrong : {"", "K", "-1", "1.5", "9223372036854775808", "9007199254740992K", "1T"}) {
    EXPECT_FALSE(bytes(wrong).ok()) << wrong;
  }
  EXPECT_EQ(*Parse({})->Integer("--params", 1, 7), 7);
  EXPECT_EQ(Parse({"--params", "0"})->Integer("--params", 1, 7).status().message(),
            "saw `0` for --params; expected a whole number from 1");
}

TEST(Options, HelpHasTwoColumns) {
  EXPECT_EQ(OptionsHelp(std::span(kSpecs).first(2)), "  -o FILE  output\n  -OLEVEL  level\n");
}

}  // namespace
}  // namespace rvm::tools
