#include "serialization/verifier.h"

#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialization/assembler.h"
#include "serialization/isa/isa.h"
#include "serialization/limits.h"

namespace rvm {
namespace {

absl::Status VerifyText(const std::string& text) {
  absl::StatusOr<Executable> program = Assemble(text);
  EXPECT_TRUE(program.ok()) << program.status() << "\n" << text;
  if (!program.ok()) return absl::OkStatus();
  return Verify(*std::move(program)).status();
}

constexpr char kTables[] = R"(
adt A0 "List" { "Nil" "Cons" (int32, adt A0) C0 }
cell C0 = constructor adt A0 tag 1 (int32, adt A0)
cell C1 = tuple (int32, Tensor[(4), float32]) (int32, Tensor[(4), float32])
cell C2 = closure fn (int32,) -> int32 F1 (int32,)
cell C3 = ref ref(Tensor[(4), float32]) (Tensor[(4), float32],)
constant K0 = float32 (4) [1, 2, 3, 4]
constant K1 = int32 () [7]
constant K2 = int32 (4) [1, 2, 3, 4]
kernel N0 "add" "add" () { param float32 (4) param float32 (4) result float32 (4) workspace 0 }
kernel N1 "dyn" "dyn" ("n") { param float32 ($0) result float32 (($0 + 1)) workspace 0 }
kernel N2 "len" "len" () { param float32 (4) param int32 () result int32 () workspace 0 }
kernel N3 "inc" "inc" () { param float32 (4) param float32 (4) result float32 (4) workspace 0 reuse 0 0 }
kernel N4 "set" "set" () { param float32 (4) param float32 (4) result float32 (4) workspace 0 update 0 0 }
)";

constexpr char kOtherFunctions[] = R"(
function F1 "closure" params 2 result int32 { r0: fn (int32,) -> int32  r1: int32 code drop r0 return r1 }
function F2 "id" params 1 result int32 { r0: int32 code return r0 }
function F3 "pair" params 1 result fields (int32, Tensor[(4), float32]) {
  r0: int32  r1: Tensor[(4), float32] code load_const r1, K0 return_fields [r0, r1]
}
)";

constexpr char kFrame[] = R"(function F0 "f" params 2 result int32 arena 256 {
  r0: int32
  r1: Tensor[(4), float32]
  r2: int32
  r3: Tensor[(4), float32]
  r4: bool
  r5: adt A0
  r6: (int32, Tensor[(4), float32])
  r7: fn (int32,) -> int32
  r8: ref(Tensor[(4), float32])
  r9: float32
  r10: Tensor[(?), float32]
  r11, r12: Tensor[(4), float32] planned
  r13: int64
  r14: Tensor[(5), float32]
  r15: uint8
  r16: adt A0
  r17: Tensor[(4), int32]
  r18: Tensor[(3), float32]
  r19: Tensor[(2, 2), float32]
  r20: shell(2)
  r21: shell(1)
  r22: Tensor[(?), int32]
code
)";

struct CodeCase {
  const char* code;
  const char* message;  // empty: verifies
};

class CodeTest : public ::testing::TestWithParam<CodeCase> {};

TEST_P(CodeTest, VerifiesOrSaysWhyNot) {
  absl::Status status = VerifyText(absl::StrCat(kTables, kFrame, GetParam().code, "\n}", kOtherFunctions));
  std::string expected = GetParam().message;
  if (expected.empty()) {
    EXPECT_TRUE(status.ok()) << GetParam().code << "\n" << status;
  } else {
    EXPECT_NE(std::string(status.message()).find(expected), std::string::npos) << GetParam().code << "\n" << status;
    EXPECT_EQ(std::string(status.message()).rfind("in `f` at +0x", 0), 0u) << status;
  }
}

constexpr CodeCase kFlow[] = {
    {"drop r1 return r0", ""},
    {"", "no code"},
    {"drop r1", "the code falls through its end"},
    {"drop r1 return r0 return r0", "no path leads to this instruction"},
    {"jump L1 L2: fatal 0 L1: jump L2", "no path from before leads to this instruction"},
    {"jump 99", "label +0x63 out of range"},
    {"jump 1", "label +0x1 is inside an instruction"},
    {"drop r99", "(drop): register r99 out of range; frame has 23"},
    {"drop r0", "register r0 for `src` is `int32`; expected class Pointer"},
    {"fatal 1", "unknown reason 1"},
    {"L1: jump L1", ""},
    {"branch_if r4, L1 L1: fatal 0", "register r4 is not defined on every path to here"},
};

constexpr CodeCase kDefinitions[] = {
    {"load_int r2, 1 drop r1 return r2", ""},
    {"drop r1 return r2", "register r2 is not defined on every path to here"},
    {"branch_eq_int r0, r0, L1 load_int r2, 1 L1: drop r1 return r2", "register r2 is not defined on every path"},
    {"branch_eq_int r0, r0, L1 load_int r2, 1 jump L2 L1: load_int r2, 2 L2: drop r1 return r2", ""},
    // At a label that is jumped back to, r2 counts as defined only if the jump says so.
    {"load_int r2, 1 L1: add_i32 r2, r2, r0 jump L1", ""},
    {"L1: branch_eq_int r0, r0, L2 load_int r2, 1 jump L1 L2: drop r1 return r2", "register r2 is not defined"},
};

constexpr CodeCase kShells[] = {
    {"drop r1 load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 make_cell_in r5, r20, C0, [r2, r16] drop r5 return r0",
     ""},
    {"drop r1 load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 drop r16 drop_shell r20 return r0", ""},
    {"drop r1 load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 drop r16 return r0",
     "register r20 still owns a value"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 drop_shell r20 drop_shell r20 fatal 0",
     "register r20 is not owned here"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 drop r20 fatal 0", "r20 for `src` is `shell(2)`"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 retain r20, r20 fatal 0", "expected class Pointer"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r21, r5, C0 fatal 0", "register r21 is `shell(1)`; layout 0 has 2 fields"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 make_cell_in r8, r20, C3, [r1] fatal 0",
     "a reference has a cell of its own"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 make_cell_in r7, r20, C2, [r0] fatal 0",
     "register r20 is `shell(2)`; layout 2 has 1 fields"},
    {"load_tag r5, 0 unpack_shell [r2, r16], r20, r5, C0 make_cell r6, C1, [r0, r20] fatal 0", "field 1 is `shell(2)`"},
};

constexpr CodeCase kOwnership[] = {
    {"return r0", "register r1 still owns a value"},
    {"drop r1 drop r1 return r0", "register r1 is not owned here"},
    {"load_const r3, K0 load_const r3, K0 fatal 0", "register r3 for `dst` still owns a value"},
    {"move r3, r1 drop r3 return r0", ""},
    {"move r3, r1 drop r1 fatal 0", "register r1 is not owned here"},
    {"move r1, r1 drop r1 return r0", ""},
    {"retain r3, r1 drop r1 return r0", "register r3 still owns a value"},
    {"branch_eq_int r0, r0, L1 drop r1 L1: return r0", "register r1 is owned on one path to this label"},
    {"branch_eq_int r0, r0, L1 drop r1 branch_eq_int r0, r0, L1 return r0 L1: return r0",
     "register r1 is owned on one path to label"},
    {"L1: drop r1 jump L1", "register r1 is owned on one path to label +0x0 and not on another"},
    {"L1: load_const r3, K0 jump L1", "register r3 is owned on one path to label"},
    {"tail_call F2, [r0]", "register r1 still owns a value"},
    {"make_cell r6, C1, [r0, r1] return r0", "register r6 still owns a value"},
    {"make_cell r6, C1, [r0, r1] drop r6 drop r1 return r0", "register r1 is not owned"},
    {"fatal 0", ""},
};

