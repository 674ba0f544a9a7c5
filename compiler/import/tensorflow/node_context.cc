// NodeContext: the inputs and the attributes of a node.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {

NodeContext::NodeContext(Emitter& emit, const Node& node, const OperatorRow& row, Operands inputs, Key key,
                         std::optional<Place> place)
    : NodeInputs(emit, std::move(inputs)), node_(node), row_(row), key_(key), place_(place) {}

Operands NodeContext::InputsFrom(size_t first) {
  const Operands& all = inputs();
  return first < all.size() ? Operands(all.begin() + static_cast<ptrdiff_t>(first), all.end()) : Operands();
}

int64_t NodeContext::IntAttr(std::string_view name, int64_t otherwise) const {
  return node_.attr(name).Int().value_or(otherwise);
}
double NodeContext::FloatAttr(std::string_view name, double otherwise) const {
  const std::optional<float> value = node_.attr(name).Float();
  return value ? static_cast<double>(*value) : otherwise;
}
std::string_view NodeContext::TextAttr(std::string_view name, std::string_view otherwise) const {
  return node_.attr(name).Text().value_or(otherwise);
}

DataType NodeContext::TypeAttr(std::string_view name) {
  const std::optional<uint64_t> type = node_.attr(name).Type();
  if (!type) {
    Fail(absl::StrCat("its attribute `", Abseil(name), "` is missing"));
    return kFloat32;
  }
  if (std::optional<DataType> dtype = ToDataType(*type)) return *dtype;
  Unsupported(absl::StrCat("elements of ", TypeName(*type), ", which Relay has not"));
  return kFloat32;
}

std::vector<int64_t> NodeContext::AxesAt(size_t i, int64_t rank) { return Axes(Ints(i, "axes"), rank); }

}  // namespace rvm::tensorflow
