// Which typed programs no back-end runs yet.
#ifndef RVM_COMPILER_DRIVER_CHECK_DTYPES_H_
#define RVM_COMPILER_DRIVER_CHECK_DTYPES_H_

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::driver {

// Reports the first expression or parameter of each function with a tensor of vectors (`float32x4`). They type, as
// the language has them; nothing stores them.
void CheckDTypes(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_CHECK_DTYPES_H_
