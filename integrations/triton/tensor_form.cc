#include "integrations/triton/tensor_form.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm::triton {
namespace {

constexpr ElementType kElementTypes[] = {
    {"bool", "TYPE_BOOL", DataType::kBool, {6, 8, 1}},
    {"uint8", "TYPE_UINT8", DataType::kUint8, {1, 8, 1}},
    {"uint16", "TYPE_UINT16", DataType::kUint16, {1, 16, 1}},
    {"uint32", "TYPE_UINT32", DataType::kUint32, {1, 32, 1}},
    {"uint64", "TYPE_UINT64", DataType::kUint64, {1, 64, 1}},
    {"int8", "TYPE_INT8", DataType::kInt8, {0, 8, 1}},
    {"int16", "TYPE_INT16", DataType::kInt16, {0, 16, 1}},
    {"int32", "TYPE_INT32", DataType::kInt32, {0, 32, 1}},
    {"int64", "TYPE_INT64", DataType::kInt64, {0, 64, 1}},
    {"float16", "TYPE_FP16", DataType::kFloat16, {2, 16, 1}},
    {"float32", "TYPE_FP32", DataType::kFloat32, {2, 32, 1}},
    {"float64", "TYPE_FP64", DataType::kFloat64, {2, 64, 1}},
    {"bfloat16", "TYPE_BF16", DataType::kBfloat16, {4, 16, 1}},
};

const ElementType* FindElementType(std::string_view relay) {
  for (const ElementType& type : kElementTypes) {
    if (type.relay == relay) return &type;
  }
  return nullptr;
}

// The JSON of rvm_program_signature has what relayvm.h says; members that are missing read as empty.
std::string_view Text(const JsonValue& object, std::string_view key) {
  const JsonValue* member = object.Find(key);
  const std::string* text = member == nullptr ? nullptr : member->AsString();
  return text == nullptr ? std::string_view() : *text;
}

const JsonValue::Array& Items(const JsonValue& object, std::string_view key) {
  static const auto* const kNone = new JsonValue::Array();
  const JsonValue* member = object.Find(key);
  const JsonValue::Array* items = member == nullptr ? nullptr : member->AsArray();
  return items == nullptr ? *kNone : *items;
}

class SignatureReader {
 public:
  explicit SignatureReader(const JsonValue& signature) : signature_(signature) {}

  absl::StatusOr<EntryForms> Read(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const JsonValue& entry : Items(signature_, "entries")) {
      if (Text(entry, "name") == name) return ReadEntry(entry);
      names.push_back(Text(entry, "name"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the program has no entry `", Abseil(name), "`; it has ",
                     absl::StrJoin(std::vector<std::string>(names.begin(), names.end()), ", ")));
  }

 private:
  absl::StatusOr<EntryForms> ReadEntry(const JsonValue& entry) const {
    EntryForms forms;
    for (const JsonValue& parameter : Items(entry, "parameters")) {
      RVM_ASSIGN_OR_RETURN(TensorForm form, Form(parameter, "parameter"));
      forms.inputs.push_back(std::move(form));
    }
    for (const JsonValue& result : Items(entry, "results")) {
      RVM_ASSIGN_OR_RETURN(TensorForm form, Form(result, "result"));
      forms.outputs.push_back(std::move(form));
    }
    const JsonValue* result = Type(entry, "result");
    forms.gives_tuple = result != nullptr && Text(*result, "kind") == "tuple";
    return forms;
  }

  // Returns the type whose index is the member `key`.
  const JsonValue* Type(const JsonValue& object, std::string_view key) const {
    const JsonValue* index = object.Find(key);
    return index == nullptr || index->AsInt() == nullptr ? nullptr : Element("types", *index->AsInt());
  }
  const JsonValue* Element(std::string_view array, int64_t index) const {
    const JsonValue::Array& items = Items(signature_, array);
    return index < 0 || index >= static_cast<int64_t>(items.size()) ? nullptr : &items[index];
  }

  // Returns the type of the elements of `type`, Cons(.., List) or Nil; null if it is no list.
  const JsonValue* ListElement(const JsonValue& type, int64_t type_index) const {
    const JsonValue* adt_index = type.Find("adt");
    if (adt_index == nullptr || adt_index->AsInt() == nullptr) return nullptr;
    const JsonValue* adt = Element("adts", *adt_index->AsInt());
    const JsonValue* element = nullptr;
    bool has_nil = false;
    if (adt == nullptr || Items(*adt, "constructors").size() != 2) return nullptr;
    for (const JsonValue& constructor : Items(*adt, "constructors")) {
      const JsonValue::Array& fields = Items(constructor, "fields");
      if (Text(constructor, "name") == "Nil") has_nil = fields.empty();
      if (Text(constructor, "name") != "Cons" || fields.size() != 2) continue;
      if (fields[0].AsInt() == nullptr || fields[1].AsInt() == nullptr || *fields[1].AsInt() != type_index) continue;
      element = Element("types", *fields[0].AsInt());
    }
    return has_nil ? element : nullptr;
  }

  absl::StatusOr<TensorForm> Form(const JsonValue& value, std::string_view role) const {
    TensorForm form = {.name = std::string(Text(value, "name"))};
    const JsonValue* type = Type(value, "type");
    std::string_view text = type == nullptr ? std::string_view() : Text(*type, "text");
    if (type != nullptr && Text(*type, "kind") == "adt") {
      type = ListElement(*type, *value.Find("type")->AsInt());
      form.kind = TensorForm::kList;
    }
    if (type != nullptr && Text(*type, "kind") == "tensor") form.element = FindElementType(Text(*type, "dtype"));
    if (form.element == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(Abseil(role), " `", form.name, "` has type `", Abseil(text),
                       "`, which has no form in the Open Inference Protocol; expected a tensor or a list of tensors"));
    }
    if (form.kind == TensorForm::kList) form.dims.push_back(-1);
    for (const JsonValue& extent : Items(*type, "shape")) {
      form.dims.push_back(extent.AsInt() == nullptr ? -1 : *extent.AsInt());
    }
    if (form.dims.empty()) {
      form.kind = TensorForm::kScalar;
      form.dims = {1};
    }
    return form;
  }

  const JsonValue& signature_;
};

}  // namespace

std::string_view ProtocolName(DataType type) {
  for (const ElementType& row : kElementTypes) {
    if (row.type == type) return row.config.substr(std::string_view("TYPE_").size());
  }
  return type == DataType::kBytes ? "BYTES" : "an unknown datatype";
}

absl::StatusOr<EntryForms> FormsOf(const JsonValue& signature, std::string_view entry) {
  return SignatureReader(signature).Read(entry);
}

}  // namespace rvm::triton
