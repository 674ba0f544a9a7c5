// Registers and arena slots of one function, handed out while code is emitted.
//
// A register has one type for the whole function, so a freed one is reused only for the
// same type. Branches are emitted one after another from the same state: Mark and
// RollBack restore it.
#ifndef RVM_COMPILER_BYTECODE_REGISTER_ALLOCATOR_H_
#define RVM_COMPILER_BYTECODE_REGISTER_ALLOCATOR_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialization/executable.h"

namespace rvm::bytecode {

class RegisterAllocator {
 public:
  // Operands name registers with 16 bits, of which kernel arguments use 14.
  static constexpr size_t kMaxRegisters = 0x4000;

  Reg Allocate(TypeId type, bool planned = false);
  void Free(Reg reg);
  bool IsFree(Reg reg);
  // REQUIRES: IsFree(reg).
  void Take(Reg reg);
  const RegisterDesc& desc(Reg reg) const { return registers_[reg.value]; }
  const std::vector<RegisterDesc>& registers() const { return registers_; }
  bool overflowed() const { return overflowed_; }

  // Returns a slot of `bytes` (rounded up to 64) in the activation's arena.
  uint32_t AllocateSlot(int64_t bytes);
  void FreeSlot(uint32_t offset);
  uint32_t arena_bytes() const { return arena_bytes_; }

  using Position = size_t;
  Position Mark() const { return log_.size(); }
  // Undoes every Allocate and Free (of registers and slots) since `position`. The registers
  // themselves remain part of the function.
  void RollBack(Position position);

 private:
  struct Event {
    bool freed;      // else allocated
    bool slot;       // else register
    uint32_t index;  // register, or slot number
  };
  struct Slot {
    uint32_t offset;
    uint32_t bytes;
  };
  std::vector<uint32_t>& FreeList(uint32_t index, bool slot);

  std::vector<RegisterDesc> registers_;
  std::vector<Slot> slots_;
  absl::flat_hash_map<uint32_t, uint32_t> slot_at_;                      // offset -> number
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> free_registers_;  // by type and planned
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> free_slots_;      // by bytes
  std::vector<Event> log_;
  uint32_t arena_bytes_ = 0;
  bool overflowed_ = false;
};

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_REGISTER_ALLOCATOR_H_
