// Checks for tensors that no executable can hold.
#ifndef RVM_COMPILER_DRIVER_CHECK_TENSORS_H_
#define RVM_COMPILER_DRIVER_CHECK_TENSORS_H_

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::driver {

// Reports the first expression or parameter of each function with a tensor that is well typed and cannot be stored: of
// a vector dtype (`float32x4`), with too many axes or bytes.
void CheckTensors(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_CHECK_TENSORS_H_
