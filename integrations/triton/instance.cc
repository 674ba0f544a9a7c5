#include "integrations/triton/instance.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "integrations/triton/status.h"
#include "integrations/triton/tensors.h"

namespace rvm::triton {
namespace {

// Time between two questions whether a client has gone away.
constexpr std::chrono::milliseconds kWatchPeriod(50);
// Number of periods after which the watcher of an idle instance sleeps until a request wakes it.
constexpr int kMaxIdlePeriods = 20;

uint64_t Now() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

// Returns the time limit of a request: the earlier one of the client's and the model's; 0 if there is none.
absl::StatusOr<double> TimeLimit(TRITONBACKEND_Request* request, const ModelParameters& parameters) {
  uint64_t timeout_us = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout_us)));
  double limit = static_cast<double>(timeout_us) * 1e-3;
  if (parameters.time_limit_ms == 0) return limit;
  return limit == 0 ? parameters.time_limit_ms : std::min(limit, parameters.time_limit_ms);
}

}  // namespace

// A request that the backend owns. Times are those that the server counts.
struct Instance::Call {
  TRITONBACKEND_Request* request;
  TRITONBACKEND_Response* response = nullptr;
  uint64_t began = Now();
  uint64_t computed = 0;  // when its run began
};

absl::StatusOr<std::unique_ptr<Instance>> Instance::Create(TRITONBACKEND_ModelInstance* handle, const Model& model) {
  const ModelParameters& parameters = model.parameters;
  rvm_machine_options lane = {};
  lane.threads = static_cast<uint32_t>(parameters.threads);
  lane.memory_limit = parameters.memory_limit;
  lane.fuel = parameters.fuel;
  rvm_batch_options options = {};
  options.lanes = static_cast<uint32_t>(parameters.lanes);
  relayvm::Result<relayvm::Batch> batch = relayvm::Batch::Create(model.program, options, lane);
  if (!batch) return StatusOf(batch.error());
  return std::unique_ptr<Instance>(new Instance(handle, model, std::move(batch).value()));
}

Instance::Instance(TRITONBACKEND_ModelInstance* handle, const Model& model, relayvm::Batch batch)
    : handle_(handle), model_(model), batch_(std::move(batch)), watcher_([this] { Watch(); }) {
  if (model.parameters.lanes > 1) driver_.emplace([this] { Drive(); });
}

Instance::~Instance() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  watcher_wakes_.notify_all();
  watcher_.join();
  if (driver_) driver_->join();
}

void Instance::Execute(std::span<TRITONBACKEND_Request* const> requests) {
  for (TRITONBACKEND_Request* request : requests) {
    if (driver_) WaitForLane();
    Begin(request);
  }
  // Requests of one lane have all begun or failed; those that wait for it run in their order.
  if (!driver_) batch_.Drive();
}

void Instance::WaitForLane() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_.size() < static_cast<size_t>(model_.parameters.lanes); });
}

void Instance::Begin(TRITONBACKEND_Request* request) {
  auto call = std::make_shared<Call>(request);
  absl::Status status = StatusOf(TRITONBACKEND_ResponseNew(&call->response, request));
  if (status.ok()) status = Submit(call);
  if (!status.ok()) End(*call, status, nullptr);
}

absl::Status Instance::Submit(const std::shared_ptr<Call>& call) {
  bool is_cancelled = false;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestIsCancelled(call->request, &is_cancelled)));
  if (is_cancelled) return absl::CancelledError("the client cancelled the request before it ran");
  rvm_run_options options = {};
  RVM_ASSIGN_OR_RETURN(options.time_limit_ms, TimeLimit(call->request, model_.parameters));
  std::vector<relayvm::Value> args;
  for (const TensorForm& form : model_.forms.inputs) {
    RVM_ASSIGN_OR_RETURN(relayvm::Value value, ReadInput(call->request, form));
    args.push_back(std::move(value));
  }
  call->computed = Now();
  auto done = [this, call](relayvm::Result<relayvm::Value> result) {
    End(*call, result ? absl::OkStatus() : StatusOf(result.error()), result ? &*result : nullptr);
  };
  // The driver may end the request at once; it waits here until the ticket is noted.
  std::unique_lock lock(mutex_);
  relayvm::Result<uint64_t> ticket = batch_.Submit(model_.parameters.entry.c_str(), args, done, options);
  if (!ticket) return StatusOf(ticket.error());
  running_[call->request] = *ticket;
  bool watcher_sleeps = watcher_sleeps_;
  lock.unlock();
  changed_.notify_all();
  if (watcher_sleeps) watcher_wakes_.notify_all();
  return absl::OkStatus();
}

