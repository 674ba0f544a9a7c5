// Operators on tensors so large that each takes long: what limits must stop on its way.
#ifndef RVM_TESTS_LIMITS_LONG_OPERATORS_H_
#define RVM_TESTS_LIMITS_LONG_OPERATORS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "base/value.h"
#include "vm/machine.h"

namespace rvm::limits {

struct LongArgument {
  DataType dtype;
  Shape shape;
  double least = 0, most = 1;  // numbers are spread evenly between them
};

struct LongOperator {
  const char* name;
  const char* expression;  // over %a, %b, ...
  std::vector<LongArgument> args;
  bool any_extents = false;  // the program does not know the extents of its arguments
};

std::vector<LongOperator> LongOperators();

// Entries `main`, which computes the expression, and `one`, which gives its argument. `target` as for the compiler.
absl::StatusOr<std::shared_ptr<const vm::Program>> CompileLongOperator(const LongOperator& op,
                                                                       const std::string& target);
// Any program, with these entries; `native_control` as for the compiler.
absl::StatusOr<std::shared_ptr<const vm::Program>> CompileText(const std::string& text, const std::string& target,
                                                               const std::vector<std::string>& entries,
                                                               std::optional<bool> native_control = std::nullopt);
std::vector<Value> MakeArguments(const LongOperator& op);

}  // namespace rvm::limits

#endif  // RVM_TESTS_LIMITS_LONG_OPERATORS_H_
