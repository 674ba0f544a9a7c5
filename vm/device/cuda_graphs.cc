#include "vm/device/cuda_graphs.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace rvm::device::cuda {
namespace {

constexpr size_t kMaxKept = 64;     // batches
constexpr size_t kMinLaunches = 4;  // of a graph

// Time of the host for calls of the driver, in units of 0.1 us, as measured on an H100.
constexpr int64_t kLaunchCost = 32;
constexpr int64_t kProductCost = 60;
constexpr int64_t kGraphCost = 15;
constexpr int64_t kSetLaunchCost = 3;
constexpr int64_t kSetProductCost = 120;  // it is captured

// To make a node costs as much as one and a half launches, mostly while the device is at work. So many are made of what
// came once; from then on, of what came twice, one for each four pieces of work that the stream was given.
constexpr int64_t kFreeNodes = 1024;
constexpr int64_t kWorkPerNode = 4;

// The error of a product that was kept back, and cannot go to the code's own function any more.
absl::Status RefusedLate() {
  return absl::InternalError("the library of products refuses one that it has computed before");
}

}  // namespace

LaunchGraphs::~LaunchGraphs() {
  DropAll();
  NoteIdle();
}

void LaunchGraphs::NoteIdle() {
  bound_ = kMinBound;
  for (const MadeGraph& graph : retired_) maker_.Destroy(graph);
  retired_.clear();
}

void LaunchGraphs::Retire(Kept& kept) {
  if (kept.graph.exec != nullptr) retired_.push_back(std::move(kept.graph));
}

void LaunchGraphs::DropAll() {
  for (Kept& kept : kept_) Retire(kept);
  kept_.clear();
  by_first_.clear();
  candidates_.clear();
  common_ = 0;
  best_ = seen_ = nullptr;
}

absl::Status LaunchGraphs::Forget() {
  RVM_RETURN_IF_ERROR(EndBatch());
  DropAll();
  return absl::OkStatus();
}

absl::Status LaunchGraphs::Launch(Function function, uint32_t blocks, std::span<const uint64_t> values) {
  batch_.AddLaunch(function, blocks, values);
  return Note().status();
}

absl::StatusOr<bool> LaunchGraphs::Multiply(ProductPlan* plan, std::span<const uint64_t> values) {
  if (!is_on_ || !maker_.HoldsProducts()) {
    RVM_RETURN_IF_ERROR(EndBatch());
    return QueueProduct(plan, values);
  }
  batch_.AddProduct(plan, values);
  return Note();
}

absl::StatusOr<bool> LaunchGraphs::QueueProduct(ProductPlan* plan, std::span<const uint64_t> values) {
  return products_->Outcome(plan, products_->Queue(plan, values, stream_));
}

void LaunchGraphs::Compare(Kept& kept, size_t last) {
  if (batch_.IsSame(kept.batch, last)) return;
  kept.different.push_back(last);
  kept.cost += batch_.IsProduct(last) ? kSetProductCost : kSetLaunchCost;
}

void LaunchGraphs::Narrow() {
  size_t size = batch_.size(), last = size - 1;
  const void* key = batch_.Key(last);
  if (size == 1) {
    candidates_.clear();
    if (auto found = by_first_.find(key); found != by_first_.end()) candidates_ = found->second;
    for (Kept* kept : candidates_) {
      kept->different.clear();
      kept->cost = kGraphCost;
    }
  }
  std::erase_if(candidates_, [&](Kept* kept) {
    if (kept->batch.Key(last) != key) return true;
    Compare(*kept, last);
    if (kept->cost > kept->budget) return true;
    common_ = size;
    if (kept->batch.size() > size) return false;
    if (kept->graph.exec == nullptr) {
      seen_ = kept;
    } else if (best_ == nullptr || best_->batch.size() < size || kept->cost < best_->cost) {
      best_ = kept;
    }
    return true;
  });
}

absl::StatusOr<bool> LaunchGraphs::Note() {
  ++num_work_;
  Narrow();
  if (num_launched_ > 0) return LaunchLast(false);
  bool may_grow = std::ranges::any_of(
      candidates_, [&](const Kept* kept) { return best_ != nullptr || kept->graph.exec != nullptr; });
  if (may_grow && (batch_.size() < bound_ || !HasBest())) return true;
  return HasBest() ? LaunchBest() : LaunchLast(true);
}

absl::StatusOr<bool> LaunchGraphs::LaunchLast(bool was_kept_back) {
  RVM_ASSIGN_OR_RETURN(bool is_queued, LaunchEach());
  bool is_complete = batch_.size() >= bound_ || (was_kept_back && batch_.size() > 1 && IsSeen());
  if (is_queued && is_complete) RVM_RETURN_IF_ERROR(EndRecord());
  return is_queued;
}

