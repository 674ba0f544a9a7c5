#include "vm/batch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/interpreter/kernel_caller.h"
#include "vm/interpreter/native_stack.h"
#include "vm/interpreter/pending_calls.h"
#include "vm/interpreter/thread_pool.h"
#include "vm/link/link_info.h"

namespace rvm::vm {
namespace {

struct Request {
  Batch::Ticket ticket;
  std::string entry;
  std::vector<Value> args;
  RunOptions options;
  Batch::Done done;
};

// Runs the queue for all lanes, with memory and a thread pool of its own.
class QueueRunner {
 public:
  QueueRunner(const Program& program, const MachineOptions& options)
      : pool_(options.threads > 1 ? std::make_unique<ThreadPool>(options.threads) : nullptr),
        heap_(program.link_info().layouts, control_.signal(), options.memory_limit_bytes, /*fail_at=*/0),
        caller_(program.executable(), program.link_info(), heap_, control_, /*threads=*/1, /*profiler=*/nullptr,
                options.memory_limit_bytes, {&queue_, nullptr, pool_.get()}),
        queue_(program.link_info().kernels, /*is_for_one_run=*/false) {
    caller_.Begin(control_.signal());
  }

  PendingCalls& queue() { return queue_; }
  ThreadPool* pool() { return pool_.get(); }
  void Run() { queue_.Run(caller_); }

 private:
  std::unique_ptr<ThreadPool> pool_;
  RunControl control_;
  Heap heap_;
  KernelCaller caller_;
  PendingCalls queue_;
};

// A machine that runs one request after another, on a stack of its own.
class Lane : public QueueWaiter {
 public:
  enum class State : uint8_t { kFree, kReady, kWaits, kDone };

  explicit Lane(QueueRunner& runner) : runner_(runner), switches_(CanSwitchStacks() && stack_.Map()) {}

  // Returns what the lane's machine shares with the others.
  QueueShare share() { return {&runner_.queue(), this, runner_.pool()}; }
  // The machine is made when it is first needed.
  bool has_machine() const { return machine_ != nullptr; }
  void SetMachine(std::unique_ptr<Machine> machine) { machine_ = std::move(machine); }
  void Begin(Request request) {
    is_cancelled_ = false;
    request_ = std::move(request);
    state_ = State::kReady;
    is_entered_ = false;
  }

  // Runs the request until it waits or is done.
  void Resume() {
    state_ = State::kReady;
    if (!switches_) {
      Invoke();
    } else if (!std::exchange(is_entered_, true)) {
      CallOnStack(stack_.top(), [](void* lane) { static_cast<Lane*>(lane)->Main(); }, this, &driver_);
    } else {
      SwitchStacks(&driver_, left_);
    }
  }

  void WaitForRun() override {
    if (!switches_) return runner_.Run();
    state_ = State::kWaits;
    SwitchStacks(&left_, driver_);
  }

  bool IsCancelled() const override { return is_cancelled_; }
  void* const* HostStack() const override { return switches_ ? &driver_ : nullptr; }
  void Cancel() {
    is_cancelled_ = true;
    machine_->Cancel();
  }

  // Ends what is done.
  std::pair<Batch::Done, absl::StatusOr<Value>> Finish() {
    state_ = State::kFree;
    std::pair<Batch::Done, absl::StatusOr<Value>> end(std::move(request_->done), std::move(*result_));
    request_.reset();
    result_.reset();
    return end;
  }

  State state() const { return state_; }
  bool Runs(Batch::Ticket ticket) const { return request_ && request_->ticket == ticket; }

 private:
  void Invoke() {
    result_ = machine_->Invoke(request_->entry, request_->args, request_->options);
    state_ = State::kDone;
  }
  void Main() {
    Invoke();
    LeaveStack(driver_);
  }

  QueueRunner& runner_;
  NativeStack stack_{0};  // its reserve is enough for the VM and for kernels
  bool switches_;
  std::unique_ptr<Machine> machine_;
  std::optional<Request> request_;
  std::optional<absl::StatusOr<Value>> result_;
  State state_ = State::kFree;
  bool is_entered_ = false;
  std::atomic<bool> is_cancelled_ = false;
  void* driver_ = nullptr;  // where Drive left its stack
  void* left_ = nullptr;    // where the request left this one
};

}  // namespace

struct Batch::Impl {
  Impl(std::shared_ptr<const Program> p, const BatchOptions& o)
      : program(std::move(p)), options(o), runner(*program, o.machine) {
    for (int i = 0; i < o.lanes; ++i) lanes.push_back(std::make_unique<Lane>(runner));
    // Lanes without variants would only wait for each other.
    if (!program->link_info().has_batches) lanes.resize(1);
  }

  // Gives free lanes their requests. Returns whether a lane has one.
  bool Admit();
  // Calls back for lanes that are done. Returns whether there were any.
  bool FinishLanes();
  std::optional<Request> TakeRequest();
  // Makes a lane ready for a request, or says what is wrong with the request.
  absl::Status Prepare(Lane& lane, const Request& request) const;
  void RunQueue();

