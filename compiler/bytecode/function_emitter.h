// FunctionEmitter: one function body in A-normal form to bytecode.
//
// Ownership. Each variable is owned by one block: the one that binds it, or, when its last
// use lies inside a branch, that branch (and its siblings). At a variable's last use in its
// owner, the instruction moves it; where the operand is only borrowed, a drop
// follows; where a move is not the last use, a retain goes before. A branch that does not
// use what it was handed drops it first. So on every path each count is given up exactly
// once, which is what the verifier demands.
#ifndef RVM_COMPILER_BYTECODE_FUNCTION_EMITTER_H_
#define RVM_COMPILER_BYTECODE_FUNCTION_EMITTER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/bytecode/code_buffer.h"
#include "compiler/bytecode/liveness.h"
#include "compiler/bytecode/program_tables.h"
#include "compiler/bytecode/register_allocator.h"
#include "compiler/ops/scalar_instruction.h"

namespace rvm::bytecode {

class FunctionEmitter {
 public:
  FunctionEmitter(ProgramTables& tables, const PendingFunction& pending)
      : tables_(tables),
        pending_(pending),
        returns_fields_(pending.global != nullptr && pending.global->returns_fields),
        liveness_(pending.function->body, returns_fields_) {}

  absl::StatusOr<FunctionDesc> Run();

 private:
  // Location and owner of a bound variable.
  struct VarState {
    Reg reg;
    TypeId type;
    uint32_t owner = 0;            // block
    uint32_t last_use = 0;         // position within the owner; the definition's if there is none
    std::optional<uint32_t> slot;  // planned: its place in the arena
  };

  // A block being emitted: an interval of positions and the variables it owns, by last use. Shells are variables too.
  struct Block {
    uint32_t id;
    uint32_t begin, end;
    std::set<std::pair<uint32_t, const ir::Var*>> dying;
  };

  // Destination of a value: a register of a known type, or the result of the function.
  struct Target {
    bool is_tail = true;
    Reg reg;
    TypeId type;
  };

  // The operands of one instruction while it is put together.
  struct Operands {
    std::vector<Reg> temporaries;          // loaded for the instruction; dropped and freed after it
    std::vector<Reg> consumed;             // copies the instruction used up; freed after it
    std::vector<const ir::Var*> moved;     // given up by the instruction
    std::vector<const ir::Var*> borrowed;  // read; dropped after if this is their last use
  };

  // ---- blocks (function_emitter.cc)
  absl::Status EmitBlock(const ir::Expr* expr, Target target);
  absl::Status EmitLet(const ir::Let& let, const ir::Expr** next);
  absl::Status EmitKernelWithProjections(const ir::Let& let, const ir::Expr** next);
  // Skips the lets at the front of `rest` that name fields of `tuple`, each once, into `fields`. How many they are.
  static uint32_t FollowProjections(const ir::Var* tuple, const ir::Expr** rest, std::vector<const ir::Var*>& fields);
  absl::Status EmitIf(const ir::If& expr, const ir::Var* var, const Target& target);
  absl::Status EmitMatch(const ir::Match& match, const ir::Var* var, const Target& target);  // emit_match.cc
  void EmitEntryChecks();
  // Returns whether `let` is a comparison of scalars that only `branch`, right behind it, looks at.
  bool CanFuseCompare(const ir::Let& let, const ir::If& branch) const;

  // JoinTarget returns the destination of the branches of a value; Joined emits the code behind them.
  Target JoinTarget(const ir::Type* type, const ir::Var* var, const Target& target);
  absl::Status Joined(const Target& inner, const ir::Var* var, const Target& target);

  // Variables owned by the current block whose last use is inside [begin, end).
  std::vector<const ir::Var*> DyingIn(uint32_t begin, uint32_t end);
  // Runs `body` as the next block, which owns `dying`; restores all for the next branch.
  absl::Status InBranch(const std::vector<const ir::Var*>& dying, absl::FunctionRef<absl::Status()> body);
  // After the last branch: the variables handed over are gone.
  void Forget(const std::vector<const ir::Var*>& dying);

  // ---- shells: the memory of cells that a match took apart (emit_shell.cc)
  // `reg` holds one: the first cell of its size that this block makes, from position `begin` on, takes it; if none
  // does, it is dropped.
  void BindShell(Reg reg, uint32_t begin);
  // Returns the shell that the cell made at this step takes; null if none.
  const ir::Var* ShellFor(size_t fields) const;
  // The first cell of that many fields in `block`, from `begin` on, that no shell waits for.
  std::optional<uint32_t> NextCell(size_t fields, const Block& block, uint32_t begin) const;
  size_t FieldsOf(Reg shell) const;
  bool IsShell(Reg reg) const { return tables_.types().desc(registers_.desc(reg).type).kind == TypeDescKind::kShell; }

