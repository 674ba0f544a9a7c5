// An executable as a graph in the DOT language of Graphviz.
#ifndef RVM_TOOLS_RELAYVM_PROGRAM_GRAPH_H_
#define RVM_TOOLS_RELAYVM_PROGRAM_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "serialization/verifier.h"

namespace rvm::tools {

struct ProgramGraph {
  // An instruction that is a node.
  struct Node {
    std::string function;
    std::string place;  // in its source, "walk.relay:6:30"; "" if unknown
    std::string label;
    std::optional<uint32_t> kernel;  // that it calls
  };
  std::string dot;
  size_t num_nodes = 0;
  std::map<std::string, Node> nodes;  // by their names in `dot`
};

// One box per function, with its parameters, calls of kernels (fusion groups) and of functions, constructors, branches
// and returns, and the types of their results. Solid edges are values. Dashed edges are control flow, between the boxes
// of basic blocks. A constant is one node however many functions use it; shared ones have a thick border.
// `entry`: only what this entry calls; empty: everything. NotFound if there is no such entry.
absl::StatusOr<ProgramGraph> MakeProgramGraph(const VerifiedExecutable& executable, std::string_view entry);

// Returns the functions that run when `root` does: itself, its callees, and the code of the closures that are made.
std::set<uint32_t> ReachedFunctions(const Executable& executable, FunctionId root);

// Returns the graph drawn by Graphviz's `dot`, which must be installed: FailedPrecondition if it is not.
absl::StatusOr<std::string> DrawSvg(const std::string& dot);

// Writes a graph to a path that ends in .dot or .svg.
absl::Status WriteGraph(const ProgramGraph& graph, const std::string& path);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_PROGRAM_GRAPH_H_
