#include "vm/device/cuda_graphs.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace rvm::device::cuda {
namespace {

constexpr size_t kMaxKept = 64;               // batches
constexpr size_t kMinLaunches = 4;            // of a graph
constexpr size_t kLaunchesPerDifference = 4;  // launches of a graph for each one that may differ

}  // namespace

void LaunchBatch::Add(Function function, uint32_t blocks, std::span<const uint64_t> values) {
  launches_.push_back({function, blocks, values_.size(), values.size()});
  values_.insert(values_.end(), values.begin(), values.end());
}

void LaunchBatch::Clear() {
  launches_.clear();
  values_.clear();
}

bool LaunchBatch::IsSame(const LaunchBatch& other, size_t launch) const {
  const Launch &a = launches_[launch], &b = other.launches_[launch];
  return a.blocks == b.blocks && std::ranges::equal(ValuesOf(a), other.ValuesOf(b));
}

KernelNodeParams LaunchBatch::Params(size_t launch) {
  const Launch& of = launches_[launch];
  pointers_.clear();
  for (size_t i = 0; i < of.count; ++i) pointers_.push_back(&values_[of.first + i]);
  return {.function = of.function,
          .grid_x = of.blocks,
          .grid_y = 1,
          .grid_z = 1,
          .block_x = kPtxBlockThreads,
          .block_y = 1,
          .block_z = 1,
          .shared_bytes = 0,
          .params = pointers_.data(),
          .extra = nullptr};
}

LaunchGraphs::~LaunchGraphs() {
  for (Kept& kept : kept_) Retire(kept);
  NoteIdle();
}

void LaunchGraphs::NoteIdle() {
  bound_ = kMinBound;
  for (Kept& kept : retired_) {
    core_.cu->GraphExecDestroy(kept.exec);
    core_.cu->GraphDestroy(kept.graph);
  }
  retired_.clear();
}

void LaunchGraphs::Retire(Kept& kept) {
  if (kept.exec != nullptr) retired_.push_back(std::move(kept));
}

bool LaunchGraphs::Matches(Kept& kept) const {
  size_t last = batch_.size() - 1;
  if (last >= kept.batch.size() || batch_.function(last) != kept.batch.function(last)) return false;
  if (!batch_.IsSame(kept.batch, last)) kept.different.push_back(last);
  return kept.different.size() <= kept.batch.size() / kLaunchesPerDifference;
}

absl::Status LaunchGraphs::Launch(Function function, uint32_t blocks, std::span<const uint64_t> values) {
  batch_.Add(function, blocks, values);
  bool may_be_graph = false;
  for (Kept& kept : kept_) {
    if (!kept.is_candidate) continue;
    kept.is_candidate = Matches(kept);
    may_be_graph |= kept.is_candidate && kept.exec != nullptr;
  }
  if (!may_be_graph) RVM_RETURN_IF_ERROR(LaunchEach());
  return batch_.size() == bound_ ? EndBatch() : absl::OkStatus();
}

absl::Status LaunchGraphs::LaunchEach() {
  while (num_launched_ < batch_.size()) {
    KernelNodeParams p = batch_.Params(num_launched_++);
    RVM_RETURN_IF_ERROR(
        core_.Check(core_.cu->LaunchKernel(p.function, p.grid_x, p.grid_y, p.grid_z, p.block_x, p.block_y, p.block_z,
                                           p.shared_bytes, stream_, p.params, p.extra),
                    "LaunchKernel"));
  }
  return absl::OkStatus();
}

std::list<LaunchGraphs::Kept>::iterator LaunchGraphs::BestMatch() {
  auto best = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (!kept->is_candidate || kept->batch.size() != batch_.size()) continue;
    bool is_better =
        best == kept_.end() || (kept->exec != nullptr) > (best->exec != nullptr) ||
        ((kept->exec != nullptr) == (best->exec != nullptr) && kept->different.size() < best->different.size());
    if (is_better) best = kept;
  }
  return best;
}

