#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr PassCase kCases[] = {
    {"LoopState", "unbox_tuples", 1,
     R"(
def @loop(%n: int32, %s: (int32, int32)) -> int32 {
  if (%n == 0) { %s.0 } else { @loop(%n - 1, (%s.1, %s.0 + 1)) }
}
def @main(%n: int32) { @loop(%n, (0, 1)) }
)",
     R"(def @main(%n: int32) {
  @loop(%n, 0, 1)
}

def @loop(%n_1: int32, %s_0: int32, %s_1: int32) -> int32 {
  if (%n_1 == 0) {
    %s_0
  } else {
    @loop(%n_1 - 1, %s_1, %s_0 + 1)
  }
}
)"},
    {"NestedAndEmptyTuplesInPatterns", "unbox_tuples", 1,
     R"(
def @loop(%n: int32, %s: ((int32, ()), int32)) -> int32 {
  match (%s) { ((%a, _), %b) => if (%n == 0) { %a } else { @loop(%n - 1, ((%b, ()), %a)) } }
}
def @main(%n: int32) { @loop(%n, ((0, ()), 1)) }
)",
     R"(def @main(%n: int32) {
  @loop(%n, 0, 1)
}

def @loop(%n_1: int32, %s_0_0: int32, %s_1: int32) -> int32 {
  if (%n_1 == 0) {
    %s_0_0
  } else {
    @loop(%n_1 - 1, %s_1, %s_0_0)
  }
}
)"},
    {"TuplesAreComputedAfterWhatStandsBefore", "unbox_tuples", 1,
     R"(
def @pair(%n: int32) -> (int32, int32) { if (%n == 0) { (0, 1) } else { @pair(%n - 1) } }
def @loop(%n: int32, %s: (int32, int32), %t: (int32, int32)) -> int32 {
  if (%n == 0) { %s.0 + %t.1 } else { @loop(@loop(%n - 1, %t, %s), @pair(%n), (@loop(0, %t, %s), %n)) }
}
def @main(%n: int32, %s: (int32, int32)) { @loop(%n, %s, %s) }
)",
     R"(def @main(%n: int32, %s: (int32, int32)) {
  @loop(%n, %s.0, %s.1, %s.0, %s.1)
}

def @loop(%n_1: int32, %s_0: int32, %s_1: int32, %t_0: int32, %t_1: int32) -> int32 {
  if (%n_1 == 0) {
    %s_0 + %t_1
  } else {
    let %t = @loop(%n_1 - 1, %t_0, %t_1, %s_0, %s_1);
    let %t_2 = @pair(%n_1);
    let %t_3 = %t_2.0;
    let %t_4 = %t_2.1;
    let %t_5 = @loop(0, %t_0, %t_1, %s_0, %s_1);
    @loop(%t, %t_3, %t_4, %t_5, %n_1)
  }
}

def @pair(%n_2: int32) -> (int32, int32) {
  if (%n_2 == 0) {
    (0, 1)
  } else {
    @pair(%n_2 - 1)
  }
}
)"},
    {"NotWhatIsWantedWhole", "unbox_tuples", 1,
     R"(
def @keep(%n: int32, %s: (int32, int32), %t: (int32, int32)) -> ((int32, int32), int32) {
  if (%n == 0) { (%s, %t.0) } else { @pass(%n - 1, %s, %t) }
}
def @pass(%n: int32, %s: (int32, int32), %t: (int32, int32)) -> ((int32, int32), int32) {
  if (%s.0 == 0) { (%s, %t.1) } else { @keep(%n, %s, %t) }
}
def @main(%n: int32) { @keep(%n, (1, 2), (3, 4)) }
)",
     R"(def @main(%n: int32) {
  @keep(%n, 1, 2, 3, 4)
}

def @keep(%n_1: int32, %s_0: int32, %s_1: int32, %t_0: int32, %t_1: int32) -> ((int32, int32), int32) {
  if (%n_1 == 0) {
    ((%s_0, %s_1), %t_0)
  } else {
    @pass(%n_1 - 1, %s_0, %s_1, %t_0, %t_1)
  }
}

def @pass(%n_2: int32, %s_0_1: int32, %s_1_1: int32, %t_0_1: int32, %t_1_1: int32) -> ((int32, int32), int32) {
  if (%s_0_1 == 0) {
    ((%s_0_1, %s_1_1), %t_1_1)
  } else {
    @keep(%n_2, %s_0_1, %s_1_1, %t_0_1, %t_1_1)
  }
}
)"},
    {"NotWhatNobodyTakesApart", "unbox_tuples", 1,
     R"(
def @f(%n: int32, %s: (int32, int32)) -> int32 { if (%n == 0) { 1 } else { @f(%n - 1, %s) } }
def @main(%n: int32, %s: (int32, int32)) { @f(%n, %s) }
)",
     R"(def @main(%n: int32, %s: (int32, int32)) {
  @f(%n, %s)
}

