// LaunchGraphs on a driver that writes down its calls. Those of the real driver's rules are tested by
// tests/cuda_test.py.
#include "vm/device/cuda_graphs.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rvm::device::cuda {
namespace {

// Log of the calls of the driver: launches by the number of their function, "set N" a node of it, "make N" a graph of
// so many nodes, "graph" its launch, "drop". `fails`: the call that fails with `error`.
struct Told {
  std::string text, fails;
  Result error = kInvalidValue;
  int graphs = 0, execs = 0;  // that exist
  size_t nodes = 0;

  Result Tell(const std::string& call) {
    if (!fails.empty() && call.starts_with(fails)) return error;
    absl::StrAppend(&text, text.empty() ? "" : " ", call);
    return 0;
  }
};
Told* told;

uint64_t NumberOf(Function function) { return reinterpret_cast<uint64_t>(function); }

Api TestApi() {
  Api api;
  api.GetErrorName = [](Result, const char** name) { return *name = "TEST", 0; };
  api.GetErrorString = [](Result, const char** text) { return *text = "a test", 0; };
  api.LaunchKernel = [](Function function, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, Stream,
                        void**, void**) { return told->Tell(absl::StrCat(NumberOf(function))); };
  api.GraphCreate = [](Graph* graph, uint32_t) {
    *graph = reinterpret_cast<Graph>(0x10);
    Result result = told->Tell("create");
    if (result == 0) ++told->graphs;
    told->nodes = 0;
    return result;
  };
  api.GraphAddKernelNode = [](GraphNode* node, Graph, const GraphNode* after, size_t count, const KernelNodeParams*) {
    EXPECT_EQ(count, told->nodes == 0 ? 0u : 1u);
    if (count > 0) EXPECT_EQ(reinterpret_cast<size_t>(*after), told->nodes);  // the one before
    *node = reinterpret_cast<GraphNode>(++told->nodes);
    return Result{0};
  };
  api.GraphInstantiate = [](GraphExec* exec, Graph, GraphNode*, char*, size_t) {
    Result result = told->Tell(absl::StrCat("make ", told->nodes));
    if (result == 0) ++told->execs;
    *exec = reinterpret_cast<GraphExec>(0x20);
    return result;
  };
  api.GraphExecKernelNodeSetParams = [](GraphExec, GraphNode node, const KernelNodeParams* params) {
    return told->Tell(
        absl::StrCat("set ", reinterpret_cast<size_t>(node), "=", *static_cast<uint64_t*>(params->params[0])));
  };
  api.GraphLaunch = [](GraphExec, Stream) { return told->Tell("graph"); };
  api.GraphExecDestroy = [](GraphExec) { return --told->execs, told->Tell("drop"); };
  api.GraphDestroy = [](Graph) { return --told->graphs, 0; };
  return api;
}

class LaunchGraphsTest : public testing::Test {
 protected:
  LaunchGraphsTest() {
    told = &told_;
    graphs_ = std::make_unique<LaunchGraphs>(core_, nullptr);
  }
  ~LaunchGraphsTest() override {
    graphs_.reset();
    EXPECT_EQ(told_.graphs, 0);
    EXPECT_EQ(told_.execs, 0);
  }

  // Launches functions, each with one argument, and ends the batch; gives what the driver was told.
  std::string Run(const std::vector<std::pair<uint64_t, uint64_t>>& launches, bool is_idle = true) {
    told_.text.clear();
    for (auto [function, value] : launches) {
      absl::Status status = graphs_->Launch(reinterpret_cast<Function>(function), 1, {&value, 1});
      if (!status.ok()) return std::string(status.message());
    }
    absl::Status status = graphs_->EndBatch();
    if (!status.ok()) return std::string(status.message());
    if (is_idle) graphs_->NoteIdle();
    return told_.text;
  }

