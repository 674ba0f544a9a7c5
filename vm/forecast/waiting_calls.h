// Predicts the memory of calls that wait, in programs with variants of kernels for batches (PendingCalls).
#ifndef RVM_VM_FORECAST_WAITING_CALLS_H_
#define RVM_VM_FORECAST_WAITING_CALLS_H_

#include <cstdint>
#include <span>

#include "serialization/isa/isa.h"
#include "vm/link/link_info.h"

namespace rvm::vm::forecast {

struct WaitingCall {
  int64_t bytes = 0;            // of results, with rows beside them, and operands but constants; 0: it does not wait
  int64_t workspace_bytes = 0;  // of the variant, for as many calls as it makes at once, and of arranged matrices
};

// Returns the memory of a call with these arguments and values of the kernel's symbols.
WaitingCall ForecastWaiting(const LinkInfo& link, const KernelInfo& kernel, const Operand& args,
                            std::span<const int64_t> symbols);

}  // namespace rvm::vm::forecast

#endif  // RVM_VM_FORECAST_WAITING_CALLS_H_
