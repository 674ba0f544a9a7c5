#include "control.h"

static int Class(int byte) {
  if (byte < 48) return 0;
  if (byte < 58) return 2;
  if (byte < 97) return 0;
  return byte < 123 ? 1 : 0;
}

Number Run(int64_t n, const void *const *data) {
  const uint8_t *text = data[0];
  int state = 0;
  int64_t hash = 0, sum = 0;
  for (int64_t at = 0; at < n; ++at) {
    int byte = text[at], now = Class(byte);
    if (now == state) {
      hash = state == 0 ? 0 : (hash * 31 + byte) % 1000003;
    } else {
      sum += hash + state;
      hash = now == 0 ? 0 : byte;
      state = now;
    }
  }
  return Int(sum + hash);
}
