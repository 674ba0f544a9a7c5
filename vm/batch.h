// Batch: runs many requests of a program at once on one thread, so that their kernel calls run together.
//
//   RVM_ASSIGN_OR_RETURN(auto batch, vm::Batch::Create(program, {.lanes = 8}));
//   for (Value& x : requests) batch->Submit("main", {x}, {}, [&](absl::StatusOr<Value> result) { ... });
//   batch->Drive();
//
// A request runs in a lane: a machine with its own heap and limits, whose calls of kernels that have variants for
// batches (`relayvm compile --batch`) wait in a queue that all lanes share. Each lane goes on until control needs an
// element that is not there yet; when all lanes wait, the queue runs. So a request may branch on tensors and end at any
// step; another one takes its lane at once. A request's result does not depend on the company that it had, bit by bit,
// and neither does its error: limits, a cancellation or an error end that request alone.
//
// A program without variants runs its requests one after another. Cf. Orca's scheduling by iteration (Yu et al., 2022).
//
// Threads: Submit and Cancel may be called from any thread, and from a callback; Drive from one at a time.
#ifndef RVM_VM_BATCH_H_
#define RVM_VM_BATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "vm/machine.h"

namespace rvm::vm {

struct BatchOptions {
  int lanes = 8;           // requests that run at once: 1 to 1024; with large weights more may gain
  MachineOptions machine;  // of each lane; `threads` is for all of them, and there is no profiler
};

struct BatchStats {
  int64_t requests = 0;  // that have ended
  int64_t calls = 0;     // of kernels, that waited
  int64_t groups = 0;    // of calls, each of which ran as one if the kernel has a variant
};

class Batch {
 public:
  using Ticket = uint64_t;
  using Done = std::function<void(absl::StatusOr<Value>)>;

  // kInvalidArgument for wrong options.
  static absl::StatusOr<std::unique_ptr<Batch>> Create(std::shared_ptr<const Program> program,
                                                       const BatchOptions& options);
  // Requests that have not ended are dropped without a word.
  ~Batch();

  // Adds a request, which begins when Drive has a free lane, in the order of submission; its time limit counts from
  // then on. `done` gets the result, or the error that Machine::Invoke would give, on the thread of Drive. `options`
  // may have no poll function.
  Ticket Submit(std::string entry, std::vector<Value> args, const RunOptions& options, Done done);
  // Ends a request soon with kCancelled, if it has not ended.
  void Cancel(Ticket ticket);
  // Runs requests until none is left.
  void Drive();
  // Returns whether there is a request, for which it waits no longer than that. Callable from any thread.
  bool WaitForRequest(double milliseconds) const;

  // Returns the counts as they were when the queue ran last. Callable from any thread.
  BatchStats stats() const;

 private:
  struct Impl;
  explicit Batch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rvm::vm

#endif  // RVM_VM_BATCH_H_
