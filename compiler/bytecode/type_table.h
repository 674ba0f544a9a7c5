// TypeTable: Relay types to the type, ADT and layout tables of an executable.
//
// Dims that are not constant become unknown: registers and cells do not tell
// `n` from `?`; kernels check at their calls what they need.
#ifndef RVM_COMPILER_BYTECODE_TYPE_TABLE_H_
#define RVM_COMPILER_BYTECODE_TYPE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "compiler/ir/adt.h"
#include "compiler/ir/type.h"
#include "serialization/executable.h"

namespace rvm::bytecode {

class TypeTable {
 public:
  // Appends to the tables of `executable`, which outlives this.
  TypeTable(ir::Arena& arena, Executable& executable) : arena_(arena), executable_(executable) {}

  // REQUIRES: monomorphic (no type parameters but ShapeVars, no holes). Equal types up to
  // non-constant dims give equal ids.
  TypeId Lower(const ir::Type* type);
  TypeId Scalar(DataType dtype);
  TypeId Tensor(DataType dtype, const Dims& dims);  // a scalar if rank 0
  // Returns the memory of a cell of that many fields.
  TypeId Shell(size_t fields);

  const TypeDesc& desc(TypeId id) const { return executable_.types[id.value]; }
  // Registers of this type point to cells (a scalar does not).
  bool is_pointer(TypeId id) const { return desc(id).kind != TypeDescKind::kScalar; }

  const CellLayout& layout(LayoutId id) const { return executable_.layouts[id.value]; }
  LayoutId TupleLayout(TypeId tuple);
  LayoutId RefLayout(TypeId ref);
  // Invalid for a constructor without fields.
  LayoutId ConstructorLayout(TypeId adt, uint32_t tag) const;
  LayoutId ClosureLayout(TypeId closure, FunctionId function, std::vector<TypeId> captures);
  const std::vector<TypeId>& ConstructorFields(TypeId adt, uint32_t tag) const;
  size_t num_constructors(TypeId adt) const { return executable_.adts[desc(adt).adt.value].constructors.size(); }

  // kResourceExhausted when a table has outgrown the format (an ADT whose instances never end).
  const absl::Status& status() const { return status_; }

 private:
  TypeId LowerOnThisStack(const ir::Type* type);
  TypeId LowerAdt(const ir::AdtType& adt);
  TypeId Intern(TypeDesc desc);
  LayoutId AddLayout(CellLayout layout);
  void FillConstructors();

  struct PendingAdt {
    AdtId id;
    TypeId type;
    const ir::AdtType* source;
  };

  ir::Arena& arena_;
  Executable& executable_;
  absl::Status status_;
  absl::flat_hash_map<std::string, TypeId> by_key_;         // of a TypeDesc
  absl::flat_hash_map<const ir::Type*, TypeId> by_type_;    // nodes lowered before
  absl::flat_hash_map<std::string, TypeId> adt_by_key_;     // of an AdtDef and its arguments
  absl::flat_hash_map<uint32_t, LayoutId> layout_of_type_;  // tuples and refs
  std::vector<PendingAdt> pending_;
  bool filling_ = false;
};

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_TYPE_TABLE_H_
