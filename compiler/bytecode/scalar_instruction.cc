#include "compiler/bytecode/scalar_instruction.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "compiler/ops/extent.h"
#include "compiler/ops/op_def.h"

namespace rvm::bytecode {
namespace {

struct Row {
  std::string_view op;
  // Per class of dtype; nullopt where it takes a kernel.
  std::optional<ScalarInstruction> i32, integer, boolean, f32, f64;
};

constexpr ScalarInstruction Plain(Opcode opcode) { return {opcode}; }
constexpr ScalarInstruction Swapped(Opcode opcode) { return {.opcode = opcode, .swap = true}; }
constexpr ScalarInstruction Negated(Opcode opcode) { return {.opcode = opcode, .negate = true}; }
constexpr ScalarInstruction Wrapped(Opcode opcode) { return {.opcode = opcode, .wrap = true}; }
constexpr ScalarInstruction UnaryOf(Opcode opcode, bool wrap = false) {
  return {.opcode = opcode, .unary = true, .wrap = wrap};
}
constexpr auto kNone = std::optional<ScalarInstruction>();

using enum Opcode;
constexpr std::array kRows = {
    Row{"add", Plain(kAddI32), Wrapped(kAddInt), kNone, Plain(kAddF32), Plain(kAddF64)},
    Row{"subtract", Plain(kSubI32), Wrapped(kSubInt), kNone, Plain(kSubF32), Plain(kSubF64)},
    Row{"multiply", Plain(kMulI32), Wrapped(kMulInt), kNone, Plain(kMulF32), Plain(kMulF64)},
    Row{"divide", Wrapped(kTruncDivInt), Wrapped(kTruncDivInt), kNone, Plain(kDivF32), Plain(kDivF64)},
    Row{"floor_divide", Wrapped(kFloorDivInt), Wrapped(kFloorDivInt), kNone, kNone, kNone},
    Row{"floor_mod", Plain(kFloorModInt), Plain(kFloorModInt), kNone, kNone, kNone},
    Row{"trunc_divide", Wrapped(kTruncDivInt), Wrapped(kTruncDivInt), kNone, kNone, kNone},
    Row{"trunc_mod", Plain(kTruncModInt), Plain(kTruncModInt), kNone, kNone, kNone},
    Row{"minimum", Plain(kMinInt), Plain(kMinInt), kNone, kNone, kNone},
    Row{"maximum", Plain(kMaxInt), Plain(kMaxInt), kNone, kNone, kNone},
    Row{"negative", UnaryOf(kNegInt, true), UnaryOf(kNegInt, true), kNone, UnaryOf(kNegF32), UnaryOf(kNegF64)},
    Row{"bitwise_and", Plain(kAndInt), Plain(kAndInt), Plain(kAndInt), kNone, kNone},
    Row{"bitwise_or", Plain(kOrInt), Plain(kOrInt), Plain(kOrInt), kNone, kNone},
    Row{"bitwise_xor", Plain(kXorInt), Plain(kXorInt), Plain(kXorInt), kNone, kNone},
    Row{"logical_and", kNone, kNone, Plain(kAndInt), kNone, kNone},
    Row{"logical_or", kNone, kNone, Plain(kOrInt), kNone, kNone},
    Row{"logical_xor", kNone, kNone, Plain(kXorInt), kNone, kNone},
    Row{"logical_not", kNone, kNone, UnaryOf(kNotBool), kNone, kNone},
    Row{"equal", Plain(kEqInt), Plain(kEqInt), Plain(kEqInt), Plain(kEqF32), Plain(kEqF64)},
    Row{"not_equal", Plain(kNeInt), Plain(kNeInt), Plain(kNeInt), Negated(kEqF32), Negated(kEqF64)},
    Row{"less", Plain(kLtInt), Plain(kLtInt), Plain(kLtInt), Plain(kLtF32), Plain(kLtF64)},
    Row{"less_equal", Plain(kLeInt), Plain(kLeInt), Plain(kLeInt), Plain(kLeF32), Plain(kLeF64)},
    Row{"greater", Swapped(kLtInt), Swapped(kLtInt), Swapped(kLtInt), Swapped(kLtF32), Swapped(kLtF64)},
    Row{"greater_equal", Swapped(kLeInt), Swapped(kLeInt), Swapped(kLeInt), Swapped(kLeF32), Swapped(kLeF64)},
    Row{"sqrt", kNone, kNone, kNone, UnaryOf(kSqrtF32), UnaryOf(kSqrtF64)},
    Row{"copy", UnaryOf(kMove), UnaryOf(kMove), UnaryOf(kMove), UnaryOf(kMove), UnaryOf(kMove)},
    Row{"cast", UnaryOf(kCast), UnaryOf(kCast), UnaryOf(kCast), UnaryOf(kCast), UnaryOf(kCast)},
};

// Signed 64-bit instructions order uint64 wrongly and divide it wrongly.
bool IsRightForUInt64(Opcode opcode) {
  switch (opcode) {
    case kAddInt:
    case kSubInt:
    case kMulInt:
    case kNegInt:
    case kAndInt:
    case kOrInt:
    case kXorInt:
    case kEqInt:
    case kNeInt:
    case kMove:
    case kCast: return true;
    default: return false;
  }
}

std::optional<DataType> ScalarDType(const ir::Expr* expr) {
  const auto* tensor = ir::DynCast<ir::TensorType>(expr->type);
  if (tensor == nullptr || !ir::IsScalar(tensor)) return std::nullopt;
  return tensor->dtype.dtype;
}

}  // namespace

std::optional<ScalarInstruction> SelectScalar(const ir::Call& call) {
  const auto* op = ir::DynCast<ir::OpExpr>(call.callee);
  if (op == nullptr || call.args.empty() || !ScalarDType(&call)) return std::nullopt;
  std::optional<DataType> dtype;
  for (const ir::Expr* arg : call.args) {
    dtype = ScalarDType(arg);
    if (!dtype) return std::nullopt;
  }
  auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.op == op->op->name; });
  if (row == kRows.end()) return std::nullopt;
  std::optional<ScalarInstruction> selected;
  if (dtype->is_bool()) {
    selected = row->boolean;
  } else if (*dtype == kInt32) {
    selected = row->i32;
  } else if (dtype->is_integral()) {
    selected = row->integer;
  } else if (*dtype == kFloat32) {
    selected = row->f32;
  } else if (*dtype == kFloat64) {
    selected = row->f64;
  } else if (row->op == "copy" || row->op == "cast") {
    selected = row->f32;
  }
  if (!selected) return std::nullopt;
  if (*dtype == kUInt64 && !IsRightForUInt64(selected->opcode)) return std::nullopt;
  if (dtype->bits == 64) selected->wrap = false;
  return selected;
}

