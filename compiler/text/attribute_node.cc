#include "compiler/text/attribute_node.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "compiler/ops/virtual_device.h"

namespace rvm::text {
namespace {

constexpr int kMaxDepth = 8;         // of nested arrays
constexpr int kMaxValues = 1 << 20;  // shared arrays are copied, so a small graph can expand to a huge tree

// A numeric field is stored as the number itself or, if it may be null, as the index of a node. This table lists the
// latter; an empty type key matches every type.
struct NodeField {
  std::string_view type_key;
  std::string_view field;
};
constexpr NodeField kNodeFields[] = {
    {"", "channels"},
    {"", "units"},
    {"relay.attrs.GatherAttrs", "axis"},
    {"relay.attrs.GatherNDAttrs", "batch_dims"},
    {"relay.attrs.GatherNDAttrs", "index_rank"},
    {"relay.attrs.GetValidCountsAttrs", "score_threshold"},
    {"relay.attrs.RepeatAttrs", "repeats"},
    {"relay.attrs.RepeatAttrs", "axis"},
    {"relay.attrs.ReshapeLikeAttrs", "lhs_end"},
    {"relay.attrs.ReshapeLikeAttrs", "rhs_end"},
    {"relay.attrs.ReverseAttrs", "axis"},
    {"relay.attrs.ReverseSequenceAttrs", "seq_axis"},
    {"relay.attrs.ReverseSequenceAttrs", "batch_axis"},
    {"relay.attrs.ScanopAttrs", "axis"},
    {"relay.attrs.ScanopAttrs", "exclusive"},
    {"relay.attrs.ScatterElementsAttrs", "axis"},
    {"relay.attrs.SplitAttrs", "indices_or_sections"},
    {"relay.attrs.StackAttrs", "axis"},
    {"relay.attrs.TakeAttrs", "batch_dims"},
    {"relay.attrs.TakeAttrs", "axis"},
    {"relay.attrs.TopkAttrs", "k"},
    {"relay.attrs.YoloReorgAttrs", "stride"},
};

bool IsNodeField(std::string_view type_key, std::string_view field) {
  return std::any_of(std::begin(kNodeFields), std::end(kNodeFields), [&](const NodeField& row) {
    return row.field == field && (row.type_key.empty() || row.type_key == type_key);
  });
}

// Returns the value of a field that is stored in place.
ir::AttrValue PlainValue(const std::string& text) {
  int64_t integer = 0;
  double number = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  if (absl::SimpleAtod(text, &number)) return number;
  return text;
}

bool IsObject(const ObjectGraph& graph, std::string_view type_key, const std::string& field, const std::string& text,
              const ops::AttrSpec* spec) {
  if (IsNodeField(type_key, field)) return true;
  NodeId node = graph.ToNode(&text);
  std::string_view key = graph.TypeKey(node);
  int64_t number = -1;
  bool is_index = absl::SimpleAtoi(text, &number) && (node != kNullNode || number == kNullNode);
  if (!is_index) return false;
  if (spec == nullptr) return key == "Array" || key == "runtime.String" || key == "FloatImm";
  switch (spec->type) {
    case ops::AttrType::kBool:
    case ops::AttrType::kInt:
    case ops::AttrType::kFloat: return false;
    case ops::AttrType::kString: return true;
    case ops::AttrType::kDType: return key == "runtime.String";
    case ops::AttrType::kInts:
    case ops::AttrType::kIntOrInts: return number == kNullNode || key == "Array" || key == "IntImm";
    case ops::AttrType::kAny: return true;
  }
  return false;
}

bool IsZero(const ir::AttrValue& value) {
  if (value.is_none()) return true;
  if (const int64_t* integer = value.AsInt()) return *integer == 0;
  if (const double* number = value.AsDouble()) return *number == 0;
  if (const bool* boolean = value.AsBool()) return !*boolean;
  if (const std::string* text = value.AsString()) return text->empty();
  return value.AsList()->empty();
}

// Returns the name of a VirtualDevice, with its number if it is not the first: "cuda:1"; None if it names no device.
absl::StatusOr<ir::AttrValue> DeviceName(const ObjectGraph& graph, NodeId node) {
  auto number = [&](std::string_view field) {
    const std::string* text = graph.Field(node, field);
    int64_t value = -1;
    return text != nullptr && absl::SimpleAtoi(*text, &value) ? value : -1;
  };
  int64_t type = number("device_type_int"), index = number("virtual_device_id");
  if (type < 0) return ir::AttrValue();
  const ops::VirtualDevice* device = ops::FindVirtualDevice(type);
  if (device == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a device has the type ", type, ", which is not known"));
  }
  return ir::AttrValue(index > 0 ? absl::StrCat(Abseil(device->name), ":", index) : std::string(device->name));
}

absl::StatusOr<ir::AttrValue> ValueOfNode(const ObjectGraph& graph, NodeId node, int depth, int& values) {
  std::string_view key = graph.TypeKey(node);
  if (key.empty() || key.starts_with("relay.")) return ir::AttrValue();
  if (key == "Array" && depth < kMaxDepth && values < kMaxValues) {
    ir::AttrValue::List list;
    for (NodeId element : graph.Elements(node)) {
      RVM_ASSIGN_OR_RETURN(ir::AttrValue value, ValueOfNode(graph, element, depth + 1, values));
      list.push_back(std::move(value));
      ++values;
    }
    return list;
  }
  const std::string* number = graph.Field(node, "value");
  if (key == "IntImm" && number != nullptr) {
    int64_t value = 0;
    const std::string* dtype = graph.Field(node, "dtype");
    if (absl::SimpleAtoi(*number, &value)) {
      return dtype != nullptr && *dtype == "bool" ? ir::AttrValue(value != 0) : ir::AttrValue(value);
    }
  }
  if (key == "FloatImm" && number != nullptr) {
    double value = 0;
    if (absl::SimpleAtod(*number, &value)) return ir::AttrValue(value);
  }
  if (key == "VirtualDevice") return DeviceName(graph, node);
  if (std::optional<std::string> text = graph.Text(node); key == "runtime.String" && text) return *std::move(text);
  return absl::InvalidArgumentError(absl::StrCat(
      "a value is an object `", Abseil(key), "`; expected numbers, strings, and arrays of them, ", kMaxDepth, " deep"));
}

}  // namespace

absl::StatusOr<ir::AttrValue> AttrValueOfNode(const ObjectGraph& graph, NodeId node) {
  int values = 0;
  return ValueOfNode(graph, node, 0, values);
}

absl::StatusOr<ir::Attrs> AttrsOfNode(const ObjectGraph& graph, NodeId node, const ops::OpDef& op, ir::Span span) {
  ir::Attrs attrs;
  std::string_view type_key = graph.TypeKey(node);
  for (const auto& [field, text] : graph.Fields(node)) {
    auto found = std::find_if(op.attrs.begin(), op.attrs.end(),
                              [&, &name = field](const ops::AttrSpec& spec) { return spec.name == name; });
    const ops::AttrSpec* spec = found == op.attrs.end() ? nullptr : &*found;
    ir::AttrValue value;
    if (IsObject(graph, type_key, field, text, spec)) {
      absl::StatusOr<ir::AttrValue> read = AttrValueOfNode(graph, graph.ToNode(&text));
      if (!read.ok()) return absl::InvalidArgumentError(absl::StrCat("`", field, "`: ", read.status().message()));
      value = *std::move(read);
    } else if (spec != nullptr && (spec->type == ops::AttrType::kString || spec->type == ops::AttrType::kDType)) {
      value = text;
    } else {
      value = PlainValue(text);
    }
    bool is_unset = value.is_none() || (value.AsString() != nullptr && value.AsString()->empty());
    bool has_default = spec != nullptr && !spec->default_text.empty();
    if ((is_unset && (has_default || spec == nullptr)) || (spec == nullptr && IsZero(value))) continue;
    attrs.Set(field, std::move(value), span);
  }
  return attrs;
}

}  // namespace rvm::text
