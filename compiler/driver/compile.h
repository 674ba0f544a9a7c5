// From a Relay program to an executable: the stages in their order.
#ifndef RVM_COMPILER_DRIVER_COMPILE_H_
#define RVM_COMPILER_DRIVER_COMPILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/params.h"
#include "compiler/ir/module.h"
#include "compiler/passes/pipeline.h"
#include "serialization/verifier.h"

namespace rvm::driver {

class ProgramFiles;

// How far a compilation is: `done` of the `total` parts of a stage. Compile calls it on its own thread.
using Progress = std::function<void(std::string_view stage, size_t done, size_t total)>;

struct CompileOptions {
  int opt_level = 2;                 // 0..3
  std::string target = "host";       // CPUs (codegen::ParseHostTarget) between commas, or "portable": recipes
  std::vector<std::string> devices;  // what runs on a device (passes::DeviceRules): "opencl:nn.*"
  bool host_fallback = false;        // without such a device kernels run on the host; otherwise it is required
  // Functions as machine code, too, for each CPU of `target`. Not given: at level 2 and above, if they have loops or
  // call each other in cycles.
  std::optional<bool> native_control;
  // Kernels that pay have variants for many calls at once, which a runtime makes by itself (docs/batching.md). If some
  // have one, functions stay bytecode.
  bool batch = false;
  bool batch_all = false;                 // with `batch`: variants of all kernels that may have one, for tests
  std::vector<std::string> entries;       // empty: DefaultEntries
  std::vector<std::string> params_files;  // weights for the free variables and the parameters of `@main`
  std::vector<ParamFile> weights;         // more of them, already read
  ProgramFiles* files = nullptr;          // reads the files that the text imports; null: an import is an error
  bool keep_ir = false;                   // fills llvm_ir and assembly
  passes::PassObserver observer;          // sees the program after each pass
  Progress progress;                      // of the stages that may take long; may be null
  std::function<bool()> must_stop;  // called between steps; true ends the compilation with kCancelled; may be null
  std::vector<std::string> extra_passes;  // see passes::PipelineOptions
  std::vector<std::string> left_out_passes;
  bool verify_passes = false;  // check the program after each pass, for bugs of the compiler
};

struct CompiledProgram {
  std::shared_ptr<const VerifiedExecutable> executable;
  BoundWeights weights;           // of params_files
  std::string llvm_ir, assembly;  // of kernels and functions, if kept
  std::vector<passes::PassTime> pass_times;
};

// `source`: its id in the diagnostics' source map. Errors in the program are reported to `diagnostics`, and the status
// only counts them; other statuses have a message. The same input gives the same executable.
absl::StatusOr<CompiledProgram> Compile(uint32_t source, diagnostics::Diagnostics& diagnostics, CompileOptions options);

// Adds machine code of functions for the CPUs that `target` names, as in CompileOptions, to an executable of any
// origin, in place of what it has.
absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> AddControlCode(
    std::shared_ptr<const VerifiedExecutable> executable, const std::string& target);

// Compiles an untyped module that a ProgramBuilder made. The spans of its nodes refer to the diagnostics' source map,
// or are invalid. Weights are released as soon as no stage reads them any more.
absl::StatusOr<CompiledProgram> CompileModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                              CompileOptions options);

// A program between two passes.
struct PreparedProgram {
  ir::Module module;
  std::vector<std::string> entries;
  // Metadata of the executable, and attributes of entries, which passes drop.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::map<std::string, ir::Attrs> entry_attrs;
};

// The first half of CompileModule: the program before the pass `until`.
absl::StatusOr<PreparedProgram> PrepareModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                              const CompileOptions& options, std::string_view until,
                                              BoundWeights& weights);
// The second half, from the pass `from` on. The program may be another one that is in the same form.
absl::StatusOr<CompiledProgram> CompilePrepared(PreparedProgram program, std::string_view from,
                                                diagnostics::Diagnostics& diagnostics, const CompileOptions& options);

// Parses a program. After errors in names, also reports the errors of types that do not follow from them.
// A variable that is not declared, but has the name of a tensor in `params_files`, gets a note how to declare it.
// `files` reads what the text imports, and then has the weights of it.
absl::StatusOr<ir::Module> Parse(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                 std::span<const std::string> params_files = {}, ProgramFiles* files = nullptr);

// The first stages alone: parse, bind weights, infer types. Without `params_files` free variables stay.
absl::StatusOr<ir::Module> ParseAndType(uint32_t source, diagnostics::Diagnostics& diagnostics,
                                        const std::vector<std::string>& params_files = {},
                                        BoundWeights* weights = nullptr, std::span<const ParamFile> read_files = {},
                                        ProgramFiles* files = nullptr);

// Returns the same of a module that is not text.
absl::StatusOr<ir::Module> TypeModule(ir::Module module, diagnostics::Diagnostics& diagnostics,
                                      const std::vector<std::string>& params_files = {},
                                      BoundWeights* weights = nullptr, std::span<const ParamFile> read_files = {});

// The module that reference::Evaluate takes for calls of `entries`: `typed` with the checks of extents that are part of
// its meaning and, where it has gradients, specialised and with code in their place. Nothing else of the pipeline runs,
// so that the evaluator judges it.
absl::StatusOr<ir::Module> PrepareEvaluation(const ir::Module& typed, const std::vector<std::string>& entries,
                                             diagnostics::Diagnostics& diagnostics);

// Reports errors in the instances of polymorphic functions that are reachable from the default entries.
absl::Status CheckInstances(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

// Returns a type parameter that prevents `function` from being an entry, or null. Extents of an entry may be symbolic;
// types, shapes and dtypes may not.
const ir::TypeParam* OpenTypeParam(const ir::Function& function);

// Returns the entries of a program that names none, in source order: `main`, functions that no other function refers
// to, and the first function of each cycle that is otherwise unreachable. Polymorphic functions are never entries. All
// other code is reachable from these. REQUIRES: a typed module.
std::vector<std::string> DefaultEntries(const ir::Module& module);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_COMPILE_H_
