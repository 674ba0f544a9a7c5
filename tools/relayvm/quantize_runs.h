// Runs of programs for the quantiser.
#ifndef RVM_TOOLS_RELAYVM_QUANTIZE_RUNS_H_
#define RVM_TOOLS_RELAYVM_QUANTIZE_RUNS_H_

#include "compiler/driver/quantize.h"

namespace rvm::tools {

driver::QuantizeRuntime RuntimeForQuantizing();

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_QUANTIZE_RUNS_H_
