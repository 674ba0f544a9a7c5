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

NodeContext::NodeContext(Importer& importer, Scope& scope, int32_t number, const OperatorRow& row, Operands inputs)
    : Steps(importer.emitter()),
      importer_(importer),
      scope_(scope),
      number_(number),
      node_(scope.graph->nodes[static_cast<size_t>(number)]),
      row_(row),
      inputs_(std::move(inputs)) {}

Operand NodeContext::In(size_t i) { return Has(i) ? inputs_[i] : Fail(absl::StrCat("input ", i, " is missing")); }

Operands NodeContext::InputsFrom(size_t first) {
  return first < inputs_.size() ? Operands(inputs_.begin() + static_cast<ptrdiff_t>(first), inputs_.end()) : Operands();
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

std::vector<int64_t> NodeContext::Ints(size_t i, std::string_view what) {
  Operand x = In(i);
  if (failed()) return {};
  return Constants(x, what).value_or(std::vector<int64_t>());
}

int64_t NodeContext::Int(size_t i, std::string_view what) {
  const std::vector<int64_t> values = Ints(i, what);
  if (values.size() == 1) return values[0];
  if (!failed()) Fail(absl::StrCat("its ", Abseil(what), " is not one number"));
  return 0;
}

std::vector<int64_t> NodeContext::AxesAt(size_t i, int64_t rank) { return Axes(Ints(i, "axes"), rank); }

Operand NodeContext::Filled(Operand value, Operand extents) {
  if (failed()) return value;
  if (std::optional<Dims> dims = Symbols(extents)) return BroadcastTo(value, *dims);
  return Op("dyn.broadcast_to", {value, Cast(extents, kInt64)});
}

Operand NodeContext::Key() { return importer_.Key(*this); }

}  // namespace rvm::tensorflow
