#include "vm/interpreter/poll_distance.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rvm::vm {
namespace {

constexpr int64_t kMax = PollDistance::kMax, kMin = PollDistance::kMin;

TEST(PollDistanceTest, FollowsFromTheTimeOfTheLastOnes) {
  uint64_t aim = PollDistance::TicksPerPoll();
  EXPECT_EQ(PollDistance::After(1000, aim), 1000);
  EXPECT_EQ(PollDistance::After(1000, 2 * aim), 500);
  EXPECT_EQ(PollDistance::After(1000, aim / 2), 2000);
}

TEST(PollDistanceTest, GrowsBySteps) {
  uint64_t short_time = PollDistance::TicksPerPoll() / 1000;
  EXPECT_EQ(PollDistance::After(100, short_time), 400);
  EXPECT_EQ(PollDistance::After(kMax / 2, short_time), kMax);
  EXPECT_EQ(PollDistance::After(kMax, 0), kMax);
}

TEST(PollDistanceTest, EndsAtTheLeast) {
  EXPECT_EQ(PollDistance::After(kMax, UINT64_MAX), kMin);
  EXPECT_EQ(PollDistance::After(1, PollDistance::TicksPerPoll()), kMin);
}

TEST(PollDistanceTest, BeginsAnew) {
  PollDistance distance;
  distance.Begin();
  EXPECT_EQ(distance.Next(0), PollDistance::kFirst);
  int64_t next = distance.Next(PollDistance::kFirst);
  EXPECT_GE(next, kMin);
  EXPECT_LE(next, 4 * PollDistance::kFirst);
  distance.Begin();
  EXPECT_EQ(distance.Next(0), PollDistance::kFirst);
}

}  // namespace
}  // namespace rvm::vm
