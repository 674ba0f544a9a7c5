// Visiting the parts of a type, and mapping types.
#ifndef RVM_COMPILER_IR_TYPE_PARTS_H_
#define RVM_COMPILER_IR_TYPE_PARTS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/ir/type.h"

namespace rvm::ir {

// Calls `visit` with each direct part of `type`: the fields of a tuple, the parameters and the result of a function,
// the contents of a reference, the type arguments of an ADT. Arguments of constraints are not visited.
void ForEachPart(const Type* type, absl::FunctionRef<void(const Type*)> visit);

// Maps a type to a type. A subclass overrides the functions for the terms that it changes. Types that do not change
// are shared, not copied.
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
  // Called once per occurrence. The default is MapParts.
  virtual const Type* MapType(const Type* type) { return MapParts(type); }
  // The default maps the dims of the shape.
  virtual ShapeTerm MapShape(const ShapeTerm& shape);
  virtual DTypeTerm MapDType(const DTypeTerm& dtype) { return dtype; }
  virtual Dim MapDim(const Dim& dim) { return dim; }

  // Returns the type with all its parts mapped, including the arguments of constraints; `type` itself if none changes.
  const Type* MapParts(const Type* type);

  Arena& arena_;
};

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_TYPE_PARTS_H_
