// Values of integer tensors as dims.
//
// Shape arithmetic of a program is done on small integer tensors: `shape_of`, `extent`, `stack`, `take`, `+`, `where`,
// `prod` and so on. Here each element of such a tensor is a dim over the extents of the program's tensors, so that
// operators whose result shape is an argument (Input::decides_shape) have results of known extents. Type inference,
// passes and importers use these functions.
#ifndef RVM_COMPILER_OPS_DIM_VALUES_H_
#define RVM_COMPILER_OPS_DIM_VALUES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/expr.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// A tensor of dtype int32, int64 or bool and of constant shape.
struct DimTensor {
  DataType dtype;
  Shape shape;
  std::vector<Dim> elements;  // row-major; `?` if not known; of bools 0 and 1
};

// The value of an expression: a tensor or a tuple of tensors.
struct DimValue {
  bool is_tuple = false;
  std::vector<std::optional<DimTensor>> fields;  // one of a tensor; nullopt for a field that is not known
};

// Returns the elements of a literal; nullopt if it has another dtype, or too many elements.
std::optional<DimTensor> ToDimTensor(const Literal& literal);
// Returns a literal with these elements; nullopt unless all are constants.
std::optional<Literal> ToLiteral(const DimTensor& tensor);
bool IsConstant(const DimTensor& tensor);

// Returns the value of a call of `op`. `types` are those of the arguments, null if not known. An argument without a
// value is nullopt. nullopt if nothing is known of the result, or if its type is no tensor of constant shape.
std::optional<DimValue> EvaluateOnDims(const OpDef& op, const ir::Attrs& attrs, std::span<const ir::Type* const> types,
                                       std::span<const std::optional<DimValue>> args, const ir::Type* result);

// Evaluates expressions on dims.
class DimEvaluator {
 public:
  // `type_of` returns the type of an expression, null if it is not known. `bound_to` returns the value that a let binds
  // to a variable, null for other variables.
  DimEvaluator(std::function<const ir::Type*(const ir::Expr*)> type_of,
               std::function<const ir::Expr*(const ir::Var*)> bound_to)
      : type_of_(std::move(type_of)), bound_to_(std::move(bound_to)) {}

  // nullopt if the value is not known. Looks at a limited number of expressions that it has not yet evaluated.
  std::optional<DimValue> Evaluate(const ir::Expr* expr);
  // Returns the elements of a tensor; empty if they are not known.
  std::vector<Dim> Elements(const ir::Expr* expr);

 private:
  const std::optional<DimValue>& Visit(const ir::Expr* expr);
  std::optional<DimValue> VisitNew(const ir::Expr* expr);
  std::optional<DimValue> VisitCall(const ir::Call& call);

  std::function<const ir::Type*(const ir::Expr*)> type_of_;
  std::function<const ir::Expr*(const ir::Var*)> bound_to_;
  absl::flat_hash_map<const ir::Expr*, std::optional<DimValue>> known_;
  int budget_ = 0;
};

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_DIM_VALUES_H_
