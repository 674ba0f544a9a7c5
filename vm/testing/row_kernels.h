// Kernels on small rows, some with variants for batches, for tests of calls that run together.
//
//   N0 mix(x, h, w)  h + x w, of rows of 2          N1, its variant; w is shared
//   N2 row(t, i)     row i of a table of rows of 2    N3, its variant; t is shared
//   N4 total(x)      the sum of a row, as a scalar
//   N5 twice(x)      of any length
//   N6 shift(x, w)   x + w[0], of any length          N7, its variant; w is shared
//   N8 score(x, w)   the inner product, as a scalar   N9, its variant; w is shared
//   N10 round(x)     a row as int32
//   N11 sum(x)       of a vector of any length, as a scalar
//   N12 wrong(x)     asks for a negative number of bytes
//   N13 add(s, x, y) s + x y of rows, in place of s if that may be; N14, its variant for chains; other sums
//   N15 turn(w)      the transposed matrix
//   N16 blend(x, w)  x w, of rows of 2                N17, its variant, which has w as N15 gives it; other sums
//   N18 double(w)    2 w, in place of w if that may be
//   N19 append(t, x) a table of rows, and behind them x; updates t
//   N20 put(w, x)    w with x added to its first row; updates w
//   N21 puts(w, x)   that, and w with x added to its second row; both update w
//
// Those that update are logged with the number of the memory of their result, by first use.
// N15 fails if the first element is 13. Constants: K0 the unit matrix, K1 a table of three rows, K2 [5], K3 twice the
// unit matrix, K4 [1, 2]. Types: T0 a row of 2, T1 a vector of any length, T2 a matrix of one row.
#ifndef RVM_VM_TESTING_ROW_KERNELS_H_
#define RVM_VM_TESTING_ROW_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "vm/machine.h"

namespace rvm::vm::testing {

// Kernel calls in the order in which they ran: "mix 1", or "mix 3" for three calls as one.
std::vector<std::string>& Ran();
// All of them, between commas.
std::string Calls();

// Returns a program with these kernels and `functions`, in assembly. Clears Ran().
std::shared_ptr<const Program> LinkRowKernels(const std::string& functions);

}  // namespace rvm::vm::testing

#endif  // RVM_VM_TESTING_ROW_KERNELS_H_
