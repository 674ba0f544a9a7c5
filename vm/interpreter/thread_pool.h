// ThreadPool: the threads that share the work of one machine's kernels.
#ifndef RVM_VM_INTERPRETER_THREAD_POOL_H_
#define RVM_VM_INTERPRETER_THREAD_POOL_H_

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace rvm::vm {

class ThreadPool {
 public:
  using Body = void (*)(int64_t begin, int64_t end, void* closure);

  // `threads` run at once, the caller of For among them; fewer if the system gives no more.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs body(begin, end, closure) over ranges of at least `grain` that cover [0, count) once. From one
  // thread at a time, and not from within a body.
  void For(int64_t count, int64_t grain, Body body, void* closure);

 private:
  struct Job {
    Body body = nullptr;
    void* closure = nullptr;
    int64_t count = 0;
    int64_t range = 0;
  };
  static void* Main(void* self);
  // Waits, without the lock, until `is_done` or until sleeping would have cost less.
  template <typename F>  // F: bool()
  static void Spin(const F& is_done);
  void Loop();
  void RunRanges(const Job& job);

  std::vector<pthread_t> workers_;
  std::mutex mutex_;
  std::condition_variable has_job_, is_done_;
  Job job_;
  bool is_open_ = false;              // workers may still join the job
  std::atomic<uint64_t> number_ = 0;  // of the job; the last one, which has no body, ends the workers
  std::atomic<int> active_ = 0;       // workers on the job
  bool stop_ = false;
  std::atomic<int64_t> next_ = 0;  // where the next range begins
};

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_THREAD_POOL_H_
