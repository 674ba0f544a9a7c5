// Plants bugs into the queue of pending calls (pending_bugs.txt). The tests of the queue, which are in this program,
// too, must see each of them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/long_tests.h"
#include "vm/testing/planted_bugs.h"

namespace rvm::vm {
namespace {

// Returns whether all other tests of this program pass with the bug, within 20 seconds.
bool PassesWith(size_t bug) {
  std::string planted = absl::StrCat(testing::kPlantedBug, "=", bug);
  const char* args[] = {"tests", "--gtest_filter=-PendingBugsTest.*", "--gtest_fail_fast", nullptr};
  const char* environment[] = {planted.c_str(), nullptr};
  pid_t child = fork();
  if (child == 0) {
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    alarm(20);
    execve("/proc/self/exe", const_cast<char* const*>(args), const_cast<char* const*>(environment));
    _exit(1);
  }
  EXPECT_GE(child, 0);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PendingBugsTest, EachIsSeen) {
  const std::vector<std::string>& bugs = testing::BugNames();
  ASSERT_FALSE(bugs.empty());
  EXPECT_TRUE(PassesWith(bugs.size())) << "without a bug";
  Sample sample(3);
  for (size_t bug = 0; bug < bugs.size(); ++bug)
    if (sample.Takes()) EXPECT_FALSE(PassesWith(bug)) << bugs[bug];
}

}  // namespace
}  // namespace rvm::vm
