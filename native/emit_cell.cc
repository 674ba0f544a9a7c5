// Cells, counts of references, and what allocates.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/abi/machine_abi.h"
#include "native/function_emitter.h"

namespace rvm::native {
namespace {

// HeapLayout::bytes (vm/link/link_info.cc) of a cell that is no reference.
int64_t CellBytes(size_t fields) { return kRvmFieldsOffset + 8 * static_cast<int64_t>(std::max<size_t>(1, fields)); }

int64_t FieldOffset(size_t field) { return kRvmFieldsOffset + 8 * static_cast<int64_t>(field); }

constexpr int64_t PoolOffset(size_t member) { return static_cast<int64_t>(offsetof(RvmHeap, cells) + member); }

}  // namespace

bool FunctionEmitter::MayBeImmediate(TypeId type) const {
  return m_.executable().types[type.value].kind == TypeDescKind::kAdt;
}

FunctionEmitter::Value* FunctionEmitter::IsImmediate(Value* pointer) {
  Value* bits = b_.CreatePtrToInt(pointer, b_.getInt64Ty());
  return b_.CreateICmpNE(b_.CreateAnd(bits, Int(1)), Int(0));
}

void FunctionEmitter::Retain(Value* pointer, bool may_be_immediate) {
  auto count_up = [&] {
    Value* count = Load(b_.getInt32Ty(), pointer, kRvmCountOffset);
    If(b_.CreateICmpULT(count, b_.getInt32(kRvmImmortalCount)), /*is_rare=*/false,
       [&] { Store(b_.CreateAdd(count, b_.getInt32(1)), pointer, kRvmCountOffset); });
  };
  if (!may_be_immediate) return count_up();
  If(b_.CreateNot(IsImmediate(pointer)), /*is_rare=*/false, count_up);
}

void FunctionEmitter::Drop(Value* pointer, bool may_be_immediate) {
  auto count_down = [&] {
    Value* count = Load(b_.getInt32Ty(), pointer, kRvmCountOffset);
    Block *last = NewBlock("last"), *others = NewBlock("others"), *done = NewBlock("dropped");
    b_.CreateCondBr(b_.CreateICmpEQ(count, b_.getInt32(1)), last, others);
    b_.SetInsertPoint(last);
    Import("rvm_free_last", {pointer});
    b_.CreateBr(done);
    b_.SetInsertPoint(others);
    If(b_.CreateICmpULT(count, b_.getInt32(kRvmImmortalCount)), /*is_rare=*/false,
       [&] { Store(b_.CreateSub(count, b_.getInt32(1)), pointer, kRvmCountOffset); });
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
  };
  if (!may_be_immediate) return count_down();
  If(b_.CreateNot(IsImmediate(pointer)), /*is_rare=*/false, count_down);
}

// Ends the run unless the value has the constructor of `layout`. Other cells always have their layout.
void FunctionEmitter::CheckConstructor(uint16_t cell, uint16_t layout) {
  if (TypeDescOf(cell).kind != TypeDescKind::kAdt) return;
  uint16_t tag = m_.executable().layouts[layout].tag;
  const AdtDesc& adt = m_.executable().adts[TypeDescOf(cell).adt.value];
  if (adt.constructors.size() == 1) return;
  If(b_.CreateNot(HasTag(cell, tag)), /*is_rare=*/true, [&] {
    Import("rvm_stop", {Int(kRvmWrongConstructor)})->setDoesNotReturn();
    b_.CreateUnreachable();
  });
}

void FunctionEmitter::WriteHeader(Value* cell, uint16_t layout) {
  uint64_t tag = m_.executable().layouts[layout].tag;
  uint64_t heap_layout = uint64_t{layout} + 1;
  Store(b_.getInt64(1 | tag << (8 * kRvmTagOffset) | heap_layout << (8 * kRvmLayoutOffset)), cell, 0);
}

void FunctionEmitter::WriteFields(Value* cell, const Operand& fields) {
  for (uint32_t i = 0; i < fields.count; ++i) {
    Value* value = Get(fields.u16(i));
    // Slots of floats have zeros above them.
    if (value->getType()->isFloatTy()) value = m_.ToSlot(b_, value);
    Store(value, cell, FieldOffset(i));
  }
}

// Loads the first block of the free list at offset `list` of the heap that is not in `before`, whose blocks exist.
FunctionEmitter::FreeBlock FunctionEmitter::FindBlock(int64_t list, std::span<const FreeBlock> before) {
  FreeBlock free = {.list_offset = list};
  free.heap = LoadMachine(offsetof(RvmMachine, heap));
  free.list = At(free.heap, list);
  Value* place = free.list;
  for (const FreeBlock& other : before) place = other.list_offset == list ? other.block : place;
  free.block = b_.CreateLoad(b_.getPtrTy(), place);
  Value* allocations = Load(b_.getInt64Ty(), free.heap, offsetof(RvmHeap, allocations));
  free.count = b_.CreateAdd(allocations, Int(static_cast<int64_t>(before.size()) + 1));
  Value* fail_at = Load(b_.getInt64Ty(), free.heap, offsetof(RvmHeap, fail_at));
  free.is_there =
      b_.CreateAnd(b_.CreateIsNotNull(free.block, "is_block"), b_.CreateICmpNE(free.count, fail_at, "is_let"));
  return free;
}

// Takes the block off its list and counts the allocation.
void FunctionEmitter::TakeBlock(const FreeBlock& free, int64_t bytes) {
  llvm::Type* i64 = b_.getInt64Ty();
  b_.CreateStore(b_.CreateLoad(b_.getPtrTy(), free.block), free.list);
  Store(free.count, free.heap, offsetof(RvmHeap, allocations));
  Value* live = b_.CreateAdd(Load(i64, free.heap, offsetof(RvmHeap, live_bytes)), Int(bytes));
  Store(live, free.heap, offsetof(RvmHeap, live_bytes));
  Value* peak = Load(i64, free.heap, offsetof(RvmHeap, peak_bytes));
  Store(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, peak, live), free.heap, offsetof(RvmHeap, peak_bytes));
}

