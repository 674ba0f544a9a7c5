// Tests of requests that run together.
#include "vm/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "vm/testing/program_builder.h"
#include "vm/testing/row_kernels.h"

namespace rvm::vm {
namespace {

using testing::Calls;
using testing::Floats;
using testing::Int;
using testing::LinkRowKernels;
using testing::Ran;

// Adds `a` to itself until its score, which control reads at each step, is at least `limit`: a decoder that stops by
// data. Row `i` of a table ends it, if there is such a row.
constexpr char kDecoder[] = R"(
  entry "main" = F0 ("a", "limit", "i")
  function F0 "decode" params 3 result T0 {
    r0: T0  r1: float32  r2: int32  r3, r4: T0  r5: float32  r6: bool
  code
    at 0:1:1
    retain r3, r0
  L0:
    call_kernel [r3], N0, [r0, r3!, K0]
    call_kernel [r5], N8, [r3, K4]
    lt_f32 r6, r5, r1
    branch_if r6, L0
    drop r0
    at 0:2:1
    call_kernel_dynamic [r4], N2, [K1, r2]
    call_kernel [r3], N0, [r3!, r4!, K0]
    return r3
  }
)";

Value Number(float value) { return Value::Tensor(Literal::FromValues<float>(kFloat32, {}, std::vector<float>{value})); }

struct Job {
  std::vector<Value> args;
  RunOptions options;
};

Job Decode(float limit, int row = 0) { return {{Floats({1, 2}), Number(limit), Int(row)}, {}}; }

std::string Text(const absl::StatusOr<Value>& result) {
  return result.ok() ? result->ToString() : std::string(result.status().message());
}

std::unique_ptr<Batch> BatchOf(const std::shared_ptr<const Program>& program, int lanes = 4,
                               const MachineOptions& options = {}) {
  auto batch = Batch::Create(program, {.lanes = lanes, .machine = options});
  EXPECT_TRUE(batch.ok()) << batch.status();
  return *std::move(batch);
}

// Returns the results of all jobs, in their order.
std::vector<std::string> RunAll(Batch& batch, const std::vector<Job>& jobs) {
  std::vector<std::string> results(jobs.size(), "none");
  for (size_t i = 0; i < jobs.size(); ++i) {
    batch.Submit("main", jobs[i].args, jobs[i].options,
                 [&results, i](const absl::StatusOr<Value>& result) { results[i] = Text(result); });
  }
  batch.Drive();
  return results;
}

TEST(BatchTest, RequestsShareTheirCalls) {
  auto batch = BatchOf(LinkRowKernels(kDecoder));
  // Scores are 10, 15, 20, ...
  EXPECT_EQ(RunAll(*batch, {Decode(0), Decode(0, 1), Decode(15)}),
            (std::vector<std::string>{"[12f, 15f]", "[22f, 25f]", "[13f, 17f]"}));
  EXPECT_EQ(Calls(), "mix 3, score 3, row 2, mix 1, mix 2, score 1, row 1, mix 1");
  EXPECT_EQ(batch->stats().requests, 3);
  EXPECT_EQ(batch->stats().calls, 14);
}

TEST(BatchTest, RequestsComeAndGo) {
  auto batch = BatchOf(LinkRowKernels(kDecoder), 2);
  std::vector<Job> jobs = {Decode(30), Decode(0), Decode(0), Decode(0)};
  EXPECT_EQ(RunAll(*batch, jobs), (std::vector<std::string>{"[16f, 23f]", "[12f, 15f]", "[12f, 15f]", "[12f, 15f]"}));
  EXPECT_EQ(std::ranges::count(Ran(), "score 2"), 3);
}

TEST(BatchTest, ProgramsWithoutVariantsRunOneByOne) {
  auto program = LinkRowKernels(kDecoder);
  Executable executable = program->executable();
  executable.batch_variants.clear();
  auto plain = Program::LinkWithKernels(
      *Verify(std::move(executable)),
      std::vector<RvmKernel>(
          program->executable().kernels.size(),
          [](void* const*, const int64_t*, RvmKernelContext*) -> int32_t { return kRvmIndexOutOfRange; }));
  ASSERT_TRUE(plain.ok()) << plain.status();
  auto batch = BatchOf(*plain);
  for (const std::string& result : RunAll(*batch, {Decode(0), Decode(1)})) {
    EXPECT_EQ(result, "an index is out of range in kernel `mix`\n  in `decode` at p.relay:1:1");
  }
}

TEST(BatchTest, CompanyChangesNothing) {
  auto program = LinkRowKernels(kDecoder);
  std::vector<Job> jobs;
  std::vector<std::string> alone;
  auto machine = *Machine::Create(program, {});
  for (int i = 0; i < 64; ++i) {
    jobs.push_back(Decode(static_cast<float>(i * 7 % 120), i % 5));  // rows 3 and 4 are not there
    if (i % 11 == 3) jobs.back().options.fuel = 5;
    alone.push_back(Text(machine->Invoke("main", jobs.back().args, jobs.back().options)));
  }
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<size_t> order(jobs.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, random);
    order.resize(1 + random() % order.size());
    std::vector<Job> some;
    for (size_t i : order) some.push_back(jobs[i]);
    auto batch = BatchOf(program, 1 + static_cast<int>(random() % 9));
    std::vector<std::string> results = RunAll(*batch, some);
    for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(results[i], alone[order[i]]) << round << " " << order[i];
  }
}

