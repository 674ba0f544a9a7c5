// From a Relay program to an executable: the stages in their order.
#ifndef RVM_COMPILER_DRIVER_COMPILE_H_
#define RVM_COMPILER_DRIVER_COMPILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/params.h"
#include "compiler/ir/module.h"
#include "compiler/passes/pipeline.h"
#include "serialization/verifier.h"

namespace rvm::driver {

struct CompileOptions {
  int opt_level = 2;                      // 0..3
  std::string target = "host";            // codegen::ParseHostTarget, or "portable": recipes, no machine code
  std::vector<std::string> entries;       // empty: DefaultEntries
  std::vector<std::string> params_files;  // weights for the free variables and the parameters of `@main`
  std::vector<ParamFile> weights;         // more of them, already read
  bool keep_ir = false;                   // fills llvm_ir and assembly
  passes::PassObserver observer;          // sees the program after each pass
  std::vector<std::string> extra_passes;  // see passes::PipelineOptions
  bool verify_passes = false;             // check the program after each pass, for bugs of the compiler
};

struct CompiledProgram {
  std::shared_ptr<const VerifiedExecutable> executable;
  BoundWeights weights;           // of params_files
  std::string llvm_ir, assembly;  // of the kernels, if kept
};

// `source`: its id in the diagnostics' source map. Where the program is wrong the errors are in
// `diagnostics` and the status only counts them; other statuses say themselves what is wrong.
// The same input gives the same executable.
absl::StatusOr<CompiledProgram> Compile(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                        const CompileOptions& options);

// The same for a module that no text was parsed into: what a ProgramBuilder gave, not yet typed. Spans of its nodes are
// of the diagnostics' source map, or invalid.
absl::StatusOr<CompiledProgram> CompileModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                              const CompileOptions& options);

// The first stages alone: parse, bind weights, infer types. Without `params_files` free variables stay.
absl::StatusOr<ir::Module> ParseAndType(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                        const std::vector<std::string>& params_files = {},
                                        BoundWeights* weights = nullptr, std::span<const ParamFile> read_files = {});

// Makes the instances of polymorphic functions that the default entries reach, for what is wrong with one of them.
absl::Status CheckInstances(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

// A type parameter that keeps `function` from being an entry, or null: dims may stay open in an
// executable; types, shapes and dtypes may not.
const ir::TypeParam* OpenTypeParam(const ir::Function& function);

// The functions one would call from outside, in source order: `main`, those that no other
// function mentions, and of each circle that only calls itself the first; no polymorphic ones. So
// all code can be reached. REQUIRES: a typed module.
std::vector<std::string> DefaultEntries(const ir::Module& module);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_COMPILE_H_
