// Factors of matrices.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_LINALG_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_LINALG_H_

#include <span>
#include <string_view>

#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {

std::span<const OperatorRow> LinalgOperators();

// Returns the results of a routine of LAPACK that JAX calls, "lapack_spotrf_ffi"; a refusal for those that are not
// known.
Operands CallRoutine(NodeContext& c, std::string_view target);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_LINALG_H_
