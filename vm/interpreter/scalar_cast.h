// Conversions of scalars in registers. Dtypes are packed as in the code.
#ifndef RVM_VM_INTERPRETER_SCALAR_CAST_H_
#define RVM_VM_INTERPRETER_SCALAR_CAST_H_

#include <cstdint>

#include "base/data_type.h"
#include "base/literal.h"
#include "vm/memory/object.h"

namespace rvm::vm {

// `slot` wrapped to an integer dtype (bool: its low bit), in the form registers hold it.
Slot WrapToDType(Slot slot, uint16_t dtype);
// Between any two dtypes. Float to integer truncates and saturates, NaN gives 0; to bool: not 0.
Slot CastScalar(Slot slot, uint16_t from, uint16_t to);

// Returns a register's form of the element at `address`.
Slot LoadScalar(DataType dtype, const void* address);
// Returns the scalar in a register as a literal.
Literal ScalarLiteral(DataType dtype, Slot slot);

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_SCALAR_CAST_H_
