// Encoders of texts as Relay text, of the parts in compiler/models/encoder.relay.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_ENCODER_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_ENCODER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/import/checkpoint/weights.h"

namespace rvm::checkpoint {

// Names of tensors, with `.weight` and `.bias` behind them. Those of a layer stand behind `layer`, its number and a
// dot.
struct EncoderNames {
  std::string embedding, positions, types, embedding_norm, pooler, layer;
  std::string query, key, value, output, attention_norm, up, down, mlp_norm;
};

struct EncoderConfig {
  EncoderNames names;
  int64_t layers = 0, width = 0, inner = 0, vocabulary = 0, heads = 0;
  int64_t positions = 0;           // rows of their table
  int64_t types = 0;               // rows of the table of types of tokens; 0: there is none
  std::optional<int64_t> padding;  // positions count from the number behind this token on, without those of it
  bool has_pooler = false;         // a projection of the first state
  double epsilon = 1e-12;          // of norms
  std::string activation;          // of the MLP: a Relay expression, with `$` for its argument
};

// Returns the definitions of the program. Its functions are described in docs/models.md.
std::string WriteEncoder(const EncoderConfig& config, Weights& weights);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_ENCODER_H_
