#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// Programs that stay as they are.
constexpr KeptProgram kKept[] = {
    {"OneCallOnEachPath", R"(
def @f(%n: int32) -> int32 { if (%n < 3) { 0 - @f(%n + 1) } else { if (%n < 9) { 1 - @f(%n + 2) } else { %n } } }
def @main(%n: int32) { @f(%n) }
)"},
    {"TailCallsOnly", R"(
def @f(%n: int32) -> int32 { if (%n < 3) { @f(%n + 1) } else { if (%n < 9) { @f(%n + 2) } else { %n } } }
def @main(%n: int32) { @f(%n) }
)"},
    {"Kernels", R"(
def @f(%n: int32, %x: Tensor[(3), int32]) -> int32 {
  if (%n == 0) { sum(%x) } else { @f(%n - 1, %x) - @f(%n - 2, %x) }
}
def @main(%n: int32, %x: Tensor[(3), int32]) { @f(%n, %x) }
)"},
    // No call of @f ends at once: %m is not 0 in the inner one.
    {"CallsThatGoOn", R"(
def @f(%m: int32, %n: int32) -> int32 {
  if (%m == 0) { %n + 1 } else { if (%n == 0) { @f(%m - 1, 1) } else { @f(%m - 1, @f(%m, %n - 1)) } }
}
def @main(%m: int32, %n: int32) { @f(%m, %n) }
)"},
    {"CallsThatGoOnAfterAMatch", R"(
def @f(%t: Option[int32], %n: int32) -> int32 {
  match (%t) { None => %n, Some(%m) => if (%n == 0) { @f(None, %m) } else { @f(None, @f(%t, %n - 1)) } }
}
def @main(%t: Option[int32], %n: int32) { @f(%t, %n) }
)"},
    {"ThreeCalls", R"(
def @f(%n: int32) -> int32 { if (%n == 0) { 1 } else { @f(%n - 1) - @f(%n - 2) - @f(%n - 3) } }
def @main(%n: int32) { @f(%n) }
)"},
};

class UnrollRecursionKept : public KeptTest {};

TEST_P(UnrollRecursionKept, Is) { Check("unroll_recursion", "accumulate_recursion"); }

INSTANTIATE_TEST_SUITE_P(Programs, UnrollRecursionKept, testing::ValuesIn(kKept), NameOfCase);

}  // namespace
}  // namespace rvm::passes
