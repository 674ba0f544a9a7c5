// GGUF files: metadata and tensors, some of them in blocks of quantised elements.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_GGUF_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_GGUF_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/checkpoint/stored_tensor.h"

namespace rvm::checkpoint {

struct GgufValue {
  // Integers of 64 bits without a sign wrap.
  std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>
      value;

  const int64_t* AsInt() const { return std::get_if<int64_t>(&value); }
  const double* AsDouble() const { return std::get_if<double>(&value); }
  const std::string* AsString() const { return std::get_if<std::string>(&value); }
  const std::vector<int64_t>* AsInts() const { return std::get_if<std::vector<int64_t>>(&value); }
};

struct Gguf {
  std::map<std::string, GgufValue, std::less<>> metadata;
  // Shapes have the outermost axis first. Those of unknown types have no data.
  StoredTensors tensors;

  // Null if there is none.
  const GgufValue* Find(std::string_view key) const;
};

// Reads versions 2 and 3, little-endian. Tensors share the memory of `file`. kInvalidArgument: malformed.
absl::StatusOr<Gguf> ReadGguf(const importing::FileBytes& file);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_GGUF_H_
