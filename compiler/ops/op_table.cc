#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {
namespace {

std::vector<const OpDef*> MakeTable() {
  std::vector<const OpDef*> table;
#define RVM_FAMILY(name) \
  for (const OpDef& op : name()) table.push_back(&op);
#include "compiler/ops/families/families.def"
#undef RVM_FAMILY
  std::sort(table.begin(), table.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return table;
}

ir::AttrValue ParseDefault(std::string_view text) {
  if (text == "None") return {};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text.starts_with('"')) return std::string(text.substr(1, text.size() - 2));
  if (text.starts_with('[')) {
    ir::AttrValue::List list;
    std::string_view rest = text.substr(1, text.size() - 2);
    while (!rest.empty()) {
      size_t comma = std::min(rest.find(", "), rest.size());
      list.push_back(ParseDefault(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 2, rest.size()));
    }
    return list;
  }
  if (text.ends_with('f')) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size() - 1, value);
    return value;
  }
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool IsInts(const ir::AttrValue& value) {
  if (value.AsInt()) return true;
  if (!value.AsList()) return false;
  return std::all_of(value.AsList()->begin(), value.AsList()->end(),
                     [](const ir::AttrValue& v) { return v.AsInt() != nullptr; });
}

// Returns the expected value of an attribute if `value` is not one; "" if it is.
std::string_view Mismatch(const AttrSpec& spec, const ir::AttrValue& value) {
  if (value.is_none()) return spec.may_be_none || spec.default_text == "None" ? "" : "a value";
  switch (spec.type) {
    case AttrType::kBool: return value.AsBool() || value.AsInt() ? "" : "`True` or `False`";
    case AttrType::kInt: return value.AsInt() ? "" : "an integer";
    case AttrType::kFloat: return value.AsDouble() || value.AsInt() ? "" : "a number";
    case AttrType::kString: return value.AsString() ? "" : "a string";
    case AttrType::kDType:
      return value.AsString() && (value.AsString()->empty() || ParseDataType(*value.AsString())) ? ""
                                                                                                 : "a dtype in quotes";
    case AttrType::kInts:
    case AttrType::kIntOrInts: return IsInts(value) ? "" : "a list of integers";
    case AttrType::kAny: return "";
  }
  return "";
}

// Returns whether `value` is the empty list, in place of a default of one element or more, or of None. An empty `axis`
// is none of the axes, where None is all of them.
bool MeansDefault(const AttrSpec& spec, const ir::AttrValue& value) {
  bool is_empty = value.AsList() != nullptr && value.AsList()->empty();
  bool has_other_default = spec.default_text != "" && spec.default_text != "[]";
  return spec.type == AttrType::kInts && is_empty && has_other_default && spec.name != "axis";
}

// Returns whether `value` is a list with names, which may be those of extents.
bool NamesExtents(const AttrSpec& spec, const ir::AttrValue& value) {
  const ir::AttrValue::List* list = value.AsList();
  return spec.type == AttrType::kInts && list != nullptr &&
         std::any_of(list->begin(), list->end(), [](const ir::AttrValue& v) { return v.AsString() != nullptr; });
}

std::string HintForNames(const OpDef& op) {
  std::string dynamic = absl::StrCat("dyn.", Abseil(op.name));
  if (FindOp(dynamic) == nullptr) return ", not extents with names";
  return absl::StrCat(", or names of extents that the type of a variable in scope has; `", dynamic,
                      "` takes others as an argument");
}

}  // namespace

std::span<const OpDef* const> AllOps() {
  static const std::vector<const OpDef*>& table = *new std::vector<const OpDef*>(MakeTable());
  return table;
}

const OpDef* FindOp(std::string_view name) {
  std::span<const OpDef* const> table = AllOps();
  auto it = std::lower_bound(table.begin(), table.end(), name,
                             [](const OpDef* op, std::string_view n) { return op->name < n; });
  return it != table.end() && (*it)->name == name ? *it : nullptr;
}

const OpDef* FindInfix(std::string_view infix) {
  for (const OpDef* op : AllOps()) {
    if (!op->infix.empty() && op->infix == infix) return op;
  }
  return nullptr;
}

namespace {

// Names of attributes in other libraries, and the names here; the first one that the operator has is meant.
constexpr std::pair<std::string_view, std::string_view> kForeignAttrs[] = {
    {"dim", "axis"},
    {"dims", "axis"},
    {"dim", "axes"},
    {"dims", "axes"},
    {"axis", "axes"},
    {"perm", "axes"},
    {"min", "a_min"},
    {"max", "a_max"},
    {"shape", "newshape"},
    {"size", "newshape"},
    {"kernel_shape", "kernel_size"},
    {"kernel_shape", "pool_size"},
    {"kernel_size", "pool_size"},
    {"group", "groups"},
    {"eps", "epsilon"},
    {"pads", "padding"},
    {"dilations", "dilation"},
    {"to", "dtype"},
    {"type", "dtype"},
    {"num_classes", "depth"},
    {"sections", "indices_or_sections"},
    {"repeats", "reps"},
};

// Returns the attribute of `op` that `name` means; empty if there is none.
std::string_view NearestAttr(const OpDef& op, std::string_view name) {
  std::vector<std::string_view> names;
  for (const AttrSpec& spec : op.attrs) names.push_back(spec.name);
  for (auto [other, meant] : kForeignAttrs) {
    if (other == name && std::find(names.begin(), names.end(), meant) != names.end()) return meant;
  }
  return NearestName(name, names);
}

}  // namespace

bool CompleteAttrs(const OpDef& op, ir::Span call_span, ir::Attrs& attrs, diagnostics::Diagnostics& diagnostics) {
  using diagnostics::DiagnosticKind;
  bool ok = true;
  std::vector<std::string_view> misspelt;  // attributes that are given under another name, so they are not missing
  for (const ir::Attr& attr : attrs.entries()) {
    auto spec = std::find_if(op.attrs.begin(), op.attrs.end(), [&](const AttrSpec& s) { return s.name == attr.name; });
    ir::Span span = attr.span.valid() ? attr.span : call_span;
    if (spec == op.attrs.end()) {
      std::string_view near = NearestAttr(op, attr.name);
      misspelt.push_back(near);
      diagnostics.Error(span, DiagnosticKind::kUnknownAttribute,
                        absl::StrCat("`", Abseil(op.name), "` has no attribute `", attr.name, "`", AsSuggestion(near)));
      ok = false;
      continue;
    }
    if (std::string_view expected = Mismatch(*spec, attr.value); !expected.empty()) {
      diagnostics.Error(
          span, DiagnosticKind::kAttributeTypeMismatch,
          absl::StrCat("attribute `", attr.name, "` of `", Abseil(op.name), "` is ", attr.value.ToString(),
                       "; expected ", Abseil(expected), NamesExtents(*spec, attr.value) ? HintForNames(op) : ""));
      ok = false;
    }
  }
  for (const AttrSpec& spec : op.attrs) {
    if (const ir::AttrValue* value = attrs.Find(spec.name); value != nullptr && !MeansDefault(spec, *value)) continue;
    if (spec.default_text.empty()) {
      ok = false;
      if (std::find(misspelt.begin(), misspelt.end(), spec.name) != misspelt.end()) continue;
      diagnostics.Error(
          call_span, DiagnosticKind::kMissingAttribute,
          absl::StrCat("`", Abseil(op.name), "` needs the attribute `", Abseil(spec.name), "`: ", Abseil(spec.doc)));
      continue;
    }
    attrs.Set(std::string(spec.name), ParseDefault(spec.default_text));
  }
  return ok;
}

}  // namespace rvm::ops
