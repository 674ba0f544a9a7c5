// Reports of `relayvm quantize`: what became of each site.
#ifndef RVM_TOOLS_RELAYVM_QUANTIZE_REPORT_H_
#define RVM_TOOLS_RELAYVM_QUANTIZE_REPORT_H_

#include <string>

#include "compiler/driver/quantize.h"

namespace rvm::tools {

// Returns a few lines for a terminal.
std::string QuantizeSummary(const driver::QuantizedProgram& program);
// Returns a page with a row for each site, of the program at `path`.
std::string QuantizeHtml(const driver::QuantizedProgram& program, const driver::QuantizeRequest& request,
                         const std::string& path);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_QUANTIZE_REPORT_H_
