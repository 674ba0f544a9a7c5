// What a type is made of: visiting it, and building a type from another one.
#ifndef RVM_COMPILER_IR_TYPE_PARTS_H_
#define RVM_COMPILER_IR_TYPE_PARTS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/ir/type.h"

namespace rvm::ir {

// Calls `visit` with each type that `type` is directly made of: the fields of a tuple, the parameters and the result
// of a function, the contents of a reference, the type arguments of an ADT. Not with the arguments of constraints.
void ForEachPart(const Type* type, absl::FunctionRef<void(const Type*)> visit);

// A new type from an old one: a subclass overrides what it changes. Types that do not change are shared, not copied.
class TypeMapper {
 public:
  explicit TypeMapper(Arena& arena) : arena_(arena) {}
  virtual ~TypeMapper() = default;
  TypeMapper(const TypeMapper&) = delete;
  TypeMapper& operator=(const TypeMapper&) = delete;

  const Type* Map(const Type* type);  // null for null
  TypeArg Map(const TypeArg& arg);
  std::vector<const Type*> MapAll(const std::vector<const Type*>& types);

 protected:
  // Called once per occurrence. Here: MapParts.
  virtual const Type* MapType(const Type* type) { return MapParts(type); }
  // Here: the same shape with its dims mapped.
  virtual ShapeTerm MapShape(const ShapeTerm& shape);
  virtual DTypeTerm MapDType(const DTypeTerm& dtype) { return dtype; }
  virtual Dim MapDim(const Dim& dim) { return dim; }

  // The type with all of its parts mapped (the arguments of constraints, too); `type` itself if none changes.
  const Type* MapParts(const Type* type);

  Arena& arena_;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_TYPE_PARTS_H_
