// Look-ups in tables of 256 bytes. AVX-512 looks up all bytes of a vector in two instructions, which no scalar code
// becomes; so nests call declared functions, as for other functions of lanes (lane_functions.h).
#ifndef RVM_KERNELS_CODEGEN_LLVM_BYTE_TABLES_H_
#define RVM_KERNELS_CODEGEN_LLVM_BYTE_TABLES_H_

#include "kernels/te/tensor.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace rvm::codegen {

// Returns whether the read is of a table of 256 bytes at an element of uint8.
bool IsByteLookup(const te::ExprNode& read);

// Emits a call for the byte at `index`, an i8 without sign, of a table that does not change.
llvm::Value* CallByteLookup(llvm::IRBuilder<>& b, llvm::Value* table, llvm::Value* index);

// Replaces all such calls by code. Returns whether there were any.
bool ExpandByteLookups(llvm::Module& module);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_BYTE_TABLES_H_