bool NeedsNoKernel(const ir::Call& call) {
  const auto* op = ir::DynCast<ir::OpExpr>(call.callee);
  if (op == nullptr) return false;
  if (SelectScalar(call) || ops::IsExtent(call) || ops::IsCheckExtent(call)) return true;
  return op->op->is_reshape && !ir::IsScalar(call.type) && !ir::IsScalar(call.args[0]->type);
}

std::optional<ImmediateBranch> WithImmediate(Opcode branch, int16_t value, bool is_left) {
  switch (branch) {
    case kBranchEqInt: return ImmediateBranch{kBranchEqImm, value};
    case kBranchNeInt: return ImmediateBranch{kBranchNeImm, value};
    default: break;
  }
  bool is_strict = branch == kBranchLtInt;
  Opcode opcode = is_left ? kBranchGeImm : kBranchLtImm;
  // `a <= value` is `a < value + 1`, and `value < b` is `b >= value + 1`.
  if (is_strict != is_left) return ImmediateBranch{opcode, value};
  if (value == std::numeric_limits<int16_t>::max()) return std::nullopt;
  return ImmediateBranch{opcode, static_cast<int16_t>(value + 1)};
}

std::optional<InverseBranch> BranchIfNot(Opcode comparison, bool negated) {
  if (negated) return std::nullopt;
  switch (comparison) {
    case kEqInt: return InverseBranch{kBranchNeInt, false};
    case kNeInt: return InverseBranch{kBranchEqInt, false};
    case kLtInt: return InverseBranch{kBranchLeInt, true};
    case kLeInt: return InverseBranch{kBranchLtInt, true};
    default: return std::nullopt;
  }
}

std::optional<int16_t> SmallInt(const ir::Expr* atom) {
  const auto* constant = ir::DynCast<ir::Constant>(atom);
  if (constant == nullptr || !constant->literal.dtype().is_integral()) return std::nullopt;
  int64_t value = constant->literal.IntAt(0);
  if (value <= std::numeric_limits<int16_t>::min() || value > std::numeric_limits<int16_t>::max()) return std::nullopt;
  return static_cast<int16_t>(value);
}

}  // namespace rvm::bytecode
