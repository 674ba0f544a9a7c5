#include "tools/relayvm/page/page.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/relayvm/page/machine_peaks.h"
#include "tools/relayvm/page/roofline.h"
#include "tools/relayvm/page/time_line.h"

namespace rvm::tools {
namespace {

using testing::HasSubstr;
using testing::Not;
using vm::TraceEvent;

TEST(Page, CellsHaveTextsAndNumbers) {
  EXPECT_EQ(TimeCell(6120).text, "6.12 us");
  EXPECT_EQ(TimeCell(std::nan("")).text, "");
  EXPECT_EQ(ShareCell(0.123).text, "12.3%");
  EXPECT_EQ(RatioCell(85, 100).text, "0.85x");
  EXPECT_EQ(RatioCell(85, 100).style, "better");
  EXPECT_EQ(RatioCell(101, 100).style, "");
  EXPECT_EQ(RatioCell(120, 100).style, "worse");
  EXPECT_EQ(RatioCell(1, 0).text, "");
}

TEST(Page, EscapesTextsAndData) {
  Table table("a < b", {{"name", false}, {"time"}});
  table.Row({TextCell("<x>"), TimeCell(5)}, "row-\"1\"");
  Page page("t & u");
  page.Add(table);
  std::string html = page.Finish(R"({"kernels": ["</script>"]})");
  EXPECT_THAT(html, HasSubstr("<title>t &amp; u</title>"));
  EXPECT_THAT(html, HasSubstr("<caption>a &lt; b</caption>"));
  EXPECT_THAT(html, HasSubstr("<tr id=\"row-&quot;1&quot;\"><td class=\"name\">&lt;x&gt;</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"number\" data-value=\"5\">5.00 ns</td>"));
  EXPECT_THAT(html, HasSubstr(R"(["\u003c/script\u003e"])"));
}

TEST(Page, RooflineHasTheKernelsThatHaveNumbers) {
  MachinePeaks peaks = {.flops = 1e11, .memory_bytes = 1e10, .cache_bytes = 1e11, .threads = 1};
  std::vector<RooflinePoint> points = {{"point-0", "dense", 1e6, 1e4, 2e4, 0.5},
                                       {"point-1", "copy", 0, 1e4, 100, 0.1},
                                       {"point-2", "unknown", std::nan(""), 1e4, 100, 0.1}};
  std::string svg = RooflineSvg(peaks, points);
  // 50 GFLOP/s at 100 operations a byte, where the roof is 100 GFLOP/s.
  EXPECT_THAT(svg, HasSubstr("<title>dense: 50.0 GFLOP/s, 100.00 operations a byte, 50% of the roof of memory, 50.0%"));
  EXPECT_THAT(svg, Not(HasSubstr("copy")));
  EXPECT_THAT(svg, Not(HasSubstr("unknown")));
  points.erase(points.begin());
  EXPECT_EQ(RooflineSvg(peaks, points), "");
}

TEST(Page, MeasuresPeaks) {
  MachinePeaks peaks = MeasurePeaks(2);
  EXPECT_GT(peaks.flops, 1e8);
  EXPECT_GT(peaks.memory_bytes, 1e8);
  EXPECT_GT(peaks.cache_bytes, 1e8);
}

Executable TwoFunctions() {
  Executable executable;
  executable.functions.resize(2);
  executable.functions[0].name = "main";
  executable.functions[1].name = "step";
  executable.kernels.resize(1);
  executable.kernels[0].name = "tanh";
  return executable;
}

TEST(TimeLine, NestsCallsAndKernels) {
  auto event = [](TraceEvent::Kind kind, double begin, double length, uint32_t id) {
    return TraceEvent{.kind = kind, .id = id, .shape = 0, .begin_ns = begin, .length_ns = length};
  };
  using Kind = TraceEvent::Kind;
  const std::vector<TraceEvent> events = {event(Kind::kEnter, 100, 0, 0), event(Kind::kEnter, 110, 0, 1),
                                          event(Kind::kKernel, 120, 30, 0), event(Kind::kLeave, 160, 0, 1),
                                          event(Kind::kKernel, 170, 10, 0)};
  const Executable executable = TwoFunctions();
  TimeLine line = MakeTimeLine(executable, {}, events, 100);
  EXPECT_THAT(line.names, testing::ElementsAre("@main", "@step", "tanh"));
  ASSERT_EQ(line.intervals.size(), 4);
  std::vector<std::vector<double>> seen;
  for (const TimeLine::Interval& i : line.intervals) {
    seen.push_back({static_cast<double>(i.depth), i.begin_ns, i.length_ns, static_cast<double>(i.name)});
  }
  EXPECT_EQ(seen, (std::vector<std::vector<double>>{{0, 0, 80, 0}, {1, 10, 50, 1}, {2, 20, 30, 2}, {1, 70, 10, 2}}));
  EXPECT_FALSE(line.is_cut);

  TimeLine cut = MakeTimeLine(executable, {}, events, 2);
  EXPECT_EQ(cut.intervals.size(), 2);
  EXPECT_TRUE(cut.is_cut);
  JsonWriter json;
  cut.Write(json);
  EXPECT_THAT(json.TakeText(), HasSubstr("\"@step\""));
}

}  // namespace
}  // namespace rvm::tools
