// The verifier and the evaluator find the faults that are planted in small programs.
#include "kernels/loops/testing/evaluate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/loops/builder.h"
#include "kernels/loops/verify.h"
#include "kernels/schedule/block.h"

namespace rvm::loops {
namespace {

constexpr int64_t kThreads = schedule::kBlockThreads;

// A program over an input of 128 int64 and an output of as many.
class SmallProgram {
 public:
  SmallProgram()
      : x_(te::Input(0, "x", kInt64, {Dim(kThreads)})),
        y_(te::ComputeTensor("y", kInt64, {Dim(kThreads)}, [&](auto i) { return x_(i); })) {
    schedule_.computation = {"small", {x_}, {y_}};
    schedule_.buffers[y_.get()] = {.is_output = true, .output = 0};
  }

  Builder& b() { return b_; }
  Value X(Value at) {
    te::IndexVar i{1, Dim(kThreads), "i"};
    b_.Bind(i, at);
    te::ExprNode index{.kind = te::ExprKind::kIndex, .dtype = kInt64, .index = i};
    te::ExprNode read{.kind = te::ExprKind::kRead, .dtype = kInt64, .int_value = te::kReadIsSafe, .tensor = x_};
    read.operands = {te::Expr(std::make_shared<te::ExprNode>(index))};
    reads_.push_back(te::Expr(std::make_shared<te::ExprNode>(read)));
    return b_.Emit(reads_.back());
  }
  void StoreY(Value at, Value value) { b_.StoreTensor(y_, at, value); }

  absl::Status Run(const Dim& blocks = 1) {
    std::vector<int64_t> x;
    for (int64_t i = 0; i < kThreads; ++i) x.push_back(i);
    std::vector<Program> programs = {b_.Take(blocks)};
    Literal input = Literal::FromValues<int64_t>(kInt64, {kThreads}, x);
    absl::StatusOr<std::vector<Literal>> outputs = EvaluateLaunches(schedule_, programs, {}, {&input, 1});
    if (outputs.ok()) y = {(*outputs)[0].values<int64_t>().begin(), (*outputs)[0].values<int64_t>().end()};
    return outputs.status();
  }

  std::vector<int64_t> y;  // after Run

