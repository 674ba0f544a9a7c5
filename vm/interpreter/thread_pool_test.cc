#include "vm/interpreter/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace rvm::vm {
namespace {

TEST(ThreadPoolTest, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 3, 7, 64, 1000, 4097}) {
      for (int64_t grain : {0, 1, 3, 500, 100'000}) {
        std::vector<int> seen(static_cast<size_t>(count), 0);
        auto body = [](int64_t begin, int64_t end, void* closure) {
          for (int64_t i = begin; i < end; ++i) ++static_cast<int*>(closure)[i];
        };
        pool.For(count, grain, body, seen.data());
        EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(count), 1)) << threads << " " << count << " " << grain;
      }
    }
  }
}

// Late workers must not touch what belongs to a job that is over.
TEST(ThreadPoolTest, ManyShortJobsDoNotMix) {
  ThreadPool pool(4);
  for (int64_t job = 0; job < 20'000; ++job) {
    int64_t sums[8] = {};
    auto body = [](int64_t begin, int64_t end, void* closure) {
      for (int64_t i = begin; i < end; ++i) static_cast<int64_t*>(closure)[i] += i;
    };
    pool.For(8, 1, body, sums);
    for (int64_t i = 0; i < 8; ++i) ASSERT_EQ(sums[i], i);
  }
}

// Some jobs and the end of some pools meet workers that spin, others workers that sleep.
TEST(ThreadPoolTest, WorkersSpinAndThenSleep) {
  for (int round = 0; round < 20; ++round) {
    ThreadPool pool(3);
    for (int pause = 0; pause < 2 + round % 2; ++pause) {
      int seen[9] = {};
      auto body = [](int64_t begin, int64_t end, void* closure) {
        for (int64_t i = begin; i < end; ++i) ++static_cast<int*>(closure)[i];
      };
      for (int job = 0; job < 3; ++job) pool.For(9, 1, body, seen);
      for (int count : seen) ASSERT_EQ(count, 3);
      if (pause < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

TEST(ThreadPoolTest, ThreadsRunAtOnce) {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  auto meet = [](int64_t, int64_t, void* closure) {
    auto& count = *static_cast<std::atomic<int>*>(closure);
    ++count;
    while (count < 2) std::this_thread::yield();
  };
  pool.For(2, 1, meet, &arrived);
  EXPECT_EQ(arrived, 2);
}

}  // namespace
}  // namespace rvm::vm
