// What older glibcs than this machine's lack, for libraries that are linked with their interface (older_interface.py).
// A library keeps what it uses of this to itself.
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Since 2.32. Nobody sets it here, so reference counts are always atomic.
char __libc_single_threaded = 0;

// Since 2.33: before, headers turned these into calls of functions with a number of the structure's version. The
// kernel's structure is glibc's.
int stat(const char* path, struct stat* result) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, 0); }

int lstat(const char* path, struct stat* result) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat* result) { return (int)syscall(SYS_fstat, file, result); }

_Static_assert(sizeof(struct stat64) == sizeof(struct stat), "there is one layout on 64-bit machines");

int fstat64(int file, struct stat64* result) { return (int)syscall(SYS_fstat, file, result); }

static int64_t Nanoseconds(struct timespec time) { return time.tv_sec * INT64_C(1000000000) + time.tv_nsec; }

static int64_t Now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return Nanoseconds(now);
}

// Since 2.30. A condition of an older glibc waits by the clock of the day: what is left until the deadline by the given
// clock is waited for by that. Where the day's clock is set meanwhile, a wait that ends early is a spurious wake-up.
int WaitByTheClockOfTheDay(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  int64_t left = Nanoseconds(*deadline) - Now(clock);
  if (left <= 0) return ETIMEDOUT;
  int64_t until = Now(CLOCK_REALTIME);
  if (__builtin_add_overflow(until, left, &until)) until = INT64_MAX;
  struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
  int result = pthread_cond_timedwait(condition, mutex, &time);
  return result == ETIMEDOUT && Nanoseconds(*deadline) > Now(clock) ? 0 : result;
}

typedef int ClockWait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  ClockWait* newer = (ClockWait*)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  return (newer != NULL ? newer : WaitByTheClockOfTheDay)(condition, mutex, clock, deadline);
}

// Since 2.33.
struct mallinfo2 mallinfo2(void) {
  struct mallinfo info = mallinfo();
  return (struct mallinfo2){.arena = (unsigned)info.arena,
                            .ordblks = (unsigned)info.ordblks,
                            .smblks = (unsigned)info.smblks,
                            .hblks = (unsigned)info.hblks,
                            .hblkhd = (unsigned)info.hblkhd,
                            .usmblks = (unsigned)info.usmblks,
                            .fsmblks = (unsigned)info.fsmblks,
                            .uordblks = (unsigned)info.uordblks,
                            .fordblks = (unsigned)info.fordblks,
                            .keepcost = (unsigned)info.keepcost};
}

// Since 2.36.
uint32_t arc4random(void) {
  uint32_t number;
  if (getentropy(&number, sizeof number) == 0) return number;
  perror("relayvm: error: the system gives no random numbers");
  abort();
}
