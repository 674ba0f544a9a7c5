// Instance: runs the requests of a model instance in lanes, so that they come and go at any step.
//
// With one lane, Execute runs each request to its end. With more, a thread drives them, and Execute returns as soon as
// each request has a lane: the server sends the next ones while these run. Requests wait in the server's queue, with
// its timeouts and limits, never here.
//
// Another thread asks the server about every 50 ms whether a client has gone away, and cancels its run.
#ifndef RVM_INTEGRATIONS_TRITON_INSTANCE_H_
#define RVM_INTEGRATIONS_TRITON_INSTANCE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "include/relayvm/relayvm.hpp"
#include "integrations/triton/model.h"
#include "integrations/triton/triton_api.h"

namespace rvm::triton {

class Instance {
 public:
  // `model` outlives the instance.
  static absl::StatusOr<std::unique_ptr<Instance>> Create(TRITONBACKEND_ModelInstance* handle, const Model& model);
  ~Instance();

  // Takes over the requests. By one thread at a time.
  void Execute(std::span<TRITONBACKEND_Request* const> requests);

 private:
  struct Call;

  Instance(TRITONBACKEND_ModelInstance* handle, const Model& model, relayvm::Batch batch);
  void WaitForLane();
  void Begin(TRITONBACKEND_Request* request);
  absl::Status Submit(const std::shared_ptr<Call>& call);
  absl::Status WriteOutputs(const Call& call, const relayvm::Value& result);
  // Answers a request and releases it. `result` is null if it has not run.
  void End(Call& call, absl::Status status, const relayvm::Value* result);
  void Drive();
  void Watch();
  // Returns the tickets of requests whose clients have gone away.
  std::vector<uint64_t> CancelledTickets();

  TRITONBACKEND_ModelInstance* const handle_;
  const Model& model_;
  relayvm::Batch batch_;

  std::mutex mutex_;
  std::condition_variable changed_;                     // of running_ and ends_; the watcher has one of its own
  std::map<TRITONBACKEND_Request*, uint64_t> running_;  // tickets
  bool ends_ = false;
  std::condition_variable watcher_wakes_;
  bool watcher_sleeps_ = false;

  std::thread watcher_;
  std::optional<std::thread> driver_;  // with more than one lane
};

}  // namespace rvm::triton

#endif  // RVM_INTEGRATIONS_TRITON_INSTANCE_H_