constexpr CodeCase kLoads[] = {
    {"load_int r15, 255 drop r1 return r0", ""},
    {"load_int r15, 256 fatal 0", "0x100 is no value of `uint8`"},
    {"load_int r15, -1 fatal 0", "is no value of `uint8`"},
    {"load_int r4, 2 fatal 0", "0x2 is no value of `bool`"},
    {"load_int r9, 2 fatal 0", "expected class Int"},
    {"load_bits r9, 0x100000000 fatal 0", "is no value of `float32`"},
    {"load_bits r0, 0x80000000 fatal 0", "is no value of `int32`"},
    {"load_bits r13, 0x8000000000000000 drop r1 return r0", ""},
    {"load_const r3, K9 fatal 0", "constant 9 out of range; there are 3"},
    {"load_const r14, K0 fatal 0", "constant 0 has dtype float32 and shape (4); expected `Tensor[(5), float32]`"},
    {"load_const r17, K0 fatal 0", "expected `Tensor[(4), int32]`"},
    {"load_const r10, K0 drop r10 drop r1 return r0", ""},
    {"load_const r3, K1 fatal 0", "shape ()"},
    {"load_tag r5, 2 fatal 0", "tag 2 out of range; `List` has 2 constructors"},
    {"load_tag r5, 1 fatal 0", "constructor `Cons` has fields; expected none"},
    {"move r2, r9 fatal 0", "the source is `float32`; expected `int32`"},
    {"retain r14, r1 fatal 0", "the source is `Tensor[(4), float32]`; expected `Tensor[(5), float32]`"},
    {"retain r10, r1 drop r10 drop r1 return r0", ""},
};

constexpr CodeCase kCalls[] = {
    {"call r2, F2, [r0] drop r1 return r2", ""},
    {"call r2, F9, [r0] fatal 0", "function 9 out of range; there are 4"},
    {"call r2, F2, [] fatal 0", "0 arguments; expected 1"},
    {"call r2, F2, [r1] fatal 0", "argument 0 is `Tensor[(4), float32]`; expected `int32`"},
    {"call r9, F2, [r0] fatal 0", "the destination is `float32`; `id` gives `int32`"},
    {"make_cell r7, C2, [r0] call r2, F1, [r7, r0] fatal 0",
     "`closure` is the code of a closure; expected call_closure"},
    {"make_cell r7, C2, [r0] call_closure r2, r7, [r0] drop r1 return r2", ""},
    {"make_cell r7, C2, [r0] call_closure r2, r7, [r1] fatal 0", "argument 0 is"},
    {"make_cell r7, C2, [r0] call_closure r9, r7, [r0] fatal 0",
     "the destination is `float32`; the closure gives `int32`"},
    {"drop r1 make_cell r7, C2, [r0] tail_call_closure r7, [r0]", ""},
    {"make_cell r7, C2, [r0] call_host r2, r7, [r0] fatal 0",
     "the host is called by the closure that runs, in register r0"},
    {"drop r1 tail_call F2, [r0]", ""},
    {"call_fields [r2, r3], F3, [r0] drop r1 drop r3 return r2", ""},
    {"call_fields [r2], F3, [r0] fatal 0", "1 destinations; the result has 2 fields"},
    {"call_fields [r2, r9], F3, [r0] fatal 0", "field 1 is `Tensor[(4), float32]`; expected `float32`"},
    {"call_fields [r2, r3], F3, [r1] fatal 0", "argument 0 is `Tensor[(4), float32]`; expected `int32`"},
    {"call_fields [r2, r1], F3, [r0] fatal 0", "register r1 for `dsts` still owns a value"},
    {"call_fields [r2, r11], F3, [r0] fatal 0", "planned register r11 for `dsts`; expected one that is not planned"},
    {"call_fields [r2], F2, [r0] fatal 0", "`id` returns a value; expected fields"},
    {"call r6, F3, [r0] fatal 0", "`pair` returns fields; expected a value"},
    {"drop r1 tail_call F3, [r0]", "`pair` returns fields; expected a value"},
    {"return_fields [r0, r1]", "`f` returns a value; expected fields"},
    {"return r1", "the result is `Tensor[(4), float32]`; expected `int32`"},
    {"load_tag r5, 0 switch r5, [L1] L1: fatal 0", "1 targets; `List` has 2 constructors"},
    {"load_tag r5, 0 branch_tag r5, 7, L1 L1: fatal 0", "tag 7 out of range"},
};

constexpr CodeCase kCells[] = {
    {"make_cell r6, C9, [] fatal 0", "layout 9 out of range; there are 4"},
    {"make_cell r6, C1, [r0] fatal 0", "1 fields; layout 1 has 2"},
    {"make_cell r6, C1, [r0, r0] fatal 0", "field 1 is `int32`"},
    {"make_cell r5, C1, [r0, r1] fatal 0", "the cell is `(int32, Tensor[(4), float32])`; expected `List`"},
    {"make_cell r6, C1, [r0, r1] get_field r2, r6, C1, 0 drop r6 return r2", ""},
    {"make_cell r6, C1, [r0, r1] get_field r2, r6, C1, 2 fatal 0", "field 2 out of range; layout 1 has 2"},
    {"make_cell r6, C1, [r0, r1] get_field r2, r6, C0, 0 fatal 0", "layout 0 is of `List`"},
    {"make_cell r6, C1, [r0, r1] get_field r9, r6, C1, 0 fatal 0", "the field is `int32`; expected `float32`"},
    {"make_cell r7, C2, [r0] get_field r2, r7, C2, 0 fatal 0",
     "captured values may be read only from the closure that runs"},
    {"make_cell r8, C3, [r1] get_field r1, r8, C3, 0 fatal 0", "the cell is a reference; expected ref_read"},
    {"make_cell r8, C3, [r1] ref_read r3, r8 ref_write r8, r3 drop r8 return r0", ""},
    {"make_cell r8, C3, [r1] ref_read r14, r8 fatal 0", "the contents is"},
    {"make_cell r8, C3, [r1] ref_write r8, r0 fatal 0", "the value is `int32`"},
    {"make_cell r6, C1, [r0, r1] unpack [r2, r1], r6, C1 drop r1 return r2", ""},
    {"make_cell r6, C1, [r0, r1] unpack [r2], r6, C1 fatal 0", "1 destinations; layout 1 has 2 fields"},
    {"make_cell r6, C1, [r0, r1] unpack [r2, r14], r6, C1 fatal 0", "field 1 is"},
    {"make_cell r6, C1, [r0, r1] unpack [r2, r1], r6, C0 fatal 0", "layout 0 is of `List`"},
    {"load_tag r5, 0 unpack [r2, r5], r5, C0 drop r5 drop r1 return r2", ""},
    {"load_tag r5, 0 get_field r5, r5, C0, 1 fatal 0", "register r5 for `dst` still owns a value"},
};

constexpr CodeCase kKernels[] = {
    {"call_kernel [r3], N0, [r1, K0] drop r3 drop r1 return r0", ""},
    {"call_kernel [r3], N9, [r1, K0] fatal 0", "kernel 9 out of range; there are 5"},
    {"call_kernel [r3], N0, [r1, K7] fatal 0", "constant 7 out of range"},
    {"call_kernel [r3], N0, [r1] fatal 0", "1 arguments; kernel `add` takes 2"},
    {"call_kernel [], N0, [r1, r1] fatal 0", "0 destinations; kernel `add` gives 1"},
    {"call_kernel [r3], N0, [r1, r0] fatal 0", "argument 1 is `int32`; the kernel takes float32 of shape (4)"},
    {"call_kernel [r3], N0, [r1, K1] fatal 0", "argument 1 is a constant int32 of shape ()"},
    {"load_const r10, K0 call_kernel [r3], N0, [r1, r10] fatal 0", "a tensor of another or an unknown dim 0"},
    {"call_kernel [r14], N0, [r1, r1] fatal 0",
     "result 0 is float32 of shape (4); the destination is `Tensor[(5), float32]`"},
    {"call_kernel [r3], N1, [r1] fatal 0", "kernel `dyn` has symbolic shapes; expected call_kernel_dynamic"},
    {"call_kernel [r1], N0, [r1, r1] fatal 0", "register r1 for `dsts` still owns a value"},
    {"call_kernel [r2], N2, [r1, r0] drop r1 return r2", ""},
    {"call_kernel [r2], N2, [r1, K1] drop r1 return r2", ""},
    {"call_kernel_dynamic [r10], N1, [r1] drop r10 drop r1 return r0", ""},
    // 4 is known of the argument, so n + 1 = 5 is of the result.
    {"call_kernel_dynamic [r14], N1, [r1] drop r14 drop r1 return r0", ""},
    {"call_kernel_dynamic [r3], N1, [r1] fatal 0",
     "result 0 is float32 of shape (n + 1); the destination is `Tensor[(4), float32]`"},
    {"load_const r10, K0 call_kernel_dynamic [r14], N1, [r10] fatal 0", "result 0 is float32 of shape (n + 1)"},
    {"call_kernel_dynamic [r10], N1, [r0] fatal 0", "argument 0 is `int32`"},
};

