// Values in the form of the places that they come to, for Specialize.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_FIT_VALUES_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_FIT_VALUES_H_

#include "compiler/ir/module.h"
#include "compiler/passes/specialize/polymorphic_values.h"

namespace rvm::passes {

// Takes a module without type parameters whose values may come to places of another form: a polymorphic function (the
// tuple of its instances) to one of a function type, `(1, 2)` to one of the universal type. Converts there.
// `universal` gets the constructors that this takes; null if the module has no such type.
ir::Module FitValues(const ir::Module& module, PolymorphicTypes& types, ir::AdtDef* universal);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_FIT_VALUES_H_
