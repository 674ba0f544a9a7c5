// Prints the float32 multiplications (each with its addition) a second that one core does at most, in vectors of the
// width this CPU has: the floor of products and convolutions.
#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {

// Short, so that one repetition runs without another process in between.
constexpr long kSteps = 20'000;
constexpr int kRepetitions = 300;
constexpr int kSums = 12;  // independent, to hide the latency of one

volatile int unknown = 1;
volatile float result;

template <int lanes>
[[gnu::always_inline]] inline double Peak() {
  using Vector = float __attribute__((vector_size(lanes * sizeof(float))));
  double best = 0;
  for (int repeat = 0; repeat < kRepetitions; ++repeat) {
    Vector sums[kSums] = {};
    // Values that the compiler does not know: the sums stay apart.
    for (int s = 0; s < kSums; ++s) sums[s] += static_cast<float>(unknown + s);
    Vector x = Vector{} + static_cast<float>(unknown) * 0.5f, y = Vector{} + 1.0f;
    auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < kSteps; ++i) {
#pragma clang loop unroll(full)
      for (int s = 0; s < kSums; ++s) sums[s] = sums[s] * x + y;
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    for (int s = 1; s < kSums; ++s) sums[0] += sums[s];
    result = sums[0][0];
    best = std::max(best, static_cast<double>(kSteps) * kSums * lanes / took.count());
  }
  return best;
}

[[gnu::target("avx512f,avx512vl,fma")]] double Peak512() { return Peak<16>(); }
[[gnu::target("avx2,fma")]] double Peak256() { return Peak<8>(); }
double Peak128() { return Peak<4>(); }

}  // namespace

int main() {
  bool has_512 = __builtin_cpu_supports("avx512f") != 0, has_fma = __builtin_cpu_supports("fma") != 0;
  std::printf("%.4g\n", has_512 ? Peak512() : has_fma ? Peak256() : Peak128());
}
