// The interface between machine code of Relay functions and the VM that runs it, in C and without dependencies: the
// state of a machine that such code reads and writes, and the layout of heap objects. The version is part of the
// executable's format; a runtime with another version runs the functions' bytecode instead.
#ifndef RVM_KERNELS_ABI_MACHINE_ABI_H_
#define RVM_KERNELS_ABI_MACHINE_ABI_H_

#include <stdint.h>

#include "kernels/abi/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_MACHINE_ABI_VERSION 1

// Symbols of an object: what they begin with, and the function's number. A stub is a C function that runs the function
// of an entry: void(RvmMachine* machine, const uint64_t* args, uint64_t* result).
#define RVM_FUNCTION_SYMBOL "rvm_f"
#define RVM_STUB_SYMBOL "rvm_e"

// Blocks of fixed sizes: for each size a list of free ones, linked by their first words, and a region to cut new ones
// from.
enum { kRvmPoolClasses = 65 };
typedef struct RvmPool {
  char* bump;
  char* end;
  void* free[kRvmPoolClasses];
} RvmPool;

// The counters and the pools of a machine's heap.
typedef struct RvmHeap {
  int64_t allocations;  // of cells and tensors, since the machine was made
  int64_t frees;
  int64_t live_bytes;
  int64_t peak_bytes;
  int64_t fail_at;  // the allocation with this number fails, for tests; 0: none
  RvmPool cells;    // class i: i * 8 bytes
  RvmPool blocks;   // class i: i * 64 bytes
} RvmHeap;

// All functions of a program have one signature, so that each may be the tail call of any other. They take the machine,
// arguments in registers for integers and pointers and in those for floats, as many as the program needs and not more
// than below, and the budget: the calls and backward jumps until the next poll. They give results in registers of both
// kinds, and what is left of the budget. Values for which there is no register are in RvmMachine::overflow, from the
// first such one on, between a call and the callee's first instruction, or between a return and the next instruction of
// the caller.
enum { kRvmIntegerArgs = 5, kRvmFloatArgs = 8, kRvmIntegerResults = 3, kRvmFloatResults = 4 };
// The budget's place among the integers: the same register for both on x86-64.
enum { kRvmBudgetArg = 4, kRvmBudgetResult = 3 };

typedef struct RvmMachine {
  const char* stack_limit;            // a function whose frame is below ends the run instead of calling another
  RvmHeap* heap;                      // constant
  const uint16_t* const* code;        // bytecode by function; constant
  const void* const* closures;        // machine code of a closure's function, by heap layout; constant
  void* const* constants;             // tensors; constant
  const RvmKernel* kernels;           // null for one that is not machine code for the host; constant
  RvmKernelContext* kernel_context;   // constant
  const volatile int32_t* attention;  // nonzero: the run must look after a kernel; constant
  uint64_t* overflow;                 // constant
  void* runtime;                      // for use by the VM
} RvmMachine;

// The layout of heap objects: vm/memory/object.h has them as types.
enum {
  kRvmImmortalCount = 0x20000000,  // counts at or above it never change
  kRvmCountOffset = 0,             // 32 bits
  kRvmTagOffset = 4,               // 16 bits
  kRvmLayoutOffset = 6,            // 16 bits; 0 for a tensor, i + 1 for cell layout i of the executable
  kRvmFieldsOffset = 8,            // of a cell: 64 bits each
  kRvmMaxCellBytes = 512,          // larger cells are not in the pool
  kRvmMaxBlockBytes = 4096,        // larger tensors, with their headers, are not in the pool
  kRvmTensorTypeOffset = 8,        // 32 bits: base/data_type.h
  kRvmTensorRankOffset = 12,       // 16 bits
  kRvmTensorStorageOffset = 14,    // 8 bits: kRvmTensorInline or others
  kRvmTensorDataOffset = 16,       // a pointer; null: the elements are not on the host
  kRvmTensorBytesOffset = 24,      // of its block, if it is inline; 64 bits
  kRvmTensorDimsOffset = 32,       // a pointer to 64-bit extents
  kRvmTensorHeaderBytes = 64,      // before the elements of an inline or planned tensor
};

// Storage of tensors: in a block of their own; in memory that outlives them, such as a window of the arena.
enum { kRvmTensorInline = 0, kRvmTensorBorrowed = 1 };

// Least size of the scratch memory for kernels, if there is any: RvmKernelContext::workspace is not null then.
enum { kRvmMinWorkspaceBytes = 4096 };

// The reasons for which machine code ends a run by itself.
enum {
  kRvmNoClauseFits = 0,      // of a match?
  kRvmWrongConstructor = 1,  // of which fields are taken
};

#ifdef __cplusplus
}
#endif

#endif  // RVM_KERNELS_ABI_MACHINE_ABI_H_
