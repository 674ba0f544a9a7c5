// Liveness of variables in A-normal form, by position.
//
// Positions number the steps of a function body in the order in which code is emitted: one
// per let value and one per tail. A block (function body, branch, clause) is an interval of
// positions, so "the last use of a variable within a block" is a binary search.
#ifndef RVM_COMPILER_BYTECODE_LIVENESS_H_
#define RVM_COMPILER_BYTECODE_LIVENESS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/expr.h"

namespace rvm::bytecode {

class Liveness {
 public:
  // `body`: in A-normal form. The tuples that a function gives which returns fields are no cells.
  Liveness(const ir::Expr* body, bool returns_fields);

  // End (exclusive) of the positions of the step at `position`, nested blocks included.
  uint32_t step_end(uint32_t position) const { return step_ends_[position]; }
  // End (exclusive) of a block; blocks are numbered in the order they are entered.
  uint32_t block_end(uint32_t block) const { return block_ends_[block]; }
  // Begin of a clause of the match at `position`.
  struct Start {
    uint32_t position;
    uint32_t block;
  };
  const std::vector<Start>& clause_starts(uint32_t position) const { return clause_starts_.at(position); }
  // Blocks entered in the step at `position` and all before.
  uint32_t blocks_after(uint32_t position) const { return blocks_after_[position]; }
  // Last use in [begin, end), if any.
  std::optional<uint32_t> LastUse(const ir::Var* var, uint32_t begin, uint32_t end) const;
  size_t num_uses(const ir::Var* var) const;
  size_t NumUses(const ir::Var* var, uint32_t begin, uint32_t end) const;
  // `let var = tuple.index;`
  struct Projection {
    uint32_t position;
    int64_t index;
    const ir::Var* var;
  };
  // Returns the projections that the block makes in [begin, end), in order: its own, and those of the only clauses of
  // matches in it, which run whenever it does.
  std::span<const Projection> Projections(const ir::Var* tuple, uint32_t block, uint32_t begin, uint32_t end) const;
  // Returns true if the variable is used other than as an argument of a kernel call: the value may outlive the
  // activation.
  bool Escapes(const ir::Var* var) const { return escaping_.contains(var); }
  // Returns the positions in [begin, end) at which cells of that many fields are made, in order.
  std::span<const uint32_t> CellsMade(size_t fields, uint32_t begin, uint32_t end) const;
  // Returns the captures of a function literal, without itself, in order of first use.
  const std::vector<ir::Var*>& captures(const ir::Function* function) const { return captures_.at(function); }

 private:
  // `is_tail`: the block, or the step, gives the result of the function. `is_certain`: it runs whenever the current one
  // does.
  void VisitBlock(const ir::Expr* expr, bool is_tail, bool is_certain = false);
  // `self`: the variable the step defines; a function literal that mentions it does not capture it.
  void VisitStep(const ir::Expr* expr, const ir::Var* self, bool is_tail);
  void VisitOperands(const ir::Expr* expr, const ir::Var* self, bool is_tail);
  void VisitNested(const ir::Expr* expr, uint32_t position, bool is_tail);
  void Use(const ir::Expr* atom, bool escapes = true);
  void UseVar(const ir::Var* var, bool escapes);
  void MakesCell(size_t fields);

  bool returns_fields_;
  uint32_t next_ = 0;
  uint32_t block_ = 0;                                               // the current one
  std::vector<uint32_t> roots_;                                      // by block: the outermost one with which it runs
  std::vector<uint32_t> step_ends_;                                  // by position
  std::vector<uint32_t> blocks_after_;                               // by position
  std::vector<uint32_t> block_ends_;                                 // by block
  absl::flat_hash_map<uint32_t, std::vector<Start>> clause_starts_;  // by position of the match
  absl::flat_hash_map<const ir::Var*, std::vector<uint32_t>> uses_;
  absl::flat_hash_map<size_t, std::vector<uint32_t>> cells_made_;  // positions, by number of fields
  absl::flat_hash_map<std::pair<const ir::Var*, uint32_t>, std::vector<Projection>> projections_;  // by root
  absl::flat_hash_set<const ir::Var*> escaping_;
  absl::flat_hash_map<const ir::Function*, std::vector<ir::Var*>> captures_;
};

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_LIVENESS_H_
