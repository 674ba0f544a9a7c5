#include "control.h"

enum { kModulus = 1000003 };

static int64_t Sum(const uint8_t **at);

static int64_t Factor(const uint8_t **at) {
  int64_t value = 0;
  if (**at == '(') {
    ++*at;
    value = Sum(at);
    ++*at;
    return value;
  }
  for (; **at >= '0' && **at <= '9'; ++*at) value = (value * 10 + **at - '0') % kModulus;
  return value;
}

static int64_t Product(const uint8_t **at) {
  int64_t value = Factor(at);
  while (**at == '*') {
    ++*at;
    value = value * Factor(at) % kModulus;
  }
  return value;
}

static int64_t Sum(const uint8_t **at) {
  int64_t value = Product(at);
  while (**at == '+' || **at == '-') {
    int64_t sign = *(*at)++ == '+' ? 1 : -1;
    value = (value + sign * Product(at) + kModulus) % kModulus;
  }
  return value;
}

Number Run(int64_t n, const void *const *data) {
  (void)n;
  const uint8_t *text = data[0], *at = text;
  int64_t value = Sum(&at);
  return Int(value + (at - text));
}
