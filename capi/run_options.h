// Options of machines and runs, as functions of the C interface take them, and who may use a machine.
#ifndef RVM_CAPI_RUN_OPTIONS_H_
#define RVM_CAPI_RUN_OPTIONS_H_

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/value.h"
#include "include/relayvm/relayvm.h"
#include "vm/machine.h"

namespace rvm::capi {

// Makes an object that one thread at a time may use this thread's, until it dies, unless it is another one's.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& is_busy) : is_busy_(is_busy), is_mine_(!is_busy.exchange(true)) {}
  ~Turn() {
    if (is_mine_) is_busy_ = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool is_mine() const { return is_mine_; }

 private:
  std::atomic<bool>& is_busy_;
  bool is_mine_;
};

// These give null, or what is wrong. `given` may be null: the defaults. `read` is what was given, with zeros for what
// was not; `options` have all of it but the profiler.
rvm_error* ReadMachineOptions(const rvm_machine_options* given, rvm_machine_options& read, vm::MachineOptions& options);
rvm_error* ReadRunOptions(const rvm_run_options* given, vm::RunOptions& options);
// Returns the values of arguments.
rvm_error* ReadArguments(rvm_value* const* args, size_t count, std::vector<Value>& values);

}  // namespace rvm::capi

#endif  // RVM_CAPI_RUN_OPTIONS_H_
