// Moves copies from the end of a group to the group that reads them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/passes/fusion/fusion_groups.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ops::FusionClass;

bool FusionPlan::IsCopy(uint32_t step) const {
  const FusionStep& own = steps_[step];
  if (own.op->args.size() != 1 || own.checks_type || own.outputs.size() != 1 || !own.tuple_users.empty()) return false;
  FusionClass fusion = Cast<ir::OpExpr>(own.op->callee)->op->fusion;
  return DynCast<ir::VarExpr>(own.op->args[0]) != nullptr &&
         (fusion == FusionClass::kInjective || fusion == FusionClass::kBroadcast);
}

// Returns the group other than `group` that all users of the step are members of.
std::optional<uint32_t> FusionPlan::OnlyReader(uint32_t step, uint32_t group) const {
  std::optional<uint32_t> reader;
  for (uint32_t user : steps_[step].outputs[0].users) {
    if (steps_[user].op == nullptr || steps_[user].group == group) return std::nullopt;
    if (reader && *reader != steps_[user].group) return std::nullopt;
    reader = steps_[user].group;
  }
  return reader;
}

// The copies of `group` that end in `leaf`, each the only user of the one after it. None unless the first reads what
// leaves the group anyway, and whoever takes that comes after `reader`: it would find it held.
std::vector<uint32_t> FusionPlan::CopiesUpTo(uint32_t leaf, uint32_t group, uint32_t reader) const {
  std::vector<uint32_t> chain = {leaf};
  while (true) {
    std::vector<uint32_t> producers = Producers(chain.back());
    if (producers.size() != 1 || steps_[producers[0]].group != group) return {};
    const uint32_t producer = producers[0];
    if (steps_[producer].outputs.size() != 1) return {};
    const std::vector<uint32_t>& users = steps_[producer].outputs[0].users;
    if (IsCopy(producer) && users.size() == 1) {
      chain.push_back(producer);
      continue;
    }
    bool is_free = std::all_of(users.begin(), users.end(), [&](uint32_t user) {
      bool is_member = steps_[user].op != nullptr && (steps_[user].group == group || steps_[user].group == reader);
      return is_member || user > groups_[reader].last;
    });
    return is_free && IsUsedOutside(users, group) ? chain : std::vector<uint32_t>();
  }
}

// The number of operators in a kernel is limited, so a group may end between a copy and its reader: the heads of a
// cache that several heads of queries share would be repeated in memory, where the product of the next group reads them
// in place.
void FusionPlan::SinkCopies(uint32_t group) {
  auto runs_on_host = [&](uint32_t g) { return DeviceOfGroup(groups_[g]).value_or("").empty(); };
  const std::vector<uint32_t> members = groups_[group].members;
  for (auto leaf = members.rbegin(); leaf != members.rend(); ++leaf) {
    if (steps_[*leaf].group != group || !IsCopy(*leaf)) continue;
    std::optional<uint32_t> reader = OnlyReader(*leaf, group);
    if (!reader || !runs_on_host(group) || !runs_on_host(*reader)) continue;
    const std::vector<uint32_t>& readers = groups_[*reader].members;
    bool may_grow = std::none_of(readers.begin(), readers.end(), [&](uint32_t step) {
      return Cast<ir::OpExpr>(steps_[step].op->callee)->op->fusion == FusionClass::kOpaque;
    });
    if (!may_grow || HasOwnShapes(groups_[group], groups_[*reader])) continue;
    const std::vector<uint32_t> chain = CopiesUpTo(*leaf, group, *reader);
    if (readers.size() + chain.size() > kMaxOps) continue;
    for (uint32_t step : chain) {
      std::vector<uint32_t>& from = groups_[group].members;
      from.erase(std::find(from.begin(), from.end(), step));
      std::vector<uint32_t>& to = groups_[*reader].members;
      to.insert(std::lower_bound(to.begin(), to.end(), step), step);
      steps_[step].group = *reader;
    }
  }
}

}  // namespace rvm::passes
