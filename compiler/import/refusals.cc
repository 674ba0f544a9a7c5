#include "compiler/import/refusals.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rvm::importing {
namespace {

constexpr size_t kShownNodes = 3;

}  // namespace

void Refusals::Add(std::string_view op, std::string node, const absl::Status& status) {
  Refusal& refusal = refusals_[absl::StrCat(std::string(op), ": ", status.message())];
  ++refusal.count;
  refusal.is_unsupported = absl::IsUnimplemented(status);
  bool is_known = std::find(refusal.nodes.begin(), refusal.nodes.end(), node) != refusal.nodes.end();
  if (refusal.nodes.size() < kShownNodes && !is_known) refusal.nodes.push_back(std::move(node));
}

absl::Status Refusals::ToStatus() const {
  if (refusals_.empty()) return absl::OkStatus();
  std::string message;
  bool all_unsupported = true;
  for (const auto& [reason, refusal] : refusals_) {
    all_unsupported = all_unsupported && refusal.is_unsupported;
    bool has_more = refusal.count > static_cast<int64_t>(refusal.nodes.size());
    absl::StrAppend(&message, message.empty() ? "" : "\n", reason, " (");
    if (has_more) absl::StrAppend(&message, refusal.count, " nodes: ");
    absl::StrAppend(&message, absl::StrJoin(refusal.nodes, ", "), has_more ? ", ...)" : ")");
  }
  return all_unsupported ? absl::UnimplementedError(message) : absl::InvalidArgumentError(message);
}

}  // namespace rvm::importing
