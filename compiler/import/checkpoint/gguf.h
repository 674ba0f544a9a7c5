// GGUF files: metadata and tensors, some of them in blocks of quantised elements.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_GGUF_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_GGUF_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/import/checkpoint/setting.h"
#include "compiler/import/checkpoint/stored_tensor.h"

namespace rvm::checkpoint {

struct Gguf {
  // Integers of 64 bits without a sign wrap. Arrays are monostate.
  std::map<std::string, Setting, std::less<>> metadata;
  // Shapes have the outermost axis first. Those of unknown types have no data.
  StoredTensors tensors;

  // Returns the value of a key; monostate if it is missing or an array.
  Setting Find(std::string_view key) const;
};

// Reads versions 2 and 3, little-endian. Tensors share the memory of `file`. kInvalidArgument: malformed.
absl::StatusOr<Gguf> ReadGguf(const importing::FileBytes& file);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_GGUF_H_
