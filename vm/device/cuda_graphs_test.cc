// LaunchGraphs on a driver that writes down its calls. Those of the real driver's rules are tested by
// tests/cuda_test.py.
#include "vm/device/cuda_graphs.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rvm::device::cuda {
namespace {

// Log of the calls of the driver and the library: launches by the number of their function, "pN" a product, "set N" a
// node of a graph, "make N" a graph of so many nodes, "graph" its launch, "drop". `fails`: the call that fails with
// `error`.
struct Told {
  std::string text, fails;
  Result error = kInvalidValue;
  int graphs = 0, execs = 0;  // that exist
  size_t nodes = 0;
  int streams = 0;
  bool captures = false;
  bool library_refuses = false;

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
  api.StreamCreate = [](Stream* stream, uint32_t) {
    *stream = reinterpret_cast<Stream>(0x30);
    Result result = told->Tell("stream");
    if (result == 0) ++told->streams;
    return result;
  };
  api.StreamDestroy = [](Stream) { return --told->streams, 0; };
  api.StreamBeginCapture = [](Stream, int32_t) {
    Result result = told->Tell("capture");
    told->captures = result == 0;
    return result;
  };
  api.StreamEndCapture = [](Stream, Graph* graph) {
    EXPECT_TRUE(told->captures);
    told->captures = false;
    *graph = reinterpret_cast<Graph>(0x40);
    Result result = told->Tell("end");
    if (result == 0) {
      ++told->graphs;
    } else {
      *graph = nullptr;
    }
    return result;
  };
  api.GraphAddChildGraphNode = [](GraphNode* node, Graph, const GraphNode* after, size_t count, Graph) {
    EXPECT_EQ(count, told->nodes == 0 ? 0u : 1u);
    if (count > 0) EXPECT_EQ(reinterpret_cast<size_t>(*after), told->nodes);
    *node = reinterpret_cast<GraphNode>(++told->nodes);
    return told->Tell("child");
  };
  api.GraphExecChildGraphNodeSetParams = [](GraphExec, GraphNode node, Graph) {
    return told->Tell(absl::StrCat("set ", reinterpret_cast<size_t>(node)));
  };
  api.GraphLaunch = [](GraphExec, Stream) { return told->Tell("graph"); };
  api.GraphExecDestroy = [](GraphExec) { return --told->execs, told->Tell("drop"); };
  api.GraphDestroy = [](Graph) { return --told->graphs, 0; };
  return api;
}

class TestProducts : public ProductQueue {
 public:
  int32_t Queue(ProductPlan* plan, std::span<const uint64_t> values, Stream stream) override {
    EXPECT_EQ(stream != nullptr, told->captures);
    if (told->library_refuses) return 15;
    return told->Tell(absl::StrCat("p", reinterpret_cast<uint64_t>(plan), values[0] == 0 ? "" : "=",
                                   values[0] == 0 ? "" : absl::StrCat(values[0])));
  }
  absl::StatusOr<bool> Outcome(ProductPlan*, int32_t status) override {
    if (status == 0 || status == 15) return status == 0;
    return absl::InternalError(absl::StrCat("the library gives ", status));
  }
};

class LaunchGraphsTest : public testing::Test {
 protected:
  LaunchGraphsTest() {
    told = &told_;
    Begin();
  }
  ~LaunchGraphsTest() override {
    graphs_.reset();
    EXPECT_EQ(told_.streams, 0);
    EXPECT_EQ(told_.graphs, 0);
    EXPECT_EQ(told_.execs, 0);
  }

  void Begin() { graphs_ = std::make_unique<LaunchGraphs>(core_, nullptr, &products_); }

