// FunctionEmitter: a function that calls itself in tail position is a loop.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "compiler/bytecode/branch_instruction.h"
#include "compiler/bytecode/function_emitter.h"
#include "compiler/ops/select_scalar.h"

namespace rvm::bytecode {
namespace {

// Each takes a register for as long as the loop runs.
constexpr size_t kMaxLoopConstants = 16;

// Calls `visit(call)` for each operator call on scalars in `block` and the blocks inside.
template <typename F>
void ForEachScalarCall(const ir::Expr* block, const F& visit) {
  WithStack([&] {
    for (const ir::Expr* rest = block; rest != nullptr;) {
      const auto* let = ir::DynCast<ir::Let>(rest);
      const ir::Expr* step = let != nullptr ? let->value : rest;
      rest = let != nullptr ? let->body : nullptr;
      if (const auto* branch = ir::DynCast<ir::If>(step)) {
        ForEachScalarCall(branch->then_branch, visit);
        ForEachScalarCall(branch->else_branch, visit);
      } else if (const auto* match = ir::DynCast<ir::Match>(step)) {
        for (const ir::Clause& clause : match->clauses) ForEachScalarCall(clause.body, visit);
      } else if (const auto* call = ir::DynCast<ir::Call>(step)) {
        if (std::optional<ops::ScalarInstruction> selected = ops::SelectScalar(*call)) visit(*call, *selected);
      }
    }
  });
}

// Returns whether a small integer becomes part of the instruction itself.
bool TakesImmediate(Opcode opcode) {
  constexpr Opcode kOpcodes[] = {Opcode::kAddI32, Opcode::kSubI32, Opcode::kAddInt, Opcode::kSubInt,
                                 Opcode::kEqInt,  Opcode::kNeInt,  Opcode::kLtInt,  Opcode::kLeInt};
  return std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) != std::end(kOpcodes);
}

}  // namespace

bool FunctionEmitter::IsSelfCall(const ir::Call& call) const {
  if (const auto* global = ir::GlobalCallee(&call)) {
    return pending_.global != nullptr && global->name == pending_.global->name;
  }
  const auto* var = ir::DynCast<ir::VarExpr>(call.callee);
  return var != nullptr && pending_.self != nullptr && var->var == pending_.self;
}

void FunctionEmitter::FindSelfTailCalls(const ir::Expr* block) {
  WithStack([&] {
    while (const auto* let = ir::DynCast<ir::Let>(block)) block = let->body;
    if (const auto* branch = ir::DynCast<ir::If>(block)) {
      FindSelfTailCalls(branch->then_branch);
      FindSelfTailCalls(branch->else_branch);
    } else if (const auto* match = ir::DynCast<ir::Match>(block)) {
      for (const ir::Clause& clause : match->clauses) FindSelfTailCalls(clause.body);
    } else if (const auto* call = ir::DynCast<ir::Call>(block); call != nullptr && IsSelfCall(*call)) {
      is_loop_ = true;
      size_t first = pending_.is_closure ? 1 : 0;
      for (size_t i = 0; i < call->args.size(); ++i) {
        if (const auto* use = ir::DynCast<ir::VarExpr>(call->args[i]))
          preferred_.try_emplace(use->var, params_[first + i]);
      }
    }
  });
}

void FunctionEmitter::LoadLoopConstants() {
  ForEachScalarCall(pending_.function->body, [&](const ir::Call& call, const ops::ScalarInstruction& selected) {
    for (const ir::Expr* arg : call.args) {
      const auto* constant = ir::DynCast<ir::Constant>(arg);
      if (constant == nullptr || loop_constants_.size() == kMaxLoopConstants) continue;
      if (SmallInt(constant) && TakesImmediate(selected.opcode)) continue;
      if (LoopConstant(constant->literal)) continue;
      Reg reg = LoadConstant(*constant);
      loop_constants_.push_back({constant->literal, reg});
    }
  });
}

std::optional<Reg> FunctionEmitter::LoopConstant(const Literal& literal) const {
  for (const auto& [known, reg] : loop_constants_) {
    if (known == literal) return reg;
  }
  return std::nullopt;
}

std::optional<Reg> FunctionEmitter::PreferredRegister(const ir::Var* var, TypeId type) {
  auto found = preferred_.find(var);
  if (found == preferred_.end() || registers_.desc(found->second).type != type) return std::nullopt;
  return found->second;
}

// A loop: the arguments move into the parameters, and control to the start.
absl::Status FunctionEmitter::EmitSelfTailCall(const std::vector<ir::Expr*>& args) {
  Operands operands;
  std::vector<std::pair<Reg, Reg>> moves;
  for (size_t i = 0; i < args.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(Reg reg, Consume(args[i], registers_.desc(params_[i]).type, operands, args, i));
    if (reg.value != params_[i].value) moves.push_back({reg, params_[i]});
  }
  MoveInParallel(std::move(moves));
  code_.Op(Opcode::kJump).L(start_);
  Release(operands);
  return absl::OkStatus();
}

void FunctionEmitter::MoveInParallel(std::vector<std::pair<Reg, Reg>> moves) {
  std::vector<Reg> temporaries;
  // The register of a dead parameter is free, but a later move may write to it.
  auto is_written = [all = moves](Reg reg) {
    return std::any_of(all.begin(), all.end(), [&](const auto& move) { return move.second.value == reg.value; });
  };
  while (!moves.empty()) {
    auto is_read = [&](Reg reg) {
      for (const auto& [from, to] : moves) {
        if (from.value == reg.value) return true;
      }
      return false;
    };
    bool moved = false;
    for (size_t i = 0; i < moves.size();) {
      auto [from, to] = moves[i];
      if (is_read(to)) {
        ++i;
        continue;
      }
      code_.Op(Opcode::kMove).R(to).R(from);
      moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(i));
      moved = true;
    }
    if (moved) continue;
    // A cycle: one value is copied to a temporary, and the moves that read its register read the copy.
    Reg from = moves[0].first;
    Reg temporary;
    do {
      temporary = registers_.Allocate(registers_.desc(from).type);
      temporaries.push_back(temporary);
    } while (is_written(temporary));
    code_.Op(Opcode::kMove).R(temporary).R(from);
    for (auto& [source, to] : moves) {
      if (source.value == from.value) source = temporary;
    }
  }
  for (Reg reg : temporaries) registers_.Free(reg);
}

}  // namespace rvm::bytecode