def @f(%n_1: int32, %s_1: (int32, int32)) -> int32 {
  if (%n_1 == 0) {
    1
  } else {
    @f(%n_1 - 1, %s_1)
  }
}
)"},
    {"NotTensorsOfNamedExtents", "unbox_tuples", 1,
     R"(
def @f[n: ShapeVar](%i: int32, %s: (Tensor[(n), float32], int32)) -> int32 {
  if (%i == 0) { %s.1 } else { @f(%i - 1, (%s.0, %s.1 + 1)) }
}
def @main[n: ShapeVar](%i: int32, %x: Tensor[(n), float32]) { @f(%i, (%x, 0)) }
)",
     R"(def @main[n: ShapeVar](%i: int32, %x: Tensor[(n), float32]) {
  @f(%i, (%x, 0))
}

def @f[n: ShapeVar](%i_1: int32, %s: (Tensor[(n), float32], int32)) -> int32 {
  if (%i_1 == 0) {
    %s.1
  } else {
    @f(%i_1 - 1, (%s.0, %s.1 + 1))
  }
}
)"},
    {"NotTooMany", "unbox_tuples", 1,
     R"(
def @f(%n: int32, %s: (int32, int32, int32, int32, int32, int32, int32, int32, int32, int32), %t: (int32, int32, int32, int32, int32, int32, int32)) -> int32 {
  if (%n == 0) { %s.9 + %t.6 } else { @f(%n - 1, %s, %t) }
}
def @main(%n: int32, %s: (int32, int32, int32, int32, int32, int32, int32, int32, int32, int32), %t: (int32, int32, int32, int32, int32, int32, int32)) { @f(%n, %s, %t) }
)",
     R"(def @main(
    %n: int32,
    %s: (int32, int32, int32, int32, int32, int32, int32, int32, int32, int32),
    %t: (int32, int32, int32, int32, int32, int32, int32)
) {
  @f(%n, %s.0, %s.1, %s.2, %s.3, %s.4, %s.5, %s.6, %s.7, %s.8, %s.9, %t)
}

def @f(
    %n_1: int32,
    %s_0: int32,
    %s_1: int32,
    %s_2: int32,
    %s_3: int32,
    %s_4: int32,
    %s_5: int32,
    %s_6: int32,
    %s_7: int32,
    %s_8: int32,
    %s_9: int32,
    %t_1: (int32, int32, int32, int32, int32, int32, int32)
) -> int32 {
  if (%n_1 == 0) {
    %s_9 + %t_1.6
  } else {
    @f(%n_1 - 1, %s_0, %s_1, %s_2, %s_3, %s_4, %s_5, %s_6, %s_7, %s_8, %s_9, %t_1)
  }
}
)"},
    {"EntriesKeepTheirParameters", "unbox_tuples", 1,
     R"(
def @main(%s: (int32, int32)) -> int32 { if (%s.0 == 0) { %s.1 } else { @main((%s.0 - 1, %s.1)) } }
)",
     R"(def @main(%s: (int32, int32)) -> int32 {
  @main.worker(%s.0, %s.1)
}

def @main.worker(%s_0: int32, %s_1: int32) -> int32 {
  if (%s_0 == 0) {
    %s_1
  } else {
    @main.worker(%s_0 - 1, %s_1)
  }
}
)"},
    {"StateThatIsGivenByALoop", "unbox_tuples", 1,
     R"(
def @main(%n: int32, %s: (int32, (int32, int32))) -> (int32, (int32, int32)) {
  if (%n == 0) { %s } else { @main(%n - 1, (%s.1.1, (%s.0, %s.1.0))) }
}
)",
     R"(def @main(%n: int32, %s: (int32, (int32, int32))) -> (int32, (int32, int32)) {
  let %t = %s.0;
  let %t_1 = %s.1;
  @main.worker(%n, %t, %t_1.0, %t_1.1)
}

def @main.worker(%n_1: int32, %s_0: int32, %s_1_0: int32, %s_1_1: int32) -> (int32, (int32, int32)) {
  if (%n_1 == 0) {
    (%s_0, (%s_1_0, %s_1_1))
  } else {
    @main.worker(%n_1 - 1, %s_1_1, %s_0, %s_1_0)
  }
}
)"},
    {"OperatorsOnTuples", "unbox_tuples", 1,
     R"(
def @f(%n: int32, %s: (Tensor[(1), int32], Tensor[(2), int32])) -> Tensor[(3), int32] {
  if (%n == 0) { concatenate(%s) } else { @f(%n - 1, (%s.0, %s.1)) }
}
def @main(%n: int32, %s: (Tensor[(1), int32], Tensor[(2), int32])) { @f(%n, %s) }
)",
     R"(def @main(%n: int32, %s: (Tensor[(1), int32], Tensor[(2), int32])) {
  @f(%n, %s.0, %s.1)
}