  // Launches functions, each with one argument, or products if the number is negative, and ends the batch; gives what
  // the driver was told.
  std::string Run(const std::vector<std::pair<int64_t, uint64_t>>& work, bool is_idle = true) {
    told_.text.clear();
    for (auto [number, value] : work) {
      absl::StatusOr<bool> queued = true;
      if (number < 0) {
        queued = graphs_->Multiply(reinterpret_cast<ProductPlan*>(-number), {&value, 1});
      } else if (absl::Status status = graphs_->Launch(reinterpret_cast<Function>(number), 1, {&value, 1});
                 !status.ok()) {
        queued = status;
      }
      if (!queued.ok()) return std::string(queued.status().message());
      if (!*queued) absl::StrAppend(&told_.text, " refused");
    }
    absl::Status status = graphs_->EndBatch();
    if (!status.ok()) return std::string(status.message());
    if (is_idle) graphs_->NoteIdle();
    return told_.text;
  }
  // Returns the same functions, or products, with the argument 0.
  std::string Same(const std::vector<int64_t>& numbers, bool is_idle = true) {
    std::vector<std::pair<int64_t, uint64_t>> work;
    for (int64_t number : numbers) work.push_back({number, 0});
    return Run(work, is_idle);
  }

  Api api_ = TestApi();
  Core core_{&api_, 0, {.id = "cuda:0", .name = "test", .target = "", .features = ""}};
  Told told_;
  TestProducts products_;
  std::unique_ptr<LaunchGraphs> graphs_;
};

TEST_F(LaunchGraphsTest, MakesAGraphOfWhatMayComeAgain) {
  EXPECT_EQ(Same({1, 2, 3, 4}), "1 2 3 4 create make 4");
  EXPECT_EQ(Same({1, 2, 3, 4}), "graph");
  EXPECT_EQ(graphs_->use().graphs, 1);
  EXPECT_EQ(graphs_->use().launches, 4);
  // Different work is launched at once.
  EXPECT_EQ(Same({1, 2, 4, 3}), "1 2 4 3 create make 4");
  EXPECT_EQ(Same({1, 2, 3}), "1 2 3");
  EXPECT_EQ(Same({1, 2, 3, 4, 5}), "graph 5");
  EXPECT_EQ(Same({1, 2, 4, 3}), "graph");
}

TEST_F(LaunchGraphsTest, LeavesShortBatches) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Same({1, 2, 3}), "1 2 3");
}

TEST_F(LaunchGraphsTest, SetsNodesThatDiffer) {
  Same({1, 2, 3, 4});
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 0}, {4, 0}}), "set 2=5 graph");
  EXPECT_EQ(Run({{1, 0}, {2, 5}, {3, 0}, {4, 0}}), "graph");
  EXPECT_EQ(Run({{1, 1}, {2, 6}, {3, 7}, {4, 8}}), "set 1=1 set 2=6 set 3=7 set 4=8 graph");
  EXPECT_EQ(Run({{1, 1}, {2, 6}, {3, 0}, {4, 8}}), "set 3=0 graph");
}

TEST_F(LaunchGraphsTest, KeepsTheFirstLaunchesBackForAShortTimeOnly) {
  std::vector<int64_t> loop;
  for (int64_t i = 1; i <= 30; ++i) loop.push_back(i);
  EXPECT_THAT(Same(loop), testing::HasSubstr("make 8 9 "));
  EXPECT_EQ(Same(loop), "graph graph graph");  // of 8, 16 and 6
  EXPECT_EQ(graphs_->use().launches, 30);
}

TEST_F(LaunchGraphsTest, LoopsOfAnyLengthUseGraphsOfShorterOnes) {
  std::vector<int64_t> loop = {9, 9};
  auto run = [&](size_t turns) {
    std::vector<int64_t> all = loop;
    for (size_t i = 0; i < turns; ++i) all.insert(all.end(), {1, 2});
    all.push_back(7);
    return Same(all);
  };
  run(9);
  run(5);
  run(7);
  for (size_t turns = 3; turns < 16; ++turns) run(turns);
  int64_t before = graphs_->use().launches, launches = 0;
  for (size_t turns = 15; turns > 3; --turns) {
    run(turns);
    launches += 3 + 2 * static_cast<int64_t>(turns);
  }
  EXPECT_GE(10 * (graphs_->use().launches - before), 9 * launches);
}

