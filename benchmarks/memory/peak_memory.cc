// Runs a command, and prints how many kilobytes it had resident at most on standard error. A small program for that,
// because what a process had resident before it became another one counts as well.
//
//   peak_memory COMMAND...
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: peak_memory COMMAND...\n");
    return 2;
  }
  pid_t child = fork();
  if (child == 0) {
    execv(argv[1], argv + 1);
    std::perror(argv[1]);
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  if (child < 0 || wait4(child, &status, 0, &usage) != child) {
    std::perror("peak_memory");
    return 1;
  }
  std::fprintf(stderr, "peak %ld KB\n", usage.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
