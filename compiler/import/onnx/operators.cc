// Every operator of ONNX that can be imported: the rows of all families.
#include <span>
#include <string>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx {

std::span<const std::span<const OperatorRow>> OperatorFamilies() {
  static const std::span<const OperatorRow> kFamilies[] = {
#define RVM_FAMILY(name) convert::name(),
#include "compiler/import/onnx/families.def"
#undef RVM_FAMILY
  };
  return kFamilies;
}

}  // namespace rvm::onnx
