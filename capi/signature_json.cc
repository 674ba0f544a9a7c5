#include "capi/signature_json.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
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
  } else if (type.kind == TypeDescKind::kClosure) {
    WriteTypes(json.Key("parameters"), type.fields);
    json.Field("result", int64_t{type.result.value});
  }
  if (type.kind != TypeDescKind::kShell) json.Field("text", TypeToString(executable, id));
  json.EndObject();
}

std::string ParamName(const Entry& entry, size_t param) {
  return param < entry.param_names.size() ? entry.param_names[param] : absl::StrCat("argument", param + 1);
}

// The type with the program's names of extents.
std::string ParamType(const Executable& executable, const Entry& entry, size_t param) {
  TypeId id = executable.functions[entry.function.value].registers[param].type;
  const TypeDesc& type = executable.types[id.value];
  std::vector<std::string> extents = NamedExtents(executable, entry, param);
  if (extents.empty() || type.kind != TypeDescKind::kTensor) return TypeToString(executable, id);
  return absl::StrCat("Tensor[(", absl::StrJoin(extents, ", "), "), ", type.dtype.ToString(), "]");
}

// The results of an entry, the fields of a tuple. The compiler notes their names as metadata "results.ENTRY", one a
// line.
void WriteResults(JsonWriter& json, const Executable& executable, const Entry& entry) {
  TypeId result = executable.functions[entry.function.value].result;
  const TypeDesc& type = executable.types[result.value];
  bool is_tuple = type.kind == TypeDescKind::kTuple;
  std::vector<TypeId> types = is_tuple ? type.fields : std::vector<TypeId>{result};
  std::string_view noted = executable.FindMetadata(absl::StrCat("results.", entry.name));
  std::vector<std::string> names;
  if (!noted.empty()) names = absl::StrSplit(std::string(noted), '\n');
  json.BeginArray();
  for (size_t i = 0; i < types.size(); ++i) {
    std::string name = is_tuple ? absl::StrCat("result", i + 1) : "result";
    json.BeginObject().Field("name", names.size() == types.size() ? names[i] : name);
    json.Field("type", int64_t{types[i].value}).EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string SignatureJson(const Executable& executable) {
  JsonWriter json;
  json.BeginObject().Field("class", executable.is_native() ? "native" : "portable");
  json.Field("variants", static_cast<int64_t>(executable.batch_variants.size())).Key("types").BeginArray();
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
      json.Field("type", int64_t{function.registers[i].type.value});
      json.Field("text", ParamType(executable, entry, i)).EndObject();
    }
    json.EndArray().Field("result", int64_t{function.result.value});
    WriteResults(json.Key("results"), executable, entry);
    json.EndObject();
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
