// Types, data types and argument values of random programs.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/element.h"
#include "tests/random/generator.h"

namespace rvm::random_programs {
namespace {

bool HasNoText(const TypeRef& type) {
  if (type->form == TypeForm::kFunction || (type->adt != nullptr && type->adt->has_no_text)) return true;
  for (const TypeRef& part : type->parts) {
    if (HasNoText(part)) return true;
  }
  return false;
}

}  // namespace

Generator::Generator(uint64_t seed, Flavor flavor)
    : dice_(seed), flavor_(flavor), differentiable_(flavor == Flavor::kDifferentiable) {
  if (differentiable_) {
    smooth_ = true;
    dtypes_ = {kInt32, kBool, kFloat64, kFloat64, kFloat64, kFloat64};
    return;
  }
  smooth_ = dice_.Chance(40);
  polymorphic_values_ = dice_.Chance(50);
  grows_ = dice_.Chance(25);
  dtypes_ = {kInt32, kBool, kFloat32};
  // Results of smooth programs are compared with a tolerance, which a float of 8 bits would make meaningless.
  while (dtypes_.size() < 5) {
    DataType dtype = DataTypeTable()[dice_.Pick(DataTypeTable().size())].dtype;
    if (!smooth_ || !dtype.is_float() || dtype.bits > 8) dtypes_.push_back(dtype);
  }
}

void Generator::MakeAdts() {
  TypeRef a = Param("A");
  adts_.push_back({.name = "List", .params = {"A"}, .is_prelude = true});
  adts_.back().constructors = {{"Nil", {}}, {"Cons", {a, AdtOf(&adts_.back(), {a})}}};
  adts_.push_back(
      {.name = "Option", .params = {"A"}, .constructors = {{"None", {}}, {"Some", {a}}}, .is_prelude = true});
  adts_.push_back({.name = "Tree", .params = {"A"}, .is_prelude = true});
  adts_.back().constructors = {{"Rose", {a, AdtOf(&adts_[0], {AdtOf(&adts_.back(), {a})})}}};
  int count = dice_.Pick(3);
  for (int i = 0; i < count; ++i) {
    Adt adt;
    adt.name = absl::StrCat("T", i);
    for (int p = dice_.Pick(3); p > 0; --p) adt.params.push_back(absl::StrCat("A", p));
    adt.is_endless = adt.has_no_text = grows_ && !adt.params.empty() && dice_.Chance(60);
    adts_.push_back(adt);
    Adt& made = adts_.back();
    for (int c = 0, constructors = 1 + dice_.Pick(4); c < constructors; ++c) {
      Adt::Constructor constructor{absl::StrCat("C", i, "_", c), {}};
      for (int f = dice_.Pick(4); f > 0; --f) constructor.fields.push_back(FieldType(made, c > 0));
      for (const TypeRef& field : constructor.fields) {
        made.has_no_text |= HasNoText(field);
        made.holds_polymorphic |= HoldsPolymorphic(field);
      }
      made.constructors.push_back(std::move(constructor));
    }
    std::string text = absl::StrCat("type ", made.name);
    for (size_t p = 0; p < made.params.size(); ++p) absl::StrAppend(&text, p == 0 ? "[" : ", ", made.params[p]);
    absl::StrAppend(&text, made.params.empty() ? "" : "]", " {");
    for (const Adt::Constructor& constructor : made.constructors) {
      absl::StrAppend(&text, " ", constructor.name);
      for (size_t f = 0; f < constructor.fields.size(); ++f) {
        absl::StrAppend(&text, f == 0 ? "(" : ", ", constructor.fields[f]->text);
      }
      absl::StrAppend(&text, constructor.fields.empty() ? "," : "),");
    }
    definitions_.push_back(absl::StrCat(text, " }"));
  }
}

TypeRef Generator::FieldType(const Adt& adt, bool may_recurse) {
  if (may_recurse && dice_.Chance(35)) {
    std::vector<TypeRef> args;
    for (const std::string& param : adt.params) args.push_back(Param(param));
    if (adt.is_endless && dice_.Chance(70)) {
      TypeRef& arg = args[static_cast<size_t>(dice_.Pick(static_cast<int>(args.size())))];
      arg = Larger(arg);
    }
    TypeRef self = AdtOf(&adt, args);
    if (dice_.Chance(15)) return AdtOf(&adts_[static_cast<size_t>(dice_.Pick(2))], {self});
    if (!grows_ && dice_.Chance(8)) return RefOf(self);
    return self;
  }
  if (!adt.params.empty() && dice_.Chance(60)) {
    TypeRef param = Param(dice_.Of(adt.params));
    if (dice_.Chance(10)) return FunctionOf({RandomScalar()}, param);
    if (dice_.Chance(15)) return TupleOf({param, RandomScalar()});
    return param;
  }
  if (dice_.Chance(15)) {
    const Adt& earlier = adts_[static_cast<size_t>(dice_.Pick(static_cast<int>(adts_.size()) - 1))];
    std::vector<TypeRef> args;
    for (size_t i = 0; i < earlier.params.size(); ++i) args.push_back(RandomScalar());
    return AdtOf(&earlier, std::move(args));
  }
  if (polymorphic_values_ && adt.params.empty() && dice_.Chance(12)) return RandomPolymorphic();
  return dice_.Chance(70) ? RandomScalar() : RandomTensor();
}

// Returns a type with `type` as a proper part.
TypeRef Generator::Larger(const TypeRef& type) {
  if (dice_.Chance(50)) return TupleOf({type, type});
  return dice_.Chance(50) ? TupleOf({Scalar(kInt32), type}) : TupleOf({FunctionOf({Scalar(kInt32)}, type), type});
}

TypeRef Generator::RandomScalar() {
  if (dice_.Chance(35)) return Scalar(kInt32);
  return Scalar(dice_.Of(dtypes_));
}

TypeRef Generator::RandomTensor() {
  std::vector<std::string> dims;
  bool open = dice_.Chance(20);
  for (int i = 1 + dice_.Pick(open ? 2 : 3); i > 0; --i) {
    dims.push_back(open && dice_.Chance(60) ? "?" : absl::StrCat(1 + dice_.Pick(3)));
  }
  return Tensor(dice_.Of(dtypes_), std::move(dims));
}

TypeRef Generator::RandomAdtType(int depth) {
  const Adt& adt = adts_[static_cast<size_t>(dice_.Pick(static_cast<int>(adts_.size())))];
  std::vector<TypeRef> args;
  for (size_t i = 0; i < adt.params.size(); ++i) args.push_back(depth > 0 ? RandomType(depth - 1) : RandomScalar());
  return AdtOf(&adt, std::move(args));
}

TypeRef Generator::RandomType(int depth) {
  if (depth <= 0 || dice_.Chance(40)) {
    return dice_.Chance(flavor_ == Flavor::kTensorWork ? 30 : 80) ? RandomScalar() : RandomTensor();
  }
  switch (dice_.Pick(10)) {
    case 0:
    case 1:
    case 2:
    case 3: return RandomAdtType(depth - 1);
    case 4:
    case 5:
    case 6: {
      std::vector<TypeRef> fields;
      for (int i = dice_.Pick(10) == 0 ? 0 : 1 + dice_.Pick(3); i > 0; --i) fields.push_back(RandomType(depth - 1));
      return TupleOf(std::move(fields));
    }
    case 7: return RefOf(RandomType(depth - 1));
    default: {
      if (polymorphic_values_ && dice_.Chance(40)) return RandomPolymorphic();
      std::vector<TypeRef> params;
      for (int i = dice_.Pick(3); i > 0; --i) params.push_back(RandomType(depth - 1));
      return FunctionOf(std::move(params), RandomType(depth - 1));
    }
  }
}

TypeRef Generator::RandomDataType(int depth) {
  for (int tries = 0; tries < 5; ++tries) {
    TypeRef type = RandomType(depth);
    if (IsData(type)) return type;
  }
  return RandomScalar();
}

Literal Generator::RandomLiteral(DataType dtype, Shape shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * dtype.bytes());
  for (int64_t i = 0; i < count; ++i) {
    void* at = buffer->data() + i * dtype.bytes();
    if (dtype.is_float()) {
      StoreDouble(dtype, at, (dice_.Pick(17) - 8) / 4.0);
    } else if (dtype.is_bool()) {
      StoreInt(dtype, at, dice_.Pick(2));
    } else {
      bool is_byte = dtype.bits == 8 && flavor_ == Flavor::kProducts;
      int64_t value = is_byte            ? dice_.Pick(256)
                      : dice_.Chance(10) ? int64_t{1} << dice_.Pick(64)
                                         : dice_.Pick(9) - (dtype.is_uint() ? 0 : 4);
      StoreInt(dtype, at, value);
    }
  }
  return Literal(dtype, std::move(shape), std::move(buffer));
}

