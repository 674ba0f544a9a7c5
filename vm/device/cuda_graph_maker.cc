#include "vm/device/cuda_graph_maker.h"

#include <cstdint>

namespace rvm::device::cuda {

GraphMaker::GraphMaker(const Core& core, ProductQueue* products)
    : core_(core),
      products_(products),
      holds_products_(products != nullptr && core.cu->StreamBeginCapture != nullptr &&
                      core.cu->StreamEndCapture != nullptr && core.cu->GraphAddChildGraphNode != nullptr &&
                      core.cu->GraphExecChildGraphNodeSetParams != nullptr) {}

GraphMaker::~GraphMaker() {
  if (stream_ != nullptr) core_.cu->StreamDestroy(stream_);
}

void GraphMaker::Destroy(const MadeGraph& made) {
  if (made.exec != nullptr) core_.cu->GraphExecDestroy(made.exec);
  if (made.graph != nullptr) core_.cu->GraphDestroy(made.graph);
}

Result GraphMaker::Capture(WorkBatch& batch, size_t number, Graph& captured, const char*& what) {
  captured = nullptr;
  what = "StreamCreate";
  if (stream_ == nullptr) {
    if (Result result = core_.cu->StreamCreate(&stream_, kNonBlocking); result != 0) {
      stream_ = nullptr;
      return result;
    }
  }
  what = "StreamBeginCapture";
  if (Result result = core_.cu->StreamBeginCapture(stream_, kCaptureThreadLocal); result != 0) return result;
  int32_t status = products_->Queue(batch.Plan(number), batch.Values(number), stream_);
  what = "StreamEndCapture";
  Result result = core_.cu->StreamEndCapture(stream_, &captured);
  if (result == 0 && status == 0 && captured != nullptr) return 0;
  if (captured != nullptr) core_.cu->GraphDestroy(captured);
  captured = nullptr;
  return result != 0 ? result : kNotSupported;
}

Result GraphMaker::AddNode(WorkBatch& batch, size_t number, MadeGraph& made, const char*& what) {
  // A chain: each piece of work may read what any before it wrote.
  const GraphNode* before = number == 0 ? nullptr : &made.nodes.back();
  size_t count = number == 0 ? 0 : 1;
  GraphNode node = nullptr;
  Result result = 0;
  if (!batch.IsProduct(number)) {
    what = "GraphAddKernelNode";
    KernelNodeParams params = batch.Params(number);
    result = core_.cu->GraphAddKernelNode(&node, made.graph, before, count, &params);
  } else {
    Graph captured = nullptr;
    result = Capture(batch, number, captured, what);
    if (result == 0) {
      what = "GraphAddChildGraphNode";
      result = core_.cu->GraphAddChildGraphNode(&node, made.graph, before, count, captured);  // a copy
      core_.cu->GraphDestroy(captured);
    }
    if (result != 0) holds_products_ = false;
  }
  if (result == 0) made.nodes.push_back(node);
  return result;
}

Result GraphMaker::Make(WorkBatch& batch, size_t size, MadeGraph& made, const char*& what) {
  made = {};
  what = "GraphCreate";
  Result result = core_.cu->GraphCreate(&made.graph, 0);
  if (result != 0) made.graph = nullptr;
  for (size_t i = 0; i < size && result == 0; ++i) result = AddNode(batch, i, made, what);
  if (result == 0) {
    what = "GraphInstantiate";
    GraphNode wrong = nullptr;
    char log[256] = "";
    result = core_.cu->GraphInstantiate(&made.exec, made.graph, &wrong, log, sizeof(log));
    if (result != 0) made.exec = nullptr;
  }
  if (result != 0) {
    Destroy(made);
    made = {};
  }
  return result;
}

Result GraphMaker::Set(const MadeGraph& made, WorkBatch& batch, size_t number, const char*& what) {
  if (!batch.IsProduct(number)) {
    what = "GraphExecKernelNodeSetParams";
    KernelNodeParams params = batch.Params(number);
    return core_.cu->GraphExecKernelNodeSetParams(made.exec, made.nodes[number], &params);
  }
  Graph captured = nullptr;
  Result result = Capture(batch, number, captured, what);
  if (result == 0) {
    what = "GraphExecChildGraphNodeSetParams";
    result = core_.cu->GraphExecChildGraphNodeSetParams(made.exec, made.nodes[number], captured);
    core_.cu->GraphDestroy(captured);
  }
  if (result != 0) holds_products_ = false;
  return result;
}

}  // namespace rvm::device::cuda
