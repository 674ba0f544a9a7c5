// Gradients of operators on sparse matrices.
#include <cstdint>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {

// The elements of all rows, each times its column of the dense matrix, are added to their rows.
void SparseDenseGradient(Pullback& p) {
  bool has_blocks = p.rank(1) == 3, is_swapped = p.attrs().GetBool("sparse_lhs");
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term dense = WideFloat(x[0]), elements = WideFloat(x[1]), columns = Wide(x[2]);
    Term rows =
        p.Call("searchsorted", {Wide(x[3]), Places(elements, 0)}, ir::Attrs{{"right", true}, {"dtype", "int64"}});
    rows = rows - 1;
    if (has_blocks) {
      // (blocks, rows in a block, columns in a block)
      Term inner_rows = Expanded(Places(elements, 1), 1), inner_columns = Places(elements, 2);
      Term zeros = p.Call("zeros_like", {inner_rows + inner_columns});
      rows = Reshaped(Expanded(rows, 1, 2) * Extent(elements, 1) + inner_rows + zeros, {-1});
      columns = Reshaped(Expanded(columns, 1, 2) * Extent(elements, 2) + inner_columns + zeros, {-1});
      elements = Reshaped(elements, {-1});
    }
    Term terms = Transposed(p.Call("take", {dense, columns}, ir::Attrs{{"axis", 1}}) * elements, {1, 0});
    Term d = Cast(p.d(), terms.type().dtype);
    Term zeros = p.Call("zeros_like", {is_swapped ? d : Transposed(d, {1, 0})});
    Term sums = p.Call("scatter_nd", {zeros, Expanded(rows, 0), terms}, ir::Attrs{{"mode", "add"}});
    return Cast(is_swapped ? sums : Transposed(sums, {1, 0}), p.d().type().dtype);
  });
}

}  // namespace rvm::ops
