#include "tools/relayvm/bench_runs.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "vm/batch.h"

namespace rvm::tools {
namespace {

using Clock = BenchInstance::Clock;

// Each instance starts at another line, so that machines do not run in lockstep.
void RunInstance(vm::Machine& machine, const std::string& entry, const std::vector<BenchArgs>& lines,
                 const BenchPlan& plan, size_t index, std::latch& start, BenchInstance& instance) {
  size_t next = index;
  auto invoke = [&] {
    absl::Status status = Invoke(machine, entry, lines[next % lines.size()]).status();
    ++next;
    return status;
  };
  for (int64_t i = 0; i < plan.warmup && instance.status.ok(); ++i) instance.status = invoke();
  start.arrive_and_wait();
  instance.began = instance.ended = Clock::now();
  while (instance.status.ok()) {
    auto done = static_cast<int64_t>(instance.samples.size());
    bool enough =
        plan.seconds > 0
            ? done > 0 && std::chrono::duration<double>(instance.ended - instance.began).count() >= plan.seconds
            : done >= plan.runs;
    if (enough) break;
    Clock::time_point before = Clock::now();
    instance.status = invoke();
    instance.ended = Clock::now();
    instance.samples.push_back(
        {std::chrono::duration<double, std::nano>(instance.ended - before).count(), (next - 1) % lines.size()});
  }
  instance.peak_bytes = machine.stats().peak_bytes;
}

// Requests of a batch that are made and measured.
class RequestsOfBatch {
 public:
  RequestsOfBatch(vm::Batch& batch, const std::string& entry, const std::vector<BenchArgs>& lines)
      : batch_(batch), entry_(entry), lines_(lines) {}

  // Runs `count` requests, so many of them at once.
  void RunClosed(int64_t count, int64_t at_once, double seconds) {
    end_ = seconds > 0
               ? Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))
               : Clock::time_point::max();
    left_ = seconds > 0 ? std::numeric_limits<int64_t>::max() : count;
    for (int64_t i = 0; i < at_once; ++i) SubmitNext();
    batch_.Drive();
  }
  // Runs requests that arrive at random.
  void RunOpen(int64_t count, double rate, double seconds) {
    std::vector<double> arrivals;
    std::mt19937_64 random(1);
    std::exponential_distribution<double> gap(rate);
    double time = gap(random);
    while (seconds > 0 ? time < seconds : static_cast<int64_t>(arrivals.size()) < count) {
      arrivals.push_back(time);
      time += gap(random);
    }
    Clock::time_point began = Clock::now();
    std::atomic<bool> is_over = false;
    std::thread others([&] {
      for (double arrival : arrivals) {
        auto at = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arrival));
        std::this_thread::sleep_until(at);
        Submit(at);
      }
      is_over = true;
    });
    while (!is_over) {
      if (batch_.WaitForRequest(1)) batch_.Drive();
    }
    others.join();
    batch_.Drive();
  }
  // Returns the measurements so far, and begins anew.
  BenchInstance Take() { return std::exchange(instance_, {}); }

 private:
  void SubmitNext() {
    if (left_ <= 0 || Clock::now() >= end_ || !instance_.status.ok()) return;
    --left_;
    Submit(Clock::now(), [this] { SubmitNext(); });
  }
  void Submit(Clock::time_point arrival, std::function<void()> then = nullptr) {
    size_t line = next_++ % lines_.size();
    batch_.Submit(entry_, lines_[line], {}, [this, arrival, line, then](const absl::StatusOr<Value>& result) {
      instance_.ended = Clock::now();
      if (instance_.samples.empty()) instance_.began = arrival;
      instance_.samples.push_back({std::chrono::duration<double, std::nano>(instance_.ended - arrival).count(), line});
      if (!result.ok()) instance_.status = result.status();
      if (then != nullptr) then();
    });
  }

  vm::Batch& batch_;
  const std::string& entry_;
  const std::vector<BenchArgs>& lines_;
  size_t next_ = 0;
  int64_t left_ = 0;
  Clock::time_point end_;
  BenchInstance instance_;
};

}  // namespace

absl::StatusOr<BenchMeasured> MeasureMachines(const ProgramToRun& loaded, const std::vector<BenchArgs>& lines,
                                              const BenchPlan& plan) {
  std::vector<std::unique_ptr<vm::Machine>> machines;
  for (int64_t i = 0; i < plan.instances; ++i) {
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(loaded.program, loaded.run.machine));
    machines.push_back(std::move(machine));
  }
  BenchMeasured measured;
  measured.instances.resize(machines.size());
  std::latch start(static_cast<ptrdiff_t>(machines.size()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < machines.size(); ++i) {
    threads.emplace_back(
        [&, i] { RunInstance(*machines[i], loaded.run.entry, lines, plan, i, start, measured.instances[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  Clock::time_point began = Clock::time_point::max();
  Clock::time_point ended = Clock::time_point::min();
  for (const BenchInstance& instance : measured.instances) {
    RVM_RETURN_IF_ERROR(instance.status);
    began = std::min(began, instance.began);
    ended = std::max(ended, instance.ended);
  }
  measured.seconds = std::chrono::duration<double>(ended - began).count();
  return measured;
}

absl::StatusOr<BenchMeasured> MeasureBatch(const ProgramToRun& loaded, const std::vector<BenchArgs>& lines,
                                           const BenchPlan& plan) {
  RVM_ASSIGN_OR_RETURN(
      std::unique_ptr<vm::Batch> batch,
      vm::Batch::Create(loaded.program, {.lanes = static_cast<int>(plan.lanes), .machine = loaded.run.machine}));
  RequestsOfBatch requests(*batch, loaded.run.entry, lines);
  requests.RunClosed(plan.warmup, plan.lanes, /*seconds=*/0);
  RVM_RETURN_IF_ERROR(requests.Take().status);
  if (plan.rate > 0) {
    requests.RunOpen(plan.runs, plan.rate, plan.seconds);
  } else {
    requests.RunClosed(plan.runs, plan.lanes, plan.seconds);
  }
  BenchMeasured measured;
  measured.instances.push_back(requests.Take());
  const BenchInstance& instance = measured.instances[0];
  RVM_RETURN_IF_ERROR(instance.status);
  measured.seconds = std::chrono::duration<double>(instance.ended - instance.began).count();
  return measured;
}

}  // namespace rvm::tools
