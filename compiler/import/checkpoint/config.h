// Configurations of decoders, from the settings that files of models have.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_CONFIG_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_CONFIG_H_

#include "base/json.h"
#include "compiler/import/checkpoint/decoder.h"
#include "compiler/import/checkpoint/gguf.h"
#include "compiler/import/checkpoint/stored_tensor.h"
#include "compiler/import/refusals.h"

namespace rvm::checkpoint {

// The config.json of a folder, and its generation_config.json, which may be null. What is unsupported is refused; the
// result is of use only if nothing was.
DecoderConfig ConfigOfFolder(const JsonValue& config, const JsonValue& generation, const StoredTensors& tensors,
                             importing::Refusals& refusals);
DecoderConfig ConfigOfGguf(const Gguf& file, importing::Refusals& refusals);

// Refuses sizes that do not fit each other.
void CheckSizes(const DecoderConfig& config, importing::Refusals& refusals);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_CONFIG_H_
