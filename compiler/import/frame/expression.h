// Expression: integers, and conditions on them, as models and command lines write them.
#ifndef RVM_COMPILER_IMPORT_FRAME_EXPRESSION_H_
#define RVM_COMPILER_IMPORT_FRAME_EXPRESSION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dim.h"

namespace rvm::importing {

struct Expression {
  enum class Kind : uint8_t {
    kNumber,
    kName,
    kExtent,  // of axis `number` of the tensor `name`
    // Integers of integers.
    kAdd,
    kSubtract,
    kMultiply,
    kFloorDivide,
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
  Kind kind = Kind::kNumber;
  int64_t number = 0;
  std::string name;
  std::vector<Expression> operands;

  bool is_condition() const { return kind >= Kind::kEqual; }
};

enum class Syntax : uint8_t {
  // Sums, differences, products, quotients (`//`) and remainders (`%`) of numbers and names: "past + t", "n // 2". `-`
  // between names needs spaces around it: `batch-size` is a name.
  kExtent,
  // Calls of the functions of sympy: "Mul(Integer(2), Symbol('s0', positive=True))".
  kSympy,
  // Conditions in Python, which divide by positive numbers alone: "2 <= L['x'].size()[0] and L['n'] % 2 == 0". Inputs
  // have the names that graphs give them, `args_0` for `L['args'][0]`.
  kGuard,
};

// Returns nullopt for other text, and for guards that are no conditions.
std::optional<Expression> ParseExpression(std::string_view text, Syntax syntax);

// Returns the dim that a name denotes; nullopt if it is unknown.
using DimOfName = std::function<std::optional<Dim>(std::string_view name)>;

// Returns nullopt where the expression says what a Dim cannot, and where a name is unknown.
std::optional<Dim> ToDim(const Expression& expression, const DimOfName& dim_of);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_FRAME_EXPRESSION_H_
