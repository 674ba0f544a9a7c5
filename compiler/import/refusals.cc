#include "compiler/import/refusals.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/utf8.h"

namespace rvm::importing {
namespace {

constexpr size_t kShownNodes = 3;

}  // namespace

absl::Status Readable(const absl::Status& status) {
  return absl::Status(status.code(), ReadableText(std::string(status.message())));
}

void Refusals::Add(std::string_view op, std::string node, const absl::Status& status) {
  Refusal& refusal = refusals_[{std::string(op), std::string(status.message())}];
  ++refusal.count;
  refusal.is_unsupported = absl::IsUnimplemented(status);
  bool is_known = std::find(refusal.nodes.begin(), refusal.nodes.end(), node) != refusal.nodes.end();
  if (refusal.nodes.size() < kShownNodes && !is_known) refusal.nodes.push_back(std::move(node));
}

absl::Status Refusals::ToStatus() const {
  if (refusals_.empty()) return absl::OkStatus();
  std::string message;
  bool all_unsupported = true;
  for (const auto& [why, refusal] : refusals_) {
    all_unsupported = all_unsupported && refusal.is_unsupported;
    bool has_more = refusal.count > static_cast<int64_t>(refusal.nodes.size());
    absl::StrAppend(&message, message.empty() ? "" : "\n", why.first, ": ", why.second, " (");
    if (has_more) absl::StrAppend(&message, refusal.count, " nodes: ");
    absl::StrAppend(&message, absl::StrJoin(refusal.nodes, ", "), has_more ? ", ...)" : ")");
  }
  return all_unsupported ? absl::UnimplementedError(message) : absl::InvalidArgumentError(message);
}

void Refusals::AddTo(Coverage& coverage) const {
  for (const auto& [why, refusal] : refusals_) {
    OperatorUse& use = coverage[why.first];
    use.refused += refusal.count;
    use.reasons.push_back(why.second);
  }
}

}  // namespace rvm::importing
