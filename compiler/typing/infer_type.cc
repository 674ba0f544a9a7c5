#include "compiler/typing/infer_type.h"

#include "compiler/typing/checker.h"
#include "compiler/typing/kind_check.h"

namespace rvm::typing {

bool InferTypes(ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  int before = diagnostics.errors();
  if (!CheckKinds(module, diagnostics)) return false;
  Checker(module, diagnostics).CheckModule();
  return diagnostics.errors() == before;
}

}  // namespace rvm::typing
