#include "control.h"

enum { kSize = 4 };

static float Sum(const float *x) {
  float sum = 0;
  for (int k = 0; k < kSize; ++k) sum += x[k];
  return sum;
}

Number Run(int64_t n, const void *const *data) {
  const float *a = data[0], *b = data[1], *limit = data[2];
  float x[kSize] = {0};
  for (int64_t i = 0; i < n && !(Sum(x) > *limit); ++i) {
    for (int k = 0; k < kSize; ++k) x[k] = a[k] * x[k] + b[k];
  }
  return Float(Sum(x));
}