// Returns a cell without fields. The fast path is Heap::TryNewCell's, from the free list of its size.
FunctionEmitter::Value* FunctionEmitter::NewCell(uint16_t layout) {
  const CellLayout& cell = m_.executable().layouts[layout];
  int64_t bytes = CellBytes(cell.fields.size());
  auto slowly = [&]() -> Value* { return Import("rvm_new_cell", {Int(layout + 1)}); };
  // References may have a slot for the cycle collector, which the VM knows.
  if (cell.kind == CellKind::kRef || bytes > kRvmMaxCellBytes) return slowly();
  FreeBlock free = FindBlock(PoolOffset(offsetof(RvmPool, free)) + bytes);
  auto quickly = [&]() -> Value* {
    TakeBlock(free, bytes);
    WriteHeader(free.block, layout);
    return free.block;
  };
  return Choose(b_.CreateNot(free.is_there), /*is_rare=*/true, slowly, quickly);
}

// Frees a cell whose fields have been moved out: Heap::FreeShell.
void FunctionEmitter::FreeShell(Value* cell, int64_t bytes) {
  if (bytes > kRvmMaxCellBytes) {
    Import("rvm_free_shell", {cell});
    return;
  }
  llvm::Type* i64 = b_.getInt64Ty();
  Value* heap = LoadMachine(offsetof(RvmMachine, heap));
  Store(b_.CreateAdd(Load(i64, heap, offsetof(RvmHeap, frees)), Int(1)), heap, offsetof(RvmHeap, frees));
  Store(b_.CreateSub(Load(i64, heap, offsetof(RvmHeap, live_bytes)), Int(bytes)), heap, offsetof(RvmHeap, live_bytes));
  Value* list = At(heap, PoolOffset(offsetof(RvmPool, free)) + bytes);
  b_.CreateStore(b_.CreateLoad(b_.getPtrTy(), list), cell);
  b_.CreateStore(cell, list);
}

// Copies a field to the result, and counts that.
void FunctionEmitter::LoadField(Value* cell, size_t field, TypeId type) {
  Value* value = Load(m_.RegisterType(type), cell, FieldOffset(field));
  SetResult(value);
  if (m_.IsPointer(type)) Retain(value, MayBeImmediate(type));
}

