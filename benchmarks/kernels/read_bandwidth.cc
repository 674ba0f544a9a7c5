// Prints the bytes a second that one thread, or several together, read of a block that was read before, at most: the
// floor of what reads its weights once a step.
//
//   read_bandwidth BYTES [THREADS]
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kRepetitions = 300;
// Places read at once, which is faster than one, and vectors of each in a step; all have sums of their own, to hide the
// latency of one.
constexpr int kStreams = 4, kVectors = 2;
// A part of the block is a multiple of the widest step.
constexpr size_t kStep = kStreams * kVectors * 64;

std::atomic<uint64_t> result;

template <int bytes>
[[gnu::always_inline]] inline uint64_t Read(const char* data, size_t size) {
  using Vector = uint64_t __attribute__((vector_size(bytes)));
  Vector sums[kStreams * kVectors] = {};
  size_t stream = size / kStreams;
  for (size_t at = 0; at < stream; at += kVectors * bytes) {
#pragma clang loop unroll(full)
    for (int s = 0; s < kStreams * kVectors; ++s) {
      sums[s] |= *reinterpret_cast<const Vector*>(data + s / kVectors * stream + at + s % kVectors * bytes);
    }
  }
  for (int s = 1; s < kStreams * kVectors; ++s) sums[0] |= sums[s];
  return sums[0][0];
}

[[gnu::target("avx512f,avx512vl")]] uint64_t Read512(const char* data, size_t size) { return Read<64>(data, size); }
[[gnu::target("avx2")]] uint64_t Read256(const char* data, size_t size) { return Read<32>(data, size); }
uint64_t Read128(const char* data, size_t size) { return Read<16>(data, size); }

using Reader = uint64_t (*)(const char*, size_t);

Reader ReaderOfThisCpu() {
  bool has_512 = __builtin_cpu_supports("avx512f") != 0, has_256 = __builtin_cpu_supports("avx2") != 0;
  return has_512 ? Read512 : has_256 ? Read256 : Read128;
}

// Waits until `count` reaches `goal`. Without sleeping: a thread that sleeps wakes up too late.
void Await(const std::atomic<long>& count, long goal) {
  while (count.load(std::memory_order_acquire) < goal) {
  }
}

// Seconds of the fastest read of `threads` parts of `part` bytes each, every thread its own part.
double Least(const char* block, size_t part, int threads) {
  Reader read = ReaderOfThisCpu();
  std::atomic<long> rounds = 0, done = 0;
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back([&, t] {
      for (long round = 1; round <= kRepetitions; ++round) {
        Await(rounds, round);
        result |= read(block + t * part, part);
        ++done;
      }
    });
  }
  double least = 1e9;
  for (long round = 1; round <= kRepetitions; ++round) {
    auto start = std::chrono::steady_clock::now();
    rounds = round;
    result |= read(block, part);
    Await(done, round * (threads - 1));
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  for (std::thread& other : others) other.join();
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  long bytes = argc > 1 ? std::atol(argv[1]) : 0, threads = argc > 2 ? std::atol(argv[2]) : 1;
  // A thread that waits for one that has no processor would be timed instead.
  long processors = std::thread::hardware_concurrency();
  if (argc > 3 || bytes <= 0 || threads < 1 || threads > processors) {
    std::fprintf(stderr,
                 "usage: read_bandwidth BYTES [THREADS]: 1 byte or more, and 1 (the default) to %ld threads, one for "
                 "each processor\n",
                 processors);
    return 2;
  }
  size_t part = (static_cast<size_t>(bytes) / threads + kStep - 1) / kStep * kStep;
  size_t size = (part * threads + kHugePage - 1) / kHugePage * kHugePage;
  char* block = static_cast<char*>(std::aligned_alloc(kHugePage, size));
  if (block == nullptr) {
    std::fprintf(stderr, "read_bandwidth: no memory for a block of %zu bytes\n", size);
    return 1;
  }
  // Large pages, if the system has them, keep address translation out of the measured time.
  madvise(block, size, MADV_HUGEPAGE);
  std::memset(block, 1, size);
  std::printf("%.4g\n", static_cast<double>(part * threads) / Least(block, part, static_cast<int>(threads)));
}
