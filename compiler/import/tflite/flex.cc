// Flex operators: those of TensorFlow in a model of TensorFlow Lite. Their options are the name of the operator and its
// NodeDef.
#include <optional>
#include <span>
#include <vector>

#include "compiler/import/tensorflow/node.h"
#include "compiler/import/tflite/flexbuffer.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

Operands Flex(NodeContext& c) {
  const std::optional<std::vector<Bytes>> texts = ReadTexts(c.node().custom);
  if (!texts || texts->size() < 2) return {c.Fail("its options are no node of TensorFlow")};
  return tensorflow::ConvertNode(c.emit(), (*texts)[1], c.inputs(), [&c](Steps&) { return c.Key(); });
}

constexpr OperatorRow kRows[] = {
    OfComplex(kFlex, Flex),
};

}  // namespace

std::span<const OperatorRow> FlexOperators() { return kRows; }

}  // namespace rvm::tflite