constexpr CodeCase kPlanned[] = {
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [128], N0, [r11, K0] "
     "call_kernel [r3], N0, [r12, r11] drop r3 drop r1 return r0",
     ""},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] get_dim r13, r11, 0 drop r1 return r0", ""},
    {"call_kernel_planned [r3], [new], N0, [r1, K0] drop r3 drop r1 return r0", ""},
    // Operands that a call consumes.
    {"call_kernel [r3], N3, [r1!, K0] drop r3 return r0", ""},
    {"call_kernel [r1], N3, [r1!, K0] drop r1 return r0", ""},
    {"call_kernel [r3], N0, [r1!, K0] drop r3 return r0", ""},
    {"call_kernel [r3], N3, [r1!, K0] drop r3 drop r1 return r0", "register r1 is not owned here"},
    {"call_kernel [r3], N3, [r1!, r1] fatal 0", "register r1 is used up and used again by one call"},
    {"call_kernel [r3], N3, [r1, r1!] fatal 0", "register r1 is used up and used again by one call"},
    {"call_kernel [r2], N2, [r1, r0!] fatal 0", "register r0 for `args` is `int32`; expected a tensor to use up"},
    {"call_kernel_dynamic [r10], N1, [r1!] drop r10 return r0", ""},
    // An update may have the place of the parameter that it begins as, and of no other.
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [0], N4, [r11!, K0] drop r1 return r0",
     ""},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [0], N4, [K0, r11!] fatal 0",
     "planned register r12 overlaps r11, which this call uses"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [0], N3, [r11!, K0] "
     "get_dim r13, r12, 0 drop r1 return r0",
     ""},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r11], [0], N3, [r11!, K0] "
     "get_dim r13, r11, 0 drop r1 return r0",
     ""},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [0], N3, [r11!, K0] "
     "get_dim r13, r11, 0 fatal 0",
     "its place in the arena was overwritten"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [0], N3, [r11, K0] fatal 0",
     "planned register r12 overlaps r11, which this call uses"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [0], N3, [K0, r11!] fatal 0",
     "planned register r12 overlaps r11, which this call uses"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [64], N3, [r11!, K0] fatal 0",
     "planned register r12 overlaps r11, which this call uses"},
    {"call_kernel_planned [r11], [], N0, [r1, K0] fatal 0", "0 offsets; expected 1"},
    {"call_kernel_planned [r11], [new], N0, [r1, K0] fatal 0", "register r11 is planned but has no offset"},
    {"call_kernel_planned [r3], [0], N0, [r1, K0] fatal 0", "register r3 has an offset but is not planned"},
    {"call_kernel_planned [r11], [32], N0, [r1, K0] fatal 0", "offset 32 is not a multiple of 64"},
    {"call_kernel_planned [r11], [192], N0, [r1, K0] fatal 0",
     "planned register r11 ends at 272 of an arena of 256 bytes"},
    {"call_kernel_planned [r11], [4294967232], N0, [r1, K0] fatal 0", "of an arena of 256 bytes"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [64], N0, [r11, K0] fatal 0",
     "planned register r12 overlaps r11, which this call uses"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r11], [0], N0, [r11, K0] fatal 0",
     "planned register r11 is used twice in one call"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] call_kernel_planned [r12], [64], N0, [r1, K0] get_dim r13, r11, 0 "
     "fatal 0",
     "register r11 is not defined here, or its place in the arena was overwritten"},
    // On one path r12 lies over r11.
    {"call_kernel_planned [r11], [0], N0, [r1, K0] branch_eq_int r0, r0, L1 call_kernel_planned [r12], [64], N0, [r1, "
     "K0] "
     "L1: get_dim r13, r11, 0 fatal 0",
     "register r11 is not defined here"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] L1: get_dim r13, r11, 0 call_kernel_planned [r11], [64], N0, [r1, "
     "K0] jump L1",
     "register r11 is defined at label +0x"},
    {"call_kernel [r11], N0, [r1, K0] fatal 0", "planned register r11 for `dsts`; expected one that is not planned"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] make_cell r6, C1, [r0, r11] fatal 0",
     "planned register r11 for `fields`"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] retain r3, r11 fatal 0", "planned register r11 for `src`"},
    {"call_kernel_planned [r11], [0], N0, [r1, K0] return r11", "planned register r11 for `result`"},
};

constexpr CodeCase kShapes[] = {
    {"get_dim r13, r1, 1 fatal 0", "axis 1 out of range; the tensor has rank 1"},
    {"get_element r13, r1, 0 fatal 0", "an element of `Tensor[(4), float32]`; expected an integer, to int64"},
    {"load_const r17, K2 get_element r13, r17, 3 drop r17 drop r1 return r0", ""},
    {"load_const r17, K2 get_element r13, r17, 4 fatal 0", "element 4 of `Tensor[(4), int32]` is out of range"},
    {"load_const r17, K2 get_element r2, r17, 0 fatal 0", "expected an integer, to int64"},
    {"load_const r17, K2 view r22, r17, Tensor[(?), int32], [r0] get_element r13, r22, 0 fatal 0",
     "element 0 of `Tensor[(?), int32]` is out of range"},
    {"view r19, r1, Tensor[(2, 2), float32], [] drop r19 return r0", ""},
    {"view r19, r1, int32, [] fatal 0", "the new type is `int32`; expected a tensor of float32"},
    {"view r17, r1, Tensor[(4), int32], [] fatal 0", "expected a tensor of float32"},
    {"view r10, r1, Tensor[(?), float32], [] fatal 0", "0 dims; `Tensor[(?), float32]` needs 1"},
    {"view r10, r1, Tensor[(?), float32], [r0] drop r10 return r0", ""},
    {"view r19, r1, Tensor[(4), float32], [] fatal 0",
     "the new type is `Tensor[(4), float32]`; expected `Tensor[(2, 2), float32]`"},
    {"view r3, r1, T99, [] fatal 0", "type 99 out of range"},
    {"check_shape r3, r1, Tensor[(4), float32] drop r3 return r0", ""},
    {"check_shape r19, r1, Tensor[(2, 2), float32] fatal 0", "expected one of rank 1"},
    {"check_dims r0, r0, 3 fatal 0", "unknown check 3"},
    {"wrap_int r15, r0, uint8 drop r1 return r0", ""},
    {"wrap_int r15, r0, int8 fatal 0", "dtype int8; the destination is uint8"},
    {"wrap_int r15, r0, 1234 fatal 0", "dtype 0x4d2 is not storable"},
    {"cast r9, r0, int32, float32 drop r1 return r0", ""},
    {"cast r9, r0, int64, float32 fatal 0", "dtype int64; the source is int32"},
    {"cast r9, r0, int32, float64 fatal 0", "dtype float64; the destination is float32"},
    {"add_i32 r2, r0, r9 fatal 0", "register r9 for `b` is `float32`; expected class I32"},
};