TEST_F(LaunchGraphsTest, LongerBatchesThatComeAgainReplaceTheirBeginnings) {
  Same({1, 2, 3, 4});
  Same({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Same({1, 2, 3, 4, 5, 6}), "graph 5 6");
  // Work behind a graph is a batch of its own; all of it is one batch if it was new when it came.
  Begin();
  Same({1, 2, 3, 4, 5, 6});
  Same({1, 2, 3, 4});
  EXPECT_EQ(Same({1, 2, 3, 4, 5, 6}), "graph");
  EXPECT_EQ(Same({1, 2, 3, 4, 5, 7}), "graph 5 7");
  EXPECT_EQ(Same({1, 2, 3, 4}), "graph");
}

TEST_F(LaunchGraphsTest, ForgetsWhatIsNotUsed) {
  Same({1, 2, 3, 4});
  for (int64_t i = 1; i < 64; ++i) Same({10 + i, 2, 3, 4});
  EXPECT_EQ(Same({1, 2, 3, 4}), "graph");
  for (int64_t i = 100; i < 163; ++i) Same({10 + i, 2, 3, 4}, false);
  EXPECT_GE(told_.execs, 64);
  EXPECT_EQ(Same({1, 2, 3, 4}, false), "graph");
  Same({500, 2, 3, 4}, false);
  int running = told_.execs;
  // They may be running: they go when the stream is idle.
  EXPECT_THAT(Same({}), testing::HasSubstr("drop"));
  EXPECT_LT(told_.execs, running);
  EXPECT_LE(told_.execs, 64);
}

TEST_F(LaunchGraphsTest, MakesNoMoreGraphsOfWhatComesOnce) {
  int64_t launches = 0;
  for (int64_t i = 1; i < 2000; ++i, launches += 8) {
    std::vector<int64_t> numbers;
    for (int64_t j = 0; j < 8; ++j) numbers.push_back(8 * i + j);
    Same(numbers);
  }
  EXPECT_EQ(graphs_->use().graphs, 0);
  EXPECT_THAT(Same({1, 2, 3, 4}), "1 2 3 4");
  // A batch that comes again still has one.
  EXPECT_THAT(Same({1, 2, 3, 4}), "1 2 3 4 create make 4");
  EXPECT_EQ(Same({1, 2, 3, 4}), "graph");
}

TEST_F(LaunchGraphsTest, ProductsAreCaptured) {
  EXPECT_EQ(Same({1, -2, 3, -4}), "1 p2 3 p4 create stream capture p2 end child capture p4 end child make 4");
  EXPECT_EQ(Same({1, -2, 3, -4}), "graph");
  EXPECT_EQ(graphs_->use().launches, 2);
  EXPECT_EQ(graphs_->use().products, 2);
  EXPECT_EQ(Same({1, -2, 3, -5}), "1 p2 3 p5 create capture p2 end child capture p5 end child make 4");
}

TEST_F(LaunchGraphsTest, ProductsOfOtherAddressesAreCapturedAnewIfThatPays) {
  Same({1, 2, 3, 4, 5, -6, 7, -8});
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 9}, {4, 0}, {5, 0}, {-6, 3}, {7, 0}, {-8, 0}}),
            "set 3=9 capture p6=3 end set 6 graph");
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 9}, {4, 0}, {5, 0}, {-6, 3}, {7, 0}, {-8, 0}}), "graph");
  // Other ones are launched where there are products alone; they get a graph of their own.
  Same({-1, -2, -3, -4});
  EXPECT_THAT(Run({{-1, 1}, {-2, 1}, {-3, 1}, {-4, 1}}), testing::StartsWith("p1=1 p2=1 p3=1 p4=1 create"));
  EXPECT_EQ(Same({-1, -2, -3, -4}), "graph");
  EXPECT_EQ(Run({{-1, 1}, {-2, 1}, {-3, 1}, {-4, 1}}), "graph");
}