TEST(BatchTest, ErrorsEndTheirRequestAlone) {
  auto batch = BatchOf(LinkRowKernels(kDecoder));
  std::vector<Job> jobs = {Decode(40), Decode(20, 9), Decode(30), Decode(1e9)};
  jobs[2].options.fuel = 2;
  jobs[3].options.time_limit_ms = 20;
  std::vector<std::string> results = RunAll(*batch, jobs);
  EXPECT_EQ(results[0], "[18f, 27f]");
  EXPECT_EQ(results[1], "an index is out of range in kernel `row`\n  in `decode` at p.relay:2:1");
  EXPECT_NE(results[2].find("out of fuel: more than 2"), std::string::npos) << results[2];
  EXPECT_NE(results[3].find("the time limit of 20 ms is over"), std::string::npos) << results[3];
}

// Twice a row, after n rounds of a loop.
constexpr char kSpins[] = R"(
  entry "main" = F0 ("a", "n")
  function F0 "main" params 2 result T0 {
    r0: T0  r1: int32  r2: T0
  code
    call_kernel [r2], N0, [r0, r0, K0]
  L0:
    branch_eq_imm r1, 0, L1
    add_imm_i32 r1, r1, -1
    jump L0
  L1:
    drop r0
    return r2
  }
)";

TEST(BatchTest, CallsOfARequestThatWasStoppedDoNotRun) {
  auto batch = BatchOf(LinkRowKernels(kSpins));
  std::vector<std::string> results =
      RunAll(*batch, {{{Floats({3, 4}), Int(1)}, {}}, {{Floats({1, 2}), Int(-1)}, {.time_limit_ms = 20}}});
  EXPECT_EQ(results[0], "[6f, 8f]");
  EXPECT_NE(results[1].find("the time limit of 20 ms is over"), std::string::npos) << results[1];
  EXPECT_EQ(Calls(), "mix 1");
}

// Tensors of any length, shifted by a shared vector.
constexpr char kSpinsOfAnyLength[] = R"(
  entry "main" = F0 ("a", "n")
  function F0 "main" params 2 result T1 {
    r0: T1  r1: int32  r2: T1
  code
    call_kernel_dynamic [r2], N6, [r0, K2]
  L0:
    branch_eq_imm r1, 0, L1
    add_imm_i32 r1, r1, -1
    jump L0
  L1:
    drop r0
    return r2
  }
)";

