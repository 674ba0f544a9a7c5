// Graphs of MXNet and NNVM, as their JSON stores them.
#ifndef RVM_COMPILER_IMPORT_MXNET_GRAPH_H_
#define RVM_COMPILER_IMPORT_MXNET_GRAPH_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"

namespace rvm::mxnet {

// A result of a node.
struct Entry {
  size_t node = 0, output = 0;
};

struct Node {
  std::string op;  // "null" for a variable
  std::string name;
  std::vector<std::pair<std::string, std::string>> attrs;
  std::vector<Entry> inputs;  // of nodes before this one

  // Returns null if the node has no such attribute.
  const std::string* Find(std::string_view attr) const;
  bool is_variable() const { return op == "null"; }
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Entry> heads;  // results
};

absl::StatusOr<Graph> ReadGraph(importing::Bytes bytes);

}  // namespace rvm::mxnet

#endif  // RVM_COMPILER_IMPORT_MXNET_GRAPH_H_