TEST_F(LaunchGraphsTest, ProductsThatTheLibraryRefusesAreNoWork) {
  told_.library_refuses = true;
  EXPECT_EQ(Same({1, -2, 3, 4, 5}), "1 refused 3 4 5 create make 4");
  told_.library_refuses = false;
  EXPECT_EQ(Same({1, 3, 4, 5}), "graph");
  EXPECT_EQ(Same({-2}), "p2");
}

TEST_F(LaunchGraphsTest, GoesOnWithoutProductsInGraphsIfTheyAreNotCaptured) {
  for (const char* call : {"stream", "capture", "end", "child", "library"}) {
    SCOPED_TRACE(call);
    Begin();
    told_.fails = call;
    Same({1, 2, 3, 4, -5});
    told_.fails.clear();
    if (std::string(call) != "library") {
      EXPECT_EQ(Same({1, 2, 3, 4, -5, 6}), "1 2 3 4 create make 4 p5 6");
      EXPECT_EQ(Same({1, 2, 3, 4, -5, 6}), "graph p5 6");
    }
    EXPECT_FALSE(told_.captures);
  }
  // A product of other addresses.
  Begin();
  Same({1, 2, 3, 4, 5, -6});
  told_.fails = "set 6";
  EXPECT_EQ(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {-6, 1}}), "capture p6=1 end 1 2 3 4 5 p6=1 drop");
  told_.fails.clear();
  EXPECT_THAT(Run({{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {-6, 1}}), testing::EndsWith("p6=1"));
}

TEST_F(LaunchGraphsTest, DriversWithoutCaptures) {
  api_.GraphExecChildGraphNodeSetParams = nullptr;
  Begin();
  EXPECT_EQ(Same({1, 2, 3, 4, -5, 6}), "1 2 3 4 create make 4 p5 6");
  EXPECT_EQ(Same({1, 2, 3, 4, -5, 6}), "graph p5 6");
}

TEST_F(LaunchGraphsTest, ForgetsPlans) {
  Same({1, 2, 3, -4});
  EXPECT_TRUE(graphs_->Forget().ok());
  EXPECT_EQ(Same({}), "drop");
  EXPECT_THAT(Same({1, 2, 3, -4}), testing::StartsWith("1 2 3 p4"));
}

TEST_F(LaunchGraphsTest, GoesOnWithoutGraphsIfTheDriverRefusesThem) {
  for (const char* call : {"create", "make", "set", "graph"}) {
    SCOPED_TRACE(call);
    Begin();
    told_.error = kOutOfMemory;
    told_.fails = call;
    Same({1, 2, 3, 4});
    EXPECT_THAT(Run({{1, 5}, {2, 0}, {3, 0}, {4, 0}}), testing::HasSubstr("1 2 3 4"));
    told_.fails.clear();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Same({1, 2, 3, 4}), "1 2 3 4");
    EXPECT_EQ(Same({1, 2, -3, 4}), "1 2 p3 4");
    EXPECT_EQ(graphs_->use().launches, 0);
  }
}

TEST_F(LaunchGraphsTest, ReportsErrorsOfLaunchesAndLostDevices) {
  told_.fails = "3";
  EXPECT_EQ(Same({1, 2, 3, 4}), "device cuda:0 (test): cuLaunchKernel: a test (TEST 1)");
  told_.fails.clear();
  Begin();
  Same({1, 2, 3, 4});
  told_.fails = "graph";
  EXPECT_EQ(Same({1, 2, 3, 4}), "device cuda:0 (test): cuGraphLaunch: a test (TEST 1)");
  told_.fails = "p3";
  Begin();
  EXPECT_EQ(Same({1, 2, -3, 4}), "the library gives 1");
  told_.error = kLaunchFailed;
  told_.fails = "make";
  Begin();
  EXPECT_EQ(Same({1, 2, 3, 4}), "device cuda:0 (test) is lost: cuGraphInstantiate: a test (TEST 719)");
}

}  // namespace
}  // namespace rvm::device::cuda
