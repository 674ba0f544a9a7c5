// Options and results of the importers of models.
#ifndef RVM_COMPILER_IMPORT_IMPORT_OPTIONS_H_
#define RVM_COMPILER_IMPORT_IMPORT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/import/file_bytes.h"
#include "compiler/ir/module.h"

namespace rvm::importing {

// How a model uses one operator.
struct OperatorUse {
  int64_t nodes = 0;    // that the model has, those of its functions and bodies of loops once
  int64_t refused = 0;  // how often a node could not be imported
  std::vector<std::string> reasons;
};
// By the names that messages have, "Conv" and "aten.add.Tensor"; refused parts that are no nodes are there, too.
using Coverage = std::map<std::string, OperatorUse, std::less<>>;

struct ImportOptions {
  // The model's name in origins: the path of its file.
  std::string name = "model";
  // Gets an origin for each node that makes steps, "MatMul node `/proj` of model.onnx". Null: steps have none.
  diagnostics::SourceMap* sources = nullptr;
  // Inputs with values that they always have.
  std::map<std::string, Literal, std::less<>> frozen;
  // Inputs with other extents than the model says: numbers, names, or "?".
  std::map<std::string, std::vector<std::string>, std::less<>> shapes;
  // The signatures of a model that become entries: the first one `@main`, others functions of their names. Empty:
  // `serving_default`, or the only one.
  std::vector<std::string> signatures;
  // The dtype of the caches of keys and values of a model that is weights alone. Not given: float16 for a decoder whose
  // weights are not of float32, float32 for others, whose caches are exact or short.
  std::optional<DataType> cache_dtype;
  // The dtype to which rows are rounded in blocks before they are multiplied by quantised weights of such a model:
  // int8, as llama.cpp does, or float32, which leaves them as they are. Not given: int8.
  std::optional<DataType> activation_dtype;
  bool all_extents_unknown = false;  // every extent of every input is `?`: for tests
  ExternalFiles files;               // null: a model with external data is refused
  Coverage* coverage = nullptr;      // if not null, receives the coverage, also where the import fails
  // Called with parts of the model's bytes that have been copied. Null: nobody wants to know.
  std::function<void(Bytes part)> release;
};

struct ImportedModel {
  ir::Module module;  // not typed yet
  // Values of the free variables of the module.
  std::map<std::string, Literal, std::less<>> weights;
  std::vector<std::string> inputs, outputs;  // as the model names them
  std::vector<std::string> warnings;         // what the program does not check, a sentence each
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_IMPORT_OPTIONS_H_
