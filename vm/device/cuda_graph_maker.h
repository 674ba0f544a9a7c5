// GraphMaker: makes graphs of the driver that do the work of a batch, one piece after the other.
//
// A launch is a node. What a library does for a product is not ours to know: it is captured on a stream that has no
// other use, as a graph that is the node of the product.
#ifndef RVM_VM_DEVICE_CUDA_GRAPH_MAKER_H_
#define RVM_VM_DEVICE_CUDA_GRAPH_MAKER_H_

#include <cstddef>
#include <vector>

#include "vm/device/cuda_batch.h"
#include "vm/device/cuda_core.h"

namespace rvm::device::cuda {

// A graph, and what its driver needs to launch it.
struct MadeGraph {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  std::vector<GraphNode> nodes;  // one for each piece of work
};

// Functions are called with the context of the device. Each gives the first error of the driver, and in `what` the
// function that gave it, without its "cu".
class GraphMaker {
 public:
  // `products`: of the work of products; null if there is none.
  GraphMaker(const Core& core, ProductQueue* products);
  ~GraphMaker();
  GraphMaker(const GraphMaker&) = delete;
  GraphMaker& operator=(const GraphMaker&) = delete;

  // Returns whether a graph may have products: the driver has the functions for it, and no capture failed so far.
  bool HoldsProducts() const { return holds_products_; }
  // Returns the graph of the first `size` pieces of work. Nothing is made if it fails.
  Result Make(WorkBatch& batch, size_t size, MadeGraph& made, const char*& what);
  // Lets the graph do piece `number` of the batch from its next launch on, in place of work of the same key.
  Result Set(const MadeGraph& made, WorkBatch& batch, size_t number, const char*& what);
  // REQUIRES: the graph is not running.
  void Destroy(const MadeGraph& made);

 private:
  Result AddNode(WorkBatch& batch, size_t number, MadeGraph& made, const char*& what);
  // Returns a graph of what the library does, which the caller destroys.
  Result Capture(WorkBatch& batch, size_t number, Graph& captured, const char*& what);

  const Core& core_;
  ProductQueue* products_;
  bool holds_products_;
  Stream stream_ = nullptr;  // for captures; null before the first one
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_GRAPH_MAKER_H_
