#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {

NodeContext::NodeContext(Importer& importer, const Operation& op, const OperatorRow& row, Operands inputs)
    : Steps(importer.emit_), importer_(importer), op_(op), row_(row), inputs_(std::move(inputs)) {}

bool NodeContext::is_on_tensors() const { return importer_.on_tensors_; }
const Module& NodeContext::module() const { return importer_.module_; }

// ---- operands and results

Operand NodeContext::In(size_t i) {
  return i < inputs_.size() ? inputs_[i] : Fail(absl::StrCat("operand ", i, " is missing"));
}

Operands NodeContext::Inputs(size_t begin, size_t end) const {
  return Operands(inputs_.begin() + static_cast<ptrdiff_t>(begin), inputs_.begin() + static_cast<ptrdiff_t>(end));
}

Operand NodeContext::ScalarOrIn(size_t i) {
  Operand x = In(i);
  const auto scalar = importer_.splats_.find(x);
  return scalar == importer_.splats_.end() ? x : scalar->second;
}

DataType NodeContext::ResultDType(size_t i) {
  if (i < op_.types.size() && op_.types[i]->dtype) return *op_.types[i]->dtype;
  Fail(absl::StrCat("it has no result ", i));
  return kFloat32;
}

Dims NodeContext::ResultDims(size_t i) {
  Dims dims;
  if (i >= op_.types.size()) Fail(absl::StrCat("it has no result ", i));
  for (int64_t extent : i < op_.types.size() ? op_.types[i]->shape : std::vector<int64_t>()) {
    dims.push_back(extent < 0 ? Dim::Any() : Dim(extent));
  }
  return dims;
}

Operands NodeContext::OnReals(Operands inputs) {
  const OperatorRow* row = FindOperator(op_.name, /*is_complex=*/false);
  if (row == nullptr) return {Unsupported("complex numbers")};
  NodeContext reals(importer_, op_, *row, std::move(inputs));
  return row->convert(reals);
}

// ---- attributes

std::vector<int64_t> NodeContext::Ints(std::string_view name) {
  const Attribute* attribute = op_.Find(name);
  if (attribute == nullptr) return {};
  std::optional<std::vector<int64_t>> values = IntegersOf(*attribute);
  if (!values) Fail(absl::StrCat("its attribute `", Abseil(name), "` is no list of integers"));
  return std::move(values).value_or(std::vector<int64_t>());
}

int64_t NodeContext::Int(std::string_view name, int64_t otherwise) {
  const Attribute* attribute = op_.Find(name);
  if (attribute == nullptr) return otherwise;
  if (attribute->kind != Attribute::Kind::kInteger) {
    Fail(absl::StrCat("its attribute `", Abseil(name), "` is no integer"));
    return otherwise;
  }
  return attribute->integer;
}

std::string_view NodeContext::Text(std::string_view name) {
  const Attribute* attribute = op_.Find(name);
  return attribute == nullptr ? "" : attribute->text;
}

// ---- bodies

Operands NodeContext::Body(size_t region, const Operands& arguments) {
  if (region >= op_.regions.size()) {
    Fail(absl::StrCat("it has no region ", region));
    return {};
  }
  ++importer_.region_depth_;
  Operands results = importer_.Run(op_.regions[region], arguments);
  --importer_.region_depth_;
  return results;
}

Operands NodeContext::OnTensors(size_t region, const Operands& arguments) {
  const bool outer = std::exchange(importer_.on_tensors_, true);
  Operands results = Body(region, arguments);
  importer_.on_tensors_ = outer;
  return results;
}

Operands NodeContext::ValuesOnTensors(size_t region, const Operands& arguments, std::span<const int32_t> numbers) {
  OnTensors(region, arguments);
  Operands values;
  for (int32_t number : numbers) {
    Operand value = importer_.values_[static_cast<size_t>(number)];
    values.push_back(value == nullptr ? emit().Placeholder() : value);
  }
  return values;
}

// ---- notes

void NodeContext::NoteSplat(Operand tensor, Operand scalar) {
  if (tensor != scalar && !tensor->is_placeholder && scalar->constant) importer_.splats_[tensor] = scalar;
}

void NodeContext::NoteIota(Operand tensor, int64_t axis) { importer_.iotas_[tensor] = axis; }

bool NodeContext::IsIota(Operand tensor, int64_t axis) const {
  const auto found = importer_.iotas_.find(tensor);
  return found != importer_.iotas_.end() && found->second == axis;
}

void NodeContext::Check(Operand condition, std::string message) {
  if (condition->constant && condition->constant->num_elements() == 1 && condition->constant->IntAt(0) != 0) return;
  if (importer_.region_depth_ > 0) {
    Unsupported("a condition inside of a loop or a branch");
    return;
  }
  importer_.conditions_.push_back({condition, std::move(message)});
}

}  // namespace rvm::stablehlo