  // ---- loops (emit_loop.cc)
  // Finds the calls of the function itself that are jumps, in the tails of `block`.
  void FindSelfTailCalls(const ir::Expr* block);
  bool IsSelfCall(const ir::Call& call) const;
  // Loads, ahead of the loop, the numbers its operators need in registers.
  void LoadLoopConstants();
  absl::Status EmitSelfTailCall(const std::vector<ir::Expr*>& args);
  void MoveInParallel(std::vector<std::pair<Reg, Reg>> moves);  // {from, to}
  std::optional<Reg> LoopConstant(const Literal& literal) const;
  // Returns the parameter of type `type` where the next round of the loop looks for `var`.
  std::optional<Reg> PreferredRegister(const ir::Var* var, TypeId type);

  // ---- steps (emit_step.cc): the value of `expr` to `var`, or to `target` if that is null
  absl::Status EmitStep(const ir::Expr* expr, const ir::Var* var, const Target& target);
  absl::Status EmitAtom(const ir::Expr* atom, const ir::Var* var, const Target& target);
  absl::Status EmitCall(const ir::Call& call, const ir::Var* var, const Target& target);
  absl::Status EmitFunctionCall(FunctionId callee, const std::vector<ir::Expr*>& args, const ir::Var* var,
                                const Target& target, bool may_be_tail);
  absl::StatusOr<std::vector<Reg>> TakeArgs(FunctionId callee, const std::vector<ir::Expr*>& args, Operands& operands);
  absl::Status EmitClosureCall(const ir::Call& call, const ir::Var* var, const Target& target);
  absl::Status EmitConstructor(const ir::Call& call, const ir::Var* var, const Target& target);
  absl::Status EmitScalar(const ir::Call& call, const ops::ScalarInstruction& selected, const ir::Var* var,
                          const Target& target);
  absl::Status EmitView(const ir::Call& call, const ir::Var* var, const Target& target);
  // Sources of the dims of a view.
  struct ViewDims {
    absl::flat_hash_map<int64_t, Reg> symbols;
    absl::flat_hash_map<std::pair<uint16_t, int64_t>, Dim> values;  // by register and element
    absl::flat_hash_map<Dim, Reg> computed;
    std::vector<Reg> temporaries;
  };
  static Dim NewSymbol(Reg reg, ViewDims& dims);
  const ir::Type* MeasuredType(const ir::Expr* arg, Reg reg, ViewDims& dims);
  Dim ValueOf(const ir::Expr* arg, Reg reg, int64_t element, ViewDims& dims);
  Reg EmitDim(const Dim& dim, ViewDims& dims);
  absl::Status EmitExtent(const ir::Call& call, const ir::Var* var, const Target& target);
  absl::Status EmitCheckExtent(const ir::Call& call, const ir::Var* var, const Target& target);
  absl::Status EmitCheckAtLeast(const ir::Call& call, const ir::Var* var, const Target& target);
  // `what` is in front of the message if the check fails.
  void EmitCheckDims(Reg a, Reg b, DimRelation relation, std::string what);
  absl::Status EmitCell(LayoutId layout, const std::vector<ir::Expr*>& fields, TypeId type, const ir::Var* var,
                        const Target& target);
  absl::Status EmitClosure(const ir::Function& function, const ir::Var* var, const Target& target);
  absl::Status EmitRefRead(const ir::RefRead& read, const ir::Var* var, const Target& target);
  absl::Status EmitRefWrite(const ir::RefWrite& write, const ir::Var* var, const Target& target);
  // ---- results that go to callers as fields (emit_fields.cc)
  bool IsCallForFields(const ir::Expr* expr);
  absl::Status EmitCallWithProjections(const ir::Let& let, const ir::Expr** next);
  std::vector<Reg> CallForFields(FunctionId callee, const std::vector<Reg>& args,
                                 const std::vector<const ir::Var*>& vars);
  // Delivers or returns values that a call gave as fields.
  absl::Status DeliverFields(const std::vector<Reg>& fields, TypeId tuple, const ir::Var* var, const Target& target);
  absl::Status ReturnFields(std::vector<Reg> fields);
  absl::Status ReturnTuple(const ir::Tuple& tuple);
  absl::Status ReturnFieldsOf(Reg tuple);
  // ---- fields of tuples (emit_project.cc)
  absl::Status EmitProject(const ir::Project& project, const ir::Var* var, const Target& target);
  std::span<const Liveness::Projection> ProjectionsOf(const ir::Var* tuple) const;
  bool CanTakeApart(const ir::Var* tuple);
  // Binds the variables of all its projections.
  void TakeApart(const ir::Var* tuple);

