// Tensors, kernel calls, views and scalars of the machine.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "vm/machine.h"
#include "vm/testing/program_builder.h"

namespace rvm::vm {
namespace {

using testing::Code;
using testing::Floats;
using testing::Int;
using testing::ProgramBuilder;

Value RunMain(Machine& machine, const std::vector<Value>& args) {
  auto result = machine.Invoke("main", args);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(machine.stats().leaked_objects, 0);
  EXPECT_EQ(machine.stats().live_bytes, 0);
  EXPECT_EQ(machine.stats().cyclic_objects, 0);
  return result.ok() ? *result : Value();
}

// out = a + b, `count` elements.
int32_t AddFloats(void* const* buffers, int64_t count) {
  auto* a = static_cast<const float*>(buffers[0]);
  auto* b = static_cast<const float*>(buffers[1]);
  auto* out = static_cast<float*>(buffers[2]);
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  return kRvmOk;
}
int32_t AddFour(void* const* buffers, const int64_t*, RvmKernelContext*) { return AddFloats(buffers, 4); }
int32_t AddDynamic(void* const* buffers, const int64_t* dims, RvmKernelContext* context) {
  std::memset(context->workspace, 1, static_cast<size_t>(8 * dims[0]));
  return AddFloats(buffers, dims[0]);
}
// Adds to the first element only.
int32_t AddToFirst(void* const* buffers, const int64_t*, RvmKernelContext*) {
  *static_cast<float*>(buffers[2]) += *static_cast<const float*>(buffers[1]);
  return kRvmOk;
}
// Returns the scalar int32 difference of two scalars, and 1 if it is negative: checks the extension in registers.
int32_t Subtract(void* const* buffers, const int64_t*, RvmKernelContext*) {
  *static_cast<int32_t*>(buffers[2]) = *static_cast<int32_t*>(buffers[0]) - *static_cast<int32_t*>(buffers[1]);
  return kRvmOk;
}
int32_t OutOfRange(void* const*, const int64_t*, RvmKernelContext*) { return kRvmIndexOutOfRange; }

KernelDesc Desc(std::string name, std::vector<KernelTensor> params, std::vector<KernelTensor> results) {
  KernelDesc desc;
  desc.name = name;
  desc.symbol = name;
  desc.params = std::move(params);
  desc.results = std::move(results);
  return desc;
}

TEST(TensorTest, StaticAndPlannedKernelCalls) {
  ProgramBuilder b;
  TypeId x = b.TensorOf(kFloat32, {4});
  TypeId i32 = b.Scalar(kInt32);
  KernelTensor four = {kFloat32, {4}};
  b.executable().kernels.push_back(Desc("add", {four, four}, {four}));
  b.executable().kernels.push_back(Desc("sub", {{kInt32, {}}, {kInt32, {}}}, {{kInt32, {}}}));
  float ones[] = {1, 1, 1, 1};
  b.executable().constants.push_back(Literal::FromValues<float>(kFloat32, {4}, ones));
  TypeId pair = b.TupleOf({x, i32});
  LayoutId cell = b.Layout(CellKind::kTuple, pair, {x, i32});
  FunctionId main = b.Declare("main", {x, i32}, pair);
  Code c;
  c.CallKernelPlanned({2}, {64}, 0, {0, kConstantArg});  // planned: x + 1
  c.CallKernel({3}, 0, {2, 2}).Op(Opcode::kDrop, {0});   // new: 2 (x + 1)
  c.LoadInt(4, 5).CallKernel({4}, 1, {1, 4});            // i - 5, in place
  c.MakeCell(5, cell, {3, 4}).Return(5);
  b.Define(main, {x, x, i32, pair}, c, 192, {2});
  FunctionId again = b.Declare("again", {x, i32}, pair);
  Code d;  // leaves its window before the tail call
  d.CallKernelPlanned({2}, {0}, 0, {0, 0}).TailCall(main, {0, 1});
  b.Define(again, {x}, d, 128, {2});
  b.Export(main);
  b.Export(again);
  auto machine = *Machine::Create(b.Build({AddFour, Subtract}), {});
  EXPECT_EQ(RunMain(*machine, {Floats({1, 2, 3, 4}), Int(3)}).ToString(), "([4f, 6f, 8f, 10f], -2)");
  EXPECT_EQ(machine->Invoke("again", std::vector<Value>{Floats({1, 2, 3, 4}), Int(3)})->ToString(),
            "([4f, 6f, 8f, 10f], -2)");
}

// x + 1 three times: `shared` keeps the first sum, so the second must leave it alone.
void CheckMemoryIsTaken(bool shared, const Dim& n, const Dim& workspace) {
  ProgramBuilder b;
  TypeId x = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
  KernelDesc add = Desc("add", {{kFloat32, {n}}, {kFloat32, {n}}}, {{kFloat32, {n}}});
  add.num_symbols = 1;
  add.workspace = workspace;
  add.reuses = {{0, 0}};
  b.executable().kernels.push_back(add);
  TypeId pair = b.TupleOf({x, x});
  LayoutId cell = b.Layout(CellKind::kTuple, pair, {x, x});
  FunctionId main = b.Declare("main", {x, x}, pair);
  Code c;
  auto call = [&](int dst, int a) { c.CallKernel({dst}, 0, {kMovedArg | a, 1}, Opcode::kCallKernelDynamic); };
  call(2, 0);  // the caller's memory is not taken
  if (shared) {
    c.Op(Opcode::kRetain, {3, 2});
  } else {
    c.CallKernel({3}, 0, {1, 1}, Opcode::kCallKernelDynamic);
  }
  call(4, 2);
  call(4, 4);
  c.Op(Opcode::kDrop, {1}).MakeCell(5, cell, {3, 4}).Return(5);
  b.Define(main, {x, x, x, pair}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build({AddDynamic}), {});
  EXPECT_EQ(RunMain(*machine, {Floats({1, 2}), Floats({1, 1})}).ToString(),
            shared ? "([2f, 3f], [4f, 5f])" : "([2f, 2f], [4f, 5f])");
  // Two arguments, two tensors, a tuple, the workspace.
  EXPECT_EQ(machine->stats().allocations, 6) << shared;
  EXPECT_EQ(machine->stats().live_bytes, 0);
}

TEST(TensorTest, AResultTakesTheMemoryOfAnArgumentNobodyElseHas) {
  Dim n = Dim::Var(0, "n");
  for (bool shared : {false, true}) {
    CheckMemoryIsTaken(shared, n, n * Dim(8));
    CheckMemoryIsTaken(shared, n, Dim(64));
  }
}

// Updates x three times; `shared` keeps what the first gave, so the second must work on a copy.
void CheckUpdates(bool shared, const Dim& n) {
  ProgramBuilder b;
  bool is_static = n.is_const();
  TypeId x = b.TensorOf(kFloat32, {is_static ? n.constant() : TypeDesc::kUnknownDim});
  KernelDesc add = Desc("add", {{kFloat32, {n}}, {kFloat32, {n}}}, {{kFloat32, {n}}});
  add.num_symbols = is_static ? 0 : 1;
  add.updates = {{0, 0}};
  b.executable().kernels.push_back(add);
  TypeId pair = b.TupleOf({x, x});
  LayoutId cell = b.Layout(CellKind::kTuple, pair, {x, x});
  FunctionId main = b.Declare("main", {x, x}, pair);
  Code c;
  auto call = [&](int dst, int a) {
    c.CallKernel({dst}, 0, {kMovedArg | a, 1}, is_static ? Opcode::kCallKernel : Opcode::kCallKernelDynamic);
  };
  call(2, 0);  // the caller's memory is copied
  if (shared) {
    c.Op(Opcode::kRetain, {3, 2});
  } else {
    c.Op(Opcode::kRetain, {3, 1});
  }
  call(4, 2);
  call(4, 4);
  c.Op(Opcode::kDrop, {1}).MakeCell(5, cell, {3, 4}).Return(5);
  b.Define(main, {x, x, x, pair}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build({AddToFirst}), {});
  Value argument = Floats({1, 2});
  EXPECT_EQ(RunMain(*machine, {argument, Floats({1, 5})}).ToString(),
            shared ? "([2f, 2f], [4f, 2f])" : "([1f, 5f], [4f, 2f])");
  EXPECT_EQ(argument.ToString(), "[1f, 2f]");
  // Two arguments, a tensor and perhaps its copy, a tuple.
  EXPECT_EQ(machine->stats().allocations, shared ? 5 : 4);
}

TEST(TensorTest, AResultBeginsAsACopyOfAnArgumentThatOthersHave) {
  for (bool shared : {false, true}) {
    CheckUpdates(shared, Dim(2));
    CheckUpdates(shared, Dim::Var(0, "n"));
  }
}

// Writes the element behind those of the first argument.
int32_t AppendOne(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  static_cast<float*>(buffers[2])[dims[0]] = *static_cast<const float*>(buffers[1]);
  return kRvmOk;
}

// Adds the kernel. Returns the type of its first argument and its result.
TypeId AddAppend(ProgramBuilder& b) {
  Dim n = Dim::Var(0, "n");
  KernelDesc append = Desc("append", {{kFloat32, {n}}, {kFloat32, {1}}}, {{kFloat32, {n + Dim(1)}}});
  append.num_symbols = 1;
  append.updates = {{0, 0}};
  b.executable().kernels.push_back(append);
  return b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
}

// Appends `count` elements one by one; `keeps`: the tensor before the last append is needed afterwards.
void CheckAppends(int count, bool keeps, int64_t allocations) {
  ProgramBuilder b;
  TypeId x = AddAppend(b), one = b.TensorOf(kFloat32, {1});
  TypeId pair = b.TupleOf({x, x});
  LayoutId cell = b.Layout(CellKind::kTuple, pair, {x, x});
  FunctionId main = b.Declare("main", {x, one}, pair);
  Code c;
  for (int i = 0; i < count; ++i) {
    if (i + 1 == count && keeps) c.Op(Opcode::kRetain, {2, 0});
    c.CallKernel({0}, 0, {kMovedArg | 0, 1}, Opcode::kCallKernelDynamic);
  }
  if (!keeps) c.Op(Opcode::kRetain, {2, 0});
  c.Op(Opcode::kDrop, {1}).MakeCell(3, cell, {2, 0}).Return(3);
  b.Define(main, {x, pair}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build({AppendOne}), {});
  Value argument = Floats({1, 2});
  Value result = RunMain(*machine, {argument, Floats({7})});
  std::string longer = "[1f, 2f", shorter = longer;
  for (int i = 0; i < count; ++i) longer += ", 7f";
  for (int i = 1; i < count; ++i) shorter += ", 7f";
  EXPECT_EQ(result.ToString(), "(" + (keeps ? shorter : longer) + "], " + longer + "])");
  EXPECT_EQ(argument.ToString(), "[1f, 2f]");
  EXPECT_EQ(machine->stats().allocations, allocations);
}

TEST(TensorTest, AppendsWriteWhatTheyAppend) {
  // Two arguments, a tuple; the copy of the argument, of 64 bytes of elements. 17 elements have room for 24, rounded up
  // to 32.
  CheckAppends(1, false, 4);
  CheckAppends(14, false, 4);
  CheckAppends(15, false, 5);
  CheckAppends(30, false, 5);
  CheckAppends(31, false, 6);
  CheckAppends(14, true, 5);
}

// The result is in the register of the argument, which is held or has no room: only the argument's elements are copied.
TEST(TensorTest, AppendsCopyNoMoreThanThereIs) {
  constexpr int64_t kMore = int64_t{1} << 22;
  ProgramBuilder b;
  Dim n = Dim::Var(0, "n");
  KernelDesc append = Desc("append", {{kFloat32, {n}}, {kFloat32, {1}}}, {{kFloat32, {n + Dim(kMore)}}});
  append.num_symbols = 1;
  append.updates = {{0, 0}};
  b.executable().kernels.push_back(append);
  TypeId x = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim}), one = b.TensorOf(kFloat32, {1});
  FunctionId main = b.Declare("main", {x, one}, x);
  Code c;
  c.CallKernel({0}, 0, {kMovedArg | 0, 1}, Opcode::kCallKernelDynamic).Op(Opcode::kDrop, {1}).Return(0);
  b.Define(main, {}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build({AppendOne}), {});
  Value result = RunMain(*machine, {Floats({1, 2}), Floats({7})});
  EXPECT_EQ(result.tensor().num_elements(), kMore + 2);
  EXPECT_EQ(result.tensor().DoubleAt(1), 2.0);
  EXPECT_EQ(result.tensor().DoubleAt(2), 7.0);
}

