// The reference evaluator: a direct implementation of the semantics. Tests compare the VM with it; `relayvm eval` runs
// it.
//
// It interprets the typed program with an explicit stack of continuations: recursion uses heap memory instead of host
// stack, and a tail call uses neither.
#ifndef RVM_COMPILER_REFERENCE_EVALUATOR_H_
#define RVM_COMPILER_REFERENCE_EVALUATOR_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "compiler/ir/module.h"

namespace rvm::reference {

struct EvaluateOptions {
  int64_t max_steps = -1;          // expressions entered and left; -1: no limit
  int64_t max_depth = 20'000'000;  // continuations on the stack
};

// REQUIRES: typing::InferTypes succeeded on `module`. kNotFound: no such entry; kInvalidArgument: an
// argument does not fit its parameter, or an operator its operands; kFailedPrecondition:
// no clause of a `match?` fits; kResourceExhausted: a limit of `options`.
absl::StatusOr<Value> Evaluate(const ir::Module& module, std::string_view entry, std::span<const Value> args,
                               const EvaluateOptions& options = {});

}  // namespace rvm::reference

#endif  // RVM_COMPILER_REFERENCE_EVALUATOR_H_
