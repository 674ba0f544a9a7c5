// Text (`.rvmasm`) -> Executable. The result is not verified: tests of the verifier
// write wrong programs with it.
//
//   ; a comment, to the end of the line
//   class portable                                    or native, as it is without this line
//   file "fib.relay"                                  files[0]
//   metadata "producer" "relayc"
//   type T0 = int32                                   types are numbered; or written where they are used
//   adt A0 "List[int32]" { "Nil"  "Cons" (int32, adt A0) C0 }
//   cell C0 = constructor adt A0 tag 1 (int32, adt A0)    or: tuple TYPE FIELDS | ref TYPE FIELDS |
//                                                     closure TYPE F1 FIELDS
//   constant K0 = float32 (2, 2) [1, 2, 3, 4]         or the bytes of the elements, x"0000803f"
//   kernel N0 "fused_add" "k0" ("n") {                name, symbol, names of $0, $1, ...
//     param float32 ($0)   result float32 ($0)
//     value 1 0 3                                    $1 is element 3 of parameter 0
//     check_equal $0, 4 "what"   check_broadcast $0, 4 "what"   check_at_least $0, 4 "what"
//     workspace ($0 * 4)
//   }
//   entry "main" = F0 ("x")
//   target "x86-64-v3" "x86_64-linux-gnu" "+avx2" 1 x"7f454c46"
//   device "opencl-c-1.2" "+fp64" required { N0 workspace 0 launches ($0) } x"5f5f"
//   batch N0 N1 (1)                                   N1 makes many calls of N0, which share parameter 1
//   section 100 "name" x"00"                          one that the format does not know
//   function F0 "main" params 1 result int32 arena 128 {
//     r0, r1: int32     r2: Tensor[(3), float32] planned
//   code
//     at 0:3:7                                        file, line, column of what follows
//   L1:
//     add_imm_i32 r1, r0, 1
//     return r1
//   }
//
// Types: a dtype; Tensor[(3, ?), float32]; (TYPE, TYPE), (TYPE,), (); adt A0; fn (TYPE,) -> TYPE; ref(TYPE);
// shell(2); T0. Operands come in the order of isa.def: r1, [r1, r2], [r1, K0], L1, [L1, L2] (or the number of a
// unit), integers, [0, 64, new], K0, F0, N0, TYPE, C0, float32. Definitions are in the order of their
// numbers; uses may come before definitions, but for T numbers of inline types.
#ifndef RVM_SERIALIZATION_ASSEMBLER_H_
#define RVM_SERIALIZATION_ASSEMBLER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "serialization/executable.h"

namespace rvm {

// kInvalidArgument: "line 12: saw `foo`, expected an opcode".
absl::StatusOr<Executable> Assemble(std::string_view text);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_ASSEMBLER_H_
