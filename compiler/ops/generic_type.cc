#include "compiler/ops/generic_type.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/ops/derive_type.h"

namespace rvm::ops {

using ir::DynCast;
using ir::TensorType;
using ir::TupleType;
using ir::Type;
using ir::TypeArg;
using ir::TypeParam;

namespace {

// In the order in which a message would like to speak of them.
constexpr size_t kRanks[] = {1, 2, 3, 4, 5, 0};
constexpr DataType kDTypes[] = {kFloat32, kInt32, kBool, kUInt8, kInt64, kFloat16};
// Maximum number of parameters: more have too many combinations.
constexpr size_t kMaxParams = 3;

// Arguments of the parameters in one try, by position, and its result.
struct Try {
  std::vector<TypeArg> params;
  const Type* result;
};

void CollectParams(const Type* type, std::vector<const TypeParam*>& params) {
  auto add = [&](const TypeParam* param) {
    if (param != nullptr && std::find(params.begin(), params.end(), param) == params.end()) params.push_back(param);
  };
  if (const auto* tensor = DynCast<TensorType>(type)) {
    add(tensor->shape.param);
    add(tensor->dtype.param);
  } else if (const auto* tuple = DynCast<TupleType>(type)) {
    for (const Type* field : tuple->fields) {
      if (const auto* tensor = DynCast<TensorType>(field)) CollectParams(tensor, params);
    }
  }
}

// Returns the arguments that a parameter can be tried with.
std::vector<TypeArg> Choices(const TypeParam& param, ir::Arena& arena) {
  std::vector<TypeArg> choices;
  TypeArg choice;
  choice.kind = param.kind;
  if (param.kind == ir::Kind::kBaseType) {
    for (DataType dtype : kDTypes) {
      choice.dtype = ir::DTypeTerm::Of(dtype);
      choices.push_back(choice);
    }
    return choices;
  }
  Dims dims;
  for (size_t axis = 0; axis < *std::max_element(std::begin(kRanks), std::end(kRanks)); ++axis) {
    dims.push_back(Dim::Var(arena.NextId(), absl::StrCat(param.name, axis)));
  }
  for (size_t rank : kRanks) {
    choice.shape = ir::ShapeTerm::Of(Dims(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(rank)));
    choices.push_back(choice);
  }
  return choices;
}

bool MentionsAxis(const Dim& dim, const Dims& axes) {
  bool found = false;
  SubstituteDim(dim, [&](const Dim& leaf) {
    found |= std::find(axes.begin(), axes.end(), leaf) != axes.end();
    return std::optional<Dim>();
  });
  return found;
}

// Returns the dtype of `results`, one of each try, in terms of the parameters; nullopt if no single term fits all.
std::optional<ir::DTypeTerm> CommonDType(const std::vector<const TypeParam*>& params, const std::vector<Try>& tries,
                                         const std::vector<const TensorType*>& results) {
  for (size_t p = 0; p < params.size(); ++p) {
    bool same = params[p]->kind == ir::Kind::kBaseType;
    for (size_t i = 0; i < tries.size() && same; ++i) same = tries[i].params[p].dtype == results[i]->dtype;
    if (same) return ir::DTypeTerm::OfParam(params[p]);
  }
  for (const TensorType* result : results) {
    if (result->dtype != results[0]->dtype) return std::nullopt;
  }
  return results[0]->dtype;
}

std::optional<ir::ShapeTerm> CommonShape(const std::vector<const TypeParam*>& params, const std::vector<Try>& tries,
                                         const std::vector<const TensorType*>& results) {
  for (size_t p = 0; p < params.size(); ++p) {
    bool same = params[p]->kind == ir::Kind::kShape;
    for (size_t i = 0; i < tries.size() && same; ++i) same = tries[i].params[p].shape == results[i]->shape;
    if (same) return ir::ShapeTerm::OfParam(params[p]);
  }
  // Extents that differ, or that are a try's own, are open.
  Dims axes, dims;
  for (size_t p = 0; p < params.size(); ++p) {
    for (const Try& t : tries) axes.insert(axes.end(), t.params[p].shape.dims.begin(), t.params[p].shape.dims.end());
  }
  size_t rank = results[0]->shape.dims.size();
  for (const TensorType* result : results) {
    if (result->shape.dims.size() != rank) return std::nullopt;
  }
  for (size_t i = 0; i < rank; ++i) {
    const Dim& dim = results[0]->shape.dims[i];
    bool same = !ContainsAny(dim) && !MentionsAxis(dim, axes);
    for (const TensorType* result : results) same = same && result->shape.dims[i] == dim;
    dims.push_back(same ? dim : Dim::Any());
  }
  return ir::ShapeTerm::Of(std::move(dims));
}

// With a hole where they do not agree.
const Type* CommonTensor(const std::vector<const TypeParam*>& params, const std::vector<Try>& tries,
                         const std::vector<const Type*>& results, ir::Arena& arena) {
  std::vector<const TensorType*> tensors;
  for (const Type* result : results) {
    tensors.push_back(DynCast<TensorType>(result));
    if (tensors.back() == nullptr) return nullptr;
  }
  return arena.New<TensorType>(CommonShape(params, tries, tensors).value_or(ir::ShapeTerm::OfHole(0)),
                               CommonDType(params, tries, tensors).value_or(ir::DTypeTerm::OfHole(0)));
}

const Type* CommonResult(const std::vector<const TypeParam*>& params, const std::vector<Try>& tries, ir::Arena& arena) {
  std::vector<const Type*> results;
  for (const Try& t : tries) results.push_back(t.result);
  const auto* first = DynCast<TupleType>(results[0]);
  if (first == nullptr) return CommonTensor(params, tries, results, arena);
  std::vector<const Type*> fields;
  for (size_t f = 0; f < first->fields.size(); ++f) {
    for (size_t i = 0; i < tries.size(); ++i) {
      const auto* tuple = DynCast<TupleType>(tries[i].result);
      if (tuple == nullptr || tuple->fields.size() != first->fields.size()) return nullptr;
      results[i] = tuple->fields[f];
    }
    fields.push_back(CommonTensor(params, tries, results, arena));
    if (fields.back() == nullptr) return nullptr;
  }
  return arena.New<TupleType>(std::move(fields));
}

}  // namespace

std::vector<const TypeParam*> TensorParams(std::span<const Type* const> types) {
  std::vector<const TypeParam*> params;
  for (const Type* type : types) CollectParams(type, params);
  return params;
}

bool HasHole(std::span<const Type* const> types) {
  return std::any_of(types.begin(), types.end(), [](const Type* type) {
    if (const auto* tuple = DynCast<TupleType>(type)) return HasHole(tuple->fields);
    const auto* tensor = DynCast<TensorType>(type);
    if (tensor == nullptr) return type->type_kind == ir::TypeKind::kHole;
    return tensor->shape.form == ir::ShapeTerm::Form::kHole || tensor->dtype.form == ir::DTypeTerm::Form::kHole;
  });
}

GenericResult DeriveGenericResult(TypeRelation relation, const ir::Attrs& attrs, std::span<const Type* const> args,
                                  std::span<const Literal* const> values, const std::vector<const TypeParam*>& params,
                                  ir::Arena& arena) {
  if (params.size() > kMaxParams) return {GenericResult::Answer::kDepends, nullptr, {}};
  std::vector<std::vector<TypeArg>> choices;
  size_t count = 1;
  for (const TypeParam* param : params) {
    choices.push_back(Choices(*param, arena));
    count *= choices.back().size();
  }
  GenericResult none{GenericResult::Answer::kNone};
  std::vector<Try> tries;
  for (size_t number = 0; number < count; ++number) {
    Try one{{}, nullptr};
    ir::TypeSubstitution substitution;
    size_t rest = number;
    for (size_t p = 0; p < params.size(); ++p) {
      one.params.push_back(choices[p][rest % choices[p].size()]);
      rest /= choices[p].size();
      substitution.Add(params[p], one.params.back());
    }
    if (number == 0) none.tried = substitution;
    std::vector<const Type*> types;
    for (const Type* arg : args) types.push_back(substitution.Apply(arena, arg));
    absl::StatusOr<DerivedResult> derived =
        DeriveResult(relation, "", attrs, types, values, arena, [](size_t, int64_t) { return Dim::Any(); });
    if (!derived.ok()) continue;
    one.result = derived->result;
    tries.push_back(std::move(one));
  }
  if (tries.empty()) return none;
  const Type* type = CommonResult(params, tries, arena);
  bool depends = type == nullptr || HasHole({&type, 1});
  return {depends ? GenericResult::Answer::kDepends : GenericResult::Answer::kKnown, type, {}};
}

}  // namespace rvm::ops
