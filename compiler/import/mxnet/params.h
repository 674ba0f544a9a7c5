// Files of weights of MXNet (`.params`): a list of arrays, then their names. Also those of NNVM (base/tensor_blob.h).
#ifndef RVM_COMPILER_IMPORT_MXNET_PARAMS_H_
#define RVM_COMPILER_IMPORT_MXNET_PARAMS_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"

namespace rvm::mxnet {

// By names without the `arg:` and `aux:` that say whether gradients are taken.
using Params = std::map<std::string, Literal, std::less<>>;

absl::StatusOr<Params> ReadParams(const importing::FileBytes& file);

}  // namespace rvm::mxnet

#endif  // RVM_COMPILER_IMPORT_MXNET_PARAMS_H_
