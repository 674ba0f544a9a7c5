// Tensors as files of weights store them.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_STORED_TENSOR_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_STORED_TENSOR_H_

#include <functional>
#include <map>
#include <string>

#include "base/dim.h"
#include "compiler/import/file_bytes.h"

namespace rvm::checkpoint {

struct StoredTensor {
  std::string type;  // as the file names it: "BF16", "Q4_K"
  Shape shape;
  importing::FileBytes data;  // as many bytes as `shape` has, if `type` is supported (weight_form.h)
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_STORED_TENSOR_H_
