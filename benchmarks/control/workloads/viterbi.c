// The rows of the way back are an array, as one would have it in C.
#include "control.h"

enum { kStates = 8 };

Number Run(int64_t n, const void *const *data) {
  const float *scores = data[0], *steps = data[1];
  int32_t(*from)[kStates] = malloc(n * sizeof *from);
  if (from == NULL) abort();
  float best[kStates];
  for (int k = 0; k < kStates; ++k) best[k] = scores[k];
  for (int64_t t = 1; t < n; ++t) {
    float next[kStates];
    for (int to = 0; to < kStates; ++to) {
      int32_t at = 0;
      float most = steps[to * kStates] + best[0];
      for (int k = 1; k < kStates; ++k) {
        float score = steps[to * kStates + k] + best[k];
        if (score > most) {
          most = score;
          at = k;
        }
      }
      next[to] = most + scores[t * kStates + to];
      from[t][to] = at;
    }
    for (int k = 0; k < kStates; ++k) best[k] = next[k];
  }
  int32_t state = 0;
  for (int k = 1; k < kStates; ++k) {
    if (best[k] > best[state]) state = k;
  }
  int64_t sum = state;
  for (int64_t t = n - 1; t > 0; --t) {
    state = from[t][state];
    sum = (sum * 31 + state) % 1000003;
  }
  free(from);
  return Int(sum);
}
