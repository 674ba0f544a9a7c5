// The extents inside one kernel, as lowering will derive them.
#ifndef RVM_COMPILER_PASSES_FUSION_KERNEL_EXTENTS_H_
#define RVM_COMPILER_PASSES_FUSION_KERNEL_EXTENTS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "compiler/passes/fusion/fusion_groups.h"

namespace rvm::passes {

// A kernel has no `?`: what its operators give has extents derived from those of its parameters, and these can double
// with each operator. Types cannot tell, because an extent that grows too large is `?` in them.
class KernelExtents {
 public:
  using Renaming = absl::flat_hash_map<const ir::Var*, ir::Var*>;
  KernelExtents(ir::Arena& arena, const Renaming& renamed) : arena_(arena), renamed_(renamed) {}

  // Adds an operator's call behind those that were added. False, and nothing added, if the extents would then be too
  // large for one kernel; never for the first call.
  bool Add(const FusionStep& step);
  // Forgets the calls: their results are parameters of a new kernel.
  void Clear();

 private:
  const ir::Type* TypeOf(const ir::Expr* atom);
  const ir::Type* OverSymbols(const ir::Type* type);
  Dim SymbolFor(const Dim& dim);
  Dim Symbol() { return Dim::Var(next_symbol_++, "s"); }
  Dim Value() { return Dim::Value(next_symbol_++, "s"); }
  const ir::Type* ResultOf(const FusionStep& step, int& nodes);
  void Define(const FusionStep& step, const ir::Type* result);

  ir::Arena& arena_;
  const Renaming& renamed_;
  absl::flat_hash_map<const ir::Var*, const ir::Type*> types_;  // over symbols
  absl::flat_hash_map<std::string, Dim> symbols_;               // of expressions, by canonical text
  // Beyond the ids of the program's own variables.
  int64_t next_symbol_ = int64_t{1} << 50;
  int nodes_ = 0;
  bool is_empty_ = true;
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FUSION_KERNEL_EXTENTS_H_