INSTANTIATE_TEST_SUITE_P(Flow, CodeTest, ::testing::ValuesIn(kFlow));
INSTANTIATE_TEST_SUITE_P(Definitions, CodeTest, ::testing::ValuesIn(kDefinitions));
INSTANTIATE_TEST_SUITE_P(Ownership, CodeTest, ::testing::ValuesIn(kOwnership));
INSTANTIATE_TEST_SUITE_P(Shells, CodeTest, ::testing::ValuesIn(kShells));
INSTANTIATE_TEST_SUITE_P(Loads, CodeTest, ::testing::ValuesIn(kLoads));
INSTANTIATE_TEST_SUITE_P(Calls, CodeTest, ::testing::ValuesIn(kCalls));
INSTANTIATE_TEST_SUITE_P(Cells, CodeTest, ::testing::ValuesIn(kCells));
INSTANTIATE_TEST_SUITE_P(Kernels, CodeTest, ::testing::ValuesIn(kKernels));
INSTANTIATE_TEST_SUITE_P(Planned, CodeTest, ::testing::ValuesIn(kPlanned));
INSTANTIATE_TEST_SUITE_P(Shapes, CodeTest, ::testing::ValuesIn(kShapes));

// ---- tables

constexpr CodeCase kTableCases[] = {
    {"type T0 = (T0,)", "refers to type 0, which does not come before it"},
    {"type T0 = (T5,)", "refers to type 5, which does not come before it"},
    {"type T0 = int32 type T1 = int32", "equals an earlier type"},
    {"type T0 = Tensor[(), int32]", "a tensor of rank 0"},
    {"type T0 = Tensor[(-2), int32]", "a tensor with the dim -2"},
    {"type T0 = Tensor[(1099511627776, 1024), int32]", "a tensor of more than 2^48 bytes"},
    {"type T0 = adt A3", "adt 3 out of range"},
    {"type T0 = int32 type T1 = ref(T0, T0)", "a reference to 2 contents"},
    {"adt A0 \"A\" { \"C\" (int32,) }", "constructor `C` has fields but no layout in range"},
    {"adt A0 \"A\" { \"C\" C0 }", "constructor `C` has a layout but no fields"},
    {"adt A0 \"A\" { \"C\" (T9,) C0 }", "has a field whose type is out of range"},
    {"adt A0 \"A\" { \"C\" (int32,) C0 } cell C0 = constructor adt A0 tag 0 (float32,)", "disagrees with its layout 0"},
    {"cell C0 = tuple (int32,) (float32,)", "its fields are not those of `(int32,)`"},
    {"cell C0 = tuple int32 ()", "its kind does not fit its type `int32`"},
    {"cell C0 = tuple T9 ()", "type 9 out of range"},
    {"adt A0 \"A\" { \"C\" } cell C0 = constructor adt A0 tag 0 ()", "is not the layout of constructor 0 of `A`"},
    {"cell C0 = closure fn (int32,) -> int32 F0 ()", "function 0 out of range"},
    {"cell C0 = closure fn (int32,) -> int32 F0 () function F0 \"f\" params 0 result int32 { code fatal 0 }",
     "`f` takes 0 parameters; a closure of type `fn (int32) -> int32` needs 2"},
    {"cell C0 = closure fn () -> int32 F0 () function F0 \"f\" params 1 result int32 { r0: int32 code fatal 0 }",
     "parameter 0 of `f` is not the closure"},
    {"cell C0 = closure fn (int32,) -> int32 F0 () function F0 \"f\" params 2 result int32 { r0: fn (int32,) -> int32 "
     "r1: float32 "
     "code fatal 0 }",
     "parameter 1 of `f` is `float32`; expected `int32`"},
    {"cell C0 = closure fn () -> int32 F0 () function F0 \"f\" params 1 result float32 { r0: fn () -> int32 code fatal "
     "0 }",
     "`f` gives `float32`; expected `int32`"},
    {"cell C0 = closure fn () -> int32 F0 () cell C1 = closure fn () -> int32 F0 (int32,) "
     "function F0 \"f\" params 1 result int32 { r0: fn () -> int32 code fatal 0 }",
     "`f` is the code of another layout already"},
    {"kernel N0 \"k\" \"k\" (\"n\") { workspace 0 }", "has 1 symbols, of which the parameters bind 0"},
    {"kernel N0 \"k\" \"k\" () { param float32 ($3) workspace 0 }", "symbol 3 out of range"},
    {"kernel N0 \"k\" \"k\" () { param float32 (-1) workspace 0 }", "the dim -1"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param int32 (2) value 0 0 2 workspace 0 }",
     "a value at 2 of a parameter of shape (2)"},
    {"kernel N0 \"k\" \"k\" (\"n\", \"m\") { param int32 ($1) value 0 0 0 workspace 0 }",
     "a value at 0 of a parameter of shape (m)"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param float32 () value 0 0 0 workspace 0 }",
     "a symbol is a value of dtype float32"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param int32 () value 0 1 0 workspace 0 }", "a value of parameter 1"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param int32 () value 1 0 0 workspace 0 }", "symbol 1 out of range"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param int32 (2) value 0 0 0 value 0 0 1 workspace 0 }", "symbol 0 is two values"},
    {"kernel N0 \"k\" \"k\" () { workspace -8 }", "a workspace of -8 bytes"},
    {"kernel N0 \"k\" \"k\" () { param float32 (4) result float32 (4) workspace 0 update 1 0 }",
     "result 1 as an update of parameter 0: out of range"},
    {"kernel N0 \"k\" \"k\" () { param float32 (4) result float32 (4) workspace 0 update 0 1 }",
     "result 0 as an update of parameter 1: out of range"},
    {"kernel N0 \"k\" \"k\" () { param float32 (2, 4) result float32 (2, 5) workspace 0 update 0 0 }",
     "which is float32 of shape (2, 4); the result is float32 of shape (2, 5)"},
    {"kernel N0 \"k\" \"k\" () { param float32 (4) result float32 (1, 4) workspace 0 update 0 0 }",
     "which is float32 of shape (4); the result is float32 of shape (1, 4)"},
    {"kernel N0 \"k\" \"k\" () { param int32 (4) result float32 (4) workspace 0 update 0 0 }",
     "which is int32 of shape (4); the result is float32 of shape (4)"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param float32 ($0, 3) result float32 (($0 + 1), 4) workspace 0 update 0 0 }",
     "which is float32 of shape (n, 3); the result is float32 of shape (n + 1, 4)"},
    {"kernel N0 \"k\" \"k\" (\"n\") { param float32 (1, 2, $0) result float32 (1, 2, ($0 + 1)) workspace 0 update 0 0 "
     "}",
     "which is float32 of shape (1, 2, n); the result is float32 of shape (1, 2, n + 1)"},
    {"kernel N0 \"k\" \"k\" () { param float32 () result float32 () workspace 0 update 0 0 }",
     "which is float32 of shape (); the result is float32 of shape ()"},
    {"kernel N0 \"k\" \"k\" () { param float32 (4) param float32 (4) result float32 (4) workspace 0 "
     "update 0 0 update 0 1 }",
     "result 0 as an update of parameter 1 is out of order"},
    {"kernel N0 \"k\" \"k\" () { param float32 (4) param float32 (4) result float32 (4) workspace 0 "
     "reuse 0 1 update 0 0 }",
     "result 0 as an update of parameter 0, which may also lie in place of a parameter"},
    {"class portable kernel N0 \"k\" \"k\" () { workspace 0 } kernel N1 \"l\" \"l\" () { workspace 0 } recipe N0 { }",
     "1 recipes for 2 kernels"},
    {"class portable kernel N0 \"k\" \"k\" () { workspace 0 }", "0 recipes for 1 kernels"},
    {"class portable target \"\" \"\" \"\" 1 x\"00\"", "the executable is portable; machine code is not"},
    {"class native kernel N0 \"k\" \"k\" () { workspace 0 } recipe N0 { }",
     "the executable is native; recipes are portable"},
    {"constant K0 = bool (2) x\"0102\"", "a bool that is neither 0 nor 1"},
    {"entry \"e\" = F7 ()", "function 7 out of range"},
    {"entry \"e\" = F0 (\"x\") function F0 \"f\" params 0 result int32 { code fatal 0 }",
     "1 parameter names; expected 0"},
    {"entry \"e\" = F0 () entry \"e\" = F0 () function F0 \"f\" params 0 result int32 { code fatal 0 }",
     "an entry of this name exists"},
    {"cell C0 = closure fn () -> int32 F0 () entry \"e\" = F0 (\"c\") "
     "function F0 \"f\" params 1 result int32 { r0: fn () -> int32 code fatal 0 }",
     "is the code of a closure"},
    {"entry \"e\" = F0 () function F0 \"f\" params 0 result fields (int32,) { code fatal 0 }",
     "returns fields; expected a value"},
    {"cell C0 = closure fn () -> (int32,) F0 () "
     "function F0 \"f\" params 1 result fields (int32,) { r0: fn () -> (int32,) code fatal 0 }",
     "`f` returns fields; expected a value"},
    {"function F0 \"f\" params 0 result fields int32 { code fatal 0 }", "returns fields; the result is `int32`"},
    {"function F0 \"f\" params 1 result fields (int32, int32) { r0: int32 r1: (int32, int32) code return r1 }",
     "`f` returns fields; expected a value"},
    {"function F0 \"f\" params 1 result fields (int32, int32) { r0: int32 code return_fields [r0] }",
     "1 fields; the result has 2"},
    {"function F0 \"f\" params 1 result fields (int32, int32) { r0: int64 code return_fields [r0, r0] }",
     "field 0 is `int64`; expected `int32`"},
    {"function F0 \"f\" params 2 result fields (int32, int32) { r0: int32 r1: ref(int32) code return_fields [r0, r0] }",
     "register r1 still owns a value"},
    {"function F0 \"f\" params 1 result fields (int32,) { r0: int32 code tail_call F1, [r0] } "
     "function F1 \"g\" params 1 result (int32,) { r0: int32 code fatal 0 }",
     "`g` returns a value; expected fields"},
    {"function F0 \"f\" params 1 result fields (int32,) { r0: fn () -> (int32,) code tail_call_closure r0, [] }",
     "`f` returns fields; expected a value"},
    {"metadata \"b\" \"\" metadata \"a\" \"\"", "keys are not sorted and unique"},
    {"function F0 \"f\" params 3 result int32 { code fatal 0 }", "3 parameters; frame has 0 registers"},
    {"function F0 \"f\" params 0 result T9 { code fatal 0 }", "result type 9 out of range"},
    {"function F0 \"f\" params 0 result int32 { r0: T9 code fatal 0 }", "type 9 of register r0 out of range"},
    {"function F0 \"f\" params 0 result int32 arena 65 { code fatal 0 }", "an arena of 65 bytes, not a multiple of 64"},
    {"function F0 \"f\" params 0 result int32 { r0: int32 planned code fatal 0 }",
     "planned register r0 is not a local tensor"},
    {"function F0 \"f\" params 0 result int32 { r0: Tensor[(?), int32] planned code fatal 0 }",
     "planned register r0 is not a local tensor"},
    {"function F0 \"f\" params 0 result int32 { code at 3:1:1 fatal 0 }", "file 3 of a line out of range"},
    {"function F0 \"f\" params 0 result int32 { code at 0:0:0 at 0:0:0 fatal 0 }", "lines are not sorted by pc"},
};

