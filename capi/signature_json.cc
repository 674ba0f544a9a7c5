#include "capi/signature_json.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_writer.h"

namespace rvm::capi {
namespace {

std::string_view KindText(TypeDescKind kind) {
  switch (kind) {
    case TypeDescKind::kScalar:
    case TypeDescKind::kTensor: return "tensor";
    case TypeDescKind::kTuple: return "tuple";
    case TypeDescKind::kAdt: return "adt";
    case TypeDescKind::kClosure: return "closure";
    case TypeDescKind::kRef: return "ref";
    case TypeDescKind::kShell: return "internal";
  }
  return "internal";
}

void WriteTypes(JsonWriter& json, const std::vector<TypeId>& types) {
  json.BeginArray();
  for (TypeId type : types) json.Int(type.value);
  json.EndArray();
}

void WriteType(JsonWriter& json, const Executable& executable, TypeId id) {
  const TypeDesc& type = executable.types[id.value];
  json.BeginObject().Field("kind", KindText(type.kind));
  if (type.kind == TypeDescKind::kTensor || type.kind == TypeDescKind::kScalar) {
    json.Field("dtype", type.dtype.ToString()).Key("shape").BeginArray();
    for (int64_t dim : type.dims) dim == TypeDesc::kUnknownDim ? json.Null() : json.Int(dim);
    json.EndArray();
  } else if (type.kind == TypeDescKind::kAdt) {
    json.Field("adt", int64_t{type.adt.value});
  } else if (type.kind == TypeDescKind::kTuple || type.kind == TypeDescKind::kRef) {
    WriteTypes(json.Key("fields"), type.fields);
  }
  if (type.kind != TypeDescKind::kShell) json.Field("text", TypeToString(executable, id));
  json.EndObject();
}

std::string ParamName(const Entry& entry, size_t param) {
  return param < entry.param_names.size() ? entry.param_names[param] : absl::StrCat("argument", param + 1);
}

// The compiler notes the names of a parameter's extents as metadata "shape.ENTRY.PARAMETER", "(n, 3)".
std::string ParamType(const Executable& executable, const Entry& entry, size_t param) {
  TypeId id = executable.functions[entry.function.value].registers[param].type;
  const TypeDesc& type = executable.types[id.value];
  std::string key = absl::StrCat("shape.", entry.name, ".", ParamName(entry, param));
  for (const auto& [name, text] : executable.metadata) {
    if (name == key && type.kind == TypeDescKind::kTensor) {
      return absl::StrCat("Tensor[", text, ", ", type.dtype.ToString(), "]");
    }
  }
  return TypeToString(executable, id);
}

}  // namespace

std::string SignatureJson(const Executable& executable) {
  JsonWriter json;
  json.BeginObject().Field("class", executable.is_native() ? "native" : "portable").Key("types").BeginArray();
  for (uint32_t i = 0; i < executable.types.size(); ++i) WriteType(json, executable, TypeId(i));
  json.EndArray().Key("adts").BeginArray();
  for (const AdtDesc& adt : executable.adts) {
    json.BeginObject().Field("name", adt.name).Key("constructors").BeginArray();
    for (const AdtDesc::Constructor& constructor : adt.constructors) {
      json.BeginObject().Field("name", constructor.name);
      WriteTypes(json.Key("fields"), constructor.fields);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("entries").BeginArray();
  for (const Entry& entry : executable.entries) {
    const FunctionDesc& function = executable.functions[entry.function.value];
    json.BeginObject().Field("name", entry.name).Key("parameters").BeginArray();
    for (size_t i = 0; i < function.num_params; ++i) {
      json.BeginObject().Field("name", ParamName(entry, i));
      json.Field("type", int64_t{function.registers[i].type.value}).EndObject();
    }
    json.EndArray().Field("result", int64_t{function.result.value}).EndObject();
  }
  json.EndArray().EndObject();
  return std::move(json).Take();
}

std::string EntryType(const Executable& executable, const Entry& entry) {
  const FunctionDesc& function = executable.functions[entry.function.value];
  std::string text = "fn (";
  for (size_t i = 0; i < function.num_params; ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", "%", ParamName(entry, i), ": ", ParamType(executable, entry, i));
  }
  absl::StrAppend(&text, ") -> ", TypeToString(executable, function.result));
  return text;
}

}  // namespace rvm::capi
