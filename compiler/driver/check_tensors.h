// Which typed programs no executable can hold.
#ifndef RVM_COMPILER_DRIVER_CHECK_TENSORS_H_
#define RVM_COMPILER_DRIVER_CHECK_TENSORS_H_

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::driver {

// Reports the first expression or parameter of each function with a tensor that types, as the language has it, and that
// nothing stores: of vectors (`float32x4`), of too many axes or bytes.
void CheckTensors(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_CHECK_TENSORS_H_
