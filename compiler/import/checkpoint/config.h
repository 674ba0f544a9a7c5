// Configurations of models, from the settings that files of models have.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_CONFIG_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_CONFIG_H_

#include <string>
#include <string_view>

#include "base/json.h"
#include "compiler/import/checkpoint/decoder.h"
#include "compiler/import/checkpoint/encoder.h"
#include "compiler/import/checkpoint/encoder_decoder.h"
#include "compiler/import/checkpoint/gguf.h"
#include "compiler/import/checkpoint/stored_tensor.h"
#include "compiler/import/refusals.h"

namespace rvm::checkpoint {

// Reads the configuration of a folder: its config.json, and its generation_config.json, which may be null. Refuses what
// is unsupported; the result is usable only if nothing was refused.
DecoderConfig ConfigOfFolder(const JsonValue& config, const JsonValue& generation, const StoredTensors& tensors,
                             importing::Refusals& refusals);
// Returns true if a model of that `model_type` is an encoder.
bool IsEncoder(std::string_view model_type);
// Returns the names of all of them, for messages.
std::string EncoderFamilies();
// Reads the config.json of an encoder, likewise. REQUIRES: IsEncoder.
EncoderConfig EncoderOfFolder(const JsonValue& config, const StoredTensors& tensors, importing::Refusals& refusals);
// The same for models of an encoder and a decoder.
bool IsEncoderDecoder(std::string_view model_type);
std::string EncoderDecoderFamilies();
EncoderDecoderConfig EncoderDecoderOfFolder(const JsonValue& config, const JsonValue& generation,
                                            const StoredTensors& tensors, importing::Refusals& refusals);
// Reads the metadata of a GGUF file, likewise.
DecoderConfig ConfigOfGguf(const Gguf& file, importing::Refusals& refusals);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_CONFIG_H_
