// Runs of programs for the quantiser.
#ifndef RVM_TOOLS_RELAYVM_QUANTIZE_RUNS_H_
#define RVM_TOOLS_RELAYVM_QUANTIZE_RUNS_H_

#include <string>

#include "compiler/driver/quantize.h"
#include "compiler/driver/result_error.h"

namespace rvm::tools {

// `path`: of the data for `entry`, a file with a line of values for each sample, an .npz file of arrays with a first
// axis of samples, or a folder with an .npz file for each sample; empty: none.
driver::QuantizeRuntime RuntimeForQuantizing(const std::string& path, const std::string& entry,
                                             driver::ResultMetric metric);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_QUANTIZE_RUNS_H_
