#include "kernels/codegen/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/element.h"
#include "base/status_macros.h"
#include "compiler/lowering/kernel_recipe.h"
#include "kernels/loops/lower.h"
#include "kernels/loops/testing/evaluate.h"
#include "kernels/runtime/kernel_library.h"
#include "kernels/schedule/schedule.h"
#include "kernels/te/evaluate.h"
#include "kernels/te/kernel_symbols.h"
#include "kernels/te/operations.h"
#include "serialization/verify_recipe.h"
#include "vm/recipe/run_recipe.h"

namespace rvm::codegen {
namespace {

void RunInPieces(RvmKernelContext*, int64_t count, int64_t, void (*body)(int64_t, int64_t, void*), void* closure) {
  // Pieces of odd sizes, last first: no order is promised.
  int64_t piece = count / 3 + 1;
  for (int64_t begin = (count - 1) / piece * piece; begin >= 0; begin -= piece)
    body(begin, std::min(count, begin + piece), closure);
}

using Symbols = absl::flat_hash_map<int64_t, int64_t>;

int64_t Value(const Dim& dim, const Symbols& symbols) {
  return EvaluateDim(dim, [&](const Dim& leaf) -> std::optional<int64_t> { return symbols.at(leaf.id()); }).value();
}

Shape ShapeOf(const Dims& dims, const Symbols& symbols) {
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(Value(dim, symbols));
  return shape;
}

void Compare(const Literal& expected, const Literal& actual, const CheckOptions& options,
             const te::Computation& computation) {
  DataType dtype = expected.dtype();
  // 2.56 units in the last place: 2e-2 for bfloat16.
  double tolerance = dtype.is_small_float() ? std::max(4e-3, std::ldexp(2.56, -FindDataType(dtype)->fraction_bits))
                                            : options.tolerance;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    if (!dtype.is_float()) {
      ASSERT_EQ(expected.IntAt(i), actual.IntAt(i)) << "element " << i << " of " << te::ToString(computation);
      continue;
    }
    double e = expected.DoubleAt(i), a = actual.DoubleAt(i);
    if (std::isnan(e) || std::isinf(e)) {
      ASSERT_TRUE((std::isnan(e) && std::isnan(a)) || e == a)
          << "element " << i << ": " << e << " but " << a << " of " << te::ToString(computation);
    } else {
      ASSERT_NEAR(e, a, tolerance * std::max(1.0, std::abs(e)))
          << "element " << i << " of " << te::ToString(computation);
    }
  }
}

class Harness {
 public:
  Harness(const te::Computation& computation, const CheckOptions& options)
      : computation_(computation), options_(options) {}

  void Compile() {
    absl::StatusOr<ScheduledKernel> compiled = ScheduleAndCompile(
        computation_, options_.constant_inputs, options_.target, {.opt_level = options_.opt_level, .keep_ir = true});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    compiled_ = *std::move(compiled);
    if (!RunsHere(options_.target)) return;
    absl::StatusOr<std::shared_ptr<const runtime::KernelLibrary>> library =
        runtime::KernelLibrary::Load(compiled_.object.object);
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *library;
  }

