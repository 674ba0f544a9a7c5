// The tables of keys and values that LevelDB writes, which hold the index of TensorFlow's checkpoints.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_TABLE_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"

namespace rvm::tensorflow {

using importing::Bytes;

// Entries in the order of their keys. Values lie in the file.
using Table = std::vector<std::pair<std::string, Bytes>>;

// Takes a varint from the beginning of `rest`; nullopt if it is cut off.
std::optional<uint64_t> TakeVarint(Bytes& rest);

// Returns the entries of a table. kInvalidArgument if it is malformed, kUnimplemented if its blocks are compressed.
absl::StatusOr<Table> ReadTable(Bytes file);

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_TABLE_H_
