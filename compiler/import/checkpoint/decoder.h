// Decoders of language models as Relay text, of the parts in compiler/models: attention.relay and decoder.relay.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_DECODER_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/checkpoint/weights.h"

namespace rvm::checkpoint {

// Names of tensors, with `.weight` and `.bias` behind those of projections and norms. Those of a layer stand behind
// `layer`, its number and a dot. A name that is empty: the model has no such tensor.
struct DecoderNames {
  std::string embedding, positions, norm, head, layer;
  std::string attention_norm, query, key, value, joined_projection, output, query_norm, key_norm, attention_post_norm;
  std::string mlp_norm, gate, up, down, mlp_post_norm;
};

struct DecoderConfig {
  DecoderNames names;
  int64_t layers = 0, width = 0, inner = 0, vocabulary = 0;
  int64_t heads = 0, key_heads = 0, head_size = 0;
  int64_t positions = 0;  // rows of a table of them; 0: heads are rotated instead
  double epsilon = 1e-5;
  double attention_scale = 0;
  double embedding_scale = 1;
  double score_cap = 0, logit_cap = 0;  // 0: none
  std::string activation;               // of the MLP: a Relay expression, with `$` for its argument
  bool centers_norms = false;           // norms subtract the mean, and have a bias
  bool adds_one_to_norms = false;       // the scale of a norm is its weight and 1
  bool has_transposed_weights = false;  // a projection's weight is (inputs, outputs)
  // Rotation of heads: half as many frequencies as a head has elements.
  std::vector<float> frequencies, local_frequencies;
  bool rotates_pairs = false;
  // Layers that attend only to the last `window` tokens; empty: none.
  std::vector<bool> is_local;
  int64_t window = 0;
  std::vector<int64_t> stops;           // tokens that end a text
  std::optional<DataType> cache_dtype;  // not given: by the weights
};

// Returns the definitions of the program. Its functions are described in docs/models.md.
std::string WriteDecoder(const DecoderConfig& config, Weights& weights);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_DECODER_H_
