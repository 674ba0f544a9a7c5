// Checkpoint: the values of variables in `variables.index`, a table, and `variables.data-00000-of-00001`.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_CHECKPOINT_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"

namespace rvm::tensorflow {

using importing::Bytes;
using importing::ExternalFiles;

class Checkpoint {
 public:
  // Reads `prefix`.index, "variables/variables.index" beside a SavedModel. kNotFound if there is none.
  static absl::StatusOr<Checkpoint> Open(std::string_view prefix, const ExternalFiles& files);

  // Returns the value of a key, which shares memory with its file. kNotFound if there is none.
  absl::StatusOr<Literal> Read(std::string_view key) const;

  // Returns the bytes of a key whose value is one text. kNotFound if there is none.
  absl::StatusOr<importing::FileBytes> ReadText(std::string_view key) const;

 private:
  // An element, or the elements, of a key.
  struct Value {
    uint64_t type;
    Bytes shape;
    importing::FileBytes file;
  };
  absl::StatusOr<Value> Find(std::string_view key) const;

  std::string prefix_;
  ExternalFiles files_;
  importing::FileBytes index_;
  int64_t shards_ = 1;
  std::map<std::string, Bytes, std::less<>> entries_;
};

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_CHECKPOINT_H_
