#include "compiler/import/tensorflow/node.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/utf8.h"
#include "compiler/import/tensorflow/importer.h"
#include "compiler/import/tensorflow/model.h"

namespace rvm::tensorflow {
namespace {

// Returns the row of an operator that needs no graph around it; null if there is none.
const OperatorRow* FindLoneOperator(std::string_view name) {
#define RVM_TENSORFLOW_GRAPH_FAMILY(family)
#define RVM_TENSORFLOW_FAMILY(family)                  \
  for (const OperatorRow& row : family##Operators()) { \
    if (row.name == name) return &row;                 \
  }
#include "compiler/import/tensorflow/families.def"
#undef RVM_TENSORFLOW_FAMILY
  return nullptr;
}

}  // namespace

Operands ConvertNode(Emitter& emit, Bytes definition, Operands inputs, absl::FunctionRef<Operand(Steps&)> key) {
  const std::optional<Node> node = ReadNode(definition);
  if (!node || node->op.empty()) {
    emit.Fail(absl::InvalidArgumentError("the definition of its node of TensorFlow is malformed"));
    return {};
  }
  const OperatorRow* row = FindLoneOperator(node->op);
  if (row == nullptr) {
    const bool is_known = FindOperator(node->op) != nullptr;
    emit.Fail(absl::UnimplementedError(
        absl::StrCat("TensorFlow's ", Abseil(ReadableText(node->op)),
                     is_known ? ", which refers to the rest of a graph of TensorFlow" : ", which is not supported")));
    return {};
  }
  return ConvertByParts(emit, *row, std::move(inputs), [&](Operands of) {
    NodeContext context(emit, *node, *row, std::move(of), key, std::nullopt);
    return row->convert(context);
  });
}

}  // namespace rvm::tensorflow
