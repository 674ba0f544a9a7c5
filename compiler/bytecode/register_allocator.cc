#include "compiler/bytecode/register_allocator.h"

#include <algorithm>

#include "base/check.h"

namespace rvm::bytecode {
namespace {

constexpr uint32_t kSlotAlignment = 64;

}  // namespace

std::vector<uint32_t>& RegisterAllocator::FreeList(uint32_t index, bool slot) {
  if (slot) return free_slots_[slots_[index].bytes];
  const RegisterDesc& desc = registers_[index];
  return free_registers_[uint64_t{desc.type.value} * 2 + (desc.planned ? 1 : 0)];
}

Reg RegisterAllocator::Allocate(TypeId type, bool planned) {
  std::vector<uint32_t>& free = free_registers_[uint64_t{type.value} * 2 + (planned ? 1 : 0)];
  uint32_t index;
  if (!free.empty()) {
    index = free.back();
    free.pop_back();
  } else {
    if (registers_.size() >= kMaxRegisters) {
      overflowed_ = true;
      return Reg(0);
    }
    index = static_cast<uint32_t>(registers_.size());
    registers_.push_back({type, planned});
  }
  log_.push_back({false, false, index});
  return Reg(static_cast<uint16_t>(index));
}

void RegisterAllocator::Free(Reg reg) {
  FreeList(reg.value, false).push_back(reg.value);
  log_.push_back({true, false, reg.value});
}

bool RegisterAllocator::IsFree(Reg reg) {
  const std::vector<uint32_t>& free = FreeList(reg.value, false);
  return std::find(free.begin(), free.end(), reg.value) != free.end();
}

void RegisterAllocator::Take(Reg reg) {
  std::vector<uint32_t>& free = FreeList(reg.value, false);
  free.erase(std::find(free.begin(), free.end(), reg.value));
  log_.push_back({false, false, reg.value});
}

uint32_t RegisterAllocator::AllocateSlot(int64_t bytes) {
  uint32_t rounded = static_cast<uint32_t>((bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment);
  std::vector<uint32_t>& free = free_slots_[rounded];
  uint32_t number;
  if (!free.empty()) {
    number = free.back();
    free.pop_back();
  } else {
    number = static_cast<uint32_t>(slots_.size());
    slots_.push_back({arena_bytes_, rounded});
    slot_at_[arena_bytes_] = number;
    arena_bytes_ += rounded;
  }
  log_.push_back({false, true, number});
  return slots_[number].offset;
}

void RegisterAllocator::FreeSlot(uint32_t offset) {
  uint32_t number = slot_at_.at(offset);
  FreeList(number, true).push_back(number);
  log_.push_back({true, true, number});
}

void RegisterAllocator::RollBack(Position position) {
  while (log_.size() > position) {
    Event event = log_.back();
    log_.pop_back();
    std::vector<uint32_t>& free = FreeList(event.index, event.slot);
    if (event.freed) {
      auto it = std::find(free.rbegin(), free.rend(), event.index);
      RVM_CHECK(it != free.rend(), "a freed register is not in its free list");
      free.erase(std::next(it).base());
    } else {
      free.push_back(event.index);
    }
  }
}

}  // namespace rvm::bytecode
