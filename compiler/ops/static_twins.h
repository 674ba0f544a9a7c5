// Operators with attributes in place of `dyn.` operators whose arguments are known.
//
// An attribute is a number, but 0, -1 and the end of an axis stand for extents that are not: `reshape`, `broadcast_to`
// and `strided_slice` also replace calls whose arguments are extents of their data.
#ifndef RVM_COMPILER_OPS_STATIC_TWINS_H_
#define RVM_COMPILER_OPS_STATIC_TWINS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// The arguments of a call, as far as they are known.
struct KnownArguments {
  std::span<const ir::Type* const> types;
  std::function<std::vector<Dim>(size_t arg)> elements;  // of an integer tensor; empty if not known
  std::function<const Literal*(size_t arg)> literal;     // null if not constant
};

struct StaticCall {
  const OpDef* op = nullptr;
  ir::Attrs attrs;           // complete
  std::vector<size_t> args;  // indices of the arguments that are kept
};

// Returns the operator that has attributes in place of arguments of `op`; null if `op` has no such twin.
const OpDef* StaticTwinOf(const OpDef& op);

// Returns the call of the twin of `op` that gives the same result, of type `result`; nullopt if attributes cannot
// express the arguments.
std::optional<StaticCall> ToStaticCall(const OpDef& op, const ir::Attrs& attrs, const KnownArguments& known,
                                       const ir::Type* result);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_STATIC_TWINS_H_
