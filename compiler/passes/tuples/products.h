// Products: values that are their fields and nothing more.
#ifndef RVM_COMPILER_PASSES_TUPLES_PRODUCTS_H_
#define RVM_COMPILER_PASSES_TUPLES_PRODUCTS_H_

#include <optional>
#include <vector>

#include "compiler/ir/adt.h"
#include "compiler/ir/build.h"
#include "compiler/ir/expr.h"

namespace rvm::passes {

// The fields of a tuple, or of a value whose type has one constructor.
struct Product {
  const ir::Constructor* constructor;  // null: a tuple
  std::vector<const ir::Type*> fields;
};

// Returns what `type` is a product of, if it is one. A constructor without fields makes none: its value needs no cell.
inline std::optional<Product> ProductOf(ir::Arena& arena, const ir::Type* type) {
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) return Product{nullptr, tuple->fields};
  const auto* adt = ir::DynCast<ir::AdtType>(type);
  if (adt == nullptr || adt->adt->is_extern || adt->adt->constructors.size() != 1) return std::nullopt;
  const ir::Constructor* constructor = adt->adt->constructors[0];
  if (constructor->fields.empty()) return std::nullopt;
  return Product{constructor, FieldTypes(arena, *constructor, *adt)};
}

// Returns the fields of a tuple or of a call of the only constructor of a type; null for other expressions.
inline const std::vector<ir::Expr*>* WrittenFields(const ir::Expr* expr) {
  if (const auto* tuple = ir::DynCast<ir::Tuple>(expr)) return &tuple->fields;
  const ir::Constructor* constructor = ir::ConstructorCallee(expr);
  bool is_only = constructor != nullptr && constructor->adt->constructors.size() == 1;
  return is_only ? &ir::Cast<ir::Call>(expr)->args : nullptr;
}

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_TUPLES_PRODUCTS_H_
