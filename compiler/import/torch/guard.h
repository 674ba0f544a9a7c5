// Guards: conditions on a model's inputs that PyTorch assumed when it exported, as text in Python.
#ifndef RVM_COMPILER_IMPORT_TORCH_GUARD_H_
#define RVM_COMPILER_IMPORT_TORCH_GUARD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rvm::torch {

struct GuardExpression {
  enum class Kind : uint8_t {
    kNumber,
    kExtent,  // of an axis of an input
    kInput,   // an integer
    // Integers of integers.
    kAdd,
    kSubtract,
    kMultiply,
    kFloorDivide,  // by a positive number, as the next
    kFloorMod,
    kMinimum,
    kMaximum,
    // Conditions of integers.
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    // Conditions of conditions.
    kAnd,
    kOr,
    kNot,
  };
  Kind kind;
  int64_t number = 0;  // the number, or the axis
  std::string input;   // as graphs name it: `args_0` for `L['args'][0]`
  std::vector<GuardExpression> operands;

  bool is_condition() const { return kind >= Kind::kEqual; }
};

// "2 <= L['x'].size()[0] and (3 * L['args'][0].size()[1]) % 2 == 0". nullopt for what is no condition on integers.
std::optional<GuardExpression> ParseGuard(std::string_view text);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_GUARD_H_
