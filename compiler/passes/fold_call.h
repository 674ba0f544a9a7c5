// Computes operator calls at compile time.
#ifndef RVM_COMPILER_PASSES_FOLD_CALL_H_
#define RVM_COMPILER_PASSES_FOLD_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/literal.h"
#include "base/value.h"
#include "compiler/ir/build.h"
#include "compiler/ir/module.h"
#include "compiler/ops/op_def.h"

namespace rvm::passes {

// Size of the largest result that is folded. Larger ones would bloat the executable.
inline constexpr int64_t kMaxFoldedBytes = int64_t{64} << 10;

// Returns the result of `op` on constants and tuples of constants, as a constant or a tuple of constants. Null if an
// argument is something else, if argument or result are large, or if the call fails: then it fails at run time, with a
// backtrace. A constant under another shape shares its elements and may have any size. A constant that is made of one
// weight has its name. `type`: of the call.
ir::Expr* FoldCall(const ir::Builder& at, const ops::OpDef& op, const ir::Attrs& attrs,
                   const std::vector<const ir::Expr*>& args, const ir::Type* type);

// Casts of large constants of floats to floats of fewer bits, which make the executable smaller: weights that a program
// casts. Calls that cast the same constant share the result.
class NarrowedConstants {
 public:
  // Returns the result of a call of `op`, as a constant; null if the call is no such cast.
  ir::Expr* Fold(const ir::Builder& at, const ops::OpDef& op, const std::vector<const ir::Expr*>& args,
                 const ir::Type* type);

 private:
  struct Entry {
    Literal from, to;
  };
  absl::flat_hash_map<std::pair<const std::byte*, DataType>, std::vector<Entry>> entries_;  // by the elements
};

// Weights that a program computes from constants, as by weight standardisation or weight normalisation, or takes out of
// them, as the two directions of a recurrent layer: large results that take no more memory than what they are made of.
class ComputedWeights {
 public:
  explicit ComputedWeights(const ir::Module& module);

  // Returns the result of an elementwise operator, a reduction, a product, a slice or a split, as a constant. Null if
  // an argument is no constant, or, but for a product, is a large one that something else uses, too: it would be stored
  // twice. Null as well if the result is larger than all arguments, if the parts that were taken out of one are, or if
  // too much has been computed before.
  ir::Expr* Fold(const ir::Builder& at, const ops::OpDef& op, const ir::Attrs& attrs,
                 const std::vector<const ir::Expr*>& args, const ir::Type* type);

 private:
  absl::flat_hash_set<const std::byte*> used_;  // elements of constants that calls on variables take
  // A tensor, or a tuple of them, that was taken out of a constant. Calls that take the same share it.
  struct Part {
    Literal whole;
    const ops::OpDef* op;
    ir::Attrs attrs;
    Value value;
  };
  struct Parts {
    std::vector<Part> parts;
    int64_t bytes = 0;
  };
  // Returns the value of a call that takes a part; null if the parts would take more memory than the whole.
  std::optional<Value> Take(const ops::OpDef& op, const ir::Attrs& attrs, const Literal& whole, int64_t bytes);

  absl::flat_hash_map<const std::byte*, Parts> parts_;  // by the elements of the whole
  int64_t elements_left_;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FOLD_CALL_H_
