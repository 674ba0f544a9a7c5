// Control, cells, limits and errors of the machine, on programs written by hand.
#include "vm/machine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "vm/limits/limit.h"
#include "vm/testing/program_builder.h"

namespace rvm::vm {
namespace {

using testing::Code;
using testing::Int;
using testing::Int64;
using testing::ProgramBuilder;

std::unique_ptr<Machine> NewMachine(std::shared_ptr<const Program> program, const MachineOptions& options = {}) {
  return *Machine::Create(std::move(program), options);
}

// Runs `main` and expects success that leaves nothing behind.
Value RunMain(Machine& machine, const std::vector<Value>& args) {
  auto result = machine.Invoke("main", args);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(machine.stats().leaked_objects, 0);
  EXPECT_EQ(machine.stats().cyclic_objects, 0);
  EXPECT_EQ(machine.stats().live_bytes, 0);
  return result.ok() ? *result : Value();
}

// main(n) = sum of 1..n by a loop of jumps.
TEST(MachineTest, LoopsByJumps) {
  ProgramBuilder b;
  TypeId i64 = b.Scalar(kInt64);
  FunctionId main = b.Declare("main", {i64}, i64);
  Code c;
  int loop = c.NewLabel(), done = c.NewLabel();
  c.LoadInt(1, 0).LoadInt(2, 0).LoadInt(3, 1);
  c.Place(loop).Branch(Opcode::kBranchLeInt, {0, 2}, done);
  c.Op(Opcode::kAddInt, {2, 2, 3}).Op(Opcode::kAddInt, {1, 1, 2}).Branch(Opcode::kJump, {}, loop);
  c.Place(done).Return(1);
  b.Define(main, {i64, i64, i64}, c);
  b.Export(main);
  auto machine = NewMachine(b.Build());
  EXPECT_EQ(RunMain(*machine, {Int64(10'000'000)}).ToString(), "50000005000000i64");
}

// sum(n, acc) = if n == 0 then acc else sum(n - 1, acc + n), a tail call.
TEST(MachineTest, TailCallsTakeNoStack) {
  ProgramBuilder b;
  TypeId i64 = b.Scalar(kInt64);
  FunctionId main = b.Declare("main", {i64, i64}, i64);
  Code c;
  int done = c.NewLabel();
  c.LoadInt(2, 0).Branch(Opcode::kBranchEqInt, {0, 2}, done);
  c.Op(Opcode::kAddInt, {1, 1, 0}).LoadInt(2, 1).Op(Opcode::kSubInt, {0, 0, 2}).TailCall(main, {0, 1});
  c.Place(done).Return(1);
  b.Define(main, {i64}, c);
  b.Export(main);
  auto machine = NewMachine(b.Build(), {.stack_limit_bytes = 4096});
  EXPECT_EQ(RunMain(*machine, {Int64(10'000'000), Int64(0)}).ToString(), "50000005000000i64");
}

// depth(n) = if n == 0 then 0 else 1 + depth(n - 1)
std::shared_ptr<const Program> DeepProgram() {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  FunctionId main = b.Declare("main", {i32}, i32);
  Code c;
  int done = c.NewLabel();
  c.LoadInt(1, 0).Branch(Opcode::kBranchEqInt, {0, 1}, done);
  c.Op(Opcode::kAddImmI32, {0, 0, -1}).Call(2, main, {0}).Op(Opcode::kAddImmI32, {2, 2, 1}).Return(2);
  c.Place(done).Return(1);
  b.Define(main, {i32, i32}, c);
  b.executable().files = {"deep.relay"};
  b.executable().functions[0].lines = {{0, 0, 3, 7}};
  b.Export(main);
  return b.Build();
}

TEST(MachineTest, RecursesAMillionDeep) {
  auto machine = NewMachine(DeepProgram());
  EXPECT_EQ(RunMain(*machine, {Int(1'000'000)}).ToString(), "1000000");
}

TEST(MachineTest, StackLimitIsAnErrorWithBacktrace) {
  auto machine = NewMachine(DeepProgram(), {.stack_limit_bytes = 1 << 20});
  auto result = machine->Invoke("main", std::vector<Value>{Int(1'000'000)});
  ASSERT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(result.status().message().find("calls are nested too deeply: the stack limit is 1 MiB\n"), 0u)
      << result.status();
  EXPECT_EQ(ReachedLimit(result.status()), Limit::kStack);
  EXPECT_NE(result.status().message().find("\n  in `main` at deep.relay:3:7\n  ... "), std::string::npos)
      << result.status();
  EXPECT_NE(result.status().message().find(" more frames of `main`"), std::string::npos);
  // The machine goes on.
  EXPECT_EQ(RunMain(*machine, {Int(10)}).ToString(), "10");
}

TEST(MachineTest, ABacktraceEndsAfterAMillionFrames) {
  auto machine = NewMachine(DeepProgram(), {.stack_limit_bytes = 256 << 20});
  absl::Status status = machine->Invoke("main", std::vector<Value>{Int(10'000'000)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "calls are nested too deeply: the stack limit is 256 MiB\n  in `main` at deep.relay:3:7\n"
            "  ... 1,048,575 more frames of `main`\n  ... and more frames, which are not counted");
}

// The body of `main` is a function of its own, with the name that people know.
TEST(MachineTest, ABacktraceHasASplitEntryOnce) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  FunctionId main = b.Declare("main", {i32}, i32), body = b.Declare("main", {i32}, i32);
  FunctionId other = b.Declare("other", {i32}, i32);
  Code c, d, e;
  b.Define(main, {i32}, c.Call(0, body, {0}).Return(0));
  b.Define(body, {i32}, d.Op(Opcode::kFatal, {0}));
  b.Define(other, {i32}, e.Call(0, body, {0}).Return(0));
  b.Export(main);
  b.Export(other);
  auto machine = NewMachine(b.Build());
  std::vector<Value> args = {Int(1)};
  EXPECT_EQ(machine->Invoke("main", args).status().message(), "no clause of this match fits the value\n  in `main`");
  EXPECT_EQ(machine->Invoke("other", args).status().message(),
            "no clause of this match fits the value\n  in `main`\n  in `other`");
}

TEST(MachineTest, FuelIsExact) {
  auto program = DeepProgram();
  auto enough = NewMachine(program, {.fuel = 10});
  EXPECT_EQ(RunMain(*enough, {Int(10)}).ToString(), "10");
  EXPECT_EQ(RunMain(*enough, {Int(10)}).ToString(), "10");
  auto result = enough->Invoke("main", std::vector<Value>{Int(11)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReachedLimit(result.status()), Limit::kFuel);
}

TEST(MachineTest, CancelStopsALoopFromAnotherThread) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  FunctionId main = b.Declare("main", {}, i32);
  Code c;
  int loop = c.NewLabel();
  c.Place(loop).Branch(Opcode::kJump, {}, loop);
  b.Define(main, {}, c);
  b.Export(main);
  auto machine = NewMachine(b.Build());
  std::atomic<bool> stopped = false;
  std::thread canceller([&] {
    while (!stopped) {
      machine->Cancel();
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(machine->Invoke("main", {}).status().code(), absl::StatusCode::kCancelled);
  stopped = true;
  canceller.join();
}

// main(n): builds the list n..1, then folds it, both by tail calls.
std::shared_ptr<const Program> ListProgram() {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  TypeId i64 = b.Scalar(kInt64);
  auto [list, cons] = b.IntList();
  FunctionId main = b.Declare("main", {i32}, i64);
  FunctionId build = b.Declare("build", {i32, list}, list);
  FunctionId sum = b.Declare("sum", {list, i64}, i64);
  {
    Code c;
    c.Op(Opcode::kLoadTag, {1, 0}).Call(2, build, {0, 1}).LoadInt(3, 0).TailCall(sum, {2, 3});
    b.Define(main, {list, list, i64}, c);
  }
  {
    Code c;
    int done = c.NewLabel();
    c.LoadInt(2, 0).Branch(Opcode::kBranchEqInt, {0, 2}, done);
    c.MakeCell(3, cons, {0, 1}).Op(Opcode::kAddImmI32, {0, 0, -1}).TailCall(build, {0, 3});
    c.Place(done).Return(1);
    b.Define(build, {i32, list}, c);
  }
  {
    Code c;
    int nil = c.NewLabel(), some = c.NewLabel();
    c.Switch(0, {nil, some});
    c.Place(some).Unpack({2, 3}, 0, cons);
    c.Op(Opcode::kCast, {4, 2, PackDataType(kInt32), PackDataType(kInt64)});
    c.Op(Opcode::kAddInt, {1, 1, 4}).TailCall(sum, {3, 1});
    c.Place(nil).Op(Opcode::kDrop, {0}).Return(1);
    b.Define(sum, {i32, list, i64}, c);
  }
  b.Export(main);
  return b.Build();
}

TEST(MachineTest, BuildsAndFoldsALongList) {
  auto machine = NewMachine(ListProgram());
  EXPECT_EQ(RunMain(*machine, {Int(5'000'000)}).ToString(), "12500002500000i64");
  EXPECT_EQ(machine->stats().peak_bytes, 5'000'000 * 24);
}

// main(l) = a list of the numbers of l plus one; keep(l) = (l, main(l)), with l shared
TEST(MachineTest, ACellIsMadeInTheMemoryOfOneThatDied) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  auto [list, cons] = b.IntList();
  TypeId shell = b.ShellOf(2);
  FunctionId main = b.Declare("main", {list}, list);
  {
    Code c;
    int nil = c.NewLabel();
    c.Branch(Opcode::kBranchTag, {0, 0}, nil).UnpackShell({1, 2}, 3, 0, cons);
    c.Op(Opcode::kAddImmI32, {1, 1, 1}).Call(2, main, {2}).MakeCellIn(0, 3, cons, {1, 2}).Return(0);
    c.Place(nil).Return(0);
    b.Define(main, {i32, list, shell}, c);
  }
  TypeId pair = b.TupleOf({list, list});
  LayoutId both = b.Layout(CellKind::kTuple, pair, {list, list});
  FunctionId keep = b.Declare("keep", {list}, pair);
  {
    Code c;
    c.Op(Opcode::kRetain, {1, 0}).Call(1, main, {1}).MakeCell(2, both, {0, 1}).Return(2);
    b.Define(keep, {list, pair}, c);
  }
  b.Export(main);
  b.Export(keep);
  auto machine = NewMachine(b.Build());
  Value nil = Value::Adt("Nil", {});
  Value ones = nil, twos = nil;
  for (int i = 0; i < 1000; ++i) {
    ones = Value::Adt("Cons", {Int(1), ones});
    twos = Value::Adt("Cons", {Int(2), twos});
  }
  // Only the argument is allocated, by the machine.
  EXPECT_EQ(DiffValues(RunMain(*machine, {ones}), twos), "");
  EXPECT_EQ(machine->stats().allocations, 1000);
  auto kept = machine->Invoke("keep", std::vector<Value>{ones});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(DiffValues(*kept, Value::Tuple({ones, twos})), "");
  EXPECT_EQ(machine->stats().allocations, 3001);
  EXPECT_EQ(machine->stats().leaked_objects, 0);
}

TEST(MachineTest, MemoryLimitIsAnError) {
  auto machine = NewMachine(ListProgram(), {.memory_limit_bytes = 1 << 20});
  auto result = machine->Invoke("main", std::vector<Value>{Int(5'000'000)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
  EXPECT_EQ(ReachedLimit(result.status()), Limit::kMemory);
  EXPECT_NE(result.status().message().find("out of memory: "), std::string::npos) << result.status();
  EXPECT_NE(result.status().message().find(" bytes were asked for, "), std::string::npos) << result.status();
  EXPECT_NE(result.status().message().find("; the memory limit is 1 MiB"), std::string::npos) << result.status();
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  EXPECT_EQ(RunMain(*machine, {Int(1000)}).ToString(), "500500i64");
}

TEST(MachineTest, EveryAllocationMayFail) {
  auto program = ListProgram();
  for (int64_t n = 1; n <= 12; ++n) {
    auto machine = NewMachine(program, {.fail_allocation = n});
    auto result = machine->Invoke("main", std::vector<Value>{Int(10)});
    EXPECT_EQ(result.ok(), n > 10) << n << " " << result.status();
    EXPECT_EQ(machine->stats().leaked_objects, 0);
    if (n <= 10) EXPECT_EQ(RunMain(*machine, {Int(10)}).ToString(), "55i64");
  }
}

TEST(MachineTest, MachinesOfOneProgramRunAtOnce) {
  auto program = ListProgram();
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i) {
    threads.emplace_back([&, i] {
      auto machine = NewMachine(program);
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(RunMain(*machine, {Int(1000 * i)}).tensor().IntAt(0), 1000 * i * (1000 * i + 1) / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MachineTest, PassesAListThroughAndDropsIt) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  auto [list, cons] = b.IntList();
  (void)cons;
  FunctionId main = b.Declare("main", {list}, list);
  Code same;
  same.Return(0);
  b.Define(main, {}, same);
  FunctionId drop = b.Declare("drop", {list}, i32);
  Code c;
  c.Op(Opcode::kDrop, {0}).LoadInt(1, 7).Return(1);
  b.Define(drop, {i32}, c);
  b.Export(main);
  b.Export(drop);
  auto machine = NewMachine(b.Build());
  Value value = Value::Adt("Nil", {});
  for (int i = 0; i < 200'000; ++i) value = Value::Adt("Cons", {Int(i), value});
  EXPECT_EQ(DiffValues(RunMain(*machine, {value}), value), "");
  auto dropped = machine->Invoke("drop", std::vector<Value>{value});
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(machine->stats().leaked_objects, 0);
}

TEST(MachineTest, ArgumentsAreChecked) {
  ProgramBuilder b;
  TypeId x = b.TensorOf(kFloat32, {4});
  FunctionId main = b.Declare("main", {x, x}, x);
  Code c;
  c.Op(Opcode::kDrop, {0}).Return(1);
  b.Define(main, {}, c);
  b.Export(main);
  b.executable().entries[0].param_names = {"w", "x"};
  auto machine = NewMachine(b.Build());
  auto result = machine->Invoke("main", std::vector<Value>{testing::Floats({1, 2, 3, 4}), testing::Floats({1, 2, 3})});
  EXPECT_EQ(result.status().message(),
            "argument 2 (`%x`) of `main`: saw Tensor[(3), float32]; expected Tensor[(4), float32]");
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  EXPECT_EQ(machine->Invoke("main", {}).status().message(), "`main` takes 2 arguments; saw 0");
  EXPECT_EQ(machine->Invoke("f", {}).status().message(), "no entry `f`; the executable has `main`");
}

TEST(MachineTest, CyclesOfReferencesEndWithTheInvoke) {
  // type Node = Nil | Node(ref(Node)): r = ref(Nil); r := Node(r)
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  TypeId node = b.NewAdt("Node");
  TypeId ref = b.RefOf(node);
  b.AddConstructor(node, "End", {});
  LayoutId some = b.AddConstructor(node, "Node", {ref});
  LayoutId cell = b.Layout(CellKind::kRef, ref, {node});
  FunctionId main = b.Declare("main", {}, i32);
  Code c;
  c.Op(Opcode::kLoadTag, {0, 0}).MakeCell(1, cell, {0}).Op(Opcode::kRetain, {2, 1}).MakeCell(3, some, {2});
  c.Op(Opcode::kRefWrite, {1, 3}).Op(Opcode::kRefRead, {3, 1}).Op(Opcode::kDrop, {3}).Op(Opcode::kDrop, {1});
  c.LoadInt(4, 1).Return(4);
  b.Define(main, {node, ref, ref, node, i32}, c);
  FunctionId leak = b.Declare("cycle", {}, ref);
  Code d;
  d.Op(Opcode::kLoadTag, {0, 0}).MakeCell(1, cell, {0}).Op(Opcode::kRetain, {2, 1}).MakeCell(3, some, {2});
  d.Op(Opcode::kRefWrite, {1, 3}).Return(1);
  b.Define(leak, {node, ref, ref, node}, d);
  b.Export(main);
  b.Export(leak);
  auto machine = NewMachine(b.Build());
  ASSERT_TRUE(machine->Invoke("main", {}).ok());
  EXPECT_EQ(machine->stats().cyclic_objects, 2);
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  EXPECT_EQ(machine->Invoke("cycle", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(machine->stats().leaked_objects, 0);
}

// main(n): n times a reference to a closure that holds the reference, dropped at once.
TEST(MachineTest, CyclesMadeInALoopTakeNoMemory) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  TypeId fn = b.ClosureOf({i32}, i32);
  TypeId ref = b.RefOf(fn);
  LayoutId cell = b.Layout(CellKind::kRef, ref, {fn});
  FunctionId plain = b.Declare("plain", {fn, i32}, i32);
  LayoutId first = b.Layout(CellKind::kClosure, fn, {}, plain);
  FunctionId knot = b.Declare("knot", {fn, i32}, i32);
  LayoutId second = b.Layout(CellKind::kClosure, fn, {ref}, knot);
  for (FunctionId function : {plain, knot}) {
    Code c;
    c.Op(Opcode::kDrop, {0}).Return(1);
    b.Define(function, {}, c);
  }
  FunctionId main = b.Declare("main", {i32}, i32);
  Code c;
  int loop = c.NewLabel(), done = c.NewLabel();
  c.LoadInt(1, 0).Place(loop).Branch(Opcode::kBranchEqInt, {0, 1}, done);
  c.MakeCell(2, first, {}).MakeCell(3, cell, {2}).Op(Opcode::kRetain, {4, 3}).MakeCell(2, second, {4});
  c.Op(Opcode::kRefWrite, {3, 2}).Op(Opcode::kDrop, {3}).Op(Opcode::kAddImmI32, {0, 0, -1});
  c.Branch(Opcode::kJump, {}, loop).Place(done).Return(1);
  b.Define(main, {i32, fn, ref, ref}, c);
  b.Export(main);
  auto machine = NewMachine(b.Build());
  ASSERT_TRUE(machine->Invoke("main", std::vector<Value>{Int(1'000'000)}).ok());
  EXPECT_EQ(machine->stats().leaked_objects, 0);
  EXPECT_EQ(machine->stats().cyclic_objects, 2'000'000);
  EXPECT_LT(machine->stats().peak_bytes, 64 << 10);
}

TEST(MachineTest, ClosuresCarryTheirValues) {
  // main(x) = (fn (y) { x + y })(10), called and tail-called
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  TypeId fn = b.ClosureOf({i32}, i32);
  FunctionId body = b.Declare("main.fn1", {fn, i32}, i32);
  LayoutId closure = b.Layout(CellKind::kClosure, fn, {i32}, body);
  Code c;
  c.Op(Opcode::kGetField, {2, 0, static_cast<int>(closure.value), 0}).Op(Opcode::kDrop, {0});
  c.Op(Opcode::kAddI32, {2, 2, 1}).Return(2);
  b.Define(body, {i32}, c);
  FunctionId main = b.Declare("main", {i32}, i32);
  Code d;
  d.MakeCell(1, closure, {0}).LoadInt(2, 10).Op(Opcode::kRetain, {3, 1}).CallClosure(2, 3, {2}).TailCallClosure(1, {2});
  b.Define(main, {fn, i32, fn}, d);
  FunctionId make = b.Declare("make", {i32}, fn);
  Code e;
  e.MakeCell(1, closure, {0}).Return(1);
  b.Define(make, {fn}, e);
  b.Export(main);
  b.Export(make);
  auto machine = NewMachine(b.Build());
  EXPECT_EQ(RunMain(*machine, {Int(1)}).ToString(), "12");
  EXPECT_EQ(machine->Invoke("make", std::vector<Value>{Int(1)})->ToString(), "<closure @main.fn1>");
  machine->Trim();
  EXPECT_EQ(machine->stats().leaked_objects, 0);
}

TEST(MachineTest, FieldsAreSharedByCount) {
  // main(l) = match l { Cons(h, t) => (t, l, l) }: get_field and unpack of shared and unique cells
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  auto [list, cons] = b.IntList();
  TypeId triple = b.TupleOf({list, list, list});
  LayoutId cell = b.Layout(CellKind::kTuple, triple, {list, list, list});
  FunctionId main = b.Declare("main", {list}, triple);
  Code c;
  c.Op(Opcode::kGetField, {1, 0, static_cast<int>(cons.value), 1});
  c.Op(Opcode::kRetain, {2, 0}).Unpack({4, 3}, 2, cons).Op(Opcode::kDrop, {3});
  c.Op(Opcode::kRetain, {2, 0}).MakeCell(5, cell, {1, 0, 2}).Unpack({1, 2, 3}, 5, cell).MakeCell(5, cell, {1, 2, 3});
  c.Return(5);
  b.Define(main, {list, list, list, i32, triple}, c);
  FunctionId bad = b.Declare("bad", {list}, i32);
  Code d;
  d.Unpack({1, 2}, 0, cons).Op(Opcode::kDrop, {2}).Return(1);
  b.Define(bad, {i32, list}, d);
  b.Export(main);
  b.Export(bad);
  auto machine = NewMachine(b.Build());
  Value one = Value::Adt("Cons", {Int(1), Value::Adt("Nil", {})});
  EXPECT_EQ(RunMain(*machine, {one}).ToString(), "(Nil, Cons(1, Nil), Cons(1, Nil))");
  EXPECT_EQ(machine->Invoke("bad", std::vector<Value>{one})->ToString(), "1");
  auto error = machine->Invoke("bad", std::vector<Value>{Value::Adt("Nil", {})});
  EXPECT_EQ(error.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rvm::vm