  // Runs machine code, if this CPU does, the recipe, and the programs of loops for a GPU.
  void Run(const std::vector<Literal>& inputs, const Symbols& symbols) {
    absl::StatusOr<std::vector<Literal>> expected = te::Evaluate(computation_, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    if (library_ != nullptr) RunNative(inputs, symbols, *expected);
    if (testing::Test::HasFatalFailure()) return;
    RunRecipe(inputs, symbols, *expected);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "as a recipe";
    RunLoops(inputs, symbols, *expected);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "as loops of a GPU";
  }

  void CheckStops(const std::vector<Literal>& inputs) {
    CheckStops(PackConstants(inputs), Value(compiled_.schedule.workspace, {}),
               [&](std::vector<void*>& buffers, RvmKernelContext& context) {
                 return library_->Find("kernel")(buffers.data(), nullptr, &context);
               });
    Recipe recipe;
    MakeRecipe({}, recipe);
    if (testing::Test::HasFatalFailure()) return;
    CheckStops(inputs, recipe.plan.scratch_bytes + recipe.workspace_bytes,
               [&](std::vector<void*>& buffers, RvmKernelContext& context) { return recipe.Run(buffers, context); });
  }

  ScheduledKernel compiled_;

 private:
  static constexpr int64_t kGuard = 64;

  // Offers outputs and workspace to `run`, and compares what it left there.
  void Check(const std::vector<Literal>& inputs, const std::vector<Literal>& expected, int64_t workspace_bytes,
             const std::function<int32_t(std::vector<void*>& buffers, RvmKernelContext& context)>& run) {
    std::vector<void*> buffers;
    for (const Literal& input : inputs) buffers.push_back(const_cast<std::byte*>(input.data()));
    std::vector<std::shared_ptr<Buffer>> outputs;
    for (const Literal& e : expected) {
      outputs.push_back(Buffer::Allocate(e.bytes() + kGuard));
      std::memset(outputs.back()->data(), 0x5a, static_cast<size_t>(e.bytes() + kGuard));
      buffers.push_back(outputs.back()->data());
    }
    std::shared_ptr<Buffer> workspace = Buffer::Allocate(workspace_bytes + kGuard);
    std::memset(workspace->data(), 0x5a, static_cast<size_t>(workspace_bytes + kGuard));
    RvmKernelContext context{workspace->data(), options_.threads ? RunInPieces : nullptr, nullptr, nullptr};
    ASSERT_EQ(run(buffers, context), kRvmOk);
    for (int64_t i = 0; i < kGuard; ++i)
      ASSERT_EQ(workspace->data()[workspace_bytes + i], std::byte{0x5a}) << "workspace overrun";
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Literal& e = expected[i];
      for (int64_t j = 0; j < kGuard; ++j)
        ASSERT_EQ(outputs[i]->data()[e.bytes() + j], std::byte{0x5a}) << "output overrun";
      Compare(e, Literal(e.dtype(), e.shape(), outputs[i]), options_, computation_);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  std::vector<int64_t> DimValues(const Symbols& symbols) const {
    std::vector<int64_t> dims;
    for (const Dim& symbol : te::KernelSymbols(computation_)) dims.push_back(symbols.at(symbol.id()));
    return dims;
  }

  using Pairs = std::vector<std::pair<int64_t, int64_t>>;  // output, input

  static Pairs UpdatesOf(const schedule::Schedule& schedule) {
    Pairs pairs;
    for (const schedule::Schedule::Update& update : schedule.updates) pairs.emplace_back(update.output, update.input);
    return pairs;
  }

  // Each output takes the first input that it may and that no other has taken.
  static void PlaceOutputsOnInputs(const Pairs& pairs, const std::vector<Literal>& inputs,
                                   std::vector<void*>& buffers) {
    std::set<int64_t> outputs, taken;
    for (const auto& [output, number] : pairs) {
      if (outputs.contains(output) || taken.contains(number)) continue;
      outputs.insert(output);
      taken.insert(number);
      const Literal& input = inputs[static_cast<size_t>(number)];
      void*& place = buffers[static_cast<size_t>(number)];
      place = buffers[inputs.size() + static_cast<size_t>(output)];
      std::memcpy(place, input.data(), static_cast<size_t>(input.bytes()));
    }
  }

  // Updated outputs begin as their inputs.
  static void BeginOutputs(const Pairs& updates, const std::vector<Literal>& inputs, std::vector<void*>& buffers) {
    for (const auto& [output, number] : updates) {
      const Literal& input = inputs[static_cast<size_t>(number)];
      std::memcpy(buffers[inputs.size() + static_cast<size_t>(output)], input.data(),
                  static_cast<size_t>(input.bytes()));
    }
  }

  std::vector<Literal> PackConstants(const std::vector<Literal>& inputs) const {
    std::vector<Literal> packed = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const schedule::PackedLayout* layout = compiled_.schedule.Layout(i);
      if (layout != nullptr) packed[i] = schedule::Pack(*layout, inputs[i]);
    }
    return packed;
  }

  void RunNative(const std::vector<Literal>& inputs, const Symbols& symbols, const std::vector<Literal>& expected) {
    std::vector<Literal> packed = PackConstants(inputs);
    std::vector<int64_t> dims = DimValues(symbols);
    Pairs updates = UpdatesOf(compiled_.schedule), pairs = updates;
    Check(packed, expected, Value(compiled_.schedule.workspace, symbols),
          [&](std::vector<void*>& buffers, RvmKernelContext& context) {
            BeginOutputs(updates, inputs, buffers);
            return library_->Find("kernel")(buffers.data(), dims.data(), &context);
          });
    for (const schedule::Reuse& reuse : compiled_.schedule.reuses) pairs.emplace_back(reuse.output, reuse.input);
    for (bool last : {false, true}) {
      if (pairs.empty() || testing::Test::HasFatalFailure()) return;
      if (last) std::reverse(pairs.begin(), pairs.end());
      Check(packed, expected, Value(compiled_.schedule.workspace, symbols),
            [&](std::vector<void*>& buffers, RvmKernelContext& context) {
              BeginOutputs(updates, inputs, buffers);
              PlaceOutputsOnInputs(pairs, inputs, buffers);
              return library_->Find("kernel")(buffers.data(), dims.data(), &context);
            });
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "outputs in place of inputs";
    }
  }

  struct Recipe {
    vm::RecipePlan plan;
    std::vector<int64_t> dims;
    int64_t workspace_bytes = 0;
    Pairs updates;
    int32_t Run(std::vector<void*>& buffers, RvmKernelContext& context) const {
      return vm::RunRecipe(plan, buffers.data(), dims, workspace_bytes, context);
    }
  };

  void MakeRecipe(const Symbols& symbols, Recipe& recipe) const {
    absl::StatusOr<schedule::Schedule> schedule = schedule::MakeSchedule(computation_, {}, {.has_updates = true});
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    absl::StatusOr<lowering::PortableKernel> kernel = lowering::MakePortableKernel(*schedule);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    KernelDesc desc = Describe();
    desc.workspace = kernel->workspace;
    recipe.updates = UpdatesOf(*schedule);
    for (const auto& [output, input] : recipe.updates) {
      desc.updates.push_back({static_cast<uint32_t>(output), static_cast<uint32_t>(input)});
    }
    absl::Status verified = VerifyRecipe(desc, kernel->recipe);
    ASSERT_TRUE(verified.ok()) << verified;
    absl::StatusOr<vm::RecipePlan> plan = vm::MakeRecipePlan(desc, kernel->recipe);
    ASSERT_TRUE(plan.ok()) << plan.status();
    recipe.plan = *std::move(plan);
    recipe.dims = DimValues(symbols);
    auto dim = [&](const Dim& leaf) { return std::optional<int64_t>(recipe.dims[static_cast<size_t>(leaf.id())]); };
    recipe.workspace_bytes = EvaluateDim(kernel->workspace, dim).value();
  }

  void RunRecipe(const std::vector<Literal>& inputs, const Symbols& symbols, const std::vector<Literal>& expected) {
    Recipe recipe;
    MakeRecipe(symbols, recipe);
    if (testing::Test::HasFatalFailure()) return;
    for (bool in_place : {false, true}) {
      if (in_place && (recipe.updates.empty() || testing::Test::HasFatalFailure())) return;
      Check(inputs, expected, recipe.plan.scratch_bytes + recipe.workspace_bytes,
            [&](std::vector<void*>& buffers, RvmKernelContext& context) {
              BeginOutputs(recipe.updates, inputs, buffers);
              if (in_place) PlaceOutputsOnInputs(recipe.updates, inputs, buffers);
              return recipe.Run(buffers, context);
            });
    }
  }

  // Runs the programs of loops, once if the computation is checked on several targets, which do not matter to them.
  // Kernels that a GPU does not run have none. The evaluator takes some 100 ns for an operation.
  void RunLoops(const std::vector<Literal>& inputs, const Symbols& symbols, const std::vector<Literal>& expected) {
    constexpr int64_t kMaxOperations = int64_t{1} << 20;
    bool is_first = options_.target == std::string_view("host") || options_.target == std::string_view(kX86Targets[0]);
    if (!is_first || Value(te::NumOperations(computation_), symbols) > kMaxOperations) return;
    absl::StatusOr<schedule::Schedule> schedule = schedule::MakeSchedule(computation_, {}, loops::kTarget);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    for (const schedule::LoopNest& nest : schedule->nests) {
      if (nest.tensors[0].tensor->self || nest.tensors[0].tensor->is_ordered) return;
    }
    std::vector<loops::Program> programs = loops::Lower(*schedule);
    absl::StatusOr<std::vector<Literal>> outputs = loops::EvaluateLaunches(*schedule, programs, symbols, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status() << "\n" << schedule::Describe(*schedule);
    for (size_t i = 0; i < expected.size(); ++i) {
      Compare(expected[i], (*outputs)[i], options_, computation_);
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << schedule::Describe(*schedule);
    }
  }

  // Checks that a run which is stopped on its way leaves the end of its outputs alone. Another thread, which has a CPU
  // when the run begins, says so after a share of what a whole run takes; it may lose its CPU: one try in many must do.
  void CheckStops(const std::vector<Literal>& inputs, int64_t workspace_bytes,
                  const std::function<int32_t(std::vector<void*>& buffers, RvmKernelContext& context)>& run) const {
    constexpr int kTries = 100;
    std::vector<void*> buffers;
    for (const Literal& input : inputs) buffers.push_back(const_cast<std::byte*>(input.data()));
    std::vector<Literal> outputs;
    for (const te::Tensor& output : computation_.outputs) {
      outputs.push_back(Literal::Full(output.dtype(), ShapeOf(output.dims(), {}), 0));
      buffers.push_back(const_cast<std::byte*>(outputs.back().data()));
    }
    std::shared_ptr<Buffer> workspace = Buffer::Allocate(workspace_bytes + kGuard);
    std::memset(workspace->data(), 0, static_cast<size_t>(workspace_bytes));
    auto size = static_cast<size_t>(outputs.back().dtype().bytes());
    std::byte* last = static_cast<std::byte*>(buffers.back()) + outputs.back().bytes() - size;
    RvmKernelContext free{workspace->data(), nullptr, nullptr, nullptr};
    auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(run(buffers, free), kRvmOk);
    auto time = std::chrono::steady_clock::now() - start;
    std::vector<std::byte> whole(last, last + size);
    bool stopped = false;
    for (int i = 0; i < kTries && !stopped; ++i) {
      std::memset(last, 0, size);
      std::atomic<int32_t> flag = 0;
      RvmKernelContext context{workspace->data(), nullptr, reinterpret_cast<const volatile int32_t*>(&flag), nullptr};
      std::atomic<bool> is_ready = false;
      std::thread other([&] {
        is_ready = true;
        // Sooner in each try, as the run above may have waited for a processor.
        const auto end = std::chrono::steady_clock::now() + time / (8 << (i % 20));
        while (std::chrono::steady_clock::now() < end) continue;
        flag = 1;
      });
      while (!is_ready) std::this_thread::yield();
      int32_t code = run(buffers, context);
      stopped = code == kRvmCancelled && std::memcmp(last, whole.data(), size) != 0;
      other.join();
    }
    EXPECT_TRUE(stopped) << te::ToString(computation_);
  }

  // With the symbols numbered, as executables have them.
  KernelDesc Describe() const {
    std::vector<Dim> symbols = te::KernelSymbols(computation_);
    auto numbered = [&](const Dim& dim) {
      return SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
        auto found = std::find(symbols.begin(), symbols.end(), leaf);
        if (found == symbols.end()) return std::nullopt;
        return Dim::Var(found - symbols.begin(), leaf.name());
      });
    };
    auto tensor = [&](const te::Tensor& t) {
      KernelTensor made{t.dtype(), {}};
      for (const Dim& dim : t.dims()) made.dims.push_back(numbered(dim));
      return made;
    };
    KernelDesc desc;
    desc.name = computation_.name;
    desc.num_symbols = static_cast<uint32_t>(symbols.size());
    for (const te::Tensor& input : computation_.inputs) desc.params.push_back(tensor(input));
    for (const te::Tensor& output : computation_.outputs) desc.results.push_back(tensor(output));
    return desc;
  }

