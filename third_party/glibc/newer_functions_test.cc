// Tests newer_functions.c, whose definitions this test has in place of the machine's glibc.
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <thread>

extern "C" int WaitByTheClockOfTheDay(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                      const struct timespec* deadline);

namespace rvm {
namespace {

TEST(NewerFunctions, FilesAndLinks) {
  std::string file = testing::TempDir() + "/newer_functions", link = file + ".link";
  unlink(file.c_str());
  unlink(link.c_str());
  FILE* out = fopen(file.c_str(), "w");
  ASSERT_NE(out, nullptr);
  ASSERT_EQ(fwrite("seven..", 1, 7, out), 7u);
  ASSERT_EQ(fflush(out), 0);
  ASSERT_EQ(symlink(file.c_str(), link.c_str()), 0);
  struct stat by_name, by_link, of_link, by_number;
  struct stat64 by_number_64;
  ASSERT_EQ(stat(file.c_str(), &by_name), 0);
  ASSERT_EQ(stat(link.c_str(), &by_link), 0);
  ASSERT_EQ(lstat(link.c_str(), &of_link), 0);
  ASSERT_EQ(fstat(fileno(out), &by_number), 0);
  ASSERT_EQ(fstat64(fileno(out), &by_number_64), 0);
  EXPECT_EQ(by_name.st_size, 7);
  EXPECT_TRUE(S_ISREG(by_name.st_mode));
  EXPECT_EQ(by_link.st_ino, by_name.st_ino);
  EXPECT_TRUE(S_ISLNK(of_link.st_mode));
  EXPECT_EQ(by_number.st_ino, by_name.st_ino);
  EXPECT_EQ(by_number_64.st_mtim.tv_nsec, by_name.st_mtim.tv_nsec);
  fclose(out);
  EXPECT_EQ(stat((file + ".none").c_str(), &by_name), -1);
  EXPECT_EQ(errno, ENOENT);
}

struct timespec After(clockid_t clock, int milliseconds) {
  struct timespec time;
  clock_gettime(clock, &time);
  int64_t nanoseconds = time.tv_nsec + milliseconds * INT64_C(1000000);
  time.tv_sec += nanoseconds / 1000000000;
  time.tv_nsec = nanoseconds % 1000000000;
  return time;
}

bool HasCome(clockid_t clock, const struct timespec& deadline) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec > deadline.tv_sec || (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec);
}

using Wait = int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

// Both ways of waiting keep the contract of pthread_cond_clockwait.
class Waits : public testing::TestWithParam<Wait*> {
 protected:
  int WaitUntil(struct timespec deadline, clockid_t clock = CLOCK_MONOTONIC) {
    return GetParam()(&condition_, &mutex_, clock, &deadline);
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

TEST_P(Waits, ForADeadline) {
  pthread_mutex_lock(&mutex_);
  for (clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME}) {
    struct timespec deadline = After(clock, 20);
    // A return of 0 is a wake-up without a cause.
    int result = 0;
    while (result == 0) result = WaitUntil(deadline, clock);
    EXPECT_EQ(result, ETIMEDOUT);
    EXPECT_TRUE(HasCome(clock, deadline));
    EXPECT_EQ(WaitUntil(deadline, clock), ETIMEDOUT) << "a deadline that has passed";
  }
  pthread_mutex_unlock(&mutex_);
}

TEST_P(Waits, ForASignal) {
  bool signalled = false;
  pthread_mutex_lock(&mutex_);
  std::thread other([&] {
    pthread_mutex_lock(&mutex_);
    signalled = true;
    pthread_cond_signal(&condition_);
    pthread_mutex_unlock(&mutex_);
  });
  // The largest deadline is later than the clock of the day can count.
  while (!signalled) EXPECT_EQ(WaitUntil({.tv_sec = INT64_MAX / 1000000000, .tv_nsec = 0}), 0);
  pthread_mutex_unlock(&mutex_);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Both, Waits, testing::Values(&WaitByTheClockOfTheDay, &pthread_cond_clockwait));

TEST(NewerFunctions, RandomNumbersDiffer) {
  uint32_t first = arc4random();
  bool differ = false;
  for (int i = 0; i < 8; ++i) differ |= arc4random() != first;
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace rvm
