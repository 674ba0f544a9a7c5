#include "devices/plugin/plugin_accelerator.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "devices/plugin/plugin_status.h"
#include "serialization/device_contract.h"

namespace rvm::target {
namespace {

// A composite in the structs of the C interface, which refer to it.
class CompositeInC {
 public:
  explicit CompositeInC(const Composite& composite) : pattern_(composite.pattern) {
    for (const CompositeCall& call : composite.calls) AddCall(call);
    composite_ = {pattern_.c_str(), static_cast<uint32_t>(calls_.size()),
                  static_cast<uint32_t>(composite.num_arguments), calls_.data()};
  }
  const rvm_composite* get() const { return &composite_; }

 private:
  void AddCall(const CompositeCall& call) {
    std::vector<rvm_operand>& operands = operands_.emplace_back();
    for (const Operand& operand : call.operands) {
      bool is_constant = operand.kind == Operand::Kind::kConstant;
      operands.push_back({KindOf(operand.kind), static_cast<uint32_t>(operand.number),
                          TypeOf(operand.dtype, operand.dims), is_constant ? operand.constant.data() : nullptr});
    }
    std::vector<rvm_attribute>& attributes = attributes_.emplace_back();
    for (const ir::Attr& attr : call.attrs->entries()) {
      attributes.push_back(AttributeOf(attr.value));
      attributes.back().name = attr.name.c_str();
    }
    calls_.push_back({strings_.emplace_back(call.op).c_str(), static_cast<uint32_t>(operands.size()),
                      static_cast<uint32_t>(attributes.size()), operands.data(), attributes.data(),
                      TypeOf(call.dtype, call.dims)});
  }

  static uint32_t KindOf(Operand::Kind kind) {
    switch (kind) {
      case Operand::Kind::kArgument: return RVM_OPERAND_ARGUMENT;
      case Operand::Kind::kCall: return RVM_OPERAND_CALL;
      case Operand::Kind::kConstant: return RVM_OPERAND_CONSTANT;
    }
    return RVM_OPERAND_CONSTANT;
  }

  rvm_tensor_type TypeOf(DataType dtype, const Dims& dims) {
    bool is_ieee = dtype == kFloat16 || dtype == kFloat32 || dtype == kFloat64;
    rvm_dtype_code code = dtype.is_bool()   ? RVM_DTYPE_BOOL
                          : dtype.is_int()  ? RVM_DTYPE_INT
                          : dtype.is_uint() ? RVM_DTYPE_UINT
                          : is_ieee         ? RVM_DTYPE_FLOAT
                                            : RVM_DTYPE_OTHER;
    std::vector<rvm_extent>& extents = extents_.emplace_back();
    for (const Dim& dim : dims) extents.push_back(ExtentOf(dim));
    return {{code, dtype.bits}, static_cast<uint32_t>(dims.size()), extents.data()};
  }

  rvm_extent ExtentOf(const Dim& dim) {
    if (dim.is_const()) return {RVM_EXTENT_CONSTANT, 0, dim.constant(), nullptr};
    if (dim.kind() == DimKind::kVar) return {RVM_EXTENT_SYMBOL, 0, dim.id(), nullptr};
    if (dim.kind() != DimKind::kBroadcast) return {RVM_EXTENT_UNKNOWN, 0, 0, nullptr};
    rvm_extent lhs = ExtentOf(dim.lhs()), rhs = ExtentOf(dim.rhs());
    const std::vector<rvm_extent>& terms = extents_.emplace_back(std::vector<rvm_extent>{lhs, rhs});
    return {RVM_EXTENT_BROADCAST, 2, 0, terms.data()};
  }

