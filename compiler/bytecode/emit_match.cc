// FunctionEmitter::EmitMatch: a decision tree as branches.
//
// The tree owns the parts it takes out of the value (and the value itself, if this match is
// its last use): each is moved to the variable a clause binds, taken apart further, or
// dropped at the leaf.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "compiler/bytecode/branch_instruction.h"
#include "compiler/bytecode/decision_tree.h"
#include "compiler/bytecode/function_emitter.h"

namespace rvm::bytecode {
namespace {

// With at least so many constructors, a jump table is faster than a chain of compares.
constexpr size_t kMinSwitchCases = 3;

}  // namespace

class MatchEmitter {
 public:
  using Target = FunctionEmitter::Target;
  using Block = FunctionEmitter::Block;

  MatchEmitter(FunctionEmitter& emitter, const ir::Match& match, Target inner)
      : emitter_(emitter), code_(emitter.code_), registers_(emitter.registers_), match_(match), inner_(inner) {}

  absl::Status Run();

 private:
  // Location of a part on the current path.
  struct Place {
    Reg reg;
    bool is_owned = false;  // by the tree
    bool is_gone = false;   // moved or taken apart
  };
  // A clause that several leaves run: they fill its registers and jump.
  struct SharedClause {
    Label label;
    std::vector<std::pair<const ir::Var*, Reg>> bindings;
  };

  Place Take(const ir::Expr* atom);
  TypeId TypeOfVar(const ir::Var* var) { return emitter_.tables_.types().Lower(var->type); }
  absl::Status EmitNode(const DecisionNode& node);
  absl::Status EmitSwitch(const DecisionNode& node);
  void BranchOnLiteral(Reg reg, const Literal& literal, Label target);
  absl::Status EmitCase(const DecisionNode& node, const DecisionCase& decision);
  absl::Status EmitIsolated(absl::FunctionRef<absl::Status()> body);
  absl::Status EmitLeaf(const DecisionNode& node);
  void TakeApart(Part part, const DecisionCase& decision);
  Reg RegisterOfField(const DecisionCase& decision, size_t field, std::optional<Reg> given_up);
  absl::StatusOr<Reg> TakeForBinding(Part part, TypeId type, bool is_last);
  void DropRest();
  absl::Status EmitBody(size_t clause, const std::vector<std::pair<const ir::Var*, Reg>>& bindings,
                        const std::vector<Reg>& shells);
  bool WantsShell(const DecisionNode& node, size_t fields) const;
  void PrepareSharedClauses(const DecisionNode& node);

