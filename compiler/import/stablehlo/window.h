// Reductions of windows whose extents are symbolic.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_WINDOW_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_WINDOW_H_

#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {

// Returns the results of the call `stablehlo.dynamic_reduce_window`: a reduction of windows that operands describe.
Operands DynamicReduceWindow(NodeContext& c);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_WINDOW_H_