// The first call of a group is of the request that was stopped: its tensors are gone when the others of the group run.
TEST(BatchTest, AGroupRunsWithoutItsFirstRequest) {
  auto batch = BatchOf(LinkRowKernels(kSpinsOfAnyLength));
  std::vector<std::string> results = RunAll(*batch, {{{Floats({1, 2, 3}), Int(1)}, {}},
                                                     {{Floats({1, 2}), Int(-1)}, {.time_limit_ms = 20}},
                                                     {{Floats({1, 2}), Int(1)}, {}},
                                                     {{Floats({3, 4}), Int(1)}, {}}});
  EXPECT_EQ(results[0], "[6f, 7f, 8f]");
  EXPECT_NE(results[1].find("the time limit of 20 ms is over"), std::string::npos) << results[1];
  EXPECT_EQ(results[2], "[6f, 7f]");
  EXPECT_EQ(results[3], "[8f, 9f]");
}

TEST(BatchTest, ARequestThatIsCancelledWhileItWaitsEnds) {
  auto batch = BatchOf(LinkRowKernels(kSpins));
  std::vector<std::string> results(2);
  std::vector<Batch::Ticket> tickets;
  for (size_t i = 0; i < 2; ++i) {
    tickets.push_back(batch->Submit("main", {Floats({1, 2}), Int(1)}, {},
                                    [&results, i](const absl::StatusOr<Value>& r) { results[i] = Text(r); }));
  }
  batch->Submit("other", {}, {}, [&](const absl::StatusOr<Value>&) { batch->Cancel(tickets[0]); });
  batch->Drive();
  EXPECT_EQ(results[0].substr(0, 9), "cancelled") << results[0];
  EXPECT_EQ(results[1], "[2f, 4f]");
  EXPECT_EQ(Calls(), "mix 2");
}

TEST(BatchTest, WrongRequests) {
  auto batch = BatchOf(LinkRowKernels(kDecoder));
  std::vector<std::string> results;
  auto done = [&](const absl::StatusOr<Value>& result) { results.push_back(Text(result)); };
  batch->Submit("main", {Floats({1, 2, 3}), Number(0), Int(0)}, {}, done);
  batch->Submit("other", {}, {}, done);
  batch->Submit("main", {}, {.poll = [](void*) { return 0; }}, done);
  batch->Drive();
  ASSERT_EQ(results.size(), 3);
  std::ranges::sort(results);
  EXPECT_EQ(results[0], "a request of a batch has no poll function; cancel it");
  EXPECT_NE(results[1].find("argument 1 (`%a`) of `main`"), std::string::npos) << results[1];
  EXPECT_EQ(results[2], "no entry `other`; the executable has `main`");
}

TEST(BatchTest, EveryAllocationOfALaneMayFail) {
  auto program = LinkRowKernels(kDecoder);
  for (int64_t n = 1; n < 40; ++n) {
    auto batch = BatchOf(program, 3, {.fail_allocation = n});
    std::vector<std::string> results = RunAll(*batch, {Decode(0), Decode(15), Decode(20)});
    for (size_t i = 0; i < 3; ++i) {
      bool is_right = results[i] == std::vector<std::string>{"[12f, 15f]", "[13f, 17f]", "[14f, 19f]"}[i];
      EXPECT_TRUE(is_right || results[i].find("out of memory") != std::string::npos) << n << ": " << results[i];
    }
    // Each lane is as good as new.
    EXPECT_EQ(RunAll(*batch, {Decode(15)})[0].find("damaged"), std::string::npos);
  }
}

TEST(BatchTest, CancelFromAnyThread) {
  auto batch = BatchOf(LinkRowKernels(kDecoder), 2);
  std::vector<std::string> results(4);
  std::vector<Batch::Ticket> tickets;
  for (size_t i = 0; i < 4; ++i) {
    tickets.push_back(batch->Submit("main", Decode(i == 1 ? 10 : 1e30F).args, {},
                                    [&results, i](const absl::StatusOr<Value>& r) { results[i] = Text(r); }));
  }
  batch->Cancel(tickets[3]);  // before it begins
  std::thread other([&] {
    batch->Cancel(tickets[0]);
    batch->Cancel(tickets[2]);
  });
  batch->Drive();
  other.join();
  EXPECT_EQ(results[1], "[12f, 15f]");
  EXPECT_EQ(results[3], "cancelled");
  for (size_t i : {0, 2}) EXPECT_EQ(results[i].substr(0, 9), "cancelled") << results[i];
}

