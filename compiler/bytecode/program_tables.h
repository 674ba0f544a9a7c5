// ProgramTables: what the functions of one executable share while they are
// emitted: types, constants, kernels, function ids, and the functions still to do.
#ifndef RVM_COMPILER_BYTECODE_PROGRAM_TABLES_H_
#define RVM_COMPILER_BYTECODE_PROGRAM_TABLES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/bytecode/emit_program.h"
#include "compiler/bytecode/type_table.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "kernels/schedule/batch_pair.h"

namespace rvm::bytecode {

// A function whose code is still to be emitted.
struct PendingFunction {
  FunctionId id;
  std::string name;  // for people
  const ir::Function* function;
  const ir::GlobalFunction* global = nullptr;  // null: local
  // True for the code of a closure: register 0 is the closure; it holds the captures.
  bool is_closure = false;
  TypeId closure_type;
  LayoutId layout;
  const ir::Var* self = nullptr;  // the variable that names the closure inside itself
  std::vector<ir::Var*> captures;
};

struct KernelUse {
  KernelId id;
  bool is_static;
};

class ProgramTables {
 public:
  ProgramTables(ir::Arena& arena, const diagnostics::SourceMap& sources, const EmitOptions& options,
                EmittedProgram& program)
      : arena_(arena), sources_(sources), options_(options), program_(program), types_(arena, program.executable) {}

  ir::Arena& arena() { return arena_; }
  TypeTable& types() { return types_; }
  const EmitOptions& options() const { return options_; }
  const KernelDesc& kernel(KernelId id) const { return program_.executable.kernels[id.value]; }
  const FunctionDesc& function(FunctionId id) const { return program_.executable.functions[id.value]; }

  // Returns the id of a global function, declared with its parameter and result types on first mention.
  FunctionId GlobalFunction(const ir::GlobalFunction& global);
  FunctionId GlobalByName(const std::string& name);
  // Returns whether a call of `name` in tail position keeps the frame of `caller`. Calls from the program to the
  // Prelude do, so that a backtrace from inside the Prelude shows the program. Callees with function parameters are
  // exempt: they may call the program back, and such loops must run in constant stack space.
  bool KeepsCaller(const std::string& name, const ir::Function& caller) const;
  // Declares the code of a closure; the layout of its cells.
  LayoutId ClosureLayout(PendingFunction pending);
  // Equal literals are stored once, under the first name among theirs.
  ConstantId Constant(const ir::Constant& constant);
  absl::StatusOr<KernelUse> Kernel(const ir::Function& primitive, std::vector<bool> constant_inputs);
  SourceLine LineOf(ir::Span span);
  bool IsAssignable(TypeId from, TypeId to) const { return rvm::IsAssignable(program_.executable, from, to); }
  std::string TypeText(TypeId type) const { return TypeToString(program_.executable, type); }

  void AddModule(const ir::Module& module);
  bool TakePending(PendingFunction& out);
  void Finish(FunctionId id, FunctionDesc desc) { program_.executable.functions[id.value] = std::move(desc); }

 private:
  FunctionId Declare(PendingFunction pending);
  void AddKernel(KernelDesc desc, schedule::Schedule schedule, EmittedProgram::Origin origin);
  static KernelTensor TypeOf(const te::Tensor& tensor);
  // Returns the kernel that arranges an input of the variant of `user`: one for all variants that read the same panels.
  KernelId Arrangement(KernelId user, schedule::ArrangedInput arranged);
  void AddBatchVariant(KernelId kernel, schedule::BatchPair& pair);

  ir::Arena& arena_;
  const diagnostics::SourceMap& sources_;
  const EmitOptions& options_;
  EmittedProgram& program_;
  TypeTable types_;
  absl::flat_hash_map<std::string, const ir::GlobalFunction*> globals_;
  absl::flat_hash_map<std::string, FunctionId> function_ids_;
  std::deque<PendingFunction> pending_;
  absl::flat_hash_map<const void*, std::vector<ConstantId>> constants_;  // by data address
  absl::flat_hash_map<std::string, KernelId> kernels_;                   // by fingerprint and mask
  absl::flat_hash_map<uint32_t, uint32_t> files_;                        // source -> file index
};

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_PROGRAM_TABLES_H_