 private:
  te::Tensor x_, y_;
  schedule::Schedule schedule_;
  Builder b_{schedule_};
  std::vector<te::Expr> reads_;
};

Value Mirror(Builder& b) { return b.Minus(b.Number(kThreads - 1), b.thread()); }

// Reverses x through shared memory.
void Reverse(SmallProgram& p, bool waits) {
  Builder& b = p.b();
  BufferId shared = b.NewShared(kInt64, kThreads);
  b.Store(shared, b.thread(), p.X(b.thread()));
  if (waits) b.Barrier();
  p.StoreY(b.thread(), b.Load(kInt64, shared, Mirror(b)));
}

TEST(EvaluateTest, ThreadsExchangeValuesByABarrier) {
  SmallProgram p;
  Reverse(p, /*waits=*/true);
  ASSERT_EQ(p.Run(), absl::OkStatus());
  for (int64_t i = 0; i < kThreads; ++i) EXPECT_EQ(p.y[static_cast<size_t>(i)], kThreads - 1 - i);
}

TEST(EvaluateTest, LoopsAndConditionsAreOfThreads) {
  SmallProgram p;
  Builder& b = p.b();
  BufferId sum = b.NewPrivate(kInt64, 1);
  b.Store(sum, b.Number(0), b.Number(0));
  b.For(b.Number(0), b.thread(), b.Number(2), [&](Value at) {
    b.If(b.IsBelow(at, b.Number(100)),
         [&] { b.Store(sum, b.Number(0), b.Plus(b.Load(kInt64, sum, b.Number(0)), p.X(at))); });
  });
  p.StoreY(b.thread(), b.Load(kInt64, sum, b.Number(0)));
  ASSERT_EQ(p.Run(), absl::OkStatus());
  for (int64_t i = 0; i < kThreads; ++i) {
    int64_t expected = 0;
    for (int64_t at = 0; at < i; at += 2) expected += at < 100 ? at : 0;
    EXPECT_EQ(p.y[static_cast<size_t>(i)], expected);
  }
}

TEST(EvaluateTest, ALoopWithABarrierRunsOnce) {
  SmallProgram p;
  Builder& b = p.b();
  b.For(b.Number(7), b.Number(0), b.Number(1), [&](Value at) {
    p.StoreY(b.thread(), at);
    b.Barrier();
  });
  ASSERT_EQ(p.Run(), absl::OkStatus());
  EXPECT_EQ(p.y, std::vector<int64_t>(kThreads, 7));
}

struct Fault {
  const char* what;
  std::function<void(SmallProgram& p, Builder& b)> plant;
  const char* message;
  int64_t blocks = 1;
};

TEST(EvaluateTest, FindsFaults) {
  const Fault faults[] = {
      {"a store outside of a tensor",
       [](SmallProgram& p, Builder& b) { p.StoreY(b.Plus(b.thread(), b.Number(1)), b.thread()); },
       "thread 127 of block 0: `B0[%3] = %1`: there is no element 128 of 128"},
      {"a load outside of a tensor",
       [](SmallProgram& p, Builder& b) { p.StoreY(b.thread(), p.X(b.Minus(b.thread(), b.Number(1)))); },
       "thread 0 of block 0: `%4: int64 = B0[%3]`: there is no element -1 of 128"},
      {"two threads store to an element",
       [](SmallProgram& p, Builder& b) { p.StoreY(b.Quotient(b.thread(), b.Number(2)), b.thread()); },
       "thread 1 of block 0: `B0[%3] = %1`: thread 0 of block 0 stores to the element at the same time"},
      {"two blocks store to an element", [](SmallProgram& p, Builder& b) { p.StoreY(b.thread(), b.block()); },
       "thread 0 of block 1: `B0[%1] = %0`: thread 0 of block 0 stores to the element at the same time", 2},
      {"a load beside a store", [](SmallProgram& p, Builder&) { Reverse(p, /*waits=*/false); },
       "thread 0 of block 0: `%5: int64 = B0[%4]`: thread 127 of block 0 stores to the element at the same time"},
      {"a store beside a load",
       [](SmallProgram& p, Builder& b) {
         Reverse(p, /*waits=*/true);
         b.Store(BufferId(0), b.thread(), b.thread());
       },
       "thread 0 of block 0: `B0[%1] = %1`: another thread reads the element at the same time"},
      {"memory of a block without a value",
       [](SmallProgram& p, Builder& b) {
         p.StoreY(b.thread(), b.Load(kInt64, b.NewShared(kInt64, kThreads), b.thread()));
       },
       "thread 0 of block 0: `%2: int64 = B0[%1]`: the element has no value"},
      {"what the block before left in memory",
       [](SmallProgram& p, Builder& b) {
         BufferId shared = b.NewShared(kInt64, kThreads);
         Value is_first = b.Binary(BinaryOp::kEqual, kInt64, b.block(), b.Number(0));
         b.If(is_first, [&] { b.Store(shared, b.thread(), b.thread()); });
         b.If(b.Unary(UnaryOp::kLogicalNot, kBool, is_first),
              [&] { p.StoreY(b.thread(), b.Load(kInt64, shared, b.thread())); });
       },
       "thread 0 of block 1: `%5: int64 = B0[%1]`: the element has no value", 2},
      {"memory of a thread without a value",
       [](SmallProgram& p, Builder& b) {
         BufferId own = b.NewPrivate(kInt64, 2);
         b.Store(own, b.Number(0), b.thread());
         p.StoreY(b.thread(), b.Load(kInt64, own, b.Number(1)));
       },
       "the element has no value"},
      {"a loop without steps",
       [](SmallProgram& p, Builder& b) {
         b.For(b.Number(0), b.Number(4), b.thread(), [&](Value at) { p.StoreY(b.thread(), at); });
       },
       "thread 0 of block 0: `for %4 from %2 below %3 by %1`: the loop makes no step"},
      {"an output without a value",
       [](SmallProgram& p, Builder& b) {
         b.If(b.IsBelow(b.thread(), b.Number(100)), [&] { p.StoreY(b.thread(), b.thread()); });
       },
       "byte 800 of output 0 has no value"},
      {"a barrier for some threads",
       [](SmallProgram&, Builder& b) { b.If(b.IsBelow(b.thread(), b.Number(100)), [&] { b.Barrier(); }); },
       "`barrier`: it is not certain that all threads of the block come here"},
      {"a barrier by a condition that is the same for all threads",
       [](SmallProgram&, Builder& b) { b.If(b.IsBelow(b.block(), b.Number(1)), [&] { b.Barrier(); }); },
       "`barrier`: it is not certain that all threads of the block come here"},
      {"a barrier in a loop of threads",
       [](SmallProgram&, Builder& b) { b.For(b.Number(0), b.thread(), b.Number(1), [&](Value) { b.Barrier(); }); },
       "`barrier`: it is not certain that all threads of the block come here"},
      {"a barrier by a condition in memory",
       [](SmallProgram&, Builder& b) {
         BufferId shared = b.NewShared(kInt64, kThreads);
         b.Store(shared, b.thread(), b.thread());
         Value mine = b.Load(kInt64, shared, b.Number(0));
         b.If(b.IsBelow(mine, b.Number(100)), [&] { b.Barrier(); });
       },
       "`barrier`: it is not certain that all threads of the block come here"},
      {"a value of another body",
       [](SmallProgram& p, Builder& b) {
         Value inside;
         b.If(b.IsBelow(b.thread(), b.Number(100)), [&] { inside = b.Plus(b.thread(), b.block()); });
         p.StoreY(b.thread(), inside);
       },
       "`B0[%1] = %4`: an operand is not defined here"},
      {"operands of two dtypes",
       [](SmallProgram& p, Builder& b) { p.StoreY(b.thread(), b.Plus(b.thread(), b.IsBelow(b.thread(), b.block()))); },
       "`%3: int64 = %1 + %2`: it has two operands of one dtype"},
      {"a condition that is none", [](SmallProgram&, Builder& b) { b.If(b.thread(), [] {}); },
       "`if %1`: a condition is a bool"},
      {"too much shared memory", [](SmallProgram&, Builder& b) { b.NewShared(kFloat64, 5000); },
       "a block shares 40000 bytes; there are 32768"},
  };
  for (const Fault& fault : faults) {
    SmallProgram p;
    fault.plant(p, p.b());
    absl::Status status = p.Run(fault.blocks);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << fault.what;
    EXPECT_NE(std::string(status.message()).find(fault.message), std::string::npos) << fault.what << ": " << status;
  }
}

TEST(VerifyTest, AnInputIsOnlyRead) {
  Program program;
  program.buffers = {{.kind = BufferKind::kInput, .dtype = kInt64, .elements = 4}};
  program.values = {kInt64};
  program.blocks = 1;
  program.body = {{.op = Op::kConstant, .result = Value(0)},
                  {.op = Op::kStore, .a = Value(0), .b = Value(0), .buffer = BufferId(0)}};
  EXPECT_EQ(Verify(program), absl::InternalError("`B0[%0] = %0`: an input is only read"));
  program.body[1] = program.body[0];
  EXPECT_EQ(Verify(program), absl::InternalError("`%0: int64 = 0`: the value is defined once"));
}

TEST(ProgramTest, Text) {
  SmallProgram p;
  Builder& b = p.b();
  b.For(
      b.Number(0), b.Number(4), b.Number(1),
      [&](Value at) { b.If(b.IsBelow(at, b.thread()), [&] { p.StoreY(b.thread(), at); }); }, /*is_unrolled=*/true);
  b.NewShared(kFloat16, 8);
  EXPECT_EQ(ToString(b.Take(Dim::Var(0, "n"))), R"(blocks n
B0: int64[128] output 0
B1: float32[8] shared
%0: int64 = block
%1: int64 = thread
%2: int64 = 0
%3: int64 = 4
%4: int64 = 1
for %5 from %2 below %3 by %4, unrolled
  %6: bool = %5 < %1
  if %6
    B0[%1] = %5
)");
}

}  // namespace
}  // namespace rvm::loops
