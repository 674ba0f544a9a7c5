#include "tools/flame_graph.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rvm::tools {
namespace {

using Kind = vm::TraceEvent::Kind;

Executable TwoFunctions() {
  Executable executable;
  executable.functions.resize(2);
  executable.functions[0].name = "main";
  executable.functions[1].name = "step<&>";
  executable.kernels.resize(1);
  executable.kernels[0].name = "tanh";
  return executable;
}

vm::TraceEvent Enter(uint32_t id, double ns) { return {Kind::kEnter, id, 0, ns, 0}; }
vm::TraceEvent Leave(double ns) { return {Kind::kLeave, 0, 0, ns, 0}; }
vm::TraceEvent Kernel(double ns, double length) { return {Kind::kKernel, 0, 0, ns, length}; }

TEST(FlameGraphTest, TimesAreWithCalleesAndStacksWithout) {
  std::vector<vm::TraceEvent> events = {Enter(0, 0), Enter(1, 100), Kernel(120, 30), Leave(200), Leave(1000)};
  FlameFrame root = FoldTrace(TwoFunctions(), events);
  EXPECT_EQ(root.ns, 1000);
  EXPECT_EQ(FoldedStacks(root), "@main 900\n@main;@step<&> 70\n@main;@step<&>;tanh 30\n");
}

TEST(FlameGraphTest, RecursionCountsToTheOutermostActivation) {
  std::vector<vm::TraceEvent> events = {Enter(0, 0), Enter(1, 100), Enter(1, 200), Kernel(210, 10),
                                        Leave(300),  Leave(400),    Leave(500)};
  FlameFrame root = FoldTrace(TwoFunctions(), events);
  EXPECT_EQ(FoldedStacks(root), "@main 200\n@main;@step<&> 290\n@main;@step<&>;tanh 10\n");
  EXPECT_EQ(root.callees.at("@main")->callees.at("@step<&>")->calls, 2);
}

TEST(FlameGraphTest, FunctionsWithoutAnEndLastUntilTheLastEvent) {
  FlameFrame root = FoldTrace(TwoFunctions(), {Enter(0, 0), Enter(1, 100), Kernel(150, 50)});
  EXPECT_EQ(FoldedStacks(root), "@main 100\n@main;@step<&> 50\n@main;@step<&>;tanh 50\n");
}

TEST(FlameGraphTest, NamesAreEscapedInTheDrawing) {
  std::string svg = FlameGraphSvg(FoldTrace(TwoFunctions(), {Enter(0, 0), Enter(1, 0), Leave(900), Leave(1000)}));
  EXPECT_THAT(svg, testing::HasSubstr("<title>@step&lt;&amp;&gt;: 900 ns, 90.0%, 1 calls</title>"));
  EXPECT_THAT(svg, testing::HasSubstr("width=\"1080.00\""));
}

TEST(FlameGraphTest, NothingThatRanIsAnEmptyDrawing) {
  FlameFrame root = FoldTrace(TwoFunctions(), {});
  EXPECT_EQ(FoldedStacks(root), "");
  EXPECT_THAT(FlameGraphSvg(root), testing::StartsWith("<svg "));
}

}  // namespace
}  // namespace rvm::tools
