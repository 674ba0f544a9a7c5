// Attributes of nodes, which are texts as Python writes its values.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/utf8.h"
#include "compiler/import/mxnet/importer.h"

namespace rvm::mxnet {
namespace {

// Python 2 wrote long integers with an `L`.
std::optional<int64_t> ToInt(std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  int64_t value = 0;
  return absl::SimpleAtoi(Abseil(text), &value) ? std::optional(value) : std::nullopt;
}

// Returns the elements of a tuple, also of one of tuples; a number without brackets is one alone.
std::vector<std::string_view> Elements(std::string_view text) {
  constexpr std::string_view kBetween = "()[], \t\n";
  std::vector<std::string_view> elements;
  for (size_t begin = text.find_first_not_of(kBetween); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    elements.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBetween, end);
  }
  return elements;
}

}  // namespace

Operand NodeContext::In(size_t i) { return Has(i) ? inputs_[i] : Fail(absl::StrCat("input ", i, " is missing")); }

const Operands& NodeContext::All() {
  if (inputs_.empty()) Fail("it has no inputs");
  for (size_t i = 0; i < inputs_.size(); ++i) In(i);
  return inputs_;
}

const std::string* NodeContext::Attr(std::string_view name) const {
  const std::string* text = node_.Find(name);
  return text == nullptr || *text == "None" || text->empty() ? nullptr : text;
}

void NodeContext::FailAttr(std::string_view name, std::string_view expected) {
  Fail(absl::StrCat("`", Abseil(name), "`: saw `", ReadableText(Attr(name)->substr(0, 40)), "`; expected ",
                    Abseil(expected)));
}

std::string NodeContext::Text(std::string_view name, std::string_view otherwise) const {
  const std::string* text = Attr(name);
  return text == nullptr ? std::string(otherwise) : *text;
}

int64_t NodeContext::Int(std::string_view name, int64_t otherwise) {
  const std::string* text = Attr(name);
  if (text == nullptr) return otherwise;
  if (std::optional<int64_t> value = ToInt(*text)) return *value;
  FailAttr(name, "an integer");
  return otherwise;
}

int64_t NodeContext::IntWithin(std::string_view name, int64_t otherwise, int64_t least, int64_t greatest) {
  const int64_t value = Int(name, otherwise);
  if (value >= least && value <= greatest) return value;
  Fail(absl::StrCat("`", Abseil(name), "` is ", value, "; expected an integer from ", least, " to ", greatest));
  return std::clamp(otherwise, least, greatest);
}

double NodeContext::Float(std::string_view name, double otherwise) {
  const std::string* text = Attr(name);
  double value = otherwise;
  if (text == nullptr || absl::SimpleAtod(*text, &value)) return value;
  FailAttr(name, "a number");
  return otherwise;
}

bool NodeContext::Bool(std::string_view name, bool otherwise) {
  const std::string* text = Attr(name);
  if (text == nullptr) return otherwise;
  if (*text == "True" || *text == "true" || *text == "1") return true;
  if (*text != "False" && *text != "false" && *text != "0") FailAttr(name, "True or False");
  return false;
}

DataType NodeContext::DType(std::string_view name, DataType otherwise) {
  const std::string* text = Attr(name);
  if (text == nullptr) return otherwise;
  if (std::optional<DataType> dtype = ParseDataType(*text)) return *dtype;
  FailAttr(name, "a type of numbers");
  return otherwise;
}

std::vector<std::optional<int64_t>> NodeContext::OptionalInts(std::string_view name) {
  const std::string* text = Attr(name);
  std::vector<std::optional<int64_t>> values;
  if (text == nullptr) return values;
  for (std::string_view element : Elements(*text)) {
    values.push_back(ToInt(element));
    if (values.back() || element == "None") continue;
    FailAttr(name, "integers");
    return {};
  }
  return values;
}

std::vector<int64_t> NodeContext::Ints(std::string_view name) {
  std::vector<int64_t> values;
  for (std::optional<int64_t> value : OptionalInts(name)) {
    if (!value) FailAttr(name, "integers");
    values.push_back(value.value_or(0));
  }
  return values;
}

std::vector<int64_t> NodeContext::IntsOf(std::string_view name, size_t count, int64_t otherwise) {
  std::vector<int64_t> values = Ints(name);
  if (values.empty()) values.push_back(otherwise);
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() == count) return values;
  FailAttr(name, absl::StrCat(count, " integers"));
  return std::vector<int64_t>(count, otherwise);
}

std::vector<int64_t> NodeContext::AxesOf(std::string_view name, int64_t rank, bool excludes) {
  std::vector<int64_t> given = Axes(Ints(name), rank), axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool is_given = std::ranges::find(given, axis) != given.end();
    if (given.empty() || is_given != excludes) axes.push_back(axis);
  }
  return axes;
}

void NodeContext::Refuse(std::string_view name) {
  const std::string* text = Attr(name);
  if (text != nullptr && *text != "False" && *text != "0") Unsupported(absl::StrCat("`", Abseil(name), "`"));
}

const Literal* NodeContext::ConstantOf(Operand x) const {
  while (x != nullptr && !x->constant && x->viewed != nullptr) x = x->viewed;
  return x != nullptr && x->constant ? &*x->constant : nullptr;
}

bool NodeContext::SpendCopy(int64_t bytes) {
  if (bytes > copy_budget_) return false;
  copy_budget_ -= bytes;
  return true;
}

}  // namespace rvm::mxnet
