#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// Programs that stay as they are.
constexpr KeptProgram kKept[] = {
    {"Floats", R"(
def @f(%n: int32) -> float32 { if (%n == 0) { 0f } else { 1f + @f(%n - 1) } }
def @main(%n: int32) { @f(%n) }
)"},
    {"Tensors", R"(
def @f(%n: int32, %x: Tensor[(2), int32]) -> Tensor[(2), int32] { if (%n == 0) { %x } else { %x + @f(%n - 1, %x) } }
def @main(%n: int32, %x: Tensor[(2), int32]) { @f(%n, %x) }
)"},
    {"TailCallsOnly", R"(
def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { @f(%n - 1) } }
def @main(%n: int32) { @f(%n) }
)"},
    {"Differences", R"(
def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { %n - @f(%n - 1) } }
def @main(%n: int32) { @f(%n) }
)"},
    {"OneResultInTwoOperands", R"(
def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { let %x = @f(%n - 1); %x + %x } }
def @main(%n: int32) { @f(%n) }
)"},
    {"AReadBehindTheCall", R"(
def @f(%n: int32, %r: ref(int32)) -> int32 {
  if (%n == 0) { 0 } else { let %x = @f(%n - 1, %r); let %y = ref_read(%r); %x + %y }
}
def @main(%n: int32) { @f(%n, ref(1)) }
)"},
    {"AnotherCallBehindTheCall", R"(
def @g(%n: int32) -> int32 { match? (%n) { 3 => 1, _ => @g(%n - 1) } }
def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { @f(%n - 1) + @g(%n) } }
def @main(%n: int32) { @f(%n) }
)"},
    {"AKernelBehindTheCall", R"(
def @f(%n: int32, %x: Tensor[(k), int32]) -> int32 { if (%n == 0) { 0 } else { @f(%n - 1, %x) + sum(%x) } }
def @main(%n: int32, %x: Tensor[(k), int32]) { @f(%n, %x) }
)"},
    {"OtherFunctions", R"(
def @g(%n: int32) -> int32 { if (%n == 0) { 2 } else { 1 + @f(%n - 1) } }
def @f(%n: int32) -> int32 { if (%n == 0) { 3 } else { 2 + @g(%n - 1) } }
def @main(%n: int32) { @f(%n) }
)"},
};

class AccumulateRecursionKept : public KeptTest {};

TEST_P(AccumulateRecursionKept, Is) { Check("accumulate_recursion", "eliminate_common_subexpressions"); }

INSTANTIATE_TEST_SUITE_P(Programs, AccumulateRecursionKept, testing::ValuesIn(kKept), NameOfCase);

constexpr PassCase kChanged[] = {
    {"AnEntryCallsTheLoop", "accumulate_recursion", 2, R"(
def @main(%n: int32) -> int32 { if (%n == 0) { 7 } else { %n + @main(%n - 1) } }
)",
     R"(def @main(%n: int32) -> int32 {
  @main.sum(%n, 0)
}

def @main.sum(%n_1: int32, %sum: int32) -> int32 {
  let %t = %n_1 == 0;
  if (%t) {
    %sum + 7
  } else {
    let %t_1 = %n_1 - 1;
    let %t_2 = %sum + %n_1;
    @main.sum(%t_1, %t_2)
  }
}
)"},
    {"ScalarsBehindTheCallMoveUp", "accumulate_recursion", 2, R"(
def @f(%n: int32, %k: int32) -> int32 { if (%n == 0) { 0 } else { @f(%n - 1, %k) + minimum(%n, %k) * %n } }
def @main(%n: int32) -> int32 { @f(%n, 3) }
)",
     R"(def @main(%n: int32) -> int32 {
  @f.sum(%n, 3, 0)
}

def @f.sum(%n_1: int32, %k: int32, %sum: int32) -> int32 {
  let %t = %n_1 == 0;
  if (%t) {
    %sum
  } else {
    let %t_1 = %n_1 - 1;
    let %t_2 = minimum(%n_1, %k);
    let %t_3 = %t_2 * %n_1;
    let %t_4 = %sum + %t_3;
    @f.sum(%t_1, %k, %t_4)
  }
}
)"},
};

class AccumulateRecursionChanged : public PassTest {};

TEST_P(AccumulateRecursionChanged, Is) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, AccumulateRecursionChanged, testing::ValuesIn(kChanged), NameOfCase);

}  // namespace
}  // namespace rvm::passes
