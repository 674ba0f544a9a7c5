// One form for the values of type parameters that have no end of instances, for Specialize.
//
// Such a parameter, and whatever stands for it, becomes the universal type: a type of the module's own with a
// constructor for each form of value that is put in (convert_values.h). The parameters are gone afterwards, so that
// `Perfect[int32]` and `Perfect[(int32, int32)]` are one type, and `@size` of all of them one function.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_UNIFORM_TYPES_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_UNIFORM_TYPES_H_

#include <string>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

struct UniformModule {
  ir::Module module;
  // Null if nothing has endless instances: then the module is what it was. It has no constructors yet.
  ir::AdtDef* universal = nullptr;
};

// Takes a typed module. In what it gives, each variable has its type, with `universal` where an endless parameter
// stood. A function or constructor has the type that it is declared with, so a value may come to a place of another
// form: FitValues converts it, once there are no type parameters.
//
// Reports entries whose parameters or result hold a type without end of instances: as text their values are made of
// what is no longer told apart.
UniformModule GiveUniformTypes(const ir::Module& module, const std::vector<std::string>& entries,
                               diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_UNIFORM_TYPES_H_
