// The metadata section at the end of a text printed by the predecessor: `#[metadata]`, then an object graph
// (object_graph.h) whose root maps kinds of objects to arrays of objects. The text refers to an object as
// `meta[kind][index]`.
#ifndef RVM_COMPILER_TEXT_METADATA_H_
#define RVM_COMPILER_TEXT_METADATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/text/attribute_node.h"
#include "compiler/text/object_graph.h"

namespace rvm::text {

// `meta[relay.Constant][0]`
struct MetaReference {
  std::string kind;
  int64_t index = 0;
  ir::Span span;

  std::string ToString() const;
};

// Functions that take `diagnostics` return nullopt after reporting an error.
class Metadata {
 public:
  // Reads the JSON of the section. Returns kInvalidArgument, with the reason, if it is malformed.
  static absl::StatusOr<Metadata> Parse(std::string_view json);

  std::optional<Literal> Constant(const MetaReference& reference, diagnostics::Diagnostics& diagnostics) const;
  // Returns the value of one attribute.
  std::optional<ir::AttrValue> Value(const MetaReference& reference, diagnostics::Diagnostics& diagnostics) const;
  // All attributes of a call of `op`.
  std::optional<ir::Attrs> Attributes(const MetaReference& reference, const ops::OpDef& op,
                                      diagnostics::Diagnostics& diagnostics) const;

 private:
  std::optional<NodeId> Find(const MetaReference& reference, diagnostics::Diagnostics& diagnostics) const;

  ObjectGraph graph_;
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_METADATA_H_
