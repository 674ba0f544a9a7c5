#include "compiler/text/metadata.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

constexpr std::string_view kConstantKind = "relay.Constant";
constexpr std::string_view kShortConstantKind = "Constant";  // as the papers write it

std::nullopt_t Fail(const MetaReference& reference, DiagnosticKind kind, std::string_view message,
                    diagnostics::Diagnostics& diagnostics) {
  diagnostics.Error(reference.span, kind, absl::StrCat("`", reference.ToString(), "`: ", Abseil(message)));
  return std::nullopt;
}

}  // namespace

std::string MetaReference::ToString() const { return absl::StrCat("meta[", kind, "][", index, "]"); }

absl::StatusOr<Metadata> Metadata::Parse(std::string_view json) {
  Metadata metadata;
  RVM_ASSIGN_OR_RETURN(metadata.graph_, ObjectGraph::Parse(json));
  NodeId root = metadata.graph_.root();
  if (metadata.graph_.Entries(root).size() == metadata.graph_.Elements(root).size()) return metadata;
  return absl::InvalidArgumentError("its root is not a map with as many `keys` as `data`");
}

std::optional<NodeId> Metadata::Find(const MetaReference& reference, diagnostics::Diagnostics& diagnostics) const {
  std::vector<std::pair<std::string, NodeId>> kinds = graph_.Entries(graph_.root());
  std::vector<std::string_view> known;
  for (const auto& [kind, array] : kinds) {
    known.push_back(kind);
    if (kind != reference.kind) continue;
    if (graph_.TypeKey(array) != "Array") {
      return Fail(reference, DiagnosticKind::kBadMetadata, "the node of this key is not an array of nodes",
                  diagnostics);
    }
    std::vector<NodeId> nodes = graph_.Elements(array);
    size_t count = nodes.size();
    if (reference.index >= 0 && static_cast<size_t>(reference.index) < count) {
      return nodes[static_cast<size_t>(reference.index)];
    }
    return Fail(reference, DiagnosticKind::kMetadataIndexOutOfRange,
                absl::StrCat("the metadata section has ", count, count == 1 ? " entry" : " entries", " of this kind"),
                diagnostics);
  }
  return Fail(reference, DiagnosticKind::kUnknownMetadata,
              absl::StrCat("the metadata section has no such key", DidYouMean(reference.kind, known)), diagnostics);
}

std::optional<Literal> Metadata::Constant(const MetaReference& written, diagnostics::Diagnostics& diagnostics) const {
  MetaReference reference = written;
  if (reference.kind == kShortConstantKind) reference.kind = kConstantKind;
  std::optional<NodeId> node = Find(reference, diagnostics);
  if (!node) return std::nullopt;
  if (reference.kind != kConstantKind) {
    return Fail(reference, DiagnosticKind::kUnknownMetadata,
                "entries of this kind are not values; expected `relay.Constant`", diagnostics);
  }
  absl::StatusOr<Literal> literal = graph_.ConstantTensor(*node);
  if (literal.ok()) return *std::move(literal);
  return Fail(reference,
              absl::IsNotFound(literal.status()) ? DiagnosticKind::kBadMetadata : DiagnosticKind::kBadMetadataTensor,
              std::string(literal.status().message()), diagnostics);
}

std::optional<ir::AttrValue> Metadata::Value(const MetaReference& reference,
                                             diagnostics::Diagnostics& diagnostics) const {
  std::optional<NodeId> node = Find(reference, diagnostics);
  if (!node) return std::nullopt;
  absl::StatusOr<ir::AttrValue> value = AttrValueOfNode(graph_, *node);
  if (value.ok()) return *std::move(value);
  return Fail(reference, DiagnosticKind::kBadMetadata, std::string(value.status().message()), diagnostics);
}

std::optional<ir::Attrs> Metadata::Attributes(const MetaReference& reference, const ops::OpDef& op,
                                              diagnostics::Diagnostics& diagnostics) const {
  std::optional<NodeId> node = Find(reference, diagnostics);
  if (!node) return std::nullopt;
  absl::StatusOr<ir::Attrs> attrs = AttrsOfNode(graph_, *node, op, reference.span);
  if (attrs.ok()) return *std::move(attrs);
  return Fail(reference, DiagnosticKind::kBadMetadata, std::string(attrs.status().message()), diagnostics);
}

}  // namespace rvm::text
