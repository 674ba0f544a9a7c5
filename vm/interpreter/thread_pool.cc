#include "vm/interpreter/thread_pool.h"

#include <algorithm>
#include <chrono>

namespace rvm::vm {
namespace {
// More ranges than threads, because the system does not give all threads the same time.
constexpr int64_t kRangesPerThread = 8;
// A thread that sleeps and is woken loses about this. The steps of a recurrent network follow each other faster; so do
// the kernels of most models.
constexpr std::chrono::microseconds kSpinTime(50);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}
}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) {
    pthread_t worker;
    if (pthread_create(&worker, nullptr, Main, this) != 0) return;
    workers_.push_back(worker);
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++number_;
  }
  has_job_.notify_all();
  for (pthread_t worker : workers_) pthread_join(worker, nullptr);
}

void ThreadPool::For(int64_t count, int64_t grain, Body body, void* closure) {
  if (count <= 0) return;
  auto threads = static_cast<int64_t>(workers_.size()) + 1;
  int64_t ranges = std::min(threads * kRangesPerThread, count / std::max<int64_t>(grain, 1));
  if (threads == 1 || ranges < 2) return body(0, count, closure);
  Job job = {body, closure, count, (count + ranges - 1) / ranges};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    job_ = job;
    next_.store(0, std::memory_order_relaxed);
    is_open_ = true;
    ++number_;
  }
  has_job_.notify_all();
  RunRanges(job);
  // A worker that wakes up late finds the job closed: `closure` may be gone.
  std::unique_lock<std::mutex> lock(mutex_);
  is_open_ = false;
  if (active_ == 0) return;
  lock.unlock();
  Spin([&] { return active_ == 0; });
  lock.lock();
  is_done_.wait(lock, [&] { return active_ == 0; });
}

template <typename F>
void ThreadPool::Spin(const F& is_done) {
  auto end = std::chrono::steady_clock::now() + kSpinTime;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 16; ++i) {
      if (is_done()) return;
      Pause();
    }
  }
}

void ThreadPool::RunRanges(const Job& job) {
  while (true) {
    int64_t begin = next_.fetch_add(job.range, std::memory_order_relaxed);
    if (begin >= job.count) return;
    job.body(begin, std::min(begin + job.range, job.count), job.closure);
  }
}

void* ThreadPool::Main(void* self) {
  static_cast<ThreadPool*>(self)->Loop();
  return nullptr;
}

void ThreadPool::Loop() {
  uint64_t last = 0;
  while (true) {
    Spin([&] { return number_ != last; });
    std::unique_lock<std::mutex> lock(mutex_);
    has_job_.wait(lock, [&] { return stop_ || (is_open_ && number_ != last); });
    if (stop_) return;
    last = number_;
    Job job = job_;
    ++active_;
    lock.unlock();
    RunRanges(job);
    lock.lock();
    if (--active_ == 0) is_done_.notify_one();
  }
}

}  // namespace rvm::vm
