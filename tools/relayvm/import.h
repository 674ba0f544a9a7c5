// Models where verbs take programs.
#ifndef RVM_TOOLS_RELAYVM_IMPORT_H_
#define RVM_TOOLS_RELAYVM_IMPORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/program_files.h"
#include "compiler/import/import_file.h"
#include "compiler/ir/module.h"
#include "tools/options.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/verb.h"

namespace rvm::tools {

inline constexpr OptionSpec kFreezeOption = {"--freeze", "NAME=VALUE",
                                             "of a model with a graph, such as .onnx: an input that always has "
                                             "this value: 3, 1.5, true, 1,80 or @FILE.npy"};
inline constexpr OptionSpec kShapeOption = {
    "--shape", "NAME=EXTENTS",
    "of a model with a graph, such as .onnx: other extents of an input, as in 1,n,80; `?` is unknown"};

inline constexpr OptionSpec kSignatureOption = {
    "--signature", "NAME",
    "of a SavedModel: the signature that is @main, in place of serving_default; given again: one more function"};

inline constexpr OptionSpec kCacheDTypeOption = {"--cache-dtype", "DTYPE",
                                                 "of weights without a graph: the dtype of the caches of keys and "
                                                 "values, float16, bfloat16 or float32; float16 for a "
                                                 "decoder whose weights are not of float32, else float32"};

inline constexpr OptionSpec kActivationDTypeOption = {"--activation-dtype", "DTYPE",
                                                      "of quantised weights without a graph: int8 (the default) rounds "
                                                      "the rows that they multiply in blocks, as llama.cpp "
                                                      "does; float32 leaves them as they are, and is slower"};

// Imports the model at `path` by the options above, with the weights of the file `weights`, or those beside it or in it
// if that is empty. The error names the file. `sources`: see importing::ImportOptions.
absl::StatusOr<importing::ImportedModel> ImportModel(const std::string& path, const Options& options,
                                                     const std::string& weights, diagnostics::SourceMap* sources);

inline constexpr OptionSpec kImportOption = {
    "--import", "NAME=FILE",
    "make the model or the .relay file the function @NAME of the "
    "program, as `import \"FILE\" as @NAME;` does; "
    "`--shape` and `--freeze` take @NAME.INPUT=VALUE for it, `--signature` "
    "@NAME.SIGNATURE, `--cache-dtype` and `--activation-dtype` @NAME.DTYPE; may be repeated"};

// Reads `--import`, and the options of models for these files.
absl::StatusOr<driver::ProgramFiles> ReadImports(const Options& options);
// Shows what imported models claim.
void ShowWarnings(const driver::ProgramFiles& files);

// The programs that ReadProgram reads, as messages name them.
inline constexpr std::string_view kProgramFiles =
    "a .relay, " RVM_MODEL_ENDINGS " or .gguf file, or " RVM_MODEL_FOLDERS;
// Returns the path of a program without its ending, or without a `/` at the end.
std::string ProgramStem(const std::string& path);

struct ProgramFile {
  SourceFile file;
  ir::Module module;  // not typed
};
// Returns the program at `path`: a text, parsed, or a model, whose weights are added to `compile`. The file of weights
// of a model that has one is removed from `compile.params_files`. Mistakes in a text have been shown.
absl::StatusOr<ProgramFile> ReadProgram(const std::string& path, const Options& options,
                                        driver::CompileOptions& compile);
// Compiles it, and shows what is wrong with it.
absl::StatusOr<driver::CompiledProgram> CompileProgram(ProgramFile program, driver::CompileOptions compile);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_IMPORT_H_
