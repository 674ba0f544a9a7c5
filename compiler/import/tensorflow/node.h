// Nodes of TensorFlow in models of other formats.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_NODE_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_NODE_H_

#include "absl/functional/function_ref.h"
#include "compiler/import/file_bytes.h"
#include "compiler/import/steps.h"

namespace rvm::tensorflow {

// Returns the outputs of the node that `definition`, a NodeDef, defines, for these inputs. Operators that refer to
// functions or variables of a graph are refused. key: returns a key for random numbers of this node alone.
importing::Operands ConvertNode(importing::Emitter& emit, importing::Bytes definition, importing::Operands inputs,
                                absl::FunctionRef<importing::Operand(importing::Steps&)> key);

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_NODE_H_
