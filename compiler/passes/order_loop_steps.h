// OrderLoopSteps: in front of a call of a function by itself, the scalar operations that give its
// arguments, in an order in which each can overwrite the parameter that it is the next value of.
//
//   let %a = %i + 1; let %b = %sum + %i; @loop(%a, %b)    becomes
//   let %b = %sum + %i; let %a = %i + 1; @loop(%a, %b)
//
// Takes and gives A-normal form. Only the emitter makes use of it (compiler/bytecode/emit_loop.cc).
#ifndef RVM_COMPILER_PASSES_ORDER_LOOP_STEPS_H_
#define RVM_COMPILER_PASSES_ORDER_LOOP_STEPS_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

ir::Module OrderLoopSteps(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_ORDER_LOOP_STEPS_H_
