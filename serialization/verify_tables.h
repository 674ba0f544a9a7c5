// The part of verification that looks at the tables, before any code is read.
#ifndef RVM_SERIALIZATION_VERIFY_TABLES_H_
#define RVM_SERIALIZATION_VERIFY_TABLES_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "serialization/executable.h"

namespace rvm {

// Checks types, ADTs, layouts, kernels, constants, entries, lines and all of the functions but their code.
absl::Status VerifyTables(const Executable& executable);

// By function: the one closure layout whose code it is; invalid if it is none's.
// REQUIRES: VerifyTables accepts.
std::vector<LayoutId> ClosureLayouts(const Executable& executable);

// That `dim` is an expression over the kernel's symbols.
absl::Status VerifyDim(const Dim& dim, const KernelDesc& kernel);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_VERIFY_TABLES_H_
