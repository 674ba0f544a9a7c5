#include <math.h>
#include <string.h>

#include "control.h"

enum { kUnits = 16, kTokens = 32, kSteps = 20 };

static float Dot(const float *row, const float *x) {
  float sum = 0;
  for (int k = 0; k < kUnits; ++k) sum += row[k] * x[k];
  return sum;
}

Number Run(int64_t n, const void *const *data) {
  const float *embedding = data[0], *recurrent = data[1], *output = data[2];
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t token = i % 31 + 1;
    float state[kUnits] = {0};
    for (int step = 0; step < kSteps; ++step) {
      float next[kUnits];
      for (int row = 0; row < kUnits; ++row) {
        next[row] = tanhf(Dot(recurrent + row * kUnits, state) + embedding[token * kUnits + row]);
      }
      memcpy(state, next, sizeof state);
      float most = -INFINITY;
      for (int row = 0; row < kTokens; ++row) {
        float score = Dot(output + row * kUnits, state);
        if (score > most) {
          most = score;
          token = row;
        }
      }
      sum = (sum * 31 + token) % 1000003;
      if (token == 0) break;
    }
  }
  return Int(sum);
}