TEST(BatchTest, CallbacksMaySubmitMore) {
  auto batch = BatchOf(LinkRowKernels(kDecoder), 2);
  int ended = 0;
  std::function<void(int)> submit = [&](int left) {
    batch->Submit("main", Decode(10).args, {}, [&, left](const absl::StatusOr<Value>& result) {
      EXPECT_EQ(Text(result), "[12f, 15f]");
      ++ended;
      if (left > 0) submit(left - 1);
    });
  };
  submit(5);
  submit(3);
  batch->Drive();
  EXPECT_EQ(ended, 10);
}

TEST(BatchTest, WrongOptions) {
  auto program = LinkRowKernels(kDecoder);
  EXPECT_EQ(Batch::Create(program, {.lanes = 0}).status().message(), "saw 0 lanes; expected 1 to 1024");
  EXPECT_EQ(Batch::Create(program, {.lanes = 1, .machine = {.threads = 0}}).status().message(),
            "saw 0 threads; expected 1 to 1024");
}

// Emits what a row of 2 is after each of n steps.
constexpr char kEmitter[] = R"(
  type T3 = ()
  type T4 = fn (T0,) -> T3
  cell C0 = closure T4 F1 (int64,)
  entry "main" = F0 ("emit", "a", "n")
  function F0 "emitter" params 3 result T0 {
    r0: T4  r1: T0  r2: int32  r3: T4  r4: T0  r5: T3
  code
  L0:
    branch_eq_imm r2, 0, L1
    add_imm_i32 r2, r2, -1
    call_kernel [r4], N0, [r1, r1, K0]
    drop r1
    move r1, r4
    retain r3, r0
    retain r4, r1
    call_closure r5, r3, [r4]
    drop r5
    jump L0
  L1:
    drop r0
    return r1
  }
  function F1 "function of the host" params 2 result T3 {
    r0: T4  r1: T0  r2: T3
  code
    call_host r2, r0, [r1]
    drop r0
    return r2
  }
)";

class Emit : public FunctionObject {
 public:
  explicit Emit(std::vector<std::string>& seen) : seen_(seen) {}
  absl::StatusOr<Value> Call(std::span<const Value> args) override {
    // More stack than a lane has.
    volatile char space[3 << 20];
    for (size_t i = 0; i < sizeof(space); i += 4096) space[i] = 1;
    seen_.push_back(args[0].ToString());
    if (seen_.size() == 3) return absl::AbortedError("that will do");
    return Value();
  }

 private:
  std::vector<std::string>& seen_;
};

TEST(BatchTest, FunctionsOfTheHost) {
  std::shared_ptr<const Program> program = LinkRowKernels(kEmitter);
  std::unique_ptr<Batch> batch = BatchOf(program);
  std::vector<std::vector<std::string>> seen(3);
  std::vector<std::string> results(3);
  for (size_t i = 0; i < 3; ++i) {
    Value emit = Value::Function("emit", std::make_shared<Emit>(seen[i]));
    batch->Submit("main", {emit, Floats({1, static_cast<float>(i)}), Int(static_cast<int>(i) + 1)}, {},
                  [&results, i](const absl::StatusOr<Value>& result) { results[i] = Text(result); });
  }
  batch->Drive();
  EXPECT_EQ(seen[0], (std::vector<std::string>{"[2f, 0f]"}));
  EXPECT_EQ(seen[1], (std::vector<std::string>{"[2f, 2f]", "[4f, 4f]"}));
  EXPECT_EQ(seen[2], (std::vector<std::string>{"[2f, 4f]", "[4f, 8f]", "[8f, 16f]"}));
  EXPECT_EQ(results[0], "[2f, 0f]");
  EXPECT_EQ(results[1], "[4f, 4f]");
  EXPECT_EQ(results[2].substr(0, 12), "that will do");
}

}  // namespace
}  // namespace rvm::vm
