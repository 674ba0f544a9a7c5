// Weights of language models as Relay programs: folders of transformers (config.json with .safetensors files) and GGUF
// files. The files have no graph; their configuration says which architecture it is. docs/models.md describes the
// functions of the program.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_IMPORT_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_IMPORT_H_

#include "absl/status/statusor.h"
#include "base/json.h"
#include "compiler/import/checkpoint/stored_tensor.h"
#include "compiler/import/file_bytes.h"
#include "compiler/import/import_options.h"

namespace rvm::checkpoint {

// Imports the config.json of a folder, whose weights `options.files` reads, and a GGUF file. Weights share the memory
// of files that somebody owns, where they have their form. REQUIRES, of all: `options.sources` is not null, and
// outlives the spans of the program.
absl::StatusOr<importing::ImportedModel> ImportFolder(const importing::FileBytes& file,
                                                      const importing::ImportOptions& options);
absl::StatusOr<importing::ImportedModel> ImportGguf(const importing::FileBytes& file,
                                                    const importing::ImportOptions& options);
// Imports what such a folder has, read; `generation` may be null (config.h).
absl::StatusOr<importing::ImportedModel> ImportTensors(const JsonValue& config, const JsonValue& generation,
                                                       const StoredTensors& tensors,
                                                       const importing::ImportOptions& options);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_IMPORT_H_
