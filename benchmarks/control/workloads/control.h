// The frame of the C programs: how they are called, and where they get memory from.
#ifndef RVM_BENCHMARKS_CONTROL_WORKLOADS_CONTROL_H_
#define RVM_BENCHMARKS_CONTROL_WORKLOADS_CONTROL_H_

#include <stdint.h>
#include <stdlib.h>

typedef struct Number {
  int is_float;
  int64_t i;
  double f;
} Number;

static inline Number Int(int64_t value) { return (Number){0, value, 0}; }
static inline Number Float(double value) { return (Number){1, 0, value}; }

// Runs the program of size `n` on the arrays `data`. Frees all that it allocates.
Number Run(int64_t n, const void *const *data);

#ifdef CONTROL_POOL

// Free lists by size over chunks, for one thread.
enum { kChunkBytes = 1 << 16, kMaxBytes = 64 };
typedef struct FreeCell {
  struct FreeCell *next;
} FreeCell;
static FreeCell *free_cells[kMaxBytes / 8 + 1];
static char *chunk, *chunk_end;

static inline void *New(size_t bytes) {
  FreeCell *cell = free_cells[bytes / 8];
  if (cell != NULL) {
    free_cells[bytes / 8] = cell->next;
    return cell;
  }
  if ((size_t)(chunk_end - chunk) < bytes) {
    chunk = malloc(kChunkBytes);
    if (chunk == NULL) abort();
    chunk_end = chunk + kChunkBytes;
  }
  void *made = chunk;
  chunk += bytes;
  return made;
}

static inline void Free(void *cell, size_t bytes) {
  ((FreeCell *)cell)->next = free_cells[bytes / 8];
  free_cells[bytes / 8] = cell;
}

#else

static inline void *New(size_t bytes) {
  void *made = malloc(bytes);
  if (made == NULL) abort();
  return made;
}

static inline void Free(void *cell, size_t bytes) {
  (void)bytes;
  free(cell);
}

#endif  // CONTROL_POOL
#endif  // RVM_BENCHMARKS_CONTROL_WORKLOADS_CONTROL_H_