class TableTest : public ::testing::TestWithParam<CodeCase> {};

TEST_P(TableTest, IsRejected) {
  absl::Status status = VerifyText(GetParam().code);
  EXPECT_NE(std::string(status.message()).find(GetParam().message), std::string::npos) << GetParam().code << "\n"
                                                                                       << status;
}
INSTANTIATE_TEST_SUITE_P(Tables, TableTest, ::testing::ValuesIn(kTableCases));

// ---- what text cannot say, and size

Executable OneFunction(std::vector<uint16_t> code) {
  Executable program = *Assemble("function F0 \"f\" params 0 result int32 { r0: int32 code fatal 0 }");
  program.functions[0].code = std::move(code);
  return program;
}

struct HostCase {
  const char* captured;  // types of what the closure captures
  const char* code;
  const char* message;  // empty: verifies
};

TEST(CallHostTest, VerifiesOrSaysWhyNot) {
  constexpr HostCase kCases[] = {
      {"(int64,)", "call_host r3, r0, [r1, r2] drop r0 return r3", ""},
      {"(int32,)", "call_host r3, r0, [r1, r2] drop r0 return r3", "layout 0 captures 1 values; expected one"},
      {"(int64, int64)", "call_host r3, r0, [r1, r2] drop r0 return r3", "layout 0 captures 2 values; expected one"},
      {"()", "call_host r3, r0, [r1, r2] drop r0 return r3", "layout 0 captures 0 values; expected one"},
      {"(int64,)", "call_host r3, r0, [r1] drop r0 return r3", "1 arguments; expected 2"},
      {"(int64,)", "call_host r3, r0, [r1, r1] drop r0 return r3", "argument 1 is `int32`"},
      {"(int64,)", "call_host r4, r0, [r1, r2] drop r0 return r3",
       "the destination is `float32`; the closure gives `int32`"},
      {"(int64,)", "call_host r3, r0, [r1, r2] drop r0 drop r2 return r3", "register r2 is not owned here"},
      {"(int64,)", "call_host r3, r5, [r1, r2] drop r0 return r3", "by the closure that runs, in register r0"},
      {"(int64,)", "move r5, r0 call_host r3, r5, [r1, r2] drop r5 return r3",
       "the host is called by the closure that runs, in register r0"},
      {"(int64,)", "move r5, r0 move r0, r5 call_host r3, r0, [r1, r2] drop r0 return r3",
       "the host is called by the closure that runs, in register r0"},
  };
  for (const HostCase& c : kCases) {
    absl::Status status = VerifyText(absl::StrCat(R"(
type T0 = int32
type T1 = Tensor[(4), float32]
type T2 = fn (T0, T1) -> T0
cell C0 = closure T2 F0 )",
                                                  c.captured, R"(
function F0 "f" params 3 result int32 {
  r0: T2  r1: int32  r2: T1  r3: int32  r4: float32  r5: T2
code )",
                                                  c.code, "\n}"));
    if (*c.message == 0) {
      EXPECT_TRUE(status.ok()) << c.code << "\n" << status;
    } else {
      EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << c.code << "\n" << status;
    }
  }
}

TEST(VerifierTest, UnknownOpcode) {
  absl::Status status = Verify(OneFunction({0x99})).status();
  EXPECT_EQ(std::string(status.message()), "in `f` at +0x0: unknown opcode 0x99");
}

TEST(VerifierTest, TruncatedInstruction) {
  absl::Status status = Verify(OneFunction({static_cast<uint16_t>(Opcode::kLoadInt), 0, 1})).status();
  EXPECT_EQ(std::string(status.message()), "in `f` at +0x0 (load_int): the instruction runs over the end of the code");
}

TEST(VerifierTest, ClosuresReadTheirOwnCapturesOnly) {
  std::string head =
      "cell C0 = closure fn () -> int32 F0 (int32,) "
      "function F0 \"f\" params 1 result int32 { r0: fn () -> int32 r1: fn () -> int32 r2: int32 code ";
  EXPECT_TRUE(VerifyText(head + "get_field r2, r0, C0, 0 drop r0 return r2 }").ok());
  EXPECT_TRUE(VerifyText(head + "L1: get_field r2, r0, C0, 0 branch_eq_int r2, r2, L1 tail_call F0, [r0] }").ok());
  EXPECT_FALSE(VerifyText(head + "move r1, r0 move r0, r1 get_field r2, r0, C0, 0 drop r0 return r2 }").ok());
  EXPECT_FALSE(VerifyText(head + "move r1, r0 get_field r2, r1, C0, 0 drop r1 return r2 }").ok());
  EXPECT_FALSE(VerifyText(head + "L1: get_field r2, r0, C0, 0 move r1, r0 move r0, r1 jump L1 }").ok());
  EXPECT_FALSE(VerifyText(head + "move r1, r0 move r0, r1 tail_call F0, [r0] }").ok());
}