absl::Status Instance::WriteOutputs(const Call& call, const relayvm::Value& result) {
  std::vector<relayvm::Value> parts;
  if (model_.forms.gives_tuple) {
    parts = result.fields();
  } else {
    parts.push_back(result);
  }
  uint32_t count = 0;
  RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestOutputCount(call.request, &count)));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    RVM_RETURN_IF_ERROR(StatusOf(TRITONBACKEND_RequestOutputName(call.request, i, &name)));
    for (size_t part = 0; part < parts.size(); ++part) {
      const TensorForm& form = model_.forms.outputs[part];
      if (form.name == name) RVM_RETURN_IF_ERROR(WriteOutput(call.response, form, parts[part]));
    }
  }
  return absl::OkStatus();
}

void Instance::End(Call& call, absl::Status status, const relayvm::Value* result) {
  uint64_t ended = Now();
  {
    std::lock_guard lock(mutex_);
    running_.erase(call.request);  // the watcher looks at it no more
  }
  if (result != nullptr && status.ok()) status = WriteOutputs(call, *result);
  TRITONSERVER_Error* error = ErrorOf(status);
  if (call.response != nullptr) {
    LogIfError(TRITONBACKEND_ResponseSend(call.response, kResponseFinal, error), "a response is not sent");
    if (error != nullptr) TRITONSERVER_ErrorDelete(error);
  } else {
    LogIfError(error, "a request has no response");
  }
  uint64_t sent = Now(), computed = call.computed == 0 ? ended : call.computed;
  LogIfError(TRITONBACKEND_ModelInstanceReportStatistics(handle_, call.request, status.ok(), call.began, computed,
                                                         ended, sent),
             "statistics are not counted");
  LogIfError(TRITONBACKEND_ModelInstanceReportBatchStatistics(handle_, 1, call.began, computed, ended, sent),
             "statistics are not counted");
  LogIfError(TRITONBACKEND_RequestRelease(call.request, kReleaseAll), "a request is not released");
  changed_.notify_all();
}

void Instance::Drive() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !running_.empty(); });
    if (running_.empty()) return;
    lock.unlock();
    batch_.Drive(/*wait_ms=*/10);
    lock.lock();
  }
}

void Instance::Watch() {
  std::unique_lock lock(mutex_);
  int idle_periods = kMaxIdlePeriods;
  while (true) {
    watcher_sleeps_ = idle_periods >= kMaxIdlePeriods;
    if (watcher_sleeps_) {
      watcher_wakes_.wait(lock, [&] { return ends_ || !running_.empty(); });
      watcher_sleeps_ = false;
    } else {
      watcher_wakes_.wait_for(lock, kWatchPeriod, [&] { return ends_; });
    }
    if (ends_) return;
    idle_periods = running_.empty() ? idle_periods + 1 : 0;
    std::vector<uint64_t> tickets = CancelledTickets();
    lock.unlock();
    // A request that has not begun ends on this thread, which must not hold the mutex then.
    for (uint64_t ticket : tickets) batch_.Cancel(ticket);
    lock.lock();
  }
}

std::vector<uint64_t> Instance::CancelledTickets() {
  std::vector<uint64_t> tickets;
  for (const auto& [request, ticket] : running_) {
    bool is_cancelled = false;
    LogIfError(TRITONBACKEND_RequestIsCancelled(request, &is_cancelled), "cancellation is unknown");
    if (is_cancelled) tickets.push_back(ticket);
  }
  return tickets;
}

}  // namespace rvm::triton
