// Attributes of operators as objects of the predecessor's graphs.
#ifndef RVM_COMPILER_TEXT_ATTRIBUTE_NODE_H_
#define RVM_COMPILER_TEXT_ATTRIBUTE_NODE_H_

#include "absl/status/statusor.h"
#include "compiler/ir/attrs.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/object_graph.h"

namespace rvm::text {

// Returns the value of a number, string, array or null node. None for an expression: an attribute that is an expression
// repeats an argument. Returns kInvalidArgument for any other kind of object.
absl::StatusOr<ir::AttrValue> AttrValueOfNode(const ObjectGraph& graph, NodeId node);

// Returns the fields of an attributes object such as `relay.attrs.ScanopAttrs`, at `span`, for a call of `op`. A null
// or empty field is omitted, so it gets its default; so is a zero field that is no attribute of `op`.
absl::StatusOr<ir::Attrs> AttrsOfNode(const ObjectGraph& graph, NodeId node, const ops::OpDef& op, ir::Span span);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_ATTRIBUTE_NODE_H_