  // ---- kernel calls (emit_kernel.cc)
  struct KernelArgs {
    std::vector<uint16_t> units;  // of the instruction
    Operands operands;
    std::vector<const ir::Var*> moved;  // used up by the call, and given up
    struct Planned {
      size_t index;
      const ir::Var* var;
    };
    std::vector<Planned> planned;  // that die here: their slots may take results
  };
  absl::StatusOr<KernelArgs> TakeKernelArgs(const ir::Call& call);
  // Returns the bytes of an output that lives in the arena; nullopt if it does not.
  std::optional<int64_t> PlannedBytes(const KernelTensor& output, TypeId type, const ir::Var* var);
  uint32_t SlotFor(const KernelDesc& kernel, size_t result, int64_t bytes, KernelArgs& args);
  // One variable per output; a null one is the value of the step and goes to `target`.
  absl::Status EmitKernelCall(const ir::Call& call, const std::vector<const ir::Var*>& results, const Target& target);

  // ---- operands
  // A register holding the atom's value, borrowed.
  Reg Borrow(const ir::Expr* atom, Operands& operands);
  // A register the instruction may consume; of type `expected` (checked at run time if need be).
  absl::StatusOr<Reg> Consume(const ir::Expr* atom, TypeId expected, Operands& operands,
                              const std::vector<ir::Expr*>& all_atoms, size_t index);
  Reg LoadConstant(const ir::Constant& constant);
  // Frees temporaries, drops borrowed variables that die here, forgets moved ones. Call after
  // the instruction was emitted.
  void Release(const Operands& operands);
  bool DiesHere(const ir::Var* var) const;
  void GiveUp(const ir::Var* var);   // frees register and slot; emits nothing
  void DropVar(const ir::Var* var);  // emits a drop if it is a pointer, then GiveUp

  // ---- results
  // The type the value is wanted at, where it is built rather than computed.
  TypeId WantedType(const ir::Expr* expr, const ir::Var* var, const Target& target);
  // Returns the register for a result of `type` bound to `var` or going to `target`.
  Reg Destination(const ir::Var* var, const Target& target, TypeId type);
  // Binds `var` to `reg`, or passes `reg` on to the target (checking its shape, returning).
  absl::Status Deliver(Reg reg, TypeId type, const ir::Var* var, const Target& target);
  void Bind(const ir::Var* var, Reg reg, TypeId type, std::optional<uint32_t> slot = std::nullopt);
  // Drops a variable nobody uses.
  void DropIfUnused(const ir::Var* var);
  // `reg` of `from` as a value of `to`: itself, or a checked copy in a new register.
  absl::StatusOr<Reg> Coerce(Reg reg, TypeId from, TypeId to);
  absl::StatusOr<Reg> CoerceFields(Reg tuple, TypeId from, TypeId to);

  void Mark(ir::Span span);
  TypeId TypeOf(const ir::Expr* expr) { return tables_.types().Lower(expr->type); }
  // Returns whether the register holds a count of its cell.
  bool Owns(Reg reg) {
    const RegisterDesc& desc = registers_.desc(reg);
    return !desc.planned && tables_.types().is_pointer(desc.type);
  }

  friend class MatchEmitter;

  ProgramTables& tables_;
  const PendingFunction& pending_;
  const bool returns_fields_;
  Liveness liveness_;
  CodeBuffer code_;
  RegisterAllocator registers_;
  std::vector<SourceLine> lines_;
  absl::flat_hash_map<const ir::Var*, VarState> vars_;
  absl::flat_hash_set<const ir::Var*> taken_out_;  // bound before their own step: see TakeApart
  Block* block_ = nullptr;                         // the current one
  uint32_t next_block_ = 0;                        // numbers as in liveness_
  uint32_t next_position_ = 0;
  uint32_t position_ = 0;  // of the current step
  TypeId result_type_;
  std::vector<Reg> params_;
  Label start_{};  // of the body: target of self tail calls
  bool is_loop_ = false;
  absl::flat_hash_map<const ir::Var*, Reg> preferred_;  // parameters that self tail calls set to a variable
  std::vector<std::pair<Literal, Reg>> loop_constants_;
  // A comparison that the next branch decides on itself.
  const ir::Call* fused_compare_ = nullptr;
  uint32_t fused_position_ = 0;
};

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_FUNCTION_EMITTER_H_
