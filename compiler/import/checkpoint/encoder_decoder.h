// Models of an encoder and a decoder as Relay text, of the parts in compiler/models: attention.relay and
// encoder_decoder.relay.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_ENCODER_DECODER_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_ENCODER_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/checkpoint/weights.h"

namespace rvm::checkpoint {

// Names of tensors, with `.weight` and `.bias` behind them. Those of a layer stand behind `layer`, its number and a
// dot. A name that is empty: the model has no such tensor.
struct AttentionNames {
  std::string query, key, value, output, norm;
};
struct StackNames {
  std::string embedding, positions, embedding_norm, norm, layer;
  std::string distances;  // biases by distance: a row for each bucket, a column for each head
  AttentionNames self, cross;
  std::string gate, up, down, mlp_norm;
};

// The encoder or the decoder.
struct StackConfig {
  StackNames names;
  int64_t layers = 0, heads = 0, inner = 0;
  double embedding_scale = 1;
  int64_t positions = 0;         // rows of their table; 0: there is none
  int64_t first_position = 0;    // the row of the first token
  int64_t bucket_count = 0;      // rows of the table of biases; 0: there are none
  std::vector<int32_t> buckets;  // of distances, from -reach to reach
};

struct EncoderDecoderConfig {
  StackConfig encoder, decoder;
  int64_t width = 0, head_size = 0, vocabulary = 0;
  double epsilon = 1e-5;
  double attention_scale = 1, head_scale = 1;
  std::string activation;       // of MLPs: a Relay expression, with `$` for its argument
  bool centers_norms = true;    // norms subtract the mean, and have a bias
  bool has_norms_last = false;  // norms are of the sum of the states and what a part adds, not of what it reads
  bool has_sinusoids = false;   // positions are sines and cosines, unless the file has their tables
  std::string front;            // of an encoder of features: two convolutions, `<front>1` and `<front>2`
  int64_t features = 0;         // of a frame; 0: the encoder reads tokens
  std::string head;             // empty: the embedding of the decoder
  std::string logits_bias;      // a row for all logits
  // Tokens with which each text begins, those that end it, and those that loops do not choose, at all or first.
  std::vector<int64_t> starts, stops, suppressed, suppressed_first;
  std::optional<int64_t> no_timestamps;  // the token of texts without timestamps, behind which the times stand
  std::optional<int64_t> latest_start;   // index of the greatest time that a text begins with
  DataType cache_dtype = kFloat32;
};

// Returns the definitions of the program. Its functions are described in docs/models.md.
std::string WriteEncoderDecoder(const EncoderDecoderConfig& config, Weights& weights);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_ENCODER_DECODER_H_
