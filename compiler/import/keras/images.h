// Images of another height and width.
#ifndef RVM_COMPILER_IMPORT_KERAS_IMAGES_H_
#define RVM_COMPILER_IMPORT_KERAS_IMAGES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/import/keras/importer.h"

namespace rvm::keras {

// Returns the images x with that height and width, as keras.ops.image.resize gives them without antialiasing. Refuses
// methods other than "nearest", "bilinear" and "bicubic".
Operand Resized(LayerContext& c, Operand x, const std::vector<int64_t>& size, std::string_view method);

}  // namespace rvm::keras

#endif  // RVM_COMPILER_IMPORT_KERAS_IMAGES_H_
