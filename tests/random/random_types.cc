#include "tests/random/random_types.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rvm::random_programs {
namespace {

std::string Join(const std::vector<TypeRef>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const TypeRef& type) { absl::StrAppend(out, type->text); });
}

TypeRef Make(Type type) { return std::make_shared<const Type>(std::move(type)); }

bool HoldsParam(const TypeRef& type) {
  if (type->form == TypeForm::kParam) return true;
  for (const TypeRef& part : type->parts) {
    if (HoldsParam(part)) return true;
  }
  return type->result != nullptr && HoldsParam(type->result);
}

bool IsNumber(const std::string& dim) { return dim[0] >= '0' && dim[0] <= '9'; }

bool Holds(const TypeRef& type, const std::function<bool(const Type&)>& is_it, std::set<std::string>& seen) {
  if (!seen.insert(type->text).second) return false;
  if (is_it(*type)) return true;
  // The arguments of a data type need not be in its values.
  std::vector<TypeRef> parts = type->adt == nullptr ? type->parts : std::vector<TypeRef>();
  for (size_t i = 0; type->adt != nullptr && i < type->adt->constructors.size(); ++i) {
    for (const TypeRef& field : FieldTypes(type, type->adt->constructors[i])) parts.push_back(field);
  }
  for (const TypeRef& part : parts) {
    if (Holds(part, is_it, seen)) return true;
  }
  return false;
}

}  // namespace

bool HoldsFloat(const TypeRef& type) {
  std::set<std::string> seen;
  return Holds(type, [](const Type& t) { return t.form == TypeForm::kTensor && t.dtype.is_float(); }, seen);
}
bool HoldsRef(const TypeRef& type) {
  std::set<std::string> seen;
  return Holds(type, [](const Type& t) { return t.form == TypeForm::kRef; }, seen);
}

TypeRef Tensor(DataType dtype, std::vector<std::string> dims) {
  std::string text = dtype.ToString();
  if (!dims.empty()) text = absl::StrCat("Tensor[(", absl::StrJoin(dims, ", "), "), ", text, "]");
  return Make({.form = TypeForm::kTensor, .text = std::move(text), .dtype = dtype, .dims = std::move(dims)});
}
bool IsAnyTensor(const std::string& param) { return param.starts_with("Tensor["); }

TypeRef Scalar(DataType dtype) { return Tensor(dtype, {}); }
TypeRef TupleOf(std::vector<TypeRef> fields) {
  std::string text = absl::StrCat("(", Join(fields), fields.size() == 1 ? ",)" : ")");
  return Make({.form = TypeForm::kTuple, .text = std::move(text), .parts = std::move(fields)});
}
TypeRef FunctionOf(std::vector<TypeRef> params, TypeRef result, std::vector<std::string> type_params) {
  std::string declared = type_params.empty() ? "" : absl::StrCat("[", Declarations(type_params), "]");
  std::string text = absl::StrCat("fn ", declared, "(", Join(params), ") -> ", result->text);
  return Make({.form = TypeForm::kFunction,
               .text = std::move(text),
               .parts = std::move(params),
               .result = std::move(result),
               .type_params = std::move(type_params)});
}
TypeRef AdtOf(const Adt* adt, std::vector<TypeRef> args) {
  std::string text = args.empty() ? adt->name : absl::StrCat(adt->name, "[", Join(args), "]");
  return Make({.form = TypeForm::kAdt, .text = std::move(text), .parts = std::move(args), .adt = adt});
}
TypeRef RefOf(TypeRef contents) {
  return Make({.form = TypeForm::kRef, .text = absl::StrCat("ref(", contents->text, ")"), .parts = {contents}});
}
TypeRef Param(const std::string& name) { return Make({.form = TypeForm::kParam, .text = name}); }

std::string Declaration(const std::string& name) {
  if (!IsAnyTensor(name)) return name;
  size_t comma = name.find(", ");
  size_t begin = std::string("Tensor[").size();
  return absl::StrCat(name.substr(begin, comma - begin), ": Shape, ", name.substr(comma + 2, name.size() - comma - 3),
                      ": BaseType");
}

std::string Declarations(const std::vector<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) { *out += Declaration(name); });
}

