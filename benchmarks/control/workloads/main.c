// Runs a program some times and prints its result with the least seconds of the processor: main N REPEAT FILE...
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "control.h"

static double Seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static const void *Read(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  void *bytes = malloc(size + 1);
  if (bytes == NULL || fread(bytes, 1, size, file) != (size_t)size) {
    fprintf(stderr, "%s: cannot read %ld bytes\n", path, size);
    exit(1);
  }
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s N REPEAT FILE...\n", argv[0]);
    return 1;
  }
  int64_t n = strtoll(argv[1], NULL, 10);
  const void *data[8] = {0};
  for (int i = 3; i < argc && i < 11; ++i) data[i - 3] = Read(argv[i]);
  double least = 1e9;
  Number result = {0};
  for (long k = strtol(argv[2], NULL, 10); k > 0; --k) {
    double began = Seconds();
    result = Run(n, data);
    double took = Seconds() - began;
    if (took < least) least = took;
  }
  if (result.is_float) {
    printf("%.17g", result.f);
  } else {
    printf("%" PRId64, result.i);
  }
  printf(" %.9f\n", least);
  return 0;
}