  const te::Computation& computation_;
  const CheckOptions& options_;
  std::shared_ptr<const runtime::KernelLibrary> library_;
};

}  // namespace

bool RunsHere(const char* target) {
  HostTarget host = *ParseHostTarget(target);
  bool runs = runtime::CheckHostSupports(host.triple, host.features).ok();
  testing::Test::RecordProperty(absl::StrCat("runs ", target), runs ? "yes" : "no");
  return runs;
}

Literal RandomLiteral(DataType dtype, const Shape& shape, double range, std::mt19937& random) {
  int64_t count = NumElements(shape).value();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * dtype.bytes());
  std::uniform_real_distribution<double> real(-range, range);
  std::uniform_int_distribution<int64_t> whole(dtype.is_int() ? -static_cast<int64_t>(range) : 0,
                                               static_cast<int64_t>(range));
  for (int64_t i = 0; i < count; ++i) {
    std::byte* at = buffer->data() + i * dtype.bytes();
    dtype.is_float() ? StoreDouble(dtype, at, real(random))
                     : StoreInt(dtype, at, dtype.is_bool() ? whole(random) % 2 : whole(random));
  }
  return Literal(dtype, shape, buffer);
}

absl::StatusOr<schedule::Schedule> ScheduleFor(const te::Computation& computation,
                                               const std::vector<bool>& constant_inputs, const char* target) {
  RVM_ASSIGN_OR_RETURN(HostTarget host, ParseHostTarget(target));
  return schedule::MakeSchedule(computation, constant_inputs, ScheduleTarget(host));
}