Value Generator::RandomValue(const TypeRef& type, int depth, std::map<std::string, int64_t>& dims) {
  switch (type->form) {
    case TypeForm::kTensor: {
      Shape shape;
      for (size_t i = 0; i < type->dims.size(); ++i) {
        const std::string& dim = type->dims[i];
        if (dim == "?") {
          // Mostly the extents that other values have in this place, so that they fit.
          shape.push_back(dice_.Chance(85) ? 2 + static_cast<int64_t>(i) : dice_.Pick(4));
        } else if (dim[0] >= '0' && dim[0] <= '9') {
          shape.push_back(std::atoi(dim.c_str()));
        } else {
          shape.push_back(dims.try_emplace(dim, 1 + dice_.Pick(3)).first->second);
        }
      }
      return Value::Tensor(RandomLiteral(type->dtype, std::move(shape)));
    }
    case TypeForm::kTuple: {
      std::vector<Value> fields;
      for (const TypeRef& part : type->parts) fields.push_back(RandomValue(part, depth - 1, dims));
      return Value::Tuple(std::move(fields));
    }
    case TypeForm::kRef: return Value::Ref(RandomValue(type->parts[0], depth - 1, dims));
    case TypeForm::kFunction:
    case TypeForm::kAdt:
    case TypeForm::kParam: break;
  }
  const auto& constructors = type->adt->constructors;
  const Adt::Constructor& constructor =
      depth <= 0 ? constructors[0]
                 : constructors[static_cast<size_t>(dice_.Pick(static_cast<int>(constructors.size())))];
  std::vector<Value> fields;
  for (const TypeRef& field : FieldTypes(type, constructor)) fields.push_back(RandomValue(field, depth - 1, dims));
  return Value::Adt(constructor.name, std::move(fields));
}

}  // namespace rvm::random_programs