TEST(VerifierTest, OwnedRegistersAreThoseToDropInAnError) {
  std::string text = absl::StrCat(
      kTables, kFrame, "load_const r3, K0 call_kernel [r10], N0, [r1, r3] drop r3 drop r1 drop r10 return r0 }",
      kOtherFunctions);
  std::shared_ptr<const VerifiedExecutable> program = *Verify(*Assemble(text));
  std::vector<std::vector<Reg>> expected = {{Reg(1)},          {Reg(1), Reg(3)}, {Reg(1), Reg(3), Reg(10)},
                                            {Reg(1), Reg(10)}, {Reg(10)},        {}};
  uint32_t pc = 0;
  for (const std::vector<Reg>& owned : expected) {
    EXPECT_EQ(OwnedRegistersAt(**program, FunctionId(0), pc), owned) << pc;
    pc += ReadInstruction((*program)->functions[0].code, pc)->length;
  }
}

TEST(VerifierTest, WideFramesAndSwitches) {
  constexpr int kWide = 20000;
  std::string text = "adt A0 \"Big\" {";
  for (int c = 0; c < kWide; ++c) absl::StrAppend(&text, " \"C", c, "\"");
  text += " } function F0 \"f\" params 1 result int32 { r0: adt A0";
  for (int r = 1; r <= kWide; ++r) absl::StrAppend(&text, " r", r, ": T0");
  absl::StrAppend(&text, " r", kWide + 1, ": int32 code switch r0, [");
  for (int c = 0; c < kWide; ++c) absl::StrAppend(&text, c == 0 ? "L" : ", L", c);
  text += "]";
  for (int c = 0; c < kWide; ++c) absl::StrAppend(&text, " L", c, ": jump L", kWide);
  absl::StrAppend(&text, " L", kWide, ": drop r0 load_int r", kWide + 1, ", 1 return r", kWide + 1, " }");
  EXPECT_TRUE(VerifyText(text).ok());
}

// ---- recipes

struct RecipeCase {
  const char* nest;
  const char* error;
};

// Over buffers B0: float32 (n, 4), B1: int64 (2); B2, the result: float32 (n); B3, workspace: bool.
class RecipeTest : public ::testing::TestWithParam<RecipeCase> {};
INSTANTIATE_TEST_SUITE_P(
    Steps, RecipeTest,
    ::testing::Values(
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = load float32 v0 B0 v2 = store float32 v0 v1 B2 }", ""},
        RecipeCase{"nest ($1) () () { }", "symbol 1 out of range"},
        RecipeCase{"nest () (4) () { }", "axes are reduced, but nothing over them"},
        RecipeCase{"nest () () () { v0 = index int64 0 }", "step 0: saw 0; there are 0"},
        RecipeCase{"nest () () () { v0 = extent int64 0 }", "step 0: saw 0; there are 0"},
        RecipeCase{"nest (2) () () { v0 = index int32 0 }", "step 0: expected int64"},
        RecipeCase{"nest () () () { v0 = cast float32 v0 }", "step 0: v0 is no value made before"},
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = load float32 v0 B9 }", "step 1: no buffer 9"},
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = load int64 v0 B0 }", "buffer 0 is float32, not int64"},
        RecipeCase{"nest () () () { v0 = constant int32 0 v1 = load float32 v0 B0 }", "v0 is int32; expected int64"},
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = constant float32 0 v2 = store float32 v0 v1 B0 }",
                   "step 2: a store into a parameter"},
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = constant bool 0 v2 = store bool v0 v1 B3 "
                   "v3 = cast float32 v2 }",
                   "step 3: v2 is no value made before"},
        RecipeCase{"nest () () () { v0 = constant float32 1 v1 = bitcast int64 v0 }", "the bits of float32 as int64"},
        RecipeCase{"nest () () () { v0 = constant int64 1 v1 = order float32 v0 v0 B2 }", "expected int64"},
        RecipeCase{"nest () () () { v0 = constant int64 1 v1 = constant int32 1 v2 = order bool v0 v1 B3 }",
                   "v1 is int32; expected int64"},
        RecipeCase{"nest () () () { v0 = constant int64 1 v1 = order int64 v0 v0 B0 }", "a store into a parameter"},
        RecipeCase{"nest (2) () () { v0 = constant int64 1 v1 = load int64 v0 B1 v2 = limit int64 0 v1 "
                   "v3 = index int64 0 v4 = constant float32 1 v5 = binary \"<\" bool v3 v1 "
                   "v6 = store_if float32 v3 v4 v5 B2 }",
                   ""},
        RecipeCase{"nest (2) () () { v0 = constant int64 1 v1 = limit int64 1 v0 }", "step 1: saw 1; there are 1"},
        RecipeCase{"nest (2) () () { v0 = constant int32 1 v1 = limit int64 0 v0 }", "v0 is int32; expected int64"},
        RecipeCase{"nest (2) () () { v0 = constant int64 1 v1 = limit int32 0 v0 }", "step 1: expected int64"},
        RecipeCase{"nest (2, 2) () () { v0 = index int64 1 v1 = load int64 v0 B1 v2 = limit int64 0 v1 }",
                   "step 2: v1 depends on an axis"},
        RecipeCase{"nest (2) (2) () { v0 = constant int64 1 v1 = limit int64 0 v0 v2 = reduce \"sum\" int64 v0 }",
                   "an axis is limited beside a reduction"},
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = constant float32 0 v2 = store_if float32 v0 v1 v0 B2 }",
                   "v0 is int64; expected bool"},
        RecipeCase{"nest () () () { v0 = constant int64 0 v1 = constant float32 0 v2 = constant bool 1 "
                   "v3 = store_if float32 v0 v1 v2 B0 }",
                   "step 3: a store into a parameter"},
        RecipeCase{"nest () (2) () { v0 = constant int64 1 v1 = order bool v0 v0 B3 v2 = reduce \"sum\" int64 v0 }",
                   "keys are ordered beside a reduction"},
        RecipeCase{"nest () () () { v0 = constant float32 1 v1 = unary \"not\" float32 v0 }",
                   "step 1: a function of integers on float32"},
        RecipeCase{"nest () () () { v0 = constant float32 1 v1 = unary \"isnan\" float32 v0 }",
                   "step 1: another dtype than its operand"},
        RecipeCase{"nest () () () { v0 = constant float32 1 v1 = binary \"xor\" float32 v0 v0 }",
                   "step 1: a function of integers on float32"},
        RecipeCase{"nest () () () { v0 = constant float32 1 v1 = binary \"<\" float32 v0 v0 }",
                   "step 1: another dtype than its operands"},
        RecipeCase{"nest () () () { v0 = constant float32 1 v1 = constant int8 1 v2 = binary \"+\" float32 v0 v1 }",
                   "step 2: v1 is int8; expected float32"},
        RecipeCase{"nest () () () { v0 = constant int8 1 v1 = select int8 v0 v0 v0 }", "v0 is int8; expected bool"},
        RecipeCase{"nest () () () { v0 = constant int8 1 v1 = reduce \"all\" bool v0 }", "v0 is int8; expected bool"},
        RecipeCase{"nest () () () { v0 = constant int8 1 v1 = reduce \"argmax\" int8 v0 }",
                   "step 1: another dtype than its operand"},
        RecipeCase{"nest () () () { v0 = constant int8 1 v1 = reduce \"sum\" int8 v0 v2 = reduce \"sum\" int8 v1 }",
                   "step 2: a second reduction"},
        RecipeCase{"nest () () () { v0 = constant int8 1 v1 = reduce \"sum\" int8 v0 v2 = cast int32 v0 }",
                   "step 2: v0 is known before the reduction only"},
        RecipeCase{"nest () (4) () { v0 = index int64 0 v1 = reduce \"sum\" int64 v0 v2 = index int64 0 }",
                   "step 2: saw 0; there are 0"}));