absl::StatusOr<ScheduledKernel> ScheduleAndCompile(const te::Computation& computation,
                                                   const std::vector<bool>& constant_inputs, const char* target,
                                                   const CodegenOptions& options) {
  RVM_ASSIGN_OR_RETURN(HostTarget host, ParseHostTarget(target));
  ScheduledKernel kernel;
  RVM_ASSIGN_OR_RETURN(kernel.schedule, ScheduleFor(computation, constant_inputs, target));
  RVM_ASSIGN_OR_RETURN(kernel.object, CompileKernels(host, {{"kernel", kernel.schedule}}, options));
  return kernel;
}

ScheduledKernel CheckKernel(const te::Computation& computation, const CheckOptions& options) {
  Harness harness(computation, options);
  harness.Compile();
  std::mt19937 random(7);
  for (const std::vector<int64_t>& values : options.symbol_values) {
    if (testing::Test::HasFatalFailure()) break;
    Symbols symbols;
    std::vector<Dim> names = te::KernelSymbols(computation);
    for (size_t i = 0; i < names.size(); ++i) symbols[names[i].id()] = values[i];
    std::vector<Literal> inputs;
    for (const te::Tensor& input : computation.inputs)
      inputs.push_back(RandomLiteral(input.dtype(), ShapeOf(input.dims(), symbols), options.range, random));
    harness.Run(inputs, symbols);
  }
  return harness.compiled_;
}

