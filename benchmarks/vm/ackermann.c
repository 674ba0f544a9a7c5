#include "control.h"

static int64_t Ackermann(int64_t m, int64_t n) {
  if (m == 0) return n + 1;
  if (n == 0) return Ackermann(m - 1, 1);
  return Ackermann(m - 1, Ackermann(m, n - 1));
}

Number Run(int64_t n, const void *const *data) {
  (void)data;
  return Int(Ackermann(3, n));
}