  Api api_ = TestApi();
  Core core_{&api_, 0, {.id = "cuda:0", .name = "test", .target = "", .features = ""}};
  Told told_;
  std::unique_ptr<LaunchGraphs> graphs_;
};

TEST_F(LaunchGraphsTest, MakesAGraphOfWhatComesTwice) {
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "1 2 3 4");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "1 2 3 4 create make 4");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "graph");
  EXPECT_EQ(graphs_->use().graphs, 1);
  EXPECT_EQ(graphs_->use().launches, 4);
  // Others, and those of a part, or with more behind them, are launched one by one.
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {4, 0}, {3, 0}}), "1 2 4 3");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}}), "1 2 3");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}}), "1 2 3 4 5");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "graph");
}

TEST_F(LaunchGraphsTest, LeavesShortBatches) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}}), "1 2 3");
}

TEST_F(LaunchGraphsTest, SetsAQuarterOfTheNodes) {
  Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}});
  // The graph has the arguments of the second time.
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 0}, {4, 0}}), "1 2 3 4 create make 4");
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 0}, {4, 0}}), "graph");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 6}, {4, 0}}), "1 2 3 4");
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 6}, {4, 0}}), "set 3=6 graph");
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 6}, {4, 0}}), "graph");
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 0}, {4, 0}}), "set 3=0 graph");
}

TEST_F(LaunchGraphsTest, KeepsTheFirstLaunchesBackForAShortTimeOnly) {
  std::vector<std::pair<uint64_t, uint64_t>> loop;
  for (uint64_t i = 1; i <= 30; ++i) loop.push_back({i, 0});
  Run(loop);
  Run(loop);
  EXPECT_EQ(Run(loop), "graph graph graph");  // of 8, 16 and 6
  EXPECT_EQ(graphs_->use().launches, 30);
  // Without a wait in between, the next batch is not cut where the first one is.
  loop.resize(16);
  EXPECT_EQ(Run(loop, false), "graph 9 10 11 12 13 14 15 16");
  EXPECT_EQ(Run(loop), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
}

TEST_F(LaunchGraphsTest, ForgetsWhatIsNotUsed) {
  for (int i = 0; i < 2; ++i) Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}});
  for (uint64_t i = 1; i < 64; ++i) Run({{1, i}, {2, i}, {3, i}, {4, i}});
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "graph");
  for (uint64_t i = 100; i < 163; ++i) Run({{1, i}, {2, i}, {3, i}, {4, i}});
  EXPECT_EQ(told_.execs, 1);
  // It may be running: it goes when the stream is idle.
  EXPECT_EQ(Run({{1, 7}, {2, 8}, {3, 9}, {4, 0}}, false), "1 2 3 4");
  EXPECT_EQ(told_.execs, 1);
  EXPECT_EQ(Run({}), "drop");
  EXPECT_EQ(told_.execs, 0);
}

TEST_F(LaunchGraphsTest, GoesOnWithoutGraphsIfTheDriverRefusesThem) {
  for (const char* call : {"create", "make", "set", "graph"}) {
    SCOPED_TRACE(call);
    graphs_ = std::make_unique<LaunchGraphs>(core_, nullptr);
    told_.error = kOutOfMemory;
    told_.fails = call;
    for (int i = 0; i < 2; ++i) Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}});
    EXPECT_THAT(Run({{1, 5}, {2, 0}, {3, 0}, {4, 0}}), testing::HasSubstr("1 2 3 4"));
    told_.fails.clear();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "1 2 3 4");
    EXPECT_EQ(graphs_->use().launches, 0);
  }
}

TEST_F(LaunchGraphsTest, ReportsErrorsOfLaunchesAndLostDevices) {
  told_.fails = "3";
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "device cuda:0 (test): cuLaunchKernel: a test (TEST 1)");
  told_.fails.clear();
  graphs_ = std::make_unique<LaunchGraphs>(core_, nullptr);
  for (int i = 0; i < 2; ++i) Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}});
  told_.fails = "graph";
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}), "device cuda:0 (test): cuGraphLaunch: a test (TEST 1)");
  told_.error = kLaunchFailed;
  graphs_ = std::make_unique<LaunchGraphs>(core_, nullptr);
  told_.fails = "make";
  Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}});
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}}),
            "device cuda:0 (test) is lost: cuGraphInstantiate: a test (TEST 719)");
}

}  // namespace
}  // namespace rvm::device::cuda
