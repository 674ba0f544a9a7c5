#include "base/order_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace rvm {
namespace {

// The keys in order, with their places behind, beside std::stable_sort.
void Check(const std::vector<int64_t>& keys) {
  auto n = static_cast<int64_t>(keys.size());
  std::vector<int64_t> block = keys;
  block.resize(4 * keys.size());
  std::iota(block.begin() + n, block.begin() + 2 * n, 0);
  const volatile int32_t never = 0;
  ASSERT_TRUE(OrderKeys(block.data(), n, &never));
  std::vector<int64_t> places(keys.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](int64_t a, int64_t b) { return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)]; });
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(block[keys.size() + i], places[i]) << "at " << i << " of " << n;
    ASSERT_EQ(block[i], keys[static_cast<size_t>(places[i])]) << "at " << i << " of " << n;
  }
  for (int64_t first : {int64_t{0}, int64_t{1}, int64_t{16}, int64_t{17}, n / 10, n - 1, n}) {
    if (first < 0 || first > n) continue;
    std::vector<int64_t> part = keys;
    part.resize(4 * keys.size());
    std::iota(part.begin() + n, part.begin() + 2 * n, 0);
    ASSERT_TRUE(OrderFirstKeys(part.data(), n, first, &never));
    ASSERT_TRUE(std::equal(part.begin(), part.begin() + first, block.begin())) << first << " of " << n;
    ASSERT_TRUE(std::equal(part.begin() + n, part.begin() + n + first, block.begin() + n)) << first << " of " << n;
  }
}

TEST(OrderKeysTest, IsStableAtEveryLengthAndSpread) {
  std::mt19937_64 random(1);
  for (size_t n : {0, 1, 2, 5, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 100, 177, 1000, 2048, 2049, 5000}) {
    for (int bits : {1, 3, 8, 9, 24, 32, 33, 64}) {
      std::vector<int64_t> keys(n);
      for (int64_t& key : keys) key = static_cast<int64_t>(random()) >> (64 - bits);
      Check(keys);
      std::sort(keys.begin(), keys.end());
      Check(keys);
      std::reverse(keys.begin(), keys.end());
      Check(keys);
    }
  }
}

// Sorts keys that their upper bits do not tell apart, at all lengths about the limits of insertion and of digits.
TEST(OrderKeysTest, SortsKeysThatAreFarFromAFewOthers) {
  std::mt19937_64 random(2);
  for (size_t n : {33, 34, 65, 200, 1500, 20000}) {
    for (int far : {20, 31, 40, 62}) {
      std::vector<int64_t> keys(n);
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % 1000);
      for (size_t outliers : {1, 3}) {
        for (size_t i = 0; i < outliers; ++i) keys[random() % n] = (int64_t{1} << far) + static_cast<int64_t>(i % 2);
        Check(keys);
        for (int64_t& key : keys) key = -key;
        Check(keys);
      }
    }
  }
}

// Neighbours differ in their upper bits, so that these are tried first; most other keys do not.
TEST(OrderKeysTest, SortsAgainWhereUpperBitsDoNotDo) {
  std::mt19937_64 random(3);
  for (size_t n : {100, 3000}) {
    for (int far : {30, 31, 45, 62}) {
      std::vector<int64_t> keys(n);
      for (size_t i = 0; i < n; ++i) {
        keys[i] = (i % 2 == 0 ? int64_t{1} << far : 0) + static_cast<int64_t>(random() % 100);
      }
      Check(keys);
      for (int64_t& key : keys) key = std::numeric_limits<int64_t>::max() - key;
      Check(keys);
    }
  }
}

// Numbers that move with keys may be any.
TEST(OrderKeysTest, MovesNumbersOfAllBits) {
  std::mt19937_64 random(4);
  for (int bits : {16, 32, 60}) {
    constexpr int64_t kCount = 1000;
    std::vector<int64_t> block(4 * kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      block[static_cast<size_t>(i)] = static_cast<int64_t>(random()) >> (64 - bits);
      block[static_cast<size_t>(kCount + i)] = ~block[static_cast<size_t>(i)];
    }
    const volatile int32_t never = 0;
    ASSERT_TRUE(OrderKeys(block.data(), kCount, &never));
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(i == 0 || block[i - 1] <= block[i]) << i;
      ASSERT_EQ(block[kCount + i], ~block[i]) << i;
    }
  }
}

// After a share of what it takes to its end; the other thread may get a CPU too late: one try in many must do.
TEST(OrderKeysTest, EndsEarlyWhenStopped) {
  constexpr int64_t kMany = 2'000'000;
  constexpr int kTries = 20;
  std::mt19937_64 random(1);
  std::vector<int64_t> block(4 * kMany);
  auto fill = [&] {
    std::generate(block.begin(), block.begin() + kMany, [&] { return static_cast<int64_t>(random()); });
  };
  fill();
  auto start = std::chrono::steady_clock::now();
  int32_t never = 0;
  ASSERT_TRUE(OrderKeys(block.data(), kMany, &never));
  auto time = std::chrono::steady_clock::now() - start;
  bool all = true;
  for (int i = 0; i < kTries && all; ++i) {
    fill();
    std::atomic<int32_t> stop = 0;
    std::thread other([&] {
      std::this_thread::sleep_for(time / 4);
      stop = 1;
    });
    all = OrderKeys(block.data(), kMany, reinterpret_cast<const volatile int32_t*>(&stop));
    other.join();
  }
  EXPECT_FALSE(all);
  EXPECT_FALSE(std::is_sorted(block.begin(), block.begin() + kMany));
}

TEST(OrderKeysTest, KnowsTheExtremes) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> keys;
  for (int i = 0; i < 20; ++i) keys.insert(keys.end(), {0, kMax, -1, kMin, 1});
  Check(keys);
}

}  // namespace
}  // namespace rvm
