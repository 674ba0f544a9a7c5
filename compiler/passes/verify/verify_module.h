// The checker of the IR: what every pass must leave true.
#ifndef RVM_COMPILER_PASSES_VERIFY_VERIFY_MODULE_H_
#define RVM_COMPILER_PASSES_VERIFY_VERIFY_MODULE_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/pass.h"

namespace rvm::passes {

// A rule that the module breaks. Always a bug of the compiler: programs with mistakes never get this far.
struct Finding {
  std::string function;  // the global function, without the `@`
  const ir::Expr* node;  // where; null: the function as a whole
  std::string message;   // what was seen, what was expected
};

// Takes a specialised module. Its rules:
//  - The module is a tree: each node has one parent. Each variable is bound once, and used only in its scope.
//  - Every expression has a type without holes and without type parameters other than dims. Up to extents the type
//    agrees with the node's parts: the operator's type rule, the callee's signature, the fields, the variable. Extents
//    are checked at run time (check_extents), so extents that differ are an error of the program.
//  - Operators, constructors and global functions are only called.
//  - `forms`, see VerifyForms.
std::vector<Finding> VerifyModule(const ir::Module& module, Forms forms);

// The rules of the forms that passes establish (pass.h). `function`: a global function.
void VerifyForms(const ir::GlobalFunction& function, Forms forms, std::vector<Finding>& findings);

// For a pass that keeps the order of effects: in each function, the effects in evaluation order (calls of functions,
// reads and writes of references, matches that may fail) are some of those that the function had before, in the same
// order. Effects are identified by kind and source position.
std::vector<Finding> VerifyEffectOrder(const ir::Module& before, const ir::Module& after);

// "in `@main`: model.relay:3:4: `%x.0`: ...", for a message.
std::string FindingToString(const Finding& finding, const diagnostics::SourceMap& sources);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_VERIFY_VERIFY_MODULE_H_