TEST(TensorTest, AppendsKeepWithinTheMemoryLimit) {
  for (int64_t limit : {int64_t{1} << 20, int64_t{8} << 20}) {
    ProgramBuilder b;
    TypeId x = AddAppend(b), one = b.TensorOf(kFloat32, {1});
    FunctionId main = b.Declare("main", {x, one}, x);
    Code c;
    for (int i = 0; i < 17; ++i) c.CallKernel({0}, 0, {kMovedArg | 0, 1}, Opcode::kCallKernelDynamic);
    c.Op(Opcode::kDrop, {1}).Return(0);
    b.Define(main, {}, c);
    b.Export(main);
    auto machine = *Machine::Create(b.Build({AppendOne}), {.memory_limit_bytes = limit});
    // Twice the elements fit the smaller limit, but not twice and a half.
    std::vector<float> big(100'000, 1.0f);
    EXPECT_EQ(RunMain(*machine, {Floats(big), Floats({7})}).tensor().DoubleAt(100'016), 7.0) << limit;
    EXPECT_EQ(machine->stats().peak_bytes > 900'000, limit > int64_t{1} << 20);
  }
}

TEST(TensorTest, DynamicKernelCallsBindAndCheckShapes) {
  ProgramBuilder b;
  TypeId x = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
  Dim n = Dim::Var(0, "n");
  KernelDesc add = Desc("add", {{kFloat32, {n}}, {kFloat32, {n}}}, {{kFloat32, {n}}});
  add.num_symbols = 1;
  add.workspace = n * Dim(8);
  b.executable().kernels.push_back(add);
  FunctionId main = b.Declare("main", {x, x}, x);
  Code c;
  c.CallKernel({2}, 0, {0, 1}, Opcode::kCallKernelDynamic).Op(Opcode::kDrop, {0}).Op(Opcode::kDrop, {1}).Return(2);
  b.Define(main, {x}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build({AddDynamic}), {});
  EXPECT_EQ(RunMain(*machine, {Floats({1, 2, 3}), Floats({1, 1, 1})}).ToString(), "[2f, 3f, 4f]");
  EXPECT_EQ(RunMain(*machine, {Floats({}), Floats({})}).ToString(), "Constant([], (0), float32)");
  // Big enough to leave the heap with its block.
  std::vector<float> big(100'000, 1.0f);
  EXPECT_EQ(RunMain(*machine, {Floats(big), Floats(big)}).tensor().DoubleAt(99'999), 2.0);
  auto error = machine->Invoke("main", std::vector<Value>{Floats({1, 2, 3}), Floats({1, 1})});
  EXPECT_EQ(error.status().message(), "argument 2 of kernel `add` has extent 2 on axis 0; expected 3\n  in `main`");
  EXPECT_EQ(machine->stats().leaked_objects, 0);
}

// scale * (a + weights), rows of three each with a weight of its own.
int32_t AddToRows(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  auto* a = static_cast<const float*>(buffers[0]);
  auto* weights = static_cast<const float*>(buffers[1]);
  float scale = *static_cast<const float*>(buffers[2]);
  auto* out = static_cast<float*>(buffers[3]);
  for (int64_t i = 0; i < 3 * dims[0]; ++i) out[i] = scale * (a[i] + weights[i / 3]);
  return kRvmOk;
}

Value Rows(int64_t rows, int64_t columns) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < rows * columns; ++i) numbers.push_back(static_cast<float>(i));
  return Value::Tensor(Literal::FromValues<float>(kFloat32, {rows, columns}, numbers));
}

// The second call has what it needs: extents in the machine, workspace, blocks.
TEST(TensorTest, KernelCallsThatOnlyCompareExtents) {
  ProgramBuilder b;
  TypeId matrix = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim, TypeDesc::kUnknownDim});
  TypeId vector = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
  TypeId f32 = b.Scalar(kFloat32);
  Dim n = Dim::Var(0, "n");
  KernelDesc add = Desc("add", {{kFloat32, {n, Dim(3)}}, {kFloat32, {n}}, {kFloat32, {}}}, {{kFloat32, {n, Dim(3)}}});
  add.num_symbols = 1;
  add.workspace = 64;
  b.executable().kernels.push_back(add);
  TypeId pair = b.TupleOf({matrix, matrix});
  LayoutId cell = b.Layout(CellKind::kTuple, pair, {matrix, matrix});
  FunctionId main = b.Declare("main", {matrix, vector, f32}, pair);
  Code c;
  c.CallKernel({3}, 0, {0, 1, 2}, Opcode::kCallKernelDynamic).CallKernel({4}, 0, {3, 1, 2}, Opcode::kCallKernelDynamic);
  c.Op(Opcode::kDrop, {0}).Op(Opcode::kDrop, {1}).MakeCell(5, cell, {3, 4}).Return(5);
  b.Define(main, {matrix, matrix, pair}, c);
  b.Export(main);
  auto program = b.Build({AddToRows});
  auto machine = *Machine::Create(program, {});
  Value two = Value::Tensor(Literal::Scalar(kFloat32, 2));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(RunMain(*machine, {Rows(2, 3), Floats({1, 2}), two}).ToString(),
              "([[2f, 4f, 6f], [10f, 12f, 14f]], [[6f, 10f, 14f], [24f, 28f, 32f]])");
  }
  for (int64_t rows : {0, 1, 300, 500, 100'000}) {  // small blocks, and some that are not
    Value both = RunMain(*machine, {Rows(rows, 3), Floats(std::vector<float>(static_cast<size_t>(rows), 1)), two});
    ASSERT_EQ(both.fields().size(), 2u);
    EXPECT_EQ(both.fields()[1].tensor().shape(), (Shape{rows, 3}));
    if (rows > 0) EXPECT_EQ(both.fields()[1].tensor().DoubleAt(3 * rows - 1), 2 * (2 * (3.0 * rows) + 1));
  }
  auto message = [&](Value a, Value weights) {
    return std::string(machine->Invoke("main", std::vector<Value>{a, weights, two}).status().message());
  };
  EXPECT_EQ(message(Rows(2, 3), Floats({1})),
            "argument 2 of kernel `add` has extent 1 on axis 0; expected 2\n  in `main`");
  EXPECT_EQ(message(Rows(2, 4), Floats({1, 2})),
            "argument 1 of kernel `add` has extent 4 on axis 1; expected 3\n  in `main`");
  int64_t failed = 0;
  for (int64_t allocation = 1; allocation < 20; ++allocation) {
    auto failing = *Machine::Create(program, {.fail_allocation = allocation});
    failed += !failing->Invoke("main", std::vector<Value>{Rows(2, 3), Floats({1, 2}), two}).ok();
    EXPECT_EQ(failing->stats().leaked_objects, 0);
  }
  EXPECT_EQ(failed, 6);  // two arguments, two tensors, a tuple, the workspace
}

TEST(TensorTest, ViewsAndShapeChecks) {
  ProgramBuilder b;
  TypeId x = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
  TypeId rows = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim, 2});
  TypeId two = b.TensorOf(kFloat32, {2, 2});
  TypeId i64 = b.Scalar(kInt64);
  FunctionId main = b.Declare("main", {x}, two);
  Code c;
  c.Op(Opcode::kGetDim, {1, 0, 0}).LoadInt(2, 2).Op(Opcode::kFloorDivInt, {1, 1, 2});
  c.View(3, 0, rows, {1}).CheckShape(4, 3, two).Op(Opcode::kCheckDims, {1, 2, 0}).Return(4);
  b.Define(main, {i64, i64, rows, two}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build(), {});
  EXPECT_EQ(RunMain(*machine, {Floats({1, 2, 3, 4})}).ToString(), "[[1f, 2f], [3f, 4f]]");
  auto odd = machine->Invoke("main", std::vector<Value>{Floats({1, 2, 3})});
  EXPECT_EQ(odd.status().message(), "a Tensor[(3), float32] has no view of the shape (1, 2)\n  in `main`");
  auto small = machine->Invoke("main", std::vector<Value>{Floats({1, 2})});
  EXPECT_EQ(small.status().message(), "saw Tensor[(1, 2), float32]; expected Tensor[(2, 2), float32]\n  in `main`");
}

TEST(TensorTest, KernelsReportErrors) {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  b.executable().kernels.push_back(Desc("take", {}, {{kInt32, {}}}));
  FunctionId main = b.Declare("main", {}, i32);
  Code c;
  c.CallKernel({0}, 0, {}).Return(0);
  b.Define(main, {i32}, c);
  b.Export(main);
  auto machine = *Machine::Create(b.Build({OutOfRange}), {});
  EXPECT_EQ(machine->Invoke("main", {}).status().message(), "an index is out of range in kernel `take`\n  in `main`");
}

// One row per scalar instruction of two operands.
TEST(TensorTest, IntegerInstructions) {
  struct Case {
    Opcode opcode;
    int64_t a, b, result;
    DataType type;
  };
  const int64_t least = INT64_MIN;
  const Case cases[] = {
      {Opcode::kAddI32, INT32_MAX, 1, INT32_MIN, kInt32},
      {Opcode::kSubI32, INT32_MIN, 1, INT32_MAX, kInt32},
      {Opcode::kMulI32, 65536, 65536, 0, kInt32},
      {Opcode::kAddInt, 1, 2, 3, kInt64},
      {Opcode::kSubInt, 1, 2, -1, kInt64},
      {Opcode::kMulInt, -3, 4, -12, kInt64},
      {Opcode::kFloorDivInt, -7, 2, -4, kInt64},
      {Opcode::kFloorDivInt, 7, 0, 0, kInt64},
      {Opcode::kFloorDivInt, least, -1, least, kInt64},
      {Opcode::kFloorModInt, -7, 2, 1, kInt64},
      {Opcode::kFloorModInt, 7, -2, -1, kInt64},
      {Opcode::kFloorModInt, 7, 0, 0, kInt64},
      {Opcode::kTruncDivInt, -7, 2, -3, kInt64},
      {Opcode::kTruncModInt, -7, 2, -1, kInt64},
      {Opcode::kTruncModInt, least, -1, 0, kInt64},
      {Opcode::kMinInt, -1, 1, -1, kInt64},
      {Opcode::kMaxInt, -1, 1, 1, kInt64},
      {Opcode::kAndInt, 12, 10, 8, kInt64},
      {Opcode::kOrInt, 12, 10, 14, kInt64},
      {Opcode::kXorInt, 12, 10, 6, kInt64},
  };
  for (const Case& test : cases) {
    ProgramBuilder b;
    TypeId type = b.Scalar(test.type);
    FunctionId main = b.Declare("main", {type, type}, type);
    Code c;
    c.Op(test.opcode, {0, 0, 1}).Return(0);
    b.Define(main, {}, c);
    b.Export(main);
    auto machine = *Machine::Create(b.Build(), {});
    Value result = RunMain(*machine, {Value::Tensor(Literal::ScalarInt(test.type, test.a)),
                                      Value::Tensor(Literal::ScalarInt(test.type, test.b))});
    EXPECT_EQ(result.tensor().IntAt(0), test.result) << SpecOf(test.opcode).mnemonic;
  }
}

TEST(TensorTest, Casts) {
  struct Case {
    DataType from;
    double value;
    DataType to;
    std::string result;
  };
  const Case cases[] = {
      {kFloat32, 2.9, kInt32, "2"},
      {kFloat32, -1e20, kInt32, "-2147483648"},
      {kFloat64, NAN, kInt64, "0i64"},
      {kFloat32, -1, kUInt8, "0u8"},
      {kFloat32, 0.5, kBool, "True"},
      {kInt64, 300, kInt8, "44i8"},
      {kInt32, 3, kFloat16, "3f16"},
      {kUInt8, 255, kInt8, "-1i8"},
      {kBool, 1, kFloat32, "1f"},
      {kFloat64, 0.1, kFloat32, "0.1f"},
      {kInt32, 256, kBool, "True"},
      {kFloat16, 1.5, kBFloat16, "1.5bf16"},
      {kFloat32, 1e6, kFloat8E4M3FN, "448f8e4m3fn"},
      {kFloat8E4M3FN, 17, kInt32, "16"},
  };
  for (const Case& test : cases) {
    ProgramBuilder b;
    TypeId from = b.Scalar(test.from);
    TypeId to = b.Scalar(test.to);
    FunctionId main = b.Declare("main", {from}, to);
    Code c;
    c.Op(Opcode::kCast, {1, 0, PackDataType(test.from), PackDataType(test.to)}).Return(1);
    b.Define(main, {to}, c);
    b.Export(main);
    auto machine = *Machine::Create(b.Build(), {});
    EXPECT_EQ(RunMain(*machine, {Value::Tensor(Literal::Scalar(test.from, test.value))}).ToString(), test.result);
  }
}

}  // namespace
}  // namespace rvm::vm
