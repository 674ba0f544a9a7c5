#include "base/units.h"

#include <limits>

#include "gtest/gtest.h"

namespace rvm {
namespace {

TEST(Units, Durations) {
  EXPECT_EQ(DurationText(0), "0 ns");
  EXPECT_EQ(DurationText(-3), "0 ns");
  EXPECT_EQ(DurationText(0.5), "0.50 ns");
  EXPECT_EQ(DurationText(412.3), "412 ns");
  EXPECT_EQ(DurationText(999.6), "1.00 us");
  EXPECT_EQ(DurationText(6'120), "6.12 us");
  EXPECT_EQ(DurationText(99'960), "100 us");
  EXPECT_EQ(DurationText(38'500'000), "38.5 ms");
  EXPECT_EQ(DurationText(2.5e9), "2.50 s");
  EXPECT_EQ(DurationText(5e12), "5000 s");
  EXPECT_EQ(DurationText(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Units, BytesAndRates) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1'200), "1.20 kB");
  EXPECT_EQ(BytesText(999'600), "1.00 MB");
  EXPECT_EQ(BytesText(38'500'000), "38.5 MB");
  EXPECT_EQ(RateText(9.12e10, "FLOP/s"), "91.2 GFLOP/s");
  EXPECT_EQ(RateText(120, "FLOP/s"), "120 FLOP/s");
  EXPECT_EQ(RateText(0, "B/s"), "-");
}

}  // namespace
}  // namespace rvm
