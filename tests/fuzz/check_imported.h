// Checks the invariants of an imported model, whatever the bytes were.
#ifndef RVM_TESTS_FUZZ_CHECK_IMPORTED_H_
#define RVM_TESTS_FUZZ_CHECK_IMPORTED_H_

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/import/import_options.h"

namespace rvm {

// A refusal has a reason and is no mistake of the importer; a program prints, and types or says why not. Ends the
// process otherwise. `sources` has the texts that spans of the program are of; null: none.
void CheckImported(const absl::StatusOr<importing::ImportedModel>& model, diagnostics::SourceMap* sources = nullptr);

}  // namespace rvm

#endif  // RVM_TESTS_FUZZ_CHECK_IMPORTED_H_