  FunctionEmitter& emitter_;
  CodeBuffer& code_;
  RegisterAllocator& registers_;
  const ir::Match& match_;
  Target inner_;
  uint32_t position_ = 0;
  Label end_{};
  DecisionTree tree_;
  absl::flat_hash_map<Part, Place> places_;
  std::vector<Reg> shells_;  // of the cells taken apart on the current path
  std::vector<const ir::Var*> dying_;
  std::vector<const ir::Var*> taken_;  // that the tree owns, or their parts
  std::vector<Reg> constants_;         // that it is on
  absl::flat_hash_map<size_t, SharedClause> shared_;
};

absl::Status FunctionEmitter::EmitMatch(const ir::Match& match, const ir::Var* var, const Target& target) {
  Target inner = JoinTarget(match.type, var, target);
  uint32_t position = position_;
  RVM_RETURN_IF_ERROR(MatchEmitter(*this, match, inner).Run());
  position_ = position;
  next_position_ = liveness_.step_end(position);
  next_block_ = liveness_.blocks_after(position);
  return Joined(inner, var, target);
}

absl::Status MatchEmitter::Run() {
  position_ = emitter_.position_;
  end_ = code_.NewLabel();
  auto is_used = [&](const ir::Var* var) { return emitter_.liveness_.num_uses(var) > 0; };
  TypeTable& types = emitter_.tables_.types();
  const auto* tuple = ir::DynCast<ir::Tuple>(match_.value);
  Place root;
  if (tuple == nullptr) root = Take(match_.value);
  TypeId type = tuple == nullptr ? registers_.desc(root.reg).type : types.Lower(tuple->type);
  RVM_ASSIGN_OR_RETURN(tree_, BuildDecisionTree(match_, type, types, is_used));
  const DecisionNode* start = tree_.root.get();
  if (tuple == nullptr) {
    places_[0] = root;
  } else {
    // There is no tuple: its fields are where they are.
    const DecisionCase& fields = start->cases[0];
    for (size_t i = 0; i < tuple->fields.size(); ++i) places_[fields.fields[i]] = Take(tuple->fields[i]);
    start = fields.node.get();
  }
  dying_ = emitter_.DyingIn(position_, emitter_.liveness_.step_end(position_));
  for (const ir::Var* var : taken_) std::erase(dying_, var);
  PrepareSharedClauses(*start);
  RVM_RETURN_IF_ERROR(EmitIsolated([&] { return EmitNode(*start); }));
  for (size_t clause = 0; clause < match_.clauses.size(); ++clause) {
    auto found = shared_.find(clause);
    if (found == shared_.end()) continue;
    code_.Bind(found->second.label);
    RVM_RETURN_IF_ERROR(EmitIsolated([&] { return EmitBody(clause, found->second.bindings, {}); }));
  }
  code_.Bind(end_);
  for (auto& [clause, shared] : shared_) {
    for (auto& [var, reg] : shared.bindings) registers_.Free(reg);
  }
  emitter_.Forget(dying_);
  for (Reg reg : constants_) registers_.Free(reg);
  for (const ir::Var* var : taken_) emitter_.GiveUp(var);
  return absl::OkStatus();
}

// Returns the register of an atom. The tree owns it if this is its last use.
MatchEmitter::Place MatchEmitter::Take(const ir::Expr* atom) {
  if (const auto* constant = ir::DynCast<ir::Constant>(atom)) {
    constants_.push_back(emitter_.LoadConstant(*constant));
    return {constants_.back(), true, false};
  }
  const ir::Var* var = ir::Cast<ir::VarExpr>(atom)->var;
  const bool is_owned = emitter_.DiesHere(var);
  if (is_owned) taken_.push_back(var);
  return {emitter_.vars_.at(var).reg, is_owned, false};
}

// Emits one path of the tree, then restores registers and places.
absl::Status MatchEmitter::EmitIsolated(absl::FunctionRef<absl::Status()> body) {
  RegisterAllocator::Position mark = registers_.Mark();
  absl::flat_hash_map<Part, Place> places = places_;
  std::vector<Reg> shells = shells_;
  RVM_RETURN_IF_ERROR(body());
  registers_.RollBack(mark);
  places_ = std::move(places);
  shells_ = std::move(shells);
  return absl::OkStatus();
}

void MatchEmitter::PrepareSharedClauses(const DecisionNode& node) {
  WithStack([&] {
    if (node.kind == DecisionNode::Kind::kLeaf && tree_.leaves_of_clause[node.clause] > 1 &&
        !shared_.contains(node.clause)) {
      SharedClause shared{code_.NewLabel(), {}};
      for (const auto& [var, part] : node.bindings) {
        shared.bindings.push_back({var, registers_.Allocate(TypeOfVar(var))});
      }
      shared_.emplace(node.clause, std::move(shared));
    }
    for (const DecisionCase& decision : node.cases) PrepareSharedClauses(*decision.node);
    if (node.otherwise != nullptr) PrepareSharedClauses(*node.otherwise);
  });
}

absl::Status MatchEmitter::EmitNode(const DecisionNode& node) {
  return WithStack([&]() -> absl::Status {
    switch (node.kind) {
      case DecisionNode::Kind::kFail: code_.Op(Opcode::kFatal).Unit(0); return absl::OkStatus();
      case DecisionNode::Kind::kLeaf: return EmitLeaf(node);
      case DecisionNode::Kind::kSwitch: return EmitSwitch(node);
    }
    RVM_UNREACHABLE("a decision node of no kind");
  });
}

absl::Status MatchEmitter::EmitSwitch(const DecisionNode& node) {
  Reg reg = places_.at(node.part).reg;
  size_t num_targets = node.cases.size() + (node.otherwise != nullptr ? 1 : 0);
  if (num_targets == 1) return EmitCase(node, node.cases[0]);
  std::vector<Label> labels;
  for (size_t i = 0; i < num_targets; ++i) labels.push_back(code_.NewLabel());
  if (node.tests_literals()) {
    for (size_t i = 0; i + 1 < num_targets; ++i) BranchOnLiteral(reg, *node.cases[i].literal, labels[i]);
  } else if (num_targets >= kMinSwitchCases) {
    size_t num_tags = emitter_.tables_.types().num_constructors(registers_.desc(reg).type);
    code_.Op(Opcode::kSwitch).R(reg).Unit(static_cast<uint16_t>(num_tags));
    for (uint32_t tag = 0; tag < num_tags; ++tag) {
      size_t i = 0;
      while (i < node.cases.size() && node.cases[i].tag != tag) ++i;
      code_.L(labels[i]);
    }
  } else {
    code_.Op(Opcode::kBranchTag).R(reg).Unit(static_cast<uint16_t>(node.cases[0].tag)).L(labels[0]);
  }
  // The first case comes last, because it needs no test: it is what remains after the others.
  for (size_t i = num_targets; i-- > 0;) {
    code_.Bind(labels[i]);
    RVM_RETURN_IF_ERROR(EmitIsolated(
        [&] { return i < node.cases.size() ? EmitCase(node, node.cases[i]) : EmitNode(*node.otherwise); }));
  }
  return absl::OkStatus();
}

void MatchEmitter::BranchOnLiteral(Reg reg, const Literal& literal, Label target) {
  ir::Constant constant(literal, {});
  if (literal.dtype().is_bool()) {
    code_.Op(literal.IntAt(0) != 0 ? Opcode::kBranchIf : Opcode::kBranchUnless).R(reg).L(target);
  } else if (std::optional<int16_t> value = SmallInt(&constant)) {
    code_.Op(Opcode::kBranchEqImm).R(reg).Unit(static_cast<uint16_t>(*value)).L(target);
  } else {
    Reg expected = emitter_.LoadConstant(constant);
    code_.Op(Opcode::kBranchEqInt).R(reg).R(expected).L(target);
    registers_.Free(expected);
  }
}

absl::Status MatchEmitter::EmitCase(const DecisionNode& node, const DecisionCase& decision) {
  TakeApart(node.part, decision);
  return EmitNode(*decision.node);
}

// A field that is passed to the next iteration of a loop is unpacked directly into the parameter's register, even if
// that register holds the cell itself and the cell is `given_up`.
Reg MatchEmitter::RegisterOfField(const DecisionCase& decision, size_t field, std::optional<Reg> given_up) {
  Part part = decision.fields[field];
  TypeId type = tree_.part_types[part];
  for (const auto& [var, bound] : decision.node->bindings) {
    std::optional<Reg> preferred = bound == part ? emitter_.PreferredRegister(var, type) : std::nullopt;
    if (!preferred || shared_.contains(decision.node->clause)) continue;
    if (given_up && preferred->value == given_up->value) return *preferred;
    if (registers_.IsFree(*preferred)) {
      registers_.Take(*preferred);
      return *preferred;
    }
  }
  return registers_.Allocate(type);
}

// Loads the fields that are needed into registers.
void MatchEmitter::TakeApart(Part part, const DecisionCase& decision) {
  Place& place = places_.at(part);
  bool any_needed = false;
  for (bool needed : decision.is_needed) any_needed |= needed;
  if (!any_needed) return;
  uint16_t layout = static_cast<uint16_t>(decision.layout.value);
  Reg whole = place.reg;
  bool unpack = place.is_owned && !place.is_gone && !decision.whole_is_needed;
  if (unpack) place.is_gone = true;
  std::vector<Reg> regs;
  std::optional<Reg> given_up = unpack ? std::optional<Reg>(whole) : std::nullopt;
  for (size_t i = 0; i < decision.fields.size(); ++i) {
    if (!unpack && !decision.is_needed[i]) continue;
    Reg reg = RegisterOfField(decision, i, given_up);
    if (given_up && reg.value == given_up->value) given_up.reset();
    regs.push_back(reg);
    places_[decision.fields[i]] = Place{reg, true, false};
    if (!unpack) {
      code_.Op(Opcode::kGetField).R(reg).R(whole).Unit(layout).Unit(static_cast<uint16_t>(i));
    }
  }
  if (!unpack) return;
  if (WantsShell(*decision.node, regs.size())) {
    Reg shell = registers_.Allocate(emitter_.tables_.types().Shell(regs.size()));
    shells_.push_back(shell);
    code_.Op(Opcode::kUnpackShell).Rs(regs).R(shell).R(whole).Unit(layout);
  } else {
    code_.Op(Opcode::kUnpack).Rs(regs).R(whole).Unit(layout);
  }
  for (size_t i = 0; i < decision.fields.size(); ++i) {
    if (decision.is_needed[i]) continue;
    places_[decision.fields[i]].is_gone = true;
    if (emitter_.Owns(regs[i])) code_.Op(Opcode::kDrop).R(regs[i]);
    registers_.Free(regs[i]);
  }
}

// Returns whether a clause below `node` makes a cell of that many fields. Looks at a few leaves only: patterns
// may be deep, and each level asks.
bool MatchEmitter::WantsShell(const DecisionNode& node, size_t fields) const {
  constexpr size_t kMaxNodes = 32;
  std::vector<const DecisionNode*> nodes = {&node};
  for (size_t i = 0; i < nodes.size() && i < kMaxNodes; ++i) {
    const DecisionNode& at = *nodes[i];
    if (at.kind == DecisionNode::Kind::kLeaf && !shared_.contains(at.clause)) {
      const Liveness::Start& start = emitter_.liveness_.clause_starts(position_)[at.clause];
      uint32_t end = emitter_.liveness_.block_end(start.block);
      if (!emitter_.liveness_.CellsMade(fields, start.position, end).empty()) return true;
    }
    for (const DecisionCase& decision : at.cases) nodes.push_back(decision.node.get());
    if (at.otherwise != nullptr) nodes.push_back(at.otherwise.get());
  }
  return false;
}

// Returns a register of its own for a variable bound to the part.
absl::StatusOr<Reg> MatchEmitter::TakeForBinding(Part part, TypeId type, bool is_last) {
  Place& place = places_.at(part);
  Reg reg = place.reg;
  if (place.is_owned && !place.is_gone && is_last) {
    place.is_gone = true;
  } else {
    Reg copy = registers_.Allocate(registers_.desc(reg).type);
    code_.Op(emitter_.Owns(reg) ? Opcode::kRetain : Opcode::kMove).R(copy).R(reg);
    reg = copy;
  }
  return emitter_.Coerce(reg, registers_.desc(reg).type, type);
}

void MatchEmitter::DropRest() {
  // In order of parts, so that the same program gives the same code.
  for (Part part = 0; part < tree_.part_types.size(); ++part) {
    auto found = places_.find(part);
    if (found == places_.end()) continue;
    Place& place = found->second;
    if (!place.is_owned || place.is_gone) continue;
    if (emitter_.Owns(place.reg)) code_.Op(Opcode::kDrop).R(place.reg);
    place.is_gone = true;
  }
}

absl::Status MatchEmitter::EmitLeaf(const DecisionNode& node) {
  auto shared = shared_.find(node.clause);
  std::vector<std::pair<const ir::Var*, Reg>> bindings;
  for (size_t i = 0; i < node.bindings.size(); ++i) {
    auto [var, part] = node.bindings[i];
    bool is_last = true;
    for (size_t j = i + 1; j < node.bindings.size(); ++j) is_last &= node.bindings[j].second != part;
    RVM_ASSIGN_OR_RETURN(Reg reg, TakeForBinding(part, TypeOfVar(var), is_last));
    bindings.push_back({var, reg});
  }
  DropRest();
  if (shared == shared_.end()) return EmitBody(node.clause, bindings, shells_);
  for (Reg shell : shells_) code_.Op(Opcode::kDropShell).R(shell);
  for (const auto& [var, reg] : bindings) {
    for (const auto& [other, destination] : shared->second.bindings) {
      if (other == var) code_.Op(Opcode::kMove).R(destination).R(reg);
    }
  }
  code_.Op(Opcode::kJump).L(shared->second.label);
  return absl::OkStatus();
}

absl::Status MatchEmitter::EmitBody(size_t clause, const std::vector<std::pair<const ir::Var*, Reg>>& bindings,
                                    const std::vector<Reg>& shells) {
  const Liveness::Start& start = emitter_.liveness_.clause_starts(position_)[clause];
  emitter_.next_position_ = start.position;
  emitter_.next_block_ = start.block;
  RVM_RETURN_IF_ERROR(emitter_.InBranch(dying_, [&] {
    for (const auto& [var, reg] : bindings) emitter_.Bind(var, reg, registers_.desc(reg).type);
    for (Reg shell : shells) emitter_.BindShell(shell, emitter_.block_->begin);
    return emitter_.EmitBlock(match_.clauses[clause].body, inner_);
  }));
  if (!inner_.is_tail) code_.Op(Opcode::kJump).L(end_);
  return absl::OkStatus();
}

}  // namespace rvm::bytecode
