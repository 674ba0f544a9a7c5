// LaunchGraphs: submits a batch of launches in one call of the driver, if the stream was given the same one before.
//
// A batch is what a stream is told to launch between two copies, waits or other ends, or the part of it up to a
// bound. The first time, each launch goes to the driver at once, and the batch is remembered; when it comes again, a
// graph is made of it; from then on its launches are kept back, one by one, for as long as they are those of some
// graph, and the end of the batch launches that graph. Launches that turn out to be others go to the driver one by
// one after all.
//
// Launches are the same if function, grid and arguments are. A graph is also used for a batch in which up to a
// quarter of the launches have another grid or other arguments: these nodes are set first, which costs about as much as
// their launches would.
#ifndef RVM_VM_DEVICE_CUDA_GRAPHS_H_
#define RVM_VM_DEVICE_CUDA_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "vm/device/cuda_api.h"
#include "vm/device/cuda_core.h"
#include "vm/device/device.h"

namespace rvm::device::cuda {

// Launches of blocks of kPtxBlockThreads threads.
class LaunchBatch {
 public:
  size_t size() const { return launches_.size(); }
  void Add(Function function, uint32_t blocks, std::span<const uint64_t> values);
  void Clear();
  Function function(size_t launch) const { return launches_[launch].function; }
  // Whether launch number `launch` of both has the same grid and arguments. REQUIRES: it has the same function.
  bool IsSame(const LaunchBatch& other, size_t launch) const;
  // Returns the parameters that the driver takes; valid until the next call of any function of the batch.
  KernelNodeParams Params(size_t launch);

 private:
  struct Launch {
    Function function;
    uint32_t blocks;
    size_t first, count;  // of its arguments
  };
  std::span<const uint64_t> ValuesOf(const Launch& launch) const {
    return {values_.data() + launch.first, launch.count};
  }

  std::vector<Launch> launches_;
  std::vector<uint64_t> values_;
  std::vector<void*> pointers_;  // of Params
};

// Graphs of one stream. Functions are called with the context of the device. An error of the driver that leaves the
// device as it was ends the use of graphs, and is no error of the stream.
class LaunchGraphs {
 public:
  LaunchGraphs(const Core& core, Stream stream) : core_(core), stream_(stream) {}
  // REQUIRES: the work of the stream is done, or the device is lost.
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;

  absl::Status Launch(Function function, uint32_t blocks, std::span<const uint64_t> values);
  // The batch is complete: all of it goes to the driver.
  absl::Status EndBatch();
  // The stream has no work: what comes next is not kept back for long.
  void NoteIdle();
  const GraphUse& use() const { return use_; }

 private:
  // A batch that was seen, and its graph, if it was seen twice.
  struct Kept {
    LaunchBatch batch;
    Graph graph = nullptr;
    GraphExec exec = nullptr;
    std::vector<GraphNode> nodes;
    // How the batch that is under way compares with it so far.
    bool is_candidate = true;
    std::vector<size_t> different;  // launches
  };

  // Whether `kept` may be used for the batch under way, whose last launch is new.
  bool Matches(Kept& kept) const;
  // Returns the cheapest graph that matches the whole batch under way; end() if there is none.
  std::list<Kept>::iterator BestMatch();
  // Launches all of the batch that was kept back, one by one.
  absl::Status LaunchEach();
  absl::Status LaunchGraph(Kept& kept);
  absl::Status Build(Kept& kept);
  Result Make(Kept& kept, const char*& what);
  void Remember();
  // The end of the use of graphs, if the device is not lost with it.
  absl::Status GiveUp(Result result, const char* what);
  // Destroys the graph when the stream is idle, as it may be running.
  void Retire(Kept& kept);

  const Core& core_;
  Stream stream_;
  bool is_on_ = true;
  LaunchBatch batch_;         // under way
  size_t num_launched_ = 0;   // of its launches, from the first on, that the driver has
  size_t bound_ = kMinBound;  // of its launches
  std::list<Kept> kept_;      // the one that was used last is first
  std::vector<Kept> retired_;
  GraphUse use_;

  static constexpr size_t kMinBound = 8, kMaxBound = 64;
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_GRAPHS_H_
