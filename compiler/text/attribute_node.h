// Attributes of operators as objects of the predecessor's graphs.
#ifndef RVM_COMPILER_TEXT_ATTRIBUTE_NODE_H_
#define RVM_COMPILER_TEXT_ATTRIBUTE_NODE_H_

#include "absl/status/statusor.h"
#include "compiler/ir/attrs.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/object_graph.h"

namespace rvm::text {

// A number, string, array or null. An expression reads as None: attributes that are expressions repeat an argument.
// kInvalidArgument: another kind of object.
absl::StatusOr<ir::AttrValue> AttrValueOfNode(const ObjectGraph& graph, NodeId node);

// The fields of an attributes object such as `relay.attrs.ScanopAttrs`, at `span`, for a call of `op`. A field that is
// null or empty is left to its default; one that `op` does not have is left out where it is zero.
absl::StatusOr<ir::Attrs> AttrsOfNode(const ObjectGraph& graph, NodeId node, const ops::OpDef& op, ir::Span span);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_ATTRIBUTE_NODE_H_
