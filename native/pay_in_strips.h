// Counted loops pay for many iterations at once.
#ifndef RVM_NATIVE_PAY_IN_STRIPS_H_
#define RVM_NATIVE_PAY_IN_STRIPS_H_

#include "llvm/IR/PassManager.h"

namespace rvm::native {

// Strip-mines the payments of innermost loops: takes them out of loops that pay once per iteration, and whose number of
// iterations LLVM can compute when they begin. Such a loop runs in strips: a strip pays for as many iterations as the
// budget and the loop have left. Only its end polls, at the payment for which the budget does not suffice. An exit
// before the end of a strip takes back what it did not use. Expects payments as FunctionEmitter::Pay emits them.
class PayInStripsPass : public llvm::PassInfoMixin<PayInStripsPass> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace rvm::native

#endif  // RVM_NATIVE_PAY_IN_STRIPS_H_