def @f(%n_1: int32, %s_0: Tensor[(1), int32], %s_1: Tensor[(2), int32]) -> Tensor[(3), int32] {
  if (%n_1 == 0) {
    concatenate((%s_0, %s_1), axis=0)
  } else {
    @f(%n_1 - 1, %s_0, %s_1)
  }
}
)"},
    {"RecordsThatCallsWrite", "unbox_tuples", 1,
     R"(
type State { State(int32, List[int32]), }
def @total(%s: State) -> int32 {
  match (%s) { State(%sum, Nil) => %sum, State(%sum, Cons(%x, %rest)) => @total(State(%sum + %x, %rest)) }
}
def @loop(%n: int32, %s: State) -> State {
  if (%n == 0) { %s } else { match (%s) { State(%a, %xs) => @loop(%n - 1, State(%a + %n, Cons(%n, %xs))) } }
}
def @main(%n: int32) { @total(@loop(%n, State(0, Nil))) }
)",
     R"(def @main(%n: int32) {
  let %t = @loop(%n, 0, Nil);
  match (%t) {
    State(%t_1, %t_2) => @total(%t_1, %t_2),
  }
}

def @total(%s_0: int32, %s_1: List[int32]) -> int32 {
  match ((%s_0, %s_1)) {
    (%sum, Nil) => %sum,
    (%sum_1, Cons(%x, %rest)) => @total(%sum_1 + %x, %rest),
  }
}

def @loop(%n_1: int32, %s_0_1: int32, %s_1_1: List[int32]) -> State {
  if (%n_1 == 0) {
    State(%s_0_1, %s_1_1)
  } else {
    @loop(%n_1 - 1, %s_0_1 + %n_1, Cons(%n_1, %s_1_1))
  }
}
)"},
    {"RecordsAreOpenedBeforeTheCall", "unbox_tuples", 1,
     R"(
type State[A] { State(A, A), }
def @loop(%n: int32, %s: State[int32]) -> (int32, int32) {
  match (%s) { State(%a, %b) => if (%n == 0) { (%a, %b) } else { @loop(%n - 1, State(%b, %a + 1)) } }
}
def @main(%n: int32, %s: State[int32]) { let %r = @loop(%n, %s); %r.0 + %r.1 }
)",
     R"(def @main(%n: int32, %s: State[int32]) {
  match (%s) {
    State(%t, %t_1) => {
      let %t_2 = @loop(%n, %t, %t_1);
      let %t_3 = %t_2.0;
      let %t_4 = %t_2.1;
      %t_3 + %t_4
    },
  }
}

def @loop(%n_1: int32, %s_0: int32, %s_1: int32) -> (int32, int32) {
  if (%n_1 == 0) {
    (%s_0, %s_1)
  } else {
    @loop(%n_1 - 1, %s_1, %s_0 + 1)
  }
}
)"},
    {"NotRecordsThatNoCallWrites", "unbox_tuples", 1,
     R"(
type Rose { Rose(int32, List[Rose]), }
def @size(%t: Rose) -> int32 { match (%t) { Rose(%n, %children) => @sizes(%children, %n) } }
def @sizes(%ts: List[Rose], %sum: int32) -> int32 {
  match (%ts) { Nil => %sum, Cons(%t, %rest) => @sizes(%rest, %sum + @size(%t)) }
}
def @main(%t: Rose) { @size(%t) }
)",
     R"(def @main(%t: Rose) {
  @size(%t)
}

def @size(%t_1: Rose) -> int32 {
  match (%t_1) {
    Rose(%n, %children) => @sizes(%children, %n),
  }
}

def @sizes(%ts: List[Rose], %sum: int32) -> int32 {
  match (%ts) {
    Nil => %sum,
    Cons(%t_2, %rest) => @sizes(%rest, %sum + @size(%t_2)),
  }
}
)"},
    {"NotTypesOfTwoConstructors", "unbox_tuples", 1,
     R"(
type Shape { Square(int32), Disc(int32), }
def @loop(%n: int32, %s: Shape) -> int32 {
  match (%s) { Square(%a) => if (%n == 0) { %a } else { @loop(%n - 1, Disc(%a)) }, Disc(%b) => @loop(%n - 1, Square(%b)) }
}
def @main(%n: int32) { @loop(%n, Square(2)) }
)",
     R"(def @main(%n: int32) {
  @loop(%n, Square(2))
}

def @loop(%n_1: int32, %s: Shape) -> int32 {
  match (%s) {
    Square(%a) => if (%n_1 == 0) {
      %a
    } else {
      @loop(%n_1 - 1, Disc(%a))
    },
    Disc(%b) => @loop(%n_1 - 1, Square(%b)),
  }
}
)"},
};

using FlattenParamsTest = PassTest;

TEST_P(FlattenParamsTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, FlattenParamsTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