  rvm_attribute AttributeOf(const ir::AttrValue& value) {
    rvm_attribute attribute = {};
    if (const bool* b = value.AsBool()) {
      attribute.kind = RVM_ATTRIBUTE_BOOL;
      attribute.integer = *b ? 1 : 0;
    } else if (const int64_t* integer = value.AsInt()) {
      attribute.kind = RVM_ATTRIBUTE_INT;
      attribute.integer = *integer;
    } else if (const double* real = value.AsDouble()) {
      attribute.kind = RVM_ATTRIBUTE_FLOAT;
      attribute.real = *real;
    } else if (const std::string* string = value.AsString()) {
      attribute.kind = RVM_ATTRIBUTE_STRING;
      attribute.string = string->c_str();
    } else if (const ir::AttrValue::List* list = value.AsList()) {
      std::vector<rvm_attribute> items;
      for (const ir::AttrValue& item : *list) items.push_back(AttributeOf(item));
      const std::vector<rvm_attribute>& kept = attributes_.emplace_back(std::move(items));
      attribute.kind = RVM_ATTRIBUTE_LIST;
      attribute.item_count = static_cast<uint32_t>(kept.size());
      attribute.items = kept.data();
    }
    return attribute;
  }

  std::string pattern_;
  // Deques keep what was added where it is.
  std::deque<std::string> strings_;
  std::deque<std::vector<rvm_extent>> extents_;
  std::deque<std::vector<rvm_attribute>> attributes_;
  std::deque<std::vector<rvm_operand>> operands_;
  std::vector<rvm_operator_call> calls_;
  rvm_composite composite_;
};

class PluginCode : public AcceleratorCode {
 public:
  explicit PluginCode(const rvm_accelerator& table) : table_(table) {
    device::PluginMessage message;
    created_ = message.ToStatus(table_.code_create(&code_, message.buffer()), table_.kind);
  }
  ~PluginCode() override {
    if (created_.ok()) table_.code_destroy(code_);
  }

  absl::Status Add(uint32_t kernel, const Composite& composite) override {
    RVM_RETURN_IF_ERROR(created_);
    device::PluginMessage message;
    std::string name = device_contract::FunctionName(kernel, 0);
    rvm_accelerator_status status =
        table_.code_add(code_, name.c_str(), CompositeInC(composite).get(), message.buffer());
    return message.ToStatus(status, absl::StrCat(table_.kind, ": function ", name));
  }

  absl::StatusOr<std::vector<uint8_t>> Finish() override {
    RVM_RETURN_IF_ERROR(created_);
    device::PluginMessage message;
    const uint8_t* bytes = nullptr;
    size_t size = 0;
    RVM_RETURN_IF_ERROR(message.ToStatus(table_.code_finish(code_, &bytes, &size, message.buffer()), table_.kind));
    return std::vector<uint8_t>(bytes, bytes + size);
  }

 private:
  const rvm_accelerator& table_;
  rvm_accelerator_code* code_ = nullptr;
  absl::Status created_;
};

}  // namespace

PluginAccelerator::PluginAccelerator(const rvm_accelerator& table) : table_(table) {
  for (uint32_t p = 0; p < table.pattern_count; ++p) {
    const rvm_pattern& pattern = table.patterns[p];
    std::vector<std::vector<std::string_view>>& operators = operators_.emplace_back();
    for (uint32_t s = 0; s < pattern.step_count; ++s) {
      const rvm_pattern_step& step = pattern.steps[s];
      operators.emplace_back(step.operators, step.operators + step.operator_count);
    }
  }
  // The vectors no longer grow: what is in them stays where it is.
  for (uint32_t p = 0; p < table.pattern_count; ++p) {
    std::vector<PatternStep>& steps = steps_.emplace_back();
    for (uint32_t s = 0; s < table.patterns[p].step_count; ++s) {
      steps.push_back({operators_[p][s], table.patterns[p].steps[s].is_optional != 0});
    }
  }
  for (uint32_t p = 0; p < table.pattern_count; ++p) patterns_.push_back({table.patterns[p].name, steps_[p]});
}

bool PluginAccelerator::Accepts(const Composite& composite) const {
  // While the program is divided, variables are the program's: they are no symbols.
  return table_.accepts(CompositeInC(WithoutVariables(composite)).get()) != 0;
}

std::unique_ptr<AcceleratorCode> PluginAccelerator::NewCode() const { return std::make_unique<PluginCode>(table_); }

}  // namespace rvm::target
