#include "compiler/bytecode/register_allocator.h"

#include "gtest/gtest.h"

namespace rvm::bytecode {
namespace {

constexpr TypeId kInt(0), kTensor(1);

TEST(RegisterAllocatorTest, AFreedRegisterIsReusedForItsTypeOnly) {
  RegisterAllocator registers;
  Reg a = registers.Allocate(kInt);
  registers.Free(a);
  EXPECT_TRUE(registers.IsFree(a));
  EXPECT_NE(registers.Allocate(kTensor), a);
  EXPECT_NE(registers.Allocate(kInt, true), a);  // a planned tensor is another kind of register
  EXPECT_EQ(registers.Allocate(kInt), a);
  EXPECT_FALSE(registers.IsFree(a));
  EXPECT_EQ(registers.registers().size(), 3u);
  EXPECT_EQ(registers.desc(a).type, kInt);
}

TEST(RegisterAllocatorTest, TakeClaimsAParticularFreeRegister) {
  RegisterAllocator registers;
  Reg a = registers.Allocate(kInt), b = registers.Allocate(kInt);
  registers.Free(a);
  registers.Free(b);
  registers.Take(a);
  EXPECT_FALSE(registers.IsFree(a));
  EXPECT_EQ(registers.Allocate(kInt), b);
  EXPECT_NE(registers.Allocate(kInt), a);
}

TEST(RegisterAllocatorTest, RollBackRestoresWhatIsFree) {
  RegisterAllocator registers;
  Reg a = registers.Allocate(kInt), b = registers.Allocate(kInt);
  registers.Free(a);
  RegisterAllocator::Position mark = registers.Mark();
  for (int branch = 0; branch < 2; ++branch) {
    EXPECT_EQ(registers.Allocate(kInt), a);
    registers.Free(b);
    registers.Take(b);
    Reg c = registers.Allocate(kInt);
    EXPECT_EQ(c, Reg(2));  // the second branch reuses what the first one added
    registers.RollBack(mark);
    EXPECT_TRUE(registers.IsFree(a));
    EXPECT_FALSE(registers.IsFree(b));
  }
  EXPECT_EQ(registers.registers().size(), 3u);
}

TEST(RegisterAllocatorTest, SlotsAreRoundedAndReusedBySize) {
  RegisterAllocator registers;
  uint32_t a = registers.AllocateSlot(1), b = registers.AllocateSlot(65);
  EXPECT_EQ(a, 0u);
  EXPECT_EQ(b, 64u);
  EXPECT_EQ(registers.arena_bytes(), 192u);
  registers.FreeSlot(b);
  EXPECT_EQ(registers.AllocateSlot(64), 192u);
  EXPECT_EQ(registers.AllocateSlot(128), b);
  EXPECT_EQ(registers.arena_bytes(), 256u);
}

TEST(RegisterAllocatorTest, RollBackRestoresSlots) {
  RegisterAllocator registers;
  uint32_t a = registers.AllocateSlot(64);
  RegisterAllocator::Position mark = registers.Mark();
  registers.FreeSlot(a);
  EXPECT_EQ(registers.AllocateSlot(64), a);
  uint32_t b = registers.AllocateSlot(64);
  registers.RollBack(mark);
  EXPECT_EQ(registers.AllocateSlot(64), b);
  EXPECT_EQ(registers.arena_bytes(), 128u);
}

TEST(RegisterAllocatorTest, SaysThatItOverflowed) {
  RegisterAllocator registers;
  for (size_t i = 0; i < RegisterAllocator::kMaxRegisters; ++i) registers.Allocate(kInt);
  EXPECT_FALSE(registers.overflowed());
  registers.Allocate(kInt);
  EXPECT_TRUE(registers.overflowed());
  EXPECT_EQ(registers.registers().size(), RegisterAllocator::kMaxRegisters);
}

}  // namespace
}  // namespace rvm::bytecode