absl::Status LaunchGraphs::EndBatch() {
  if (batch_.size() == 0) return absl::OkStatus();
  auto best = BestMatch();
  absl::Status status;
  if (best == kept_.end() || best->exec == nullptr) status = LaunchEach();
  if (status.ok() && is_on_) {
    if (best != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, best);
      // A graph that matches all of the batch matched its beginnings, so that none of it was launched yet.
      status = best->exec != nullptr ? LaunchGraph(*best) : Build(*best);
    } else if (batch_.size() >= kMinLaunches) {
      Remember();
    }
  }
  batch_.Clear();
  num_launched_ = 0;
  bound_ = std::min(2 * bound_, kMaxBound);
  for (Kept& kept : kept_) {
    kept.is_candidate = true;
    kept.different.clear();
  }
  return status;
}

void LaunchGraphs::Remember() {
  if (kept_.size() == kMaxKept) {
    Retire(kept_.back());
    kept_.pop_back();
  }
  kept_.emplace_front().batch = batch_;
}

absl::Status LaunchGraphs::LaunchGraph(Kept& kept) {
  Result result = 0;
  for (size_t launch : kept.different) {
    KernelNodeParams params = batch_.Params(launch);
    result = core_.cu->GraphExecKernelNodeSetParams(kept.exec, kept.nodes[launch], &params);
    if (result != 0) break;
  }
  if (result != 0) {
    RVM_RETURN_IF_ERROR(GiveUp(result, "GraphExecKernelNodeSetParams"));
    return LaunchEach();
  }
  if (!kept.different.empty()) kept.batch = batch_;
  result = core_.cu->GraphLaunch(kept.exec, stream_);
  if (result == kOutOfMemory) {
    RVM_RETURN_IF_ERROR(GiveUp(result, "GraphLaunch"));
    return LaunchEach();
  }
  RVM_RETURN_IF_ERROR(core_.Check(result, "GraphLaunch"));
  ++use_.graphs;
  use_.launches += static_cast<int64_t>(batch_.size());
  return absl::OkStatus();
}

absl::Status LaunchGraphs::Build(Kept& kept) {
  kept.batch = batch_;
  const char* what = "";
  Result result = Make(kept, what);
  if (result == 0) return absl::OkStatus();
  if (kept.graph != nullptr) core_.cu->GraphDestroy(kept.graph);
  return GiveUp(result, what);
}

// A chain: each launch may read what any before it wrote.
Result LaunchGraphs::Make(Kept& kept, const char*& what) {
  what = "GraphCreate";
  if (Result result = core_.cu->GraphCreate(&kept.graph, 0); result != 0) {
    kept.graph = nullptr;
    return result;
  }
  what = "GraphAddKernelNode";
  for (size_t launch = 0; launch < kept.batch.size(); ++launch) {
    KernelNodeParams params = kept.batch.Params(launch);
    const GraphNode* before = launch == 0 ? nullptr : &kept.nodes.back();
    GraphNode node = nullptr;
    if (Result result = core_.cu->GraphAddKernelNode(&node, kept.graph, before, launch == 0 ? 0 : 1, &params);
        result != 0) {
      return result;
    }
    kept.nodes.push_back(node);
  }
  what = "GraphInstantiate";
  GraphNode wrong = nullptr;
  char log[256] = "";
  GraphExec exec = nullptr;
  Result result = core_.cu->GraphInstantiate(&exec, kept.graph, &wrong, log, sizeof(log));
  if (result == 0) kept.exec = exec;
  return result;
}

absl::Status LaunchGraphs::GiveUp(Result result, const char* what) {
  absl::Status status = core_.Check(result, what);
  if (core_.is_lost) return status;
  is_on_ = false;
  for (Kept& kept : kept_) Retire(kept);
  kept_.clear();
  return absl::OkStatus();
}

}  // namespace rvm::device::cuda
