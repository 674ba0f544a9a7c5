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
