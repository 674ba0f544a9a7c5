// Every operator of ATen that can be imported, and what else stands in exported graphs: the rows of all families.
// In-place operators (`add_`) have no rows: they are imported as the out-of-place operator followed by a write.
#include <span>
#include <string>

#include "compiler/import/torch/importer.h"

namespace rvm::torch {
namespace convert {

Operands Refused(NodeContext& c) { return {c.Unsupported(std::string(c.row().variant))}; }

}  // namespace convert

std::span<const std::span<const OperatorRow>> OperatorFamilies() {
  static const std::span<const OperatorRow> kFamilies[] = {
#define RVM_FAMILY(name) convert::name(),
#include "compiler/import/torch/families.def"
#undef RVM_FAMILY
  };
  return kFamilies;
}

}  // namespace rvm::torch
