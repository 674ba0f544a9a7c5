// Results of the compiler for C, and how its functions read their arguments.
#ifndef RVM_CAPI_COMPILER_COMPILATION_H_
#define RVM_CAPI_COMPILER_COMPILATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/program_files.h"
#include "include/relayvm/relayvm_compiler.h"

struct rvm_compilation {
  bool has_bytes = false, has_text = false;
  std::vector<uint8_t> bytes;
  std::string text, message, diagnostics = "[]";
  std::vector<std::pair<std::string, rvm::Literal>> weights;
  std::vector<std::string> warnings;  // of an import
  std::string coverage = "[]", types = "{}", report = "{}";
};

namespace rvm::capi {

absl::StatusOr<std::vector<std::string>> ReadStrings(const char* const* strings, size_t count, std::string_view what);
absl::StatusOr<driver::CompileOptions> ReadOptions(const rvm_compile_options* given);
absl::StatusOr<driver::ProgramFiles> ReadImports(const rvm_compile_options* given);

using TextStep = absl::FunctionRef<absl::Status(uint32_t source, diagnostics::Diagnostics&, rvm_compilation&)>;
// Runs `step` on the text of a program.
rvm_compilation* OfText(const char* name, const char* text, size_t size, TextStep step);

}  // namespace rvm::capi

#endif  // RVM_CAPI_COMPILER_COMPILATION_H_
