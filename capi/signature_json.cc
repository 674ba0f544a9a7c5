#include "capi/signature_json.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

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

void WriteNumbers(JsonWriter& json, const std::vector<uint32_t>& numbers) {
  json.BeginArray();
  for (uint32_t number : numbers) json.Int(number);
  json.EndArray();
}

void WriteType(JsonWriter& json, const TypeDesc& type, const Interface::Type& shown) {
  json.BeginObject().Field("kind", KindText(type.kind));
  if (type.kind == TypeDescKind::kTensor || type.kind == TypeDescKind::kScalar) {
    json.Field("dtype", type.dtype.ToString()).Key("shape").BeginArray();
    for (int64_t dim : type.dims) dim == TypeDesc::kUnknownDim ? json.Null() : json.Int(dim);
    json.EndArray();
  } else if (type.kind == TypeDescKind::kAdt) {
    json.Field("adt", int64_t{type.adt.value});
  } else if (type.kind == TypeDescKind::kTuple || type.kind == TypeDescKind::kRef) {
    WriteNumbers(json.Key("fields"), shown.fields);
  } else if (type.kind == TypeDescKind::kClosure) {
    WriteNumbers(json.Key("parameters"), shown.fields);
    json.Field("result", int64_t{type.result.value});
  }
  if (type.kind != TypeDescKind::kShell) json.Field("text", shown.text);
  json.EndObject();
}

void WriteEntry(JsonWriter& json, const Executable& executable, const Entry& entry, const EntryInterface& interface) {
  json.BeginObject().Field("name", entry.name).Key("parameters").BeginArray();
  for (const NamedType& parameter : interface.parameters) {
    json.BeginObject().Field("name", parameter.name).Field("type", int64_t{parameter.type.value});
    json.Field("text", parameter.text).EndObject();
  }
  json.EndArray().Field("result", int64_t{executable.functions[entry.function.value].result.value});
  json.Key("results").BeginArray();
  for (const NamedType& result : interface.results) {
    json.BeginObject().Field("name", result.name).Field("type", int64_t{result.type.value}).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string SignatureJson(const Executable& executable, const Interface& interface) {
  JsonWriter json;
  json.BeginObject().Field("class", executable.is_native() ? "native" : "portable");
  json.Field("variants", static_cast<int64_t>(executable.batch_variants.size())).Key("types").BeginArray();
  for (size_t i = 0; i < executable.types.size(); ++i) WriteType(json, executable.types[i], interface.types[i]);
  json.EndArray().Key("adts").BeginArray();
  for (size_t i = 0; i < executable.adts.size(); ++i) {
    const AdtDesc& adt = executable.adts[i];
    json.BeginObject().Field("name", adt.name).Key("constructors").BeginArray();
    for (size_t tag = 0; tag < adt.constructors.size(); ++tag) {
      json.BeginObject().Field("name", adt.constructors[tag].name);
      WriteNumbers(json.Key("fields"), interface.constructors[i][tag]);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("entries").BeginArray();
  for (size_t i = 0; i < executable.entries.size(); ++i) {
    WriteEntry(json, executable, executable.entries[i], interface.entries[i]);
  }
  json.EndArray().EndObject();
  return std::move(json).Take();
}

}  // namespace rvm::capi