  std::shared_ptr<const Program> program;
  BatchOptions options;
  QueueRunner runner;
  std::vector<std::unique_ptr<Lane>> lanes;
  pid_t process = getpid();
  mutable std::mutex mutex;  // of what follows, and of which request a lane has
  mutable std::condition_variable has_request;
  std::deque<Request> inbox;
  Ticket next_ticket = 1;
  BatchStats stats;
};

Batch::Batch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Batch::~Batch() {
  // Destructors would wait for threads that a child of fork has not.
  if (impl_ != nullptr && impl_->process != getpid()) static_cast<void>(impl_.release());
}

absl::StatusOr<std::unique_ptr<Batch>> Batch::Create(std::shared_ptr<const Program> program,
                                                     const BatchOptions& options) {
  if (options.lanes < 1 || options.lanes > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("saw ", options.lanes, " lanes; expected 1 to 1024"));
  }
  if (options.machine.profiler != nullptr) {
    return absl::InvalidArgumentError("requests that run together have no profile; profile one in a machine");
  }
  if (program->link_info().device != nullptr) {
    return absl::UnimplementedError("requests run together on the host only; load the program for device \"host\"");
  }
  RVM_RETURN_IF_ERROR(Machine::Check(options.machine));
  return std::unique_ptr<Batch>(new Batch(std::make_unique<Impl>(std::move(program), options)));
}

Batch::Ticket Batch::Submit(std::string entry, std::vector<Value> args, const RunOptions& options, Done done) {
  std::lock_guard lock(impl_->mutex);
  Ticket ticket = impl_->next_ticket++;
  impl_->inbox.push_back({ticket, std::move(entry), std::move(args), options, std::move(done)});
  impl_->has_request.notify_all();
  return ticket;
}

void Batch::Cancel(Ticket ticket) {
  Done done;
  {
    std::lock_guard lock(impl_->mutex);
    for (const std::unique_ptr<Lane>& lane : impl_->lanes) {
      if (lane->Runs(ticket)) return lane->Cancel();
    }
    auto it = std::ranges::find(impl_->inbox, ticket, &Request::ticket);
    if (it == impl_->inbox.end()) return;
    done = std::move(it->done);
    impl_->inbox.erase(it);
    ++impl_->stats.requests;
  }
  done(absl::CancelledError("cancelled"));
}

std::optional<Request> Batch::Impl::TakeRequest() {
  if (inbox.empty()) return std::nullopt;
  Request request = std::move(inbox.front());
  inbox.pop_front();
  return request;
}

absl::Status Batch::Impl::Prepare(Lane& lane, const Request& request) const {
  if (process != getpid()) {
    return absl::InvalidArgumentError(
        "the batch belongs to the process that this one was forked from; create a batch in this process");
  }
  if (request.options.poll != nullptr) {
    return absl::InvalidArgumentError("a request of a batch has no poll function; cancel it");
  }
  if (lane.has_machine()) return absl::OkStatus();
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<Machine> machine, Machine::Create(program, options.machine, lane.share()));
  lane.SetMachine(std::move(machine));
  return absl::OkStatus();
}

bool Batch::Impl::Admit() {
  bool is_busy = false;
  std::vector<std::pair<Done, absl::Status>> refused;
  {
    std::lock_guard lock(mutex);
    for (const std::unique_ptr<Lane>& lane : lanes) {
      while (lane->state() == Lane::State::kFree) {
        std::optional<Request> request = TakeRequest();
        if (!request) break;
        absl::Status status = Prepare(*lane, *request);
        if (status.ok()) {
          lane->Begin(*std::move(request));
        } else {
          refused.emplace_back(std::move(request->done), std::move(status));
          ++stats.requests;
        }
      }
      is_busy |= lane->state() != Lane::State::kFree;
    }
  }
  for (auto& [done, status] : refused) done(std::move(status));
  return is_busy || !refused.empty();
}

bool Batch::Impl::FinishLanes() {
  bool any = false;
  for (const std::unique_ptr<Lane>& lane : lanes) {
    if (lane->state() != Lane::State::kDone) continue;
    any = true;
    std::optional<std::pair<Done, absl::StatusOr<Value>>> end;
    {
      std::lock_guard lock(mutex);
      end = lane->Finish();
      ++stats.requests;
    }
    end->first(std::move(end->second));
  }
  return any;
}

void Batch::Impl::RunQueue() {
  runner.Run();
  std::lock_guard lock(mutex);
  stats.calls = runner.queue().stats().calls;
  stats.groups = runner.queue().stats().groups;
}

void Batch::Drive() {
  auto& lanes = impl_->lanes;
  while (impl_->Admit()) {
    for (const std::unique_ptr<Lane>& lane : lanes) {
      if (lane->state() == Lane::State::kReady) lane->Resume();
    }
    // The requests that follow run up to where the others wait.
    if (impl_->FinishLanes()) continue;
    impl_->RunQueue();
    for (const std::unique_ptr<Lane>& lane : lanes) {
      if (lane->state() == Lane::State::kWaits) lane->Resume();
    }
    impl_->FinishLanes();
  }
}

bool Batch::WaitForRequest(double milliseconds) const {
  constexpr double kLongestMs = 1e10;  // some months
  std::unique_lock lock(impl_->mutex);
  return impl_->has_request.wait_for(lock,
                                     std::chrono::duration<double, std::milli>(std::min(milliseconds, kLongestMs)),
                                     [&] { return !impl_->inbox.empty(); });
}

BatchStats Batch::stats() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

}  // namespace rvm::vm