TEST_P(RecipeTest, Says) {
  absl::Status status =
      VerifyText(absl::StrCat("class portable kernel N0 \"k\" \"k\" (\"n\") { param float32 ($0, 4) param int64 (2) "
                              "result float32 ($0) workspace 64 } "
                              "recipe N0 { workspace bool 0 64 ",
                              GetParam().nest, " }"));
  std::string error = GetParam().error;
  EXPECT_EQ(status.ok(), error.empty()) << status;
  if (error.empty()) return;
  EXPECT_NE(std::string(status.message()).find(absl::StrCat("in the table of recipes at 0 (`k`): nest 0: ")),
            std::string::npos)
      << status;
  EXPECT_NE(std::string(status.message()).find(error), std::string::npos) << status;
}

// ---- code for devices

struct DeviceCase {
  const char* definitions;
  const char* error;
};

// Returns a product of kernel 2, which has one parameter and one result, argument 2 being its workspace.
DeviceCase ProductCase(const char* product, const char* error) {
  static std::deque<std::string> texts;
  texts.push_back(absl::StrCat("kernel N2 \"m\" \"m\" (\"n\") { param float32 ($0) result float32 ($0) workspace 64 } ",
                               "device \"a\" \"\" { N2 workspace 64 launches (1, $0) product ", product, " } x\"\""));
  return {texts.back().c_str(), error};
}

class DeviceCodeTest : public ::testing::TestWithParam<DeviceCase> {};
INSTANTIATE_TEST_SUITE_P(
    Codes, DeviceCodeTest,
    ::testing::Values(
        DeviceCase{"device \"a\" \"\" { N0 workspace 0 launches ($0) N1 workspace $0 launches (1, 2) } x\"\"", ""},
        DeviceCase{"device \"a\" \"\" { } x\"\" device \"b\" \"\" required { } x\"00\"", ""},
        DeviceCase{"device \"a\" \"\" { N0 workspace 0 launches ($1) } x\"\"", "symbol 1 out of range"},
        DeviceCase{"device \"a\" \"\" { N0 workspace $1 launches () } x\"\"", "symbol 1 out of range"},
        DeviceCase{"device \"a\" \"\" { N2 workspace 0 launches () } x\"\"", "kernel 2 out of range"},
        DeviceCase{"device \"a\" \"\" { N1 workspace 0 launches () N0 workspace 0 launches () } x\"\"",
                   "kernels are not in the order of their ids"},
        DeviceCase{"device \"a\" \"\" { } x\"\" device \"a\" \"\" { } x\"\"", ""},
        DeviceCase{
            "device \"a\" \"\" { N0 workspace 8 launches (1, $0) call N0 0 (A1 8, A0) call N0 0 (A0, A2) } x\"\"", ""},
        DeviceCase{"device \"a\" \"\" { N0 workspace 8 launches (1, $0) call N0 0 (A1 8, A0) } x\"\"",
                   "kernel 0: 1 calls for 2 launches"},
        DeviceCase{"device \"a\" \"\" { N0 workspace 8 launches (1) call N0 1 () } x\"\"",
                   "kernel 0, call 0: no function of launch 1 of kernel 0"},
        DeviceCase{"device \"a\" \"\" { N0 workspace 8 launches (1) call N1 0 () } x\"\"",
                   "kernel 0, call 0: no function of launch 0 of kernel 1"},
        DeviceCase{"device \"a\" \"\" { N0 workspace 8 launches (1) call N0 0 (A3 ($0 * 4), A4) } x\"\"",
                   "kernel 0, call 0: argument 4 out of range"},
        DeviceCase{"device \"a\" \"\" { N0 workspace 8 launches (1) call N0 0 (A2 4) } x\"\"",
                   "kernel 0, call 0: an offset of argument 2, a number"},
        DeviceCase{"device \"a\" \"\" { N0 workspace 8 launches (1) call N0 0 (A1 $1) } x\"\"",
                   "symbol 1 out of range"},
        ProductCase("0 (1, $0, 2, 3) A0 float32 0 (0, 3, 1) A2 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1)", ""),
        ProductCase("0 (1, $0, 2, 3) A2 float16 0 (0, 3, 1) A2 float16 64 (0, 1, 3) A1 float32 0 (0, 2, 1)", ""),
        ProductCase("0 (1, $0, 2, 3) A0 float32 0 (0, 3, 1) A3 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "kernel 2, product 0: argument 3 out of range"),
        ProductCase("2 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A2 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "launches of products are not ascending ones of the kernel"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 0 (0, 1, 3) A1 float32 0 (0, 2, 1) product 0 (1, "
                    "1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 0 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "launches of products are not ascending ones of the kernel"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 0 (0, 1, 3) A1 float32 0 (0, 2, 1) tail", ""),
        ProductCase("1 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 0 (0, 1, 3) A1 float32 0 (0, 2, 1) tail",
                    "kernel 2, product 0: the launch of its tail is not there"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 0 (0, 1, 3) A1 float32 0 (0, 2, 1) tail product "
                    "1 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 0 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "launches of products are not ascending ones of the kernel"),
        ProductCase("0 (1, 1, 1, 1) A0 float64 0 (0, 3, 1) A2 float64 64 (0, 1, 3) A2 float64 0 (0, 2, 1)",
                    "argument 0 has elements of float32, not of float64"),
        ProductCase("0 (1, 1, 1, 1) A2 float32 0 (0, 3, 1) A2 float32 64 (0, 1, 3) A0 float32 0 (0, 2, 1)",
                    "stores to a parameter"),
        ProductCase("0 (1, 1, 1, 1) A2 int8 0 (0, 3, 1) A2 int8 64 (0, 1, 3) A2 int32 0 (0, 2, 1)", "multiplies int8"),
        ProductCase("0 (1, 1, 1, 1) A2 float16 0 (0, 3, 1) A2 bfloat16 64 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "factors of float16 and bfloat16 give float32"),
        ProductCase("0 (1, 1, 1, 1) A2 float16 0 (0, 3, 1) A2 float16 64 (0, 1, 3) A2 bfloat16 0 (0, 2, 1)",
                    "factors of float16 and float16 give bfloat16"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1) plus A2 "
                    "float64 0 (0, 0, 0)",
                    "adds float64"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1) plus A0 "
                    "float32 0 (0, 0, 0) plus A0 float32 0 (0, 0, 0) plus A0 float32 0 (0, 0, 0)",
                    "3 addends"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, 3, 1) A0 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1) scale inf",
                    "a scale that is not finite"),
        ProductCase("0 (1, 1, 1, 1) A0 float32 0 (0, $1, 1) A0 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "symbol 1 out of range"),
        ProductCase("0 ($1, 1, 1, 1) A0 float32 0 (0, 1, 1) A0 float32 64 (0, 1, 3) A1 float32 0 (0, 2, 1)",
                    "symbol 1 out of range"),
        DeviceCase{"class portable recipe N0 { } recipe N1 { } device \"a\" \"\" { } x\"\"",
                   "the executable is portable; code for devices is not"},
        DeviceCase{"device \"a\" \"\" { } x\"\" function F0 \"f\" params 0 result int32 arena 64 { r0: int32 code "
                   "load_int r0, 1 return r0 }",
                   "plans tensors in an arena; the executable has code for devices"}));

TEST_P(DeviceCodeTest, Says) {
  absl::Status status =
      VerifyText(absl::StrCat("class native kernel N0 \"k\" \"k\" (\"n\") { param float32 ($0) workspace 0 } "
                              "kernel N1 \"l\" \"l\" (\"n\") { param float32 ($0) workspace 0 } ",
                              GetParam().definitions));
  std::string error = GetParam().error;
  EXPECT_EQ(status.ok(), error.empty()) << status;
  EXPECT_NE(std::string(status.message()).find(error), std::string::npos) << status;
}

// ---- variants for batches

struct BatchCase {
  const char* definitions;
  const char* error;
};