// unpack and unpack_shell: moves the fields out of a cell without other owners, copies those of another.
void FunctionEmitter::Unpack(bool keeps_shell) {
  auto layout = static_cast<uint16_t>(Immediate("layout"));
  uint16_t reg = RegisterOf("cell");
  const std::vector<TypeId>& types = m_.executable().layouts[layout].fields;
  CheckConstructor(reg, layout);
  Value* cell = Get(reg);
  Value* count = Load(b_.getInt32Ty(), cell, kRvmCountOffset);
  std::vector<Value*> fields;
  for (size_t i = 0; i < types.size(); ++i) fields.push_back(Load(m_.RegisterType(types[i]), cell, FieldOffset(i)));
  auto alone = [&]() -> Value* {
    if (!keeps_shell) FreeShell(cell, CellBytes(types.size()));
    return cell;
  };
  auto shared = [&]() -> Value* {
    Import("rvm_unpack_shared", {cell});
    return llvm::ConstantPointerNull::get(b_.getPtrTy());
  };
  Value* shell = Choose(b_.CreateICmpEQ(count, b_.getInt32(1)), /*is_rare=*/false, alone, shared);
  const Operand& dsts = OperandOf("dsts");
  for (uint32_t i = 0; i < dsts.count; ++i) Set(dsts.u16(i), fields[i]);
  if (keeps_shell) Set(RegisterOf("shell"), shell);
}

// ---- instructions

void FunctionEmitter::EmitRetain() {
  uint16_t src = RegisterOf("src");
  Value* value = Get(src);
  SetResult(value);
  Retain(value, MayBeImmediate(src));
}

void FunctionEmitter::EmitDrop() {
  uint16_t src = RegisterOf("src");
  Drop(Get(src), MayBeImmediate(src));
}

void FunctionEmitter::EmitLoadTag() {
  SetResult(b_.CreateIntToPtr(Int(static_cast<int64_t>(Immediate("tag") << 1 | 1)), b_.getPtrTy()));
}

void FunctionEmitter::EmitGetTag() { SetResult(TagOf(RegisterOf("adt"))); }

void FunctionEmitter::EmitMakeCell() {
  Value* cell = NewCell(static_cast<uint16_t>(Immediate("layout")));
  WriteFields(cell, OperandOf("fields"));
  SetResult(cell);
}

void FunctionEmitter::EmitMakeCellIn() {
  auto layout = static_cast<uint16_t>(Immediate("layout"));
  Value* shell = Get("shell");
  auto allocate = [&]() -> Value* { return Import("rvm_new_cell", {Int(layout + 1)}); };
  auto reuse = [&] {
    WriteHeader(shell, layout);
    return shell;
  };
  Value* cell = Choose(b_.CreateIsNull(shell), /*is_rare=*/false, allocate, reuse);
  WriteFields(cell, OperandOf("fields"));
  SetResult(cell);
}

void FunctionEmitter::EmitDropShell() {
  uint16_t reg = RegisterOf("shell");
  Value* shell = Get(reg);
  auto fields = static_cast<size_t>(TypeDescOf(reg).dims[0]);
  If(b_.CreateIsNotNull(shell), /*is_rare=*/false, [&] { FreeShell(shell, CellBytes(fields)); });
}

void FunctionEmitter::EmitGetField() {
  auto layout = static_cast<uint16_t>(Immediate("layout"));
  auto field = static_cast<size_t>(Immediate("field"));
  uint16_t reg = RegisterOf("cell");
  CheckConstructor(reg, layout);
  LoadField(Get(reg), field, m_.executable().layouts[layout].fields[field]);
}

void FunctionEmitter::EmitUnpack() { Unpack(/*keeps_shell=*/false); }
void FunctionEmitter::EmitUnpackShell() { Unpack(/*keeps_shell=*/true); }

// A reference is a cell of one field.
void FunctionEmitter::EmitRefRead() { LoadField(Get("ref"), 0, desc_.registers[RegisterOf("dst")].type); }

void FunctionEmitter::EmitRefWrite() {
  Value* value = Get("value");
  if (value->getType()->isPointerTy()) {
    Import("rvm_ref_write", {Get("ref"), m_.ToSlot(b_, value)});
  } else {
    Store(m_.ToSlot(b_, value), Get("ref"), FieldOffset(0));
  }
}

}  // namespace rvm::native
