// The types of Relay. Immutable nodes owned by an Arena.
//
// A type parameter has a kind, which determines where it can be used: Type in place of a type (ParamType), Shape in
// place of a whole shape (ShapeTerm), ShapeVar in place of a dim (a Dim::Var whose id is the parameter's), BaseType in
// place of a dtype (DTypeTerm).
//
// Holes are unknowns of type inference; a typed module has none.
#ifndef RVM_COMPILER_IR_TYPE_H_
#define RVM_COMPILER_IR_TYPE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/data_type.h"
#include "base/dim.h"
#include "compiler/ir/arena.h"
#include "compiler/ir/attrs.h"
#include "compiler/ir/span.h"

namespace rvm::ir {

enum class Kind : uint8_t { kType, kBaseType, kShape, kShapeVar, kConstraint, kAdtHandle };
std::string_view KindName(Kind kind);  // "Type", "BaseType", "Shape", "ShapeVar", ...

// A type parameter of a function, a function type or an ADT. Identity is the
// pointer (and `id`, which Dim::Var uses).
struct TypeParam {
  int64_t id;
  std::string name;
  Kind kind = Kind::kType;
  Span span;
};

struct AdtDef;  // adt.h

enum class TypeKind : uint8_t { kTensor, kTuple, kFunc, kAdt, kParam, kRef, kHole };

struct Type {
  TypeKind type_kind;

 protected:
  explicit Type(TypeKind k) : type_kind(k) {}
};

// A whole shape: a list of dims, a Shape parameter, or a hole of kind Shape.
struct ShapeTerm {
  enum class Form : uint8_t { kDims, kParam, kHole } form = Form::kDims;
  Dims dims;                         // kDims
  const TypeParam* param = nullptr;  // kParam
  int64_t hole = 0;                  // kHole

  static ShapeTerm Of(Dims dims) { return {Form::kDims, std::move(dims), nullptr, 0}; }
  static ShapeTerm OfParam(const TypeParam* p) { return {Form::kParam, {}, p, 0}; }
  static ShapeTerm OfHole(int64_t id) { return {Form::kHole, {}, nullptr, id}; }
  bool is_dims() const { return form == Form::kDims; }
  bool operator==(const ShapeTerm&) const = default;
};

// A dtype: concrete, a BaseType parameter, or a hole of kind BaseType.
struct DTypeTerm {
  enum class Form : uint8_t { kConcrete, kParam, kHole } form = Form::kConcrete;
  DataType dtype;                    // kConcrete
  const TypeParam* param = nullptr;  // kParam
  int64_t hole = 0;                  // kHole

