#include "compiler/quantize/observations.h"

#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace rvm::quantize {
namespace {

using Kind = ObserverRule::Kind;

int64_t InBins(const Observations& seen) { return std::accumulate(seen.bins().begin(), seen.bins().end(), int64_t{0}); }

TEST(Observations, RangeDoublesAndKeepsCounts) {
  Observations seen;
  seen.Add(std::vector<float>{0, 0});
  EXPECT_EQ(seen.Range({Kind::kMinMax}), 0);
  for (float value : {0.5f, -1.0f, 3.0f, 3000.0f}) seen.Add(std::vector<float>{value, 0.25f});
  EXPECT_EQ(seen.count(), 10);
  EXPECT_EQ(seen.calls(), 5);
  EXPECT_EQ(InBins(seen), 10);
  EXPECT_EQ(seen.least(), -1);
  EXPECT_EQ(seen.greatest(), 3000);
  EXPECT_EQ(seen.Range({Kind::kMinMax}), 3000);
  EXPECT_NEAR(seen.ShareBeyond(100), 0.1, 1e-9);
}

TEST(Observations, StrangeValuesDoNotCount) {
  Observations seen;
  seen.Add(std::vector<float>{1, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(seen.has_strange());
  EXPECT_EQ(seen.count(), 1);
  EXPECT_EQ(seen.Range({Kind::kMinMax}), 1);
}

TEST(Observations, RulesClipOutliers) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Observations seen;
  for (int call = 0; call < 20; ++call) {
    std::vector<float> values(5000);
    for (float& value : values) value = normal(random);
    if (call == 7) values[3] = 12;
    seen.Add(values);
  }
  EXPECT_EQ(seen.Range({Kind::kMinMax}), 12);
  EXPECT_NEAR(seen.Range({Kind::kPercentile, 95.45}), 2, 0.02);
  EXPECT_EQ(seen.Range({Kind::kPercentile, 100}), 12);
  for (Kind kind : {Kind::kMse, Kind::kEntropy}) {
    EXPECT_GT(seen.Range({kind}), 2.5);
    EXPECT_LT(seen.Range({kind}), 8);
  }
}

// A number of magnitudes that codes hit exactly needs no clipping.
TEST(Observations, ErrorKeepsEvenValues) {
  Observations seen;
  std::vector<float> values;
  for (int i = 0; i < 4000; ++i) values.push_back(static_cast<float>(i % 2 == 0 ? 1 : -1));
  seen.Add(values);
  EXPECT_NEAR(seen.Range({Kind::kMse}), 1, 0.01);
}

TEST(Observations, ParsesRules) {
  EXPECT_EQ(ParseObserverRule("entropy")->kind, Kind::kEntropy);
  EXPECT_EQ(ParseObserverRule("percentile=99.5")->percentile, 99.5);
  for (const char* text : {"", "max", "percentile=", "percentile=0", "percentile=101", "percentile=nan"}) {
    EXPECT_FALSE(ParseObserverRule(text).ok()) << text;
  }
}

}  // namespace
}  // namespace rvm::quantize
