// The compiler's half of an accelerator, a kind of device that runs some operators only: which, and their code.
//
// An accelerator has patterns, which are chains of operators. The calls of a program that fit one, and that it accepts,
// become one kernel (passes/placement/find_places.h), whose code the accelerator makes. Calls come as data, without
// the compiler's expressions, so that an accelerator outside of the tree sees what one inside sees.
#ifndef RVM_COMPILER_TARGET_ACCELERATOR_H_
#define RVM_COMPILER_TARGET_ACCELERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "base/literal.h"
#include "compiler/ir/attrs.h"

namespace rvm::target {

// A step of a pattern: one of these operators.
struct PatternStep {
  std::span<const std::string_view> operators;
  bool is_optional = false;
};

// A chain of operators: each step but the first takes the result of the one before, as any of its arguments, and
// nothing else takes that result. The first step is not optional.
struct Pattern {
  std::string_view name;
  std::span<const PatternStep> steps;
};

// An argument of a call.
struct Operand {
  enum class Kind : uint8_t {
    kArgument,  // of the whole composite, number `number`
    kCall,      // the result of call `number`
    kConstant,  // `constant`
  };
  Kind kind = Kind::kConstant;
  size_t number = 0;
  DataType dtype;
  Dims dims;
  Literal constant;  // rank 0, or one that decides a shape
};

struct CompositeCall {
  std::string_view op;
  const ir::Attrs* attrs = nullptr;  // with the defaults
  std::vector<Operand> operands;
  DataType dtype;  // of the result
  Dims dims;
};

// Calls that fit a pattern. The result is that of the last one.
//
// While the program is divided, extents that are not known may be anything: `?`, expressions. When code is made, those
// of arguments and of the last call are over the symbols of the kernel (Dim::Var, whose id is the number of the
// symbol), and other extents that are not constant are `?`.
struct Composite {
  std::string_view pattern;
  std::vector<CompositeCall> calls;
  size_t num_arguments = 0;
};

// Returns the composite with `?` in place of all extents that are not constant.
inline Composite WithoutVariables(Composite composite) {
  auto forget = [](Dims& dims) {
    for (Dim& dim : dims) dim = dim.is_const() ? dim : Dim::Any();
  };
  for (CompositeCall& call : composite.calls) {
    forget(call.dims);
    for (Operand& operand : call.operands) forget(operand.dims);
  }
  return composite;
}

// The code of an executable's kernels for an accelerator, as it grows.
class AcceleratorCode {
 public:
  virtual ~AcceleratorCode() = default;
  // Adds the function "k<kernel>_0" of kernel number `kernel`, with the arguments of serialization/device_contract.h;
  // the kernel has no workspace. kUnimplemented, with the reason, if it must run on the host.
  virtual absl::Status Add(uint32_t kernel, const Composite& composite) = 0;
  virtual absl::StatusOr<std::vector<uint8_t>> Finish() = 0;
};

// Immutable; any thread.
class Accelerator {
 public:
  virtual std::span<const Pattern> patterns() const = 0;
  // Returns true if the accelerator computes the calls, as far as their types, attributes and constants tell.
  virtual bool Accepts(const Composite& composite) const = 0;
  virtual std::unique_ptr<AcceleratorCode> NewCode() const = 0;

 protected:
  ~Accelerator() = default;
};

}  // namespace rvm::target

#endif  // RVM_COMPILER_TARGET_ACCELERATOR_H_