absl::StatusOr<bool> LaunchGraphs::LaunchEach() {
  while (num_launched_ < batch_.size()) {
    size_t number = num_launched_;
    if (batch_.IsProduct(number)) {
      RVM_ASSIGN_OR_RETURN(bool is_queued, QueueProduct(batch_.Plan(number), batch_.Values(number)));
      if (!is_queued) {
        if (number + 1 < batch_.size()) {
          return RefusedLate();
        }
        batch_.DropLast();
        candidates_.clear();
        common_ = std::min(common_, batch_.size());
        seen_ = nullptr;
        return false;
      }
    } else {
      KernelNodeParams p = batch_.Params(number);
      RVM_RETURN_IF_ERROR(
          core_.Check(core_.cu->LaunchKernel(p.function, p.grid_x, p.grid_y, p.grid_z, p.block_x, p.block_y, p.block_z,
                                             p.shared_bytes, stream_, p.params, p.extra),
                      "LaunchKernel"));
    }
    ++num_launched_;
  }
  return true;
}

absl::StatusOr<bool> LaunchGraphs::LaunchBest() {
  Kept& kept = *best_;
  size_t size = kept.batch.size();
  const char* what = "";
  Result result = 0;
  for (size_t number : kept.different) {
    result = maker_.Set(kept.graph, batch_, number, what);
    if (result != 0) break;
  }
  if (result == 0) {
    what = "GraphLaunch";
    result = core_.cu->GraphLaunch(kept.graph.exec, stream_);
    // Some of its work may have run, unless it lacks memory.
    if (result != kOutOfMemory) RVM_RETURN_IF_ERROR(core_.Check(result, what));
  }
  if (result != 0) {
    RVM_RETURN_IF_ERROR(GiveUp(result, what));
    return LaunchEach();
  }
  if (!kept.different.empty()) {
    kept.batch.Clear();
    kept.batch.Append(batch_, 0, size);
  }
  ++use_.graphs;
  for (size_t i = 0; i < size; ++i) ++(batch_.IsProduct(i) ? use_.products : use_.launches);
  kept_.splice(kept_.begin(), kept_, kept.place);
  WorkBatch rest;
  rest.Append(batch_, size, batch_.size());
  BeginBatch();
  bool is_queued = true;
  for (size_t i = 0; i < rest.size(); ++i) {
    batch_.Append(rest, i, i + 1);
    RVM_ASSIGN_OR_RETURN(is_queued, Note());
    if (!is_queued && i + 1 < rest.size()) {
      return RefusedLate();
    }
  }
  return is_queued;
}

absl::Status LaunchGraphs::EndBatch() {
  while (batch_.size() > 0 && num_launched_ == 0) {
    RVM_ASSIGN_OR_RETURN(bool is_queued, HasBest() ? LaunchBest() : LaunchEach());
    if (!is_queued) {
      return RefusedLate();
    }
  }
  return EndRecord();
}

absl::Status LaunchGraphs::EndRecord() {
  if (batch_.size() == 0) return absl::OkStatus();
  absl::Status status;
  if (is_on_ && batch_.size() >= kMinLaunches && (maker_.HoldsProducts() || !batch_.HasProducts())) {
    bool came_twice = IsSeen();
    Kept& all = came_twice ? *seen_ : Keep(batch_.size());
    if (MayMake(batch_.size(), came_twice)) status = Build(all);
    // The beginning that another batch had, too, is of use if the rest differs. (If the graph failed, nothing is
    // common.)
    bool shares = !came_twice && common_ >= kMinLaunches && common_ < batch_.size();
    if (status.ok() && is_on_ && shares && MayMake(common_, true)) status = Build(Keep(common_));
  }
  BeginBatch();
  return status;
}

bool LaunchGraphs::MayMake(size_t size, bool came_twice) const {
  int64_t nodes = num_nodes_ + static_cast<int64_t>(size);
  return nodes <= kFreeNodes + (came_twice ? num_work_ / kWorkPerNode : 0);
}

void LaunchGraphs::BeginBatch() {
  batch_.Clear();
  num_launched_ = 0;
  bound_ = std::min(2 * bound_, kMaxBound);
  candidates_.clear();
  common_ = 0;
  best_ = seen_ = nullptr;
}

LaunchGraphs::Kept& LaunchGraphs::Keep(size_t size) {
  if (kept_.size() == kMaxKept) {
    Kept& last = kept_.back();
    std::erase(by_first_[last.batch.Key(0)], &last);
    Retire(last);
    kept_.pop_back();
  }
  Kept& kept = kept_.emplace_front();
  kept.place = kept_.begin();
  kept.batch.Append(batch_, 0, size);
  for (size_t i = 0; i < size; ++i) kept.budget += batch_.IsProduct(i) ? kProductCost : kLaunchCost;
  by_first_[kept.batch.Key(0)].push_back(&kept);
  return kept;
}

absl::Status LaunchGraphs::Build(Kept& kept) {
  size_t size = kept.batch.size();
  kept.batch.Clear();
  kept.batch.Append(batch_, 0, size);
  const char* what = "";
  if (Result result = maker_.Make(kept.batch, size, kept.graph, what); result != 0) return GiveUp(result, what);
  num_nodes_ += static_cast<int64_t>(size);
  kept_.splice(kept_.begin(), kept_, kept.place);
  return absl::OkStatus();
}

absl::Status LaunchGraphs::GiveUp(Result result, const char* what) {
  absl::Status status = core_.Check(result, what);
  if (core_.is_lost) return status;
  // Graphs without products go on, if a capture failed.
  is_on_ = held_products_ && !maker_.HoldsProducts();
  held_products_ = maker_.HoldsProducts();
  DropAll();
  return absl::OkStatus();
}

}  // namespace rvm::device::cuda
