#include "compiler/ops/suggest_operator.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {
namespace {

constexpr ForeignName kForeignNames[] = {
#define RVM_FOREIGN_NAME(other, name, hint) {other, name, hint},
#include "compiler/ops/foreign_names.def"
};

std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Orders suggestions: the best is the least.
struct Rank {
  int distance = INT_MAX;
  int tier = 0;  // of equal distance: whole names, then foreign ones, then names in another namespace
  ptrdiff_t namespaces = 0;
  size_t length = 0;
  std::string_view name;

  auto Key() const { return std::tie(distance, tier, namespaces, length, name); }
  bool operator<(const Rank& other) const { return Key() < other.Key(); }
};

Rank RankOf(std::string_view name, const OpDef& op) {
  // `torch.max` is `max`, whatever `Max` is elsewhere.
  int whole = std::min(NameDistance(name, op.name), NameDistance(LastPart(name), op.name));
  Rank rank{whole, 0, std::count(op.name.begin(), op.name.end(), '.'), op.name.size(), op.name};
  std::string_view last = LastPart(op.name);
  int in_other = std::min(NameDistance(LastPart(name), last), NameDistance(name, last));
  if (in_other < rank.distance) rank.distance = in_other, rank.tier = 2;
  return rank;
}

}  // namespace

std::span<const ForeignName> ForeignNames() { return kForeignNames; }

Suggestion SuggestOperator(std::string_view name) {
  for (const ForeignName& row : kForeignNames) {
    if (row.other == name || row.other == LastPart(name)) return {row.name, row.hint, 0};
  }
  Rank best;
  for (const OpDef* op : AllOps()) best = std::min(best, RankOf(name, *op));
  std::string_view hint;
  for (const ForeignName& row : kForeignNames) {
    int distance = std::min(NameDistance(name, row.other), NameDistance(LastPart(name), row.other));
    Rank rank{distance, 1, 0, row.other.size(), row.name};
    if (!(rank < best)) continue;
    best = rank;
    hint = row.hint;
  }
  if (best.distance == INT_MAX) return {};
  return {best.name, hint, best.distance};
}

std::string DidYouMeanOperator(std::string_view name) { return AsSuggestion(SuggestOperator(name).name); }

}  // namespace rvm::ops
