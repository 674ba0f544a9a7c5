// Preloaded into a process, makes its allocation number FAIL_ALLOCATION (from 1) fail, and all later
// ones with FAIL_ALLOCATION_ON set; says at the end how many there were.
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static long allocations = 0;
static long first_failure = -1;
static int goes_on = 0;

static int fails(void) {
  if (first_failure < 0) {
    const char* text = getenv("FAIL_ALLOCATION");
    first_failure = text == NULL ? 0 : atol(text);
    goes_on = getenv("FAIL_ALLOCATION_ON") != NULL;
  }
  long number = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  if (first_failure == 0 || number < first_failure || (number > first_failure && !goes_on)) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return fails() ? NULL : __libc_realloc(block, size); }
void* aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void** block, size_t alignment, size_t size) {
  if (fails()) return ENOMEM;
  *block = __libc_memalign(alignment, size);
  return *block == NULL ? ENOMEM : 0;
}

__attribute__((destructor)) static void report(void) {
  char text[64];
  int length = snprintf(text, sizeof(text), "allocations: %ld\n", allocations);
  if (first_failure == 0 && write(2, text, (size_t)length) < 0) _exit(3);
}
