// LaunchGraphs: submits work in one call of the driver, if the stream was given the same work before.
//
// Work is cut into batches. One ends where the work ends that may be kept back: at a copy, a wait, or another end, or
// at a bound. Work that is new goes to the driver at once, piece by piece, and its batch is remembered. Of what comes
// again, a graph is made: of a batch that was remembered, or of a beginning that two batches share, as the turns of a
// loop that once ends sooner and once later. From then on work is kept back as long as it is that of a graph. The
// longest graph whose work came is launched; what came behind it begins the next batch.
//
// Work is the same if functions, or plans of products, are. Where grids or arguments differ, nodes of the graph are set
// first, if that takes less time than to launch each piece.
#ifndef RVM_VM_DEVICE_CUDA_GRAPHS_H_
#define RVM_VM_DEVICE_CUDA_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/device/cuda_api.h"
#include "vm/device/cuda_batch.h"
#include "vm/device/cuda_core.h"
#include "vm/device/cuda_graph_maker.h"
#include "vm/device/device.h"

namespace rvm::device::cuda {

// Graphs of one stream. Functions are called with the context of the device. An error of the driver that leaves the
// device as it was ends the use of graphs, or that of products in graphs, and is no error of the stream.
class LaunchGraphs {
 public:
  // `products`: the library's; null if there are none.
  LaunchGraphs(const Core& core, Stream stream, ProductQueue* products)
      : core_(core), stream_(stream), products_(products), maker_(core, products) {}
  // REQUIRES: the work of the stream is done, or the device is lost.
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;

  absl::Status Launch(Function function, uint32_t blocks, std::span<const uint64_t> values);
  // False, and nothing is queued, if the library refuses such products after all.
  absl::StatusOr<bool> Multiply(ProductPlan* plan, std::span<const uint64_t> values);
  // The batch is complete: all of it goes to the driver.
  absl::Status EndBatch();
  // The stream has no work: what comes next is not kept back for long.
  void NoteIdle();
  // Ends the batch, and forgets all others: plans of products are about to go.
  absl::Status Forget();
  const GraphUse& use() const { return use_; }

 private:
  // A batch that was seen, and its graph, if it was seen twice.
  struct Kept {
    WorkBatch batch;
    MadeGraph graph;
    int64_t budget = 0;  // what the batch costs without a graph
    std::list<Kept>::iterator place;
    // The difference from the batch under way.
    std::vector<size_t> different;  // pieces of work
    int64_t cost = 0;               // of the graph, with these set
  };

  // Compares the last piece of work, which is new, with the candidates.
  void Narrow();
  void Compare(Kept& kept, size_t last);
  // Returns whether the batch under way is one that was seen once.
  bool IsSeen() const { return seen_ != nullptr && seen_->batch.size() == batch_.size(); }
  // Returns whether all of the batch is better launched as the graph of its beginning.
  bool HasBest() const { return best_ != nullptr && (!IsSeen() || best_->batch.size() == batch_.size()); }
  // Keeps the last piece of work back, or launches what is due. False if the library refuses it.
  absl::StatusOr<bool> Note();
  absl::StatusOr<bool> LaunchLast(bool was_kept_back);
  // Launches all of the batch that was kept back, piece by piece. False if the library refuses the last one, which is
  // no part of the batch then.
  absl::StatusOr<bool> LaunchEach();
  // Launches the best graph; what is behind it is the next batch.
  absl::StatusOr<bool> LaunchBest();
  absl::StatusOr<bool> QueueProduct(ProductPlan* plan, std::span<const uint64_t> values);
  // All of the batch was launched: makes a graph of it or of a part of it, or remembers it.
  absl::Status EndRecord();
  // Returns whether another graph of so many nodes may be made.
  bool MayMake(size_t size, bool came_twice) const;
  absl::Status Build(Kept& kept);
  Kept& Keep(size_t size);
  void BeginBatch();
  // The end of the use of graphs, or of those with products, if the device is not lost with it.
  absl::Status GiveUp(Result result, const char* what);
  void DropAll();
  // Destroys the graph when the stream is idle, as it may be running.
  void Retire(Kept& kept);

  const Core& core_;
  Stream stream_;
  ProductQueue* products_;
  GraphMaker maker_;
  bool is_on_ = true;
  bool held_products_ = maker_.HoldsProducts();                    // before the last failure
  WorkBatch batch_;                                                // under way
  size_t num_launched_ = 0;                                        // of its pieces, that the driver has: none, or all
  size_t bound_ = kMinBound;                                       // of its pieces
  std::list<Kept> kept_;                                           // the one that was used last is first
  absl::flat_hash_map<const void*, std::vector<Kept*>> by_first_;  // key of the first piece
  std::vector<Kept*> candidates_;                                  // which are longer than the batch, and begin like it
  size_t common_ = 0;                                              // pieces of the batch that some candidate had, too
  Kept* best_ = nullptr;                                           // with a graph: the longest beginning of the batch
  Kept* seen_ = nullptr;                                           // without a graph
  std::vector<MadeGraph> retired_;
  int64_t num_nodes_ = 0;  // of all graphs that were made
  int64_t num_work_ = 0;   // that came
  GraphUse use_;

  static constexpr size_t kMinBound = 8, kMaxBound = 64;
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_GRAPHS_H_