  static DTypeTerm Of(DataType d) { return {Form::kConcrete, d, nullptr, 0}; }
  static DTypeTerm OfParam(const TypeParam* p) { return {Form::kParam, {}, p, 0}; }
  static DTypeTerm OfHole(int64_t id) { return {Form::kHole, {}, nullptr, id}; }
  bool is_concrete() const { return form == Form::kConcrete; }
  bool operator==(const DTypeTerm&) const = default;
};

struct TensorType : Type {
  static constexpr TypeKind kKind = TypeKind::kTensor;
  TensorType(ShapeTerm s, DTypeTerm d) : Type(kKind), shape(std::move(s)), dtype(d) {}
  ShapeTerm shape;
  DTypeTerm dtype;
};

struct TupleType : Type {
  static constexpr TypeKind kKind = TypeKind::kTuple;
  explicit TupleType(std::vector<const Type*> f) : Type(kKind), fields(std::move(f)) {}
  std::vector<const Type*> fields;
};

// A type relation that must hold at each use of a function: `where Broadcast(a, b, c)`, `where mean(a, b, axis=[0])`.
struct TypeConstraint {
  std::string relation;
  std::vector<const Type*> args;
  Span span;
  Attrs attrs;  // as written; for the relation of an operator
};

struct FuncType : Type {
  static constexpr TypeKind kKind = TypeKind::kFunc;
  FuncType(std::vector<const TypeParam*> tp, std::vector<const Type*> p, const Type* r,
           std::vector<TypeConstraint> c = {})
      : Type(kKind), type_params(std::move(tp)), params(std::move(p)), result(r), constraints(std::move(c)) {}
  std::vector<const TypeParam*> type_params;
  std::vector<const Type*> params;
  const Type* result;
  std::vector<TypeConstraint> constraints;
};

// The argument for a type parameter. `kind` selects the member that is used.
struct TypeArg {
  Kind kind = Kind::kType;
  const Type* type = nullptr;  // kType
  DTypeTerm dtype;             // kBaseType
  ShapeTerm shape;             // kShape
  Dim dim;                     // kShapeVar
};

// An ADT applied to type arguments: `List[int32]`. (A "type call".)
struct AdtType : Type {
  static constexpr TypeKind kKind = TypeKind::kAdt;
  AdtType(const AdtDef* a, std::vector<TypeArg> ar) : Type(kKind), adt(a), args(std::move(ar)) {}
  const AdtDef* adt;
  std::vector<TypeArg> args;
};

// A type parameter of kind Type, used as a type.
struct ParamType : Type {
  static constexpr TypeKind kKind = TypeKind::kParam;
  explicit ParamType(const TypeParam* p) : Type(kKind), param(p) {}
  const TypeParam* param;
};

struct RefType : Type {
  static constexpr TypeKind kKind = TypeKind::kRef;
  explicit RefType(const Type* c) : Type(kKind), contents(c) {}
  const Type* contents;
};

// `_`: to be inferred.
struct HoleType : Type {
  static constexpr TypeKind kKind = TypeKind::kHole;
  explicit HoleType(int64_t i) : Type(kKind), id(i) {}
  int64_t id;
};

// `DynCast<TensorType>(t)`: the node as T, or null. Also null for null.
template <typename T>
const T* DynCast(const Type* type) {
  return type != nullptr && type->type_kind == T::kKind ? static_cast<const T*>(type) : nullptr;
}

const TensorType* MakeTensorType(Arena& arena, Dims dims, DataType dtype);
const TensorType* MakeScalarType(Arena& arena, DataType dtype);
const TupleType* UnitType(Arena& arena);  // ()

// Returns whether `type` is a rank-0 tensor of a concrete dtype, a scalar, whose values are kept in registers; its
// dtype.
bool IsScalar(const Type* type);

// Structural equality. Type parameters are compared by identity, those bound by function types by position. `?` equals
// `?`. The recursion is not limited by the host stack.
bool TypesEqual(const Type* a, const Type* b);
size_t HashType(const Type* type);

// Relay text: "Tensor[(3, n), float32]", "int32" for scalars, "(int32, bool)",
// "fn (int32) -> int32", "List[int32]", "ref(int32)", "_".
std::string TypeToString(const Type* type);

// Replaces type parameters in types, shapes, dtypes and dims. Parameters bound inside the type
// (FuncType::type_params) are not replaced.
class TypeSubstitution {
 public:
  void Add(const TypeParam* param, TypeArg arg) { entries_.push_back({param, std::move(arg)}); }
  bool empty() const { return entries_.empty(); }
  const TypeArg* Find(const TypeParam* param) const;
  const TypeArg* FindById(int64_t id) const;
  // Returns `type` itself if nothing in it changes.
  const Type* Apply(Arena& arena, const Type* type) const;
  Dim Apply(const Dim& dim) const;
  TypeArg Apply(Arena& arena, const TypeArg& arg) const;

 private:
  struct Entry {
    const TypeParam* param;
    TypeArg arg;
  };
  std::vector<Entry> entries_;
};

std::string TypeArgToString(const TypeArg& arg);
// Returns the argument that replaces `param` by itself.
TypeArg OwnArg(Arena& arena, const TypeParam& param);
bool TypeArgsEqual(const TypeArg& a, const TypeArg& b);

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_TYPE_H_
