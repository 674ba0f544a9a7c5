// Tests of the counts of a profiler. Times are only checked to add up.
#include "vm/profiler/profiler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "vm/machine.h"
#include "vm/testing/program_builder.h"

namespace rvm::vm {
namespace {

using testing::Code;
using testing::Int;
using testing::ProgramBuilder;

// `count_down(n)` calls itself, not in tail position, until n is 0. More calls than one budget has.
std::shared_ptr<const Program> CountDown() {
  ProgramBuilder b;
  TypeId i32 = b.Scalar(kInt32);
  FunctionId f = b.Declare("count_down", {i32}, i32);
  Code c;
  int more = c.NewLabel();
  c.LoadInt(1, 0).Branch(Opcode::kBranchNeInt, {0, 1}, more).Return(1);
  c.Place(more).LoadInt(1, -1).Op(Opcode::kAddI32, {2, 0, 1}).Call(3, f, {2}).Return(3);
  b.Define(f, {i32, i32, i32}, c);
  b.Export(f);
  return b.Build();
}

int64_t CountOf(const Profile& profile, Opcode opcode) {
  for (const Profile::OpcodeRow& row : profile.opcodes) {
    if (row.opcode == opcode) return row.count;
  }
  return 0;
}

int32_t Doubled(void* const* buffers, const int64_t* dims, RvmKernelContext*) {
  for (int64_t i = 0; i < dims[0]; ++i) {
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
  }
  return kRvmOk;
}

// `double(x)` of a vector of any length, by a kernel.
std::shared_ptr<const Program> Doubling() {
  ProgramBuilder b;
  TypeId vector = b.TensorOf(kFloat32, {TypeDesc::kUnknownDim});
  KernelDesc desc;
  desc.name = desc.symbol = "doubled";
  desc.num_symbols = 1;
  desc.params = desc.results = {{kFloat32, {Dim::Var(0, "n")}}};
  b.executable().kernels.push_back(desc);
  FunctionId f = b.Declare("double", {vector}, vector);
  Code c;
  c.CallKernel({1}, 0, {0}, Opcode::kCallKernelDynamic).Op(Opcode::kDrop, {0}).Return(1);
  b.Define(f, {vector}, c);
  b.Export(f);
  return b.Build({Doubled});
}

Value Vector(int64_t size) { return Value::Tensor(Literal::Full(kFloat32, {size}, 1)); }

TEST(ProfilerTest, CountsEachInstructionOnceThoughItMayBeRetried) {
  Profiler profiler;
  auto machine = *Machine::Create(CountDown(), {.profiler = &profiler});
  constexpr int kCalls = 100'000;
  ASSERT_TRUE(machine->Invoke("count_down", {{Int(kCalls)}}).ok());
  Profile profile = profiler.Snapshot();
  EXPECT_EQ(CountOf(profile, Opcode::kCall), kCalls);
  EXPECT_EQ(CountOf(profile, Opcode::kReturn), kCalls + 1);
  EXPECT_EQ(CountOf(profile, Opcode::kLoadInt), 2 * kCalls + 1);
  ASSERT_EQ(profile.functions.size(), 1u);
  EXPECT_EQ(profile.functions[0].calls, kCalls + 1);
  EXPECT_EQ(profile.functions[0].instructions, 6 * kCalls + 3);
  // Each activation but the first lies within another: inclusive time counts them once.
  EXPECT_LE(profile.functions[0].inclusive_ns, 1.001 * profile.functions[0].self_ns + 1000);
}

TEST(ProfilerTest, SeesRunsOneByOneAfterClear) {
  Profiler profiler;
  auto machine = *Machine::Create(CountDown(), {.profiler = &profiler});
  ASSERT_TRUE(machine->Invoke("count_down", {{Int(3)}}).ok());
  profiler.Clear();
  ASSERT_TRUE(machine->Invoke("count_down", {{Int(5)}}).ok());
  EXPECT_EQ(CountOf(profiler.Snapshot(), Opcode::kCall), 5);
  EXPECT_EQ(profiler.Snapshot().invokes, 1);
  ASSERT_TRUE(machine->Invoke("count_down", {{Int(5)}}).ok());
  EXPECT_EQ(CountOf(profiler.Snapshot(), Opcode::kCall), 10);
}

TEST(ProfilerTest, AnErrorLeavesEveryFunction) {
  Profiler profiler(100);
  auto machine = *Machine::Create(CountDown(), {.fuel = 10, .profiler = &profiler});
  EXPECT_EQ(machine->Invoke("count_down", {{Int(100)}}).status().code(), absl::StatusCode::kResourceExhausted);
  int64_t open = 0;
  for (const TraceEvent& event : profiler.Trace()) {
    open += event.kind == TraceEvent::Kind::kEnter ? 1 : event.kind == TraceEvent::Kind::kLeave ? -1 : 0;
    EXPECT_GE(open, 0);
  }
  EXPECT_EQ(open, 0);
  ASSERT_TRUE(machine->Invoke("count_down", {{Int(5)}}).ok()) << "and the machine goes on";
}

TEST(ProfilerTest, ATraceThatIsFullStaysBalanced) {
  Profiler profiler(7);
  auto machine = *Machine::Create(CountDown(), {.profiler = &profiler});
  ASSERT_TRUE(machine->Invoke("count_down", {{Int(20)}}).ok());
  int64_t entered = 0, left = 0;
  for (const TraceEvent& event : profiler.Trace()) {
    entered += event.kind == TraceEvent::Kind::kEnter ? 1 : 0;
    left += event.kind == TraceEvent::Kind::kLeave ? 1 : 0;
  }
  EXPECT_EQ(entered, 6) << "the arguments are an event, too";
  EXPECT_EQ(left, entered);
  EXPECT_EQ(profiler.dropped_trace_events(), 21 - 6 + 2) << "calls, the result, and the end";
}

TEST(ProfilerTest, TellsKernelsShapesAndMemory) {
  Profiler profiler(100);
  auto machine = *Machine::Create(Doubling(), {.profiler = &profiler});
  for (int64_t size : {3, 5, 3, 4000}) ASSERT_TRUE(machine->Invoke("double", {{Vector(size)}}).ok());
  Profile profile = profiler.Snapshot();
  ASSERT_EQ(profile.kernels.size(), 1u);
  const Profile::KernelRow& kernel = profile.kernels[0];
  EXPECT_EQ(kernel.calls, 4);
  EXPECT_EQ(kernel.bytes, 2 * 4 * (3 + 5 + 3 + 4000));
  ASSERT_EQ(kernel.shapes.size(), 3u);
  EXPECT_EQ(kernel.shapes[0].shapes, "(3) float32 -> (3) float32");
  EXPECT_EQ(kernel.shapes[0].calls, 2);
  EXPECT_EQ(kernel.shapes[1].calls, 1);
  EXPECT_EQ(profile.memory[static_cast<size_t>(ProfileMemory::kTensor)].count, 4);
  EXPECT_EQ(profile.imported.count, 4);
  EXPECT_EQ(profile.exported_copied.count, 3) << "small results are copied";
  EXPECT_EQ(profile.exported_moved.count, 1) << "big ones are not";
  EXPECT_EQ(profile.exported_moved.bytes, 16000);
}

TEST(ProfilerTest, KeepsAHundredShapesOfAKernel) {
  Profiler profiler;
  auto machine = *Machine::Create(Doubling(), {.profiler = &profiler});
  for (int64_t size = 1; size <= 130; ++size) ASSERT_TRUE(machine->Invoke("double", {{Vector(size)}}).ok());
  Profile profile = profiler.Snapshot();
  EXPECT_EQ(profile.kernels[0].shapes.size(), Profile::kMaxShapes);
  EXPECT_EQ(profile.kernels[0].other_shapes, 30);
  EXPECT_EQ(profile.kernels[0].bytes, 2 * 4 * 130 * 131 / 2);
}

}  // namespace
}  // namespace rvm::vm
