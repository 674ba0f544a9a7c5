// Tests portable programs in the machine: their results, and that damaged recipes cannot access other memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialization/assembler.h"
#include "serialization/verifier.h"
#include "vm/machine.h"

namespace rvm::vm {
namespace {

Executable Recipes() {
  std::ifstream file("serialization/testdata/recipes.rvmasm");
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Executable> program = Assemble(text.str());
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Executable();
}

absl::StatusOr<Value> RunMain(Executable executable, const std::vector<Value>& args) {
  absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(std::move(executable));
  if (!verified.ok()) return verified.status();
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::Link(*verified, {});
  if (!program.ok()) return program.status();
  absl::StatusOr<std::unique_ptr<Machine>> machine = Machine::Create(*program, {.memory_limit_bytes = 1 << 24});
  if (!machine.ok()) return machine.status();
  absl::StatusOr<Value> result = (*machine)->Invoke("main", args);
  EXPECT_EQ((*machine)->stats().leaked_objects, 0);
  return result;
}

// Returns a matrix (rows, 3); the largest element of row i is at i % 3.
std::vector<Value> Args(int64_t rows) {
  std::vector<float> x;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < 3; ++j) x.push_back(j == i % 3 ? 2.0f : 0.25f * static_cast<float>(j));
  }
  return {Value::Tensor(Literal::FromValues<float>(kFloat32, {rows, 3}, x)),
          Value::Tensor(Literal::Scalar(kFloat32, 0.5))};
}

// The program has no machine code, so it loads without `allow_native`.
TEST(RunRecipeTest, RunsWithoutNativeCode) {
  for (int64_t rows : {0, 1, 7, 2000}) {
    absl::StatusOr<Value> result = RunMain(Recipes(), Args(rows));
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->tensor().shape(), Shape({rows}));
    for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(result->tensor().IntAt(i), i % 3) << i;
  }
}

TEST(RunRecipeTest, StoresOutsideAreErrors) {
  Executable program = Recipes();
  program.recipes[0].nests[1].axes[0] = Dim(8);  // the result has as many places as x has rows
  EXPECT_TRUE(RunMain(program, Args(8)).ok());
  absl::StatusOr<Value> result = RunMain(program, Args(7));
  EXPECT_NE(std::string(result.status().message())
                .find("the recipe of kernel `scale_argmax` writes outside its results: the file is damaged"),
            std::string::npos)
      << result.status();
}

TEST(RunRecipeTest, KeysOutsideAreErrors) {
  const Dim rows = Dim::Var(0, "n");
  for (const Dim& keys : {rows + 1, Dim(-1), Dim(int64_t{1} << 62)}) {
    Executable program = Recipes();
    program.recipes[0].nests[3].extents[0] = keys;
    absl::StatusOr<Value> result = RunMain(program, Args(7));
    EXPECT_NE(std::string(result.status().message()).find("writes outside its results"), std::string::npos)
        << keys.ToString() << ": " << result.status();
  }
}

TEST(RunRecipeTest, LoadsOutsideAreZeros) {
  Executable program = Recipes();
  RecipeNest& nest = program.recipes[0].nests[0];
  nest.steps[1].buffer = 0;
  nest.steps[3].a = nest.steps[1].a;  // the scalar at numbers that it does not have
  EXPECT_TRUE(RunMain(program, Args(5)).ok());
}

// A recipe with any field changed is either rejected by the verifier or runs to a value or an error.
TEST(RunRecipeTest, DamagedRecipesDoNoHarm) {
  std::mt19937_64 random(11);
  auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  const Dim dims[] = {0, 1, -1, 3, 1000, int64_t{1} << 62, Dim::Var(0, "n"), Dim::Var(0, "n") * 12};
  const DataType dtypes[] = {kBool, kInt8, kInt64, kUInt64, kFloat16, kFloat32, kFloat64};
  int ran = 0;
  for (int i = 0; i < 20000; ++i) {
    Executable program = Recipes();
    KernelRecipe& recipe = program.recipes[0];
    for (size_t changes = 1 + pick(3); changes > 0; --changes) {
      RecipeNest& nest = recipe.nests[pick(recipe.nests.size())];
      RecipeStep& step = nest.steps[pick(nest.steps.size())];
      switch (pick(10)) {
        case 0: step.a = static_cast<uint32_t>(pick(8)); break;
        case 1: step.b = static_cast<uint32_t>(pick(8)); break;
        case 2: step.function = static_cast<uint8_t>(pick(34)); break;
        case 3: step.buffer = static_cast<uint32_t>(pick(6)); break;
        case 4: step.bits = static_cast<int64_t>(random()); break;
        case 5: step.dtype = dtypes[pick(std::size(dtypes))]; break;
        case 6: nest.axes[0] = dims[pick(4)]; break;
        case 7: nest.extents.assign(2, dims[pick(std::size(dims))]); break;
        case 8: recipe.workspaces[0].offset = dims[pick(std::size(dims))]; break;
        default: recipe.workspaces[0].elements = dims[pick(std::size(dims))]; break;
      }
    }
    absl::StatusOr<Value> result = RunMain(program, Args(5));
    ran += result.ok();
  }
  EXPECT_GT(ran, 1000);
}

// A recipe that takes very long stops when the run is cancelled.
TEST(RunRecipeTest, StopsWhenCancelled) {
  Executable program = Recipes();
  program.recipes[0].nests[1].reduce_axes[0] = Dim(int64_t{1} << 60);
  absl::StatusOr<std::shared_ptr<const VerifiedExecutable>> verified = Verify(std::move(program));
  ASSERT_TRUE(verified.ok()) << verified.status();
  absl::StatusOr<std::shared_ptr<const Program>> linked = Program::Link(*verified, {});
  ASSERT_TRUE(linked.ok()) << linked.status();
  absl::StatusOr<std::unique_ptr<Machine>> machine = Machine::Create(*linked, {});
  ASSERT_TRUE(machine.ok());
  std::atomic<bool> done = false;
  std::thread stopper([&] {
    // A request before the run begins is ignored.
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      (*machine)->Cancel();
    }
  });
  absl::Status status = (*machine)->Invoke("main", Args(2)).status();
  done = true;
  stopper.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

}  // namespace
}  // namespace rvm::vm
