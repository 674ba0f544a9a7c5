// Handlers of ownership and of cells.
#ifndef RVM_VM_INTERPRETER_EXEC_CELL_H_
#define RVM_VM_INTERPRETER_EXEC_CELL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/operands.h"

namespace rvm::vm {

[[clang::preserve_none]] inline void ExecRetain(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  Operands<Opcode::kRetain> in(pc);
  Slot slot = r[in.Get<"src">()];
  r[in.Get<"dst">()] = slot;
  Retain(slot);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

// `drop` of an object without another owner.
[[gnu::noinline, clang::preserve_none]] inline void DropLast(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                             const FunctionInfo* fn) {
  Operands<Opcode::kDrop> in(pc);
  vm->heap.FreeLast(AsObject(r[in.Get<"src">()]));
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecDrop(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                              const FunctionInfo* fn) {
  Operands<Opcode::kDrop> in(pc);
  Slot slot = r[in.Get<"src">()];
  if (!IsImmediate(slot)) {
    Object* object = AsObject(slot);
    if (object->count == 1) {
      [[clang::musttail]] return DropLast(pc, r, vm, budget, fn);
    }
    if (object->count < kImmortal) --object->count;
  }
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecLoadTag(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                 const FunctionInfo* fn) {
  Operands<Opcode::kLoadTag> in(pc);
  r[in.Get<"dst">()] = ImmediateOf(in.Get<"tag">());
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[gnu::noinline, clang::preserve_none]] inline void MakeCellSlow(const uint16_t* pc, Slot* r, Execution* vm,
                                                                 int64_t budget, const FunctionInfo* fn) {
  Operands<Opcode::kMakeCell> in(pc);
  Object* cell = vm->heap.NewCell(static_cast<uint16_t>(in.Get<"layout">() + 1));
  if (cell == nullptr) return vm->StopOutOfMemory(pc, r, fn);
  uint32_t count = in.Count<"fields">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) cell->fields()[i] = r[in.Elements<"fields">()[i]];
  r[in.Get<"dst">()] = AsSlot(cell);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecMakeCell(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  Operands<Opcode::kMakeCell> in(pc);
  Object* cell = vm->heap.TryNewCell(static_cast<uint16_t>(in.Get<"layout">() + 1));
  if (cell == nullptr) [[unlikely]] {
    [[clang::musttail]] return MakeCellSlow(pc, r, vm, budget, fn);
  }
  uint32_t count = in.Count<"fields">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) cell->fields()[i] = r[in.Elements<"fields">()[i]];
  r[in.Get<"dst">()] = AsSlot(cell);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecGetTag(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  Operands<Opcode::kGetTag> in(pc);
  r[in.Get<"dst">()] = TagOf(r[in.Get<"adt">()]);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

inline bool HasLayout(Slot slot, uint16_t layout) { return !IsImmediate(slot) && AsObject(slot)->layout == layout + 1; }

// The value has another constructor than the one whose field is read.
[[gnu::noinline, clang::preserve_none]] inline void StopAtWrongConstructor(const uint16_t* pc, Slot* r, Execution* vm,
                                                                           int64_t, const FunctionInfo* fn) {
  vm->Stop(pc, r, fn, WrongConstructor());
}

[[clang::preserve_none]] inline void ExecGetField(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  Operands<Opcode::kGetField> in(pc);
  Slot cell = r[in.Get<"cell">()];
  uint16_t layout = in.Get<"layout">();
  uint16_t field = in.Get<"field">();
  if (!HasLayout(cell, layout)) [[unlikely]] {
    [[clang::musttail]] return StopAtWrongConstructor(pc, r, vm, budget, fn);
  }
  Slot value = AsObject(cell)->fields()[field];
  r[in.Get<"dst">()] = value;
  if (vm->layouts[layout + 1].is_pointer[field]) Retain(value);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

// Copies the fields of a cell that has other owners.
[[gnu::noinline, clang::preserve_none]] inline void UnpackShared(const uint16_t* pc, Slot* r, Execution* vm,
                                                                 int64_t budget, const FunctionInfo* fn) {
  Operands<Opcode::kUnpack> in(pc);
  uint32_t count = in.Count<"dsts">();
  Object* cell = AsObject(r[in.Get<"cell">()]);
  vm->heap.ShareFields(cell);
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) r[in.Elements<"dsts">()[i]] = cell->fields()[i];
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecUnpack(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                const FunctionInfo* fn) {
  Operands<Opcode::kUnpack> in(pc);
  uint32_t count = in.Count<"dsts">();
  Slot slot = r[in.Get<"cell">()];
  if (!HasLayout(slot, in.Get<"layout">())) [[unlikely]] {
    [[clang::musttail]] return StopAtWrongConstructor(pc, r, vm, budget, fn);
  }
  Object* cell = AsObject(slot);
  if (cell->count != 1) {
    [[clang::musttail]] return UnpackShared(pc, r, vm, budget, fn);
  }
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) r[in.Elements<"dsts">()[i]] = cell->fields()[i];
  vm->heap.FreeShell(cell);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

// Slow paths of make_cell_in and unpack_shell; see MakeCellSlow and UnpackShared.
[[gnu::noinline, clang::preserve_none]] inline void MakeCellInSlow(const uint16_t* pc, Slot* r, Execution* vm,
                                                                   int64_t budget, const FunctionInfo* fn) {
  Operands<Opcode::kMakeCellIn> in(pc);
  Object* cell = vm->heap.NewCell(static_cast<uint16_t>(in.Get<"layout">() + 1));
  if (cell == nullptr) return vm->StopOutOfMemory(pc, r, fn);
  uint32_t count = in.Count<"fields">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) cell->fields()[i] = r[in.Elements<"fields">()[i]];
  r[in.Get<"dst">()] = AsSlot(cell);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecMakeCellIn(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                    const FunctionInfo* fn) {
  Operands<Opcode::kMakeCellIn> in(pc);
  Object* cell = AsObject(r[in.Get<"shell">()]);
  auto layout = static_cast<uint16_t>(in.Get<"layout">() + 1);
  if (cell == nullptr) {
    [[clang::musttail]] return MakeCellInSlow(pc, r, vm, budget, fn);
  }
  *cell = {1, vm->layouts[layout].tag, layout};
  uint32_t count = in.Count<"fields">();
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) cell->fields()[i] = r[in.Elements<"fields">()[i]];
  r[in.Get<"dst">()] = AsSlot(cell);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[gnu::noinline, clang::preserve_none]] inline void UnpackShellShared(const uint16_t* pc, Slot* r, Execution* vm,
                                                                      int64_t budget, const FunctionInfo* fn) {
  Operands<Opcode::kUnpackShell> in(pc);
  uint32_t count = in.Count<"dsts">();
  Object* cell = AsObject(r[in.Get<"cell">()]);
  vm->heap.ShareFields(cell);
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) r[in.Elements<"dsts">()[i]] = cell->fields()[i];
  r[in.Get<"shell">()] = 0;
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecUnpackShell(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                     const FunctionInfo* fn) {
  Operands<Opcode::kUnpackShell> in(pc);
  uint32_t count = in.Count<"dsts">();
  Slot slot = r[in.Get<"cell">()];
  if (!HasLayout(slot, in.Get<"layout">())) [[unlikely]] {
    [[clang::musttail]] return StopAtWrongConstructor(pc, r, vm, budget, fn);
  }
  Object* cell = AsObject(slot);
  if (cell->count != 1) {
    [[clang::musttail]] return UnpackShellShared(pc, r, vm, budget, fn);
  }
#pragma clang loop unroll(disable) vectorize(disable)  // a few registers
  for (uint32_t i = 0; i < count; ++i) r[in.Elements<"dsts">()[i]] = cell->fields()[i];
  r[in.Get<"shell">()] = slot;
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecDropShell(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                   const FunctionInfo* fn) {
  Operands<Opcode::kDropShell> in(pc);
  Object* shell = AsObject(r[in.Get<"shell">()]);
  if (shell != nullptr) vm->heap.FreeShell(shell);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

// A reference is a cell of one field; its layout says whether that is a pointer.
[[clang::preserve_none]] inline void ExecRefRead(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                 const FunctionInfo* fn) {
  Operands<Opcode::kRefRead> in(pc);
  Object* ref = AsObject(r[in.Get<"ref">()]);
  Slot value = ref->fields()[0];
  r[in.Get<"dst">()] = value;
  if (vm->layouts[ref->layout].is_pointer[0]) Retain(value);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[gnu::noinline, clang::preserve_none]] inline void RefWriteTracked(const uint16_t* pc, Slot* r, Execution* vm,
                                                                    int64_t budget, const FunctionInfo* fn) {
  Operands<Opcode::kRefWrite> in(pc);
  Object* ref = AsObject(r[in.Get<"ref">()]);
  if (!vm->heap.WriteTracked(ref, r[in.Get<"value">()])) [[unlikely]]
    return vm->StopOutOfMemory(pc, r, fn);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

[[clang::preserve_none]] inline void ExecRefWrite(const uint16_t* pc, Slot* r, Execution* vm, int64_t budget,
                                                  const FunctionInfo* fn) {
  Operands<Opcode::kRefWrite> in(pc);
  Object* ref = AsObject(r[in.Get<"ref">()]);
  if (vm->layouts[ref->layout].is_tracked) {
    [[clang::musttail]] return RefWriteTracked(pc, r, vm, budget, fn);
  }
  Slot old = ref->fields()[0];
  ref->fields()[0] = r[in.Get<"value">()];
  if (vm->layouts[ref->layout].is_pointer[0]) vm->heap.Drop(old);
  [[clang::musttail]] return Next(in.End(), r, vm, budget, fn);
}

}  // namespace rvm::vm

#endif  // RVM_VM_INTERPRETER_EXEC_CELL_H_
