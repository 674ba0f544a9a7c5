#include "tools/relayvm/options.h"

#include "gtest/gtest.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kSpecs[] = {
    {"-o", "FILE", "output"},
    {"-O", "LEVEL", "level", /*attached=*/true},
    {"--params", "FILE", "weights"},
    {"--verbose", "", "talk"},
};

absl::StatusOr<Options> Parse(const std::vector<std::string>& args, bool keep_unknown = false) {
  return ParseOptions(kSpecs, args, keep_unknown);
}
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
}

TEST(Options, UnknownOnesAreSuggestedOrKept) {
  EXPECT_EQ(ErrorOf({"--parms=x"}), "unknown option `--parms`; did you mean `--params`?");
  EXPECT_EQ(ErrorOf({"-o"}), "option `-o` needs a value: `-o FILE`");
  EXPECT_EQ(ErrorOf({"--verbose=1"}), "option `--verbose` takes no value");
  absl::StatusOr<Options> options = Parse({"--fuel", "3", "-O1", "--", "-x"}, true);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->positional(), (std::vector<std::string>{"--fuel", "3", "--", "-x"}));
  EXPECT_EQ(options->Value("-O"), "1");
}

TEST(Options, HelpHasTwoColumns) {
  EXPECT_EQ(OptionsHelp(std::span(kSpecs).first(2)), "  -o FILE  output\n  -OLEVEL  level\n");
}

}  // namespace
}  // namespace rvm::tools