TypeRef Substitute(const TypeRef& type, const Bindings& bindings) {
  if (!type->type_params.empty()) return type;  // these name no parameters but their own
  std::vector<TypeRef> parts;
  for (const TypeRef& part : type->parts) parts.push_back(Substitute(part, bindings));
  switch (type->form) {
    case TypeForm::kTensor: {
      std::vector<std::string> dims = type->dims;
      for (std::string& dim : dims) {
        auto found = bindings.dims.find(dim);
        if (found != bindings.dims.end()) dim = found->second;
      }
      return Tensor(type->dtype, std::move(dims));
    }
    case TypeForm::kTuple: return TupleOf(std::move(parts));
    case TypeForm::kFunction: return FunctionOf(std::move(parts), Substitute(type->result, bindings));
    case TypeForm::kAdt: return AdtOf(type->adt, std::move(parts));
    case TypeForm::kRef: return RefOf(parts[0]);
    case TypeForm::kParam: break;
  }
  auto found = bindings.types.find(type->text);
  return found == bindings.types.end() ? type : found->second;
}

bool Match(const TypeRef& pattern, const TypeRef& type, const std::vector<std::string>& params, bool dims_are_fixed,
           Bindings& bindings) {
  if (pattern->form == TypeForm::kParam) {
    if (std::find(params.begin(), params.end(), pattern->text) == params.end()) return Same(pattern, type);
    if (IsAnyTensor(pattern->text) && type->form != TypeForm::kTensor && !IsAnyTensor(type->text)) return false;
    auto [it, is_new] = bindings.types.try_emplace(pattern->text, type);
    return is_new || Same(it->second, type);
  }
  if (!pattern->type_params.empty() || !type->type_params.empty()) return Same(pattern, type);
  if (pattern->form != type->form || pattern->parts.size() != type->parts.size() || pattern->adt != type->adt)
    return false;
  if (pattern->form == TypeForm::kTensor) {
    if (pattern->dtype != type->dtype || pattern->dims.size() != type->dims.size()) return false;
    for (size_t i = 0; i < pattern->dims.size(); ++i) {
      const std::string& dim = pattern->dims[i];
      if (dims_are_fixed || IsNumber(dim) || dim == "?") {
        if (dim != type->dims[i]) return false;
      } else if (auto [it, is_new] = bindings.dims.try_emplace(dim, type->dims[i]); !is_new) {
        if (it->second != type->dims[i]) return false;
      }
    }
    return true;
  }
  for (size_t i = 0; i < pattern->parts.size(); ++i) {
    if (!Match(pattern->parts[i], type->parts[i], params, dims_are_fixed, bindings)) return false;
  }
  return pattern->form != TypeForm::kFunction || Match(pattern->result, type->result, params, dims_are_fixed, bindings);
}

std::vector<TypeRef> FieldTypes(const TypeRef& adt_type, const Adt::Constructor& constructor) {
  Bindings bindings;
  for (size_t i = 0; i < adt_type->parts.size(); ++i) bindings.types[adt_type->adt->params[i]] = adt_type->parts[i];
  std::vector<TypeRef> fields;
  for (const TypeRef& field : constructor.fields) fields.push_back(Substitute(field, bindings));
  return fields;
}

bool IsScalar(const TypeRef& type) { return type->form == TypeForm::kTensor && type->dims.empty(); }

bool IsStaticTensor(const TypeRef& type) { return type->form == TypeForm::kTensor && !HasOpenDims(type); }

std::vector<int64_t> StaticShape(const TypeRef& type) {
  std::vector<int64_t> shape;
  for (const std::string& dim : type->dims) shape.push_back(std::atoi(dim.c_str()));
  return shape;
}

bool IsData(const TypeRef& type) {
  if (type->form == TypeForm::kFunction || type->form == TypeForm::kParam) return false;
  for (const TypeRef& part : type->parts) {
    if (!IsData(part)) return false;
  }
  return type->adt == nullptr || !type->adt->has_no_text;
}

bool HoldsPolymorphic(const TypeRef& type) {
  if (!type->type_params.empty() || (type->adt != nullptr && type->adt->holds_polymorphic)) return true;
  for (const TypeRef& part : type->parts) {
    if (HoldsPolymorphic(part)) return true;
  }
  return type->result != nullptr && HoldsPolymorphic(type->result);
}

bool MayStandForParam(const std::string& param, const TypeRef& type) {
  if (type->form == TypeForm::kParam) return !IsAnyTensor(param) || IsAnyTensor(type->text);
  return !HoldsParam(type) && !HoldsPolymorphic(type);
}

bool HasOpenDims(const TypeRef& type) {
  for (const std::string& dim : type->dims) {
    if (!IsNumber(dim)) return true;
  }
  for (const TypeRef& part : type->parts) {
    if (HasOpenDims(part)) return true;
  }
  return type->result != nullptr && HasOpenDims(type->result);
}

}  // namespace rvm::random_programs
