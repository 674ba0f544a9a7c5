// The objects of a SavedModel, which name its variables by their places in the program that wrote it.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_SAVED_OBJECTS_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_SAVED_OBJECTS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/import/file_bytes.h"

namespace rvm::tensorflow {

// The objects that functions of a SavedModel capture, by number: the last arguments of each. `objects` is its
// SavedObjectGraph. Empty where that is malformed.
absl::flat_hash_map<std::string_view, std::vector<int64_t>> CapturedObjects(importing::Bytes objects);

// Returns the keys of variables in the checkpoint, by the numbers of the objects in the SavedModel. As TensorFlow does,
// follows the names of members from the root of both: of the SavedObjectGraph and of `stored`, the
// TrackableObjectGraph of the checkpoint. The texts lie in `stored`.
absl::flat_hash_map<int64_t, std::string_view> KeysOfObjects(importing::Bytes objects, importing::Bytes stored);

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_SAVED_OBJECTS_H_
