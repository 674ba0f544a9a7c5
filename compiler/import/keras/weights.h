// The weights of a Keras model, by the paths that a .keras file gives them.
#ifndef RVM_COMPILER_IMPORT_KERAS_WEIGHTS_H_
#define RVM_COMPILER_IMPORT_KERAS_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/import/keras/hdf5.h"
#include "compiler/import/keras/model.h"

namespace rvm::keras {

// A variable that layers of one kind have.
struct VariableRow {
  std::string_view kind;
  std::string_view name;       // "gamma"
  std::string_view condition;  // the member of the config that says whether there is one; "": always
  bool is_trainable = true;
};

// Returns the names of a layer's own variables, in their order.
std::vector<const VariableRow*> VariablesOf(const Layer& layer);

// A layer inside of a layer: its path below the outer one's, and its description.
struct Part {
  std::string path;
  const JsonValue* json;
};
// Returns the layers that a wrapper or a recurrent layer has, in their order. Those of a Bidirectional are recurrent,
// so that a layer in layers is no part of many.
std::vector<Part> PartsOf(const Layer& layer);
absl::StatusOr<Layer> ReadPart(const Layer& layer, const Part& part);

class Weights {
 public:
  // Reads the weights from HDF5 data of `size` bytes.
  explicit Weights(hdf5::File file, size_t size)
      : file_(std::make_unique<hdf5::File>(std::move(file))),
        budget_(kMaxCopies * static_cast<int64_t>(size) + kMore) {}

  // For files of Keras 1 and 2, and .h5 files of Keras 3: finds which dataset below `group` each variable of `graph`
  // is.
  absl::Status ReadOldNames(const Graph& graph, std::string_view group);

  // Returns variable `number` of the layer with that path. kNotFound: there is none.
  absl::StatusOr<Literal> Find(std::string_view path, size_t number);

 private:
  // Weights may be as many times the file, and some more: names may share datasets, and chunks are packed.
  static constexpr int64_t kMaxCopies = 64, kMore = int64_t{1} << 24;

  std::unique_ptr<hdf5::File> file_;
  int64_t budget_;  // bytes of weights that may still be read
  bool has_old_names_ = false;
  absl::flat_hash_map<std::string, std::string> datasets_;  // by path and number
};

}  // namespace rvm::keras

#endif  // RVM_COMPILER_IMPORT_KERAS_WEIGHTS_H_
