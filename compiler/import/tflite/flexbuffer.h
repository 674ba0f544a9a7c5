// Options of custom operators: FlexBuffers. Each offset is checked where it is followed.
#ifndef RVM_COMPILER_IMPORT_TFLITE_FLEXBUFFER_H_
#define RVM_COMPILER_IMPORT_TFLITE_FLEXBUFFER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/file_bytes.h"

namespace rvm::tflite {

using NumberMap = std::map<std::string, double, std::less<>>;
// Returns the integers, floats and booleans of the map that the bytes are, by their keys; nullopt if they are no map.
std::optional<NumberMap> ReadNumberMap(importing::Bytes bytes);
// Returns the texts of the vector that the bytes are; nullopt if they are no vector of texts.
std::optional<std::vector<importing::Bytes>> ReadTexts(importing::Bytes bytes);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_FLEXBUFFER_H_
