#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr PassCase kCases[] = {
    {"ResultTakenApart", "unbox_tuples", 1,
     R"(
def @divmod(%a: int32, %b: int32) -> (int32, int32) {
  if (%a < %b) { (0, %a) } else { match (@divmod(%a - %b, %b)) { (%q, %r) => (%q + 1, %r) } }
}
def @main(%a: int32) { @divmod(%a, 7).1 }
)",
     R"(def @main(%a: int32) {
  let %t = @divmod(%a, 7);
  let %t_1 = %t.1;
  %t_1
}

def @divmod(%a_1: int32, %b: int32) -> (int32, int32) {
  if (%a_1 < %b) {
    (0, %a_1)
  } else {
    let %t_2 = @divmod(%a_1 - %b, %b);
    let %t_3 = %t_2.0;
    let %t_4 = %t_2.1;
    (%t_3 + 1, %t_4)
  }
}
)"},
    {"TailCallsStayTailCalls", "unbox_tuples", 1,
     R"(
def @even(%n: int32) -> (int32, int32) { if (%n == 0) { (1, 0) } else { @odd(%n - 1) } }
def @odd(%n: int32) -> (int32, int32) { if (%n == 0) { (0, 1) } else { let %p = @even(%n - 1); %p } }
def @main(%n: int32) { let %p = @even(%n); %p.0 - %p.1 }
)",
     R"(def @main(%n: int32) {
  let %t = @even(%n);
  let %t_1 = %t.0;
  let %t_2 = %t.1;
  %t_1 - %t_2
}

def @even(%n_1: int32) -> (int32, int32) {
  if (%n_1 == 0) {
    (1, 0)
  } else {
    @odd(%n_1 - 1)
  }
}

def @odd(%n_2: int32) -> (int32, int32) {
  if (%n_2 == 0) {
    (0, 1)
  } else {
    let %p = @even(%n_2 - 1);
    %p
  }
}
)"},
    {"WantedWholeToo", "unbox_tuples", 1,
     R"(
def @f(%n: int32) -> (int32, int32) { if (%n == 0) { (1, 2) } else { let %p = @f(%n - 1); (%p.1, %p.0) } }
def @main(%n: int32) { let %p = @f(%n); (%p, %p.0) }
)",
     R"(def @main(%n: int32) {
  let %t = @f(%n);
  let %t_1 = %t.0;
  let %t_2 = %t.1;
  let %p = (%t_1, %t_2);
  (%p, %t_1)
}

def @f(%n_1: int32) -> (int32, int32) {
  if (%n_1 == 0) {
    (1, 2)
  } else {
    let %t_3 = @f(%n_1 - 1);
    let %t_4 = %t_3.0;
    let %t_5 = %t_3.1;
    (%t_5, %t_4)
  }
}
)"},
    {"NotWhatIsNeverTakenApart", "unbox_tuples", 1,
     R"(
def @f(%n: int32) -> (int32, int32) { if (%n == 0) { (1, 2) } else { @f(%n - 1) } }
def @main(%n: int32) { let %p = @f(%n); (%p, %p) }
)",
     R"(def @main(%n: int32) {
  let %p = @f(%n);
  (%p, %p)
}

def @f(%n_1: int32) -> (int32, int32) {
  if (%n_1 == 0) {
    (1, 2)
  } else {
    @f(%n_1 - 1)
  }
}
)"},
    {"NotResultsOfFunctionValues", "unbox_tuples", 1,
     R"(
type Box { Box(fn (int32) -> (int32, int32)), }
def @f(%n: int32, %box: Box) -> (int32, int32) {
  if (%n == 0) { match (%box) { Box(%g) => %g(%n) } } else { @f(%n - 1, %box) }
}
def @main(%n: int32, %box: Box) { @f(%n, %box).0 }
)",
     R"(def @main(%n: int32, %box: Box) {
  (@f(%n, %box)).0
}

def @f(%n_1: int32, %box_1: Box) -> (int32, int32) {
  if (%n_1 == 0) {
    match (%box_1) {
      Box(%g) => %g(%n_1),
    }
  } else {
    @f(%n_1 - 1, %box_1)
  }
}
)"},
    {"EntriesGiveTuples", "unbox_tuples", 1,
     R"(
def @main(%n: int32) -> (int32, int32) { if (%n == 0) { (0, 1) } else { let %p = @main(%n - 1); (%p.1, %p.0 + %p.1) } }
)",
     R"(def @main(%n: int32) -> (int32, int32) {
  let %t = @main.worker(%n);
  let %t_1 = %t.0;
  let %t_2 = %t.1;
  (%t_1, %t_2)
}

def @main.worker(%n_1: int32) -> (int32, int32) {
  if (%n_1 == 0) {
    (0, 1)
  } else {
    let %t_3 = @main.worker(%n_1 - 1);
    let %t_4 = %t_3.0;
    let %t_5 = %t_3.1;
    (%t_5, %t_4 + %t_5)
  }
}
)"},
    {"NamesEvenWhatIsCalledInPlace", "unbox_tuples", 1,
     R"(
def @f(%n: int32) -> (Tensor[(1), int32], Tensor[(1), int32]) {
  if (%n == 0) { (Constant([1], (1), int32), Constant([2], (1), int32)) } else { let %p = @f(%n - 1); (%p.1, %p.0) }
}
def @main(%n: int32) { concatenate(@f(%n)) }
)",
     R"(def @main(%n: int32) {
  concatenate(({
    let %t = @f(%n);
    let %t_1 = %t.0;
    let %t_2 = %t.1;
    (%t_1, %t_2)
  }), axis=0)
}

def @f(%n_1: int32) -> (Tensor[(1), int32], Tensor[(1), int32]) {
  if (%n_1 == 0) {
    (Constant([1], (1), int32), Constant([2], (1), int32))
  } else {
    let %t_3 = @f(%n_1 - 1);
    let %t_4 = %t_3.0;
    let %t_5 = %t_3.1;
    (%t_5, %t_4)
  }
}
)"},
};

using ReturnFieldsTest = PassTest;

TEST_P(ReturnFieldsTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, ReturnFieldsTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