class BatchTest : public ::testing::TestWithParam<BatchCase> {};
INSTANTIATE_TEST_SUITE_P(
    Variants, BatchTest,
    ::testing::Values(
        BatchCase{"batch N0 N1 (1)", ""}, BatchCase{"batch N0 N99 (1)", "a kernel that is out of range"},
        BatchCase{"batch N99 N1 (1)", "a kernel that is out of range"},
        BatchCase{"batch N0 N1 (1) batch N0 N1 (1)", "kernels are not in the order of their ids"},
        BatchCase{"batch N0 N1 ()", "parameter 1 of the variant does not fit"},
        BatchCase{"batch N0 N1 (0, 1)", "parameter 0 of the variant does not fit"},
        BatchCase{"batch N0 N1 (1, 1)", "shared parameters are not ascending"},
        BatchCase{"batch N0 N1 (1, 3)", "shared parameters are not ascending, or out of range"},
        BatchCase{"batch N0 N2 (1)", "the variant has another number of parameters or results"},
        BatchCase{"batch N0 N3 (1)", "result 0 of the variant does not fit"},
        BatchCase{"batch N0 N4 (1)", "parameter 2 of the variant does not fit"},
        BatchCase{"batch N0 N5 (1)", "symbols that are values, reuses or updates"},
        BatchCase{"batch N6 N6 (0)", "the variant has no axis for the calls"},
        BatchCase{"batch N0 N1 (1) other_sums", ""}, BatchCase{"batch N7 N8 (0) other_sums adds_to 0", ""},
        BatchCase{"batch N7 N8 (0) adds_to 0", "a variant of a chain gives the same bits as its kernel"},
        BatchCase{"batch N7 N8 (0) other_sums adds_to 1", "the accumulator is not a shared parameter"},
        BatchCase{"batch N7 N8 (0) other_sums adds_to 4000000000", "the accumulator is not a shared parameter"},
        BatchCase{"batch N7 N8 (0, 4000000000) other_sums adds_to 4000000000",
                  "the accumulator is not the only result"},
        BatchCase{"batch N0 N1 (1) other_sums adds_to 1", "the accumulator has another type than the result"},
        BatchCase{"batch N7 N9 (0) other_sums adds_to 0", "the result may not have the memory of the accumulator"},
        BatchCase{"batch N9 N8 (0) other_sums adds_to 0", "the result may not have the memory of the accumulator"},
        BatchCase{"batch N7 N7 (0) other_sums adds_to 0", "parameter 1 of the variant does not fit"},
        BatchCase{"batch N7 N8 (0) other_sums", "symbols that are values, reuses or updates"},
        BatchCase{"batch N10 N12 (0, 1) other_sums adds_to 0", ""},
        BatchCase{"batch N10 N11 (0, 1) other_sums adds_to 0", "symbols that are values, reuses or updates"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N14)", ""},
        BatchCase{"batch N0 N13 (1) other_sums", "parameter 1 of the variant does not fit"},
        BatchCase{"batch N0 N13 (1) arranged (1 N14)", "arranged parameter 1 is for variants of other sums"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N14, 1 N14)", "is not in the order of parameters"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (0 N14)", "parameter 1 of the variant does not fit"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N14, 2 N14)", "is not one that calls share"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N14, 4000000000 N14)", "is not one that calls share"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N99)", "its kernel is out of range"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N0)", "not one parameter and one result"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N15)", "its kernel has symbols"},
        BatchCase{"batch N0 N13 (1) other_sums arranged (1 N16)", "its kernel has other types"},
        BatchCase{"batch N7 N8 (0) other_sums adds_to 0 arranged (0 N14)", "is not one that calls share"},
        BatchCase{"batch N0 N1 (1) function F0 \"f\" params 0 result int32 arena 64 { r0: int32 code load_int r0, 1 "
                  "return r0 }",
                  "plans tensors in an arena; the executable has variants for batches"}));

TEST_P(BatchTest, Says) {
  absl::Status status = VerifyText(absl::StrCat(
      "class native kernel N0 \"k\" \"k\" () { param float32 (4) param float32 (4, 5) param int32 () result float32 "
      "(5) "
      "workspace 0 } "
      "kernel N1 \"b\" \"b\" (\"b\") { param float32 ($0, 4) param float32 (4, 5) param int32 ($0) "
      "result float32 ($0, 5) workspace 0 } "
      "kernel N2 \"c\" \"c\" (\"b\") { param float32 ($0, 4) param float32 (4, 5) result float32 ($0, 5) workspace 0 } "
      "kernel N3 \"d\" \"d\" (\"b\") { param float32 ($0, 4) param float32 (4, 5) param int32 ($0) "
      "result float32 (5) workspace 0 } "
      "kernel N4 \"e\" \"e\" (\"b\", \"c\") { param float32 ($0, 4) param float32 (4, 5) param int32 ($1) "
      "result float32 ($0, 5) workspace 0 } "
      "kernel N5 \"f\" \"f\" (\"b\") { param float32 ($0, 4) param float32 (4, 5) param int32 ($0) "
      "result float32 ($0, 4) workspace 0 reuse 0 0 } "
      "kernel N6 \"g\" \"g\" () { param float32 (4) workspace 0 } "
      "kernel N7 \"h\" \"h\" () { param float32 (4) param float32 (4) result float32 (4) workspace 0 reuse 0 0 } "
      "kernel N8 \"i\" \"i\" (\"b\") { param float32 (4) param float32 ($0, 4) result float32 (4) workspace 0 "
      "reuse 0 0 } "
      "kernel N9 \"j\" \"j\" (\"b\") { param float32 (4) param float32 ($0, 4) result float32 (4) workspace 0 } "
      "kernel N10 \"l\" \"l\" () { param float32 (4) param float32 (4) param float32 (4) result float32 (4) "
      "workspace 0 reuse 0 0 reuse 0 1 } "
      "kernel N11 \"m\" \"m\" (\"b\") { param float32 (4) param float32 (4) param float32 ($0, 4) "
      "result float32 (4) workspace 0 reuse 0 0 reuse 0 1 } "
      "kernel N12 \"n\" \"n\" (\"b\") { param float32 (4) param float32 (4) param float32 ($0, 4) "
      "result float32 (4) workspace 0 reuse 0 0 } "
      "kernel N13 \"o\" \"o\" (\"b\") { param float32 ($0, 4) param float32 (2, 4, 3) param int32 ($0) "
      "result float32 ($0, 5) workspace 0 } "
      "kernel N14 \"p\" \"p\" () { param float32 (4, 5) result float32 (2, 4, 3) workspace 0 } "
      "kernel N15 \"q\" \"q\" (\"n\") { param float32 ($0, 5) result float32 (2, 4, 3) workspace 0 } "
      "kernel N16 \"r\" \"r\" () { param float32 (4, 5) result float32 (2, 3, 4) workspace 0 } ",
      GetParam().definitions));
  std::string error = GetParam().error;
  EXPECT_EQ(status.ok(), error.empty()) << status;
  EXPECT_NE(std::string(status.message()).find(error), std::string::npos) << status;
}

// The limits are those of the decoder: what verifies can be written and read again.
TEST(LimitsTest, DimsThatTheDecoderRefusesDoNotVerify) {
  Executable program;
  KernelDesc& kernel = program.kernels.emplace_back();
  kernel.name = "add";
  kernel.num_symbols = 1;
  Dim n = Dim::Var(0, "n");
  kernel.params.push_back({kFloat32, {n}});
  auto verify = [&](const Dim& extent) {
    kernel.workspace = extent;
    return std::string(Verify(program).status().message());
  };
  Dim deep = n, wide = n;
  for (int i = 0; i < limits::kMaxDimDepth; ++i) deep = MakeBinaryDim(DimKind::kMin, deep, Dim(i + 1));
  EXPECT_EQ(verify(deep), "");
  EXPECT_NE(verify(Min(deep, Dim(7))).find("kernel `add` has an extent whose formula is nested over 256"),
            std::string::npos);
  for (int i = 0; i < 20; ++i) wide = Max(FloorDiv(wide, 2), wide);
  EXPECT_NE(verify(wide).find("larger than 4096 terms"), std::string::npos);
}

}  // namespace
}  // namespace rvm
