// Module: a Relay program: ADT definitions and global functions.
#ifndef RVM_COMPILER_IR_MODULE_H_
#define RVM_COMPILER_IR_MODULE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/arena.h"
#include "compiler/ir/expr.h"

namespace rvm::ir {

struct GlobalFunction {
  std::string name;  // without the `@`
  Function* function;
  Span span;
  std::string shown_as = {};  // the function people know it as, where the compiler split one; else ""
  // The result is a tuple that is returned as separate fields, without allocating a cell.
  bool returns_fields = false;

  std::string_view ShownName() const { return shown_as.empty() ? name : shown_as; }
};

// Cheap to copy; a pass takes a module and returns another one. All modules of a compilation share the arena that owns
// their nodes.
struct Module {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::vector<AdtDef*> adts;              // in source order
  std::vector<GlobalFunction> functions;  // in source order; names are unique
  // Free variables declared by `free_var` or left unbound for --params, in source order.
  std::vector<Var*> free_vars;

  const GlobalFunction* FindFunction(std::string_view name) const;
  const AdtDef* FindAdt(std::string_view name) const;
  const Constructor* FindConstructor(std::string_view name) const;
};

// Structural equality up to the names of bound variables and graph bindings. Ignores spans; compares only annotated
// types. Parsing the output of the printer gives a module that is equal in this sense.
bool StructurallyEqual(const Module& a, const Module& b);
bool StructurallyEqual(const Expr* a, const Expr* b);

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_MODULE_H_
