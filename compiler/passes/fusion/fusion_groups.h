// Decides which operator calls of one block become one kernel.
#ifndef RVM_COMPILER_PASSES_FUSION_FUSION_GROUPS_H_
#define RVM_COMPILER_PASSES_FUSION_FUSION_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/passes/fusion/carried_values.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

// For each variable that a let binds, the steps of that let's block that use it, nested blocks
// included, ascending. Steps of a block are numbered from 0; the tail is the last.
class BlockUses {
 public:
  explicit BlockUses(const ir::Expr* body) { VisitBlock(body); }
  const std::vector<uint32_t>& of(const ir::Var* var) const;

 private:
  void VisitBlock(const ir::Expr* expr);
  void Visit(const ir::Expr* expr);

  std::vector<uint32_t> current_;  // by depth of blocks: the step being visited
  absl::flat_hash_map<const ir::Var*, size_t> depth_;
  absl::flat_hash_map<const ir::Var*, std::vector<uint32_t>> users_;
  std::vector<uint32_t> none_;
};

// A tensor that an operator gives, by itself or in a tuple.
struct OpOutput {
  ir::Var* var = nullptr;  // null if nothing names it
  const ir::Type* type = nullptr;
  std::vector<uint32_t> users;  // steps
};

struct FusionStep {
  ir::Var* var = nullptr;  // null: the tail
  ir::Expr* value = nullptr;
  ir::Span span;
  const ir::Call* op = nullptr;       // a call that may be fused
  std::vector<OpOutput> outputs;      // of `op`
  std::vector<uint32_t> tuple_users;  // of the tuple that `op` gives, as a whole
  bool is_projection = false;         // stands in `outputs` of an operator
  bool checks_type = false;           // the let's type promises more than the operator's
  bool is_carried = false;            // `op` takes a carried value (CarriedValues)
  bool accumulates = false;           // adds to the content of a reference, or makes what is only added to some
  uint32_t group = 0;                 // of `op`
};

struct FusionGroup {
  std::vector<uint32_t> members;  // ascending; none if it was merged into another
  // The step at whose place it is called. Groups with one place are called one behind the other, as data demands.
  uint32_t last = 0;
  uint32_t anchor = kNoAnchor;  // the reduction or contraction in it
  static constexpr uint32_t kNoAnchor = ~uint32_t{0};
};

// Operators of a kernel share parameters for constants that are no larger.
inline constexpr int64_t kMaxSharedBytes = int64_t{16} << 10;

struct FusionOptions {
  int opt_level;
  // Not null: independent calls run together. Products that need no carried value, and additions to references, stay
  // apart from others.
  const CarriedValues* carried = nullptr;
};

// The steps of a block and the groups of its operator calls.
//
// A group is called where its last member stood, so every other use of a member must come later; a group of one is the
// call itself. Groups follow the data: a member other than the first takes a result of an earlier one. Exception: a
// copy that has moved to its reader (SinkCopies) takes results of another group and may stand before the call of that.
// A part or a view that leaves the reader then moves behind that call (PlaceBehindProducers).
class FusionPlan {
 public:
  // `renamed` receives variables that are the same projection as another.
  FusionPlan(ir::Arena& arena, ir::Expr* block, const BlockUses& uses, const FusionOptions& options,
             absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed);

  const std::vector<FusionStep>& steps() const { return steps_; }
  const std::vector<FusionGroup>& groups() const { return groups_; }
  // Groups with members and steps without group, in the order to write them.
  struct Item {
    bool is_group;
    uint32_t index;
  };
  std::vector<Item> Order() const;
  // Returns whether a step outside of `group` is among `users`.
  bool IsUsedOutside(const std::vector<uint32_t>& users, uint32_t group) const;

 private:
  // Bounds of one kernel: beyond them registers and compile time suffer more than launches cost.
  static constexpr size_t kMaxOps = 64;
  static constexpr size_t kMaxOperands = 32;
  // Steps that move from a producer which is too large to merge with, at most.
  static constexpr size_t kMaxEnd = 24;

  void ReadSteps(ir::Expr* block, const BlockUses& uses);
  void ReadProjections(const BlockUses& uses, absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed);
  void DelayViews();
  void FindAccumulations();
  void Group(const absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed);
  void JoinProducers(uint32_t step);
  // Returns whether the group of the step may compute what the producer does, apart from its size.
  bool MayMerge(const FusionGroup& producer, uint32_t step) const;
  bool Fits(const FusionGroup& producer, const FusionGroup& consumer) const;
  void TakeEnd(uint32_t producer, uint32_t step);
  // Returns whether the group computes something from constants alone, such as a weight from its codes.
  bool ExpandsConstants(const FusionGroup& group) const;
  double BytesBetween(const std::vector<uint32_t>& members, size_t begin, uint32_t consumer) const;
  void SetMembers(uint32_t group, std::vector<uint32_t> members);
  bool MayShareDevice(const FusionGroup& producer, const FusionGroup& consumer) const;
  bool MayMergeKinds(const FusionGroup& producer, uint32_t step) const;
  bool HasOwnShapes(const FusionGroup& producer, const FusionGroup& consumer) const;
  bool IsCalledInTime(const FusionGroup& producer, uint32_t step) const;
  bool AreOfOneLevel(const FusionGroup& producer, const FusionGroup& consumer) const;
  bool HasFewOperands(const FusionGroup& producer, const FusionGroup& consumer) const;
  void Merge(uint32_t producer, uint32_t consumer);
  bool IsCopy(uint32_t step) const;
  std::optional<uint32_t> OnlyReader(uint32_t step, uint32_t group) const;
  std::vector<uint32_t> CopiesUpTo(uint32_t leaf, uint32_t group, uint32_t reader) const;
  void SinkCopies(uint32_t group);
  void SplitLargeExtents(uint32_t group, const absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed);
  void SplitOffViews(uint32_t group);
  void PlaceBehindProducers(FusionGroup& group) const;
  void AddInOrder(uint32_t group, std::vector<bool>& is_added, std::vector<Item>& items) const;
  bool IsView(uint32_t step) const;
  // Gives a tensor that is larger than each of its operands.
  bool Grows(uint32_t step) const;
  // Returns the device that the group is placed on, "" for the host; nullopt for views alone, which have no place.
  std::optional<std::string_view> DeviceOfGroup(const FusionGroup& group) const;
  bool ReadsGroup(uint32_t step, uint32_t group) const;
  // Returns the steps that make the operands of `step`.
  std::vector<uint32_t> Producers(uint32_t step) const;

  ir::Arena& arena_;
  const FusionOptions& options_;
  std::vector<FusionStep> steps_;
  std::vector<FusionGroup> groups_;
  absl::flat_hash_map<const ir::Var*, uint32_t> producers_;  // variable -> step of an operator
};

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FUSION_FUSION_GROUPS_H_