std::vector<ScheduledKernel> CheckOnTargets(const te::Computation& computation, CheckOptions options) {
  std::vector<ScheduledKernel> kernels;
  for (const char* target : kX86Targets) {
    options.target = target;
    SCOPED_TRACE(target);
    ScheduledKernel kernel = CheckKernel(computation, options);
    if (testing::Test::HasFatalFailure()) break;
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

ScheduledKernel CheckStops(const te::Computation& computation, const std::vector<bool>& constant_inputs) {
  CheckOptions options{.constant_inputs = constant_inputs};
  Harness harness(computation, options);
  harness.Compile();
  if (testing::Test::HasFatalFailure()) return {};
  std::mt19937 random(7);
  std::vector<Literal> inputs;
  for (const te::Tensor& input : computation.inputs)
    inputs.push_back(RandomLiteral(input.dtype(), ShapeOf(input.dims(), {}), 1e9, random));
  harness.CheckStops(inputs);
  return harness.compiled_;
}

void CheckKernelOn(const te::Computation& computation, const std::vector<Literal>& inputs,
                   const CheckOptions& options) {
  Harness harness(computation, options);
  harness.Compile();
  if (!testing::Test::HasFatalFailure()) harness.Run(inputs, {});
}

}  // namespace rvm::codegen
