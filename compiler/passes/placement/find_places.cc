#include "compiler/passes/placement/find_places.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/target/accelerator.h"
#include "compiler/target/composite.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using target::BoundCall;
using target::Pattern;
using Candidate = DeviceRules::Candidate;

// An operator call in a block.
struct Step {
  BoundCall bound;
  size_t block = 0;
  bool keeps_type = true;  // its variable has the type of the call
};

class PlaceFinder {
 public:
  PlaceFinder(const ir::Expr* body, const DeviceRules& rules, const Marks& marks) : rules_(rules), marks_(marks) {
    ReadSteps(body);
  }

  absl::flat_hash_map<const ir::Call*, Placement> Run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const ir::Call& call = *steps_[i].bound.call;
      if (places_.contains(&call) || ops::NeedsNoKernel(call)) continue;
      for (const Candidate& candidate : rules_.CandidatesOf(call, marks_.Find(call))) {
        std::vector<BoundCall> chain = LongestChain(i, candidate);
        if (chain.empty()) continue;
        Place(chain, candidate);
        break;
      }
    }
    return std::move(places_);
  }

 private:
  static constexpr size_t kNoStep = ~size_t{0};

  void ReadSteps(const ir::Expr* body) {
    absl::flat_hash_map<const ir::Expr*, size_t> blocks;  // of the rest of each block that was entered
    size_t num_blocks = 0;
    ir::ForEachExpr(body, [&](const ir::Expr* expr) {
      if (const auto* use = DynCast<ir::VarExpr>(expr)) ++num_uses_[use->var];
      const auto* let = DynCast<ir::Let>(expr);
      bool is_call = ir::OpCallee(expr) != nullptr && AsMark(expr) == nullptr && !numbers_.contains(expr);
      if (let == nullptr && !is_call) return true;
      auto found = blocks.find(expr);
      size_t block = found == blocks.end() ? num_blocks++ : found->second;
      if (let == nullptr) {
        AddStep(nullptr, expr, block);
        return true;
      }
      blocks[let->body] = block;
      bool is_step = ir::OpCallee(let->value) != nullptr && AsMark(let->value) == nullptr;
      if (is_step) AddStep(let->var, let->value, block);
      return true;
    });
  }

  void AddStep(const ir::Var* var, const ir::Expr* value, size_t block) {
    const auto* call = ir::Cast<ir::Call>(value);
    for (const ir::Expr* arg : call->args) {
      if (const auto* use = DynCast<ir::VarExpr>(arg)) user_[use->var] = steps_.size();
    }
    numbers_[value] = steps_.size();
    steps_.push_back({{var, call}, block, var == nullptr || ir::TypesEqual(var->type, call->type)});
  }

  // Returns the only use of the result of a step, if it is an argument of a call in the same block; else kNoStep.
  size_t OnlyUser(const Step& step) const {
    if (step.bound.var == nullptr || !step.keeps_type) return kNoStep;
    auto uses = num_uses_.find(step.bound.var);
    auto user = user_.find(step.bound.var);
    bool is_one = uses != num_uses_.end() && uses->second == 1 && user != user_.end();
    return is_one && steps_[user->second].block == step.block ? user->second : kNoStep;
  }

  // Returns true if a call that continues a chain of the candidate may be computed there: none that it prefers computes
  // the call alone.
  bool MayRunOn(const Candidate& candidate, size_t step) const {
    const ir::Call& call = *steps_[step].bound.call;
    if (places_.contains(&call)) return false;
    if (ops::NeedsNoKernel(call)) return true;
    for (const Candidate& other : rules_.CandidatesOf(call, marks_.Find(call))) {
      if (other == candidate) return true;
      if (other.kind->accelerator == nullptr || Accepts(*other.kind->accelerator, {&steps_[step].bound, 1}))
        return false;
    }
    return false;
  }

  // Returns the longest chain from a step on that the candidate computes; empty if it does not compute the step.
  std::vector<BoundCall> LongestChain(size_t step, const Candidate& candidate) const {
    std::vector<BoundCall> chain = {steps_[step].bound};
    const target::Accelerator* accelerator = candidate.kind->accelerator;
    if (accelerator == nullptr) return chain;
    size_t longest = 0, most = 0;
    for (const Pattern& pattern : accelerator->patterns()) most = std::max(most, pattern.steps.size());
    while (true) {
      if (Accepts(*accelerator, chain)) longest = chain.size();
      step = chain.size() < most ? OnlyUser(steps_[step]) : kNoStep;
      if (step == kNoStep || !MayBegin(*accelerator, chain, steps_[step].bound) || !MayRunOn(candidate, step)) break;
      chain.push_back(steps_[step].bound);
    }
    chain.resize(longest);
    return chain;
  }

  static bool Accepts(const target::Accelerator& accelerator, std::span<const BoundCall> chain) {
    for (const Pattern& pattern : accelerator.patterns()) {
      if (!target::FitsPattern(pattern, chain)) continue;
      std::optional<target::Composite> composite = target::MakeComposite(pattern, chain);
      if (composite && accelerator.Accepts(*composite)) return true;
    }
    return false;
  }

  // Returns true if the operator of `next` is in a step of a pattern whose first step has that of the chain's first.
  static bool MayBegin(const target::Accelerator& accelerator, std::span<const BoundCall> chain,
                       const BoundCall& next) {
    std::span<const Pattern> patterns = accelerator.patterns();
    return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
      return target::FitsStep(pattern.steps[0], chain[0]) &&
             std::any_of(pattern.steps.begin() + 1, pattern.steps.end(),
                         [&](const target::PatternStep& step) { return target::FitsStep(step, next); });
    });
  }

  void Place(std::span<const BoundCall> chain, const Candidate& candidate) {
    std::string place = target::PlaceName(*candidate.kind, candidate.number);
    for (const BoundCall& bound : chain) {
      Placement& placement = places_[bound.call];
      if (!ops::NeedsNoKernel(*bound.call)) placement.place = place;
      if (chain.size() > 1) placement.composite = num_composites_;
    }
    if (chain.size() > 1) ++num_composites_;
  }

  const DeviceRules& rules_;
  const Marks& marks_;
  std::vector<Step> steps_;                           // in order
  absl::flat_hash_map<const ir::Var*, size_t> user_;  // the last step that takes it
  absl::flat_hash_map<const ir::Var*, int64_t> num_uses_;
  absl::flat_hash_map<const ir::Expr*, size_t> numbers_;  // of the calls in `steps_`
  absl::flat_hash_map<const ir::Call*, Placement> places_;
  int64_t num_composites_ = 0;
};

}  // namespace

absl::flat_hash_map<const ir::Call*, Placement> FindPlaces(const ir::Expr* body, const DeviceRules& rules,
                                                           const Marks& marks) {
  return PlaceFinder(body, rules, marks).Run();
}

}  // namespace rvm::passes
