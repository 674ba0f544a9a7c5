// How fast compiled kernels run, on one thread: products with packed weights and
// elementwise mathematics. Prints operations and bytes per second.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/codegen/kernel_compiler.h"
#include "kernels/runtime/kernel_library.h"

namespace rvm {
namespace {

using te::Expr;
using te::Tensor;
using Indices = std::span<const Expr>;

class Runner {
 public:
  explicit Runner(const te::Computation& computation, std::vector<bool> constants) {
    auto target = codegen::ParseHostTarget("host");
    auto schedule = schedule::MakeSchedule(computation, std::move(constants), codegen::ScheduleTarget(*target));
    auto object = codegen::CompileKernels(*target, {{"kernel", *schedule}}, {});
    if (!object.ok()) {
      std::cerr << object.status() << "\n";
      std::abort();
    }
    library_ = *runtime::KernelLibrary::Load(object->object);
    kernel_ = library_->Find("kernel");
    for (size_t i = 0; i < computation.inputs.size(); ++i) {
      const Tensor& input = computation.inputs[i];
      Literal literal = Literal::Full(input.dtype(), *StaticShape(input.dims()), 0.25);
      const schedule::PackedLayout* layout = schedule->Layout(i);
      literals_.push_back(layout != nullptr ? schedule::Pack(*layout, literal) : literal);
      buffers_.push_back(const_cast<std::byte*>(literals_.back().data()));
    }
    for (const Tensor& output : computation.outputs) {
      literals_.push_back(Literal::Full(output.dtype(), *StaticShape(output.dims()), 0));
      buffers_.push_back(const_cast<std::byte*>(literals_.back().data()));
    }
    workspace_ = Buffer::Allocate(schedule->workspace.constant() + 64);
  }

  void Run() {
    RvmKernelContext context{workspace_->data(), nullptr, nullptr, nullptr};
    kernel_(buffers_.data(), nullptr, &context);
  }

 private:
  std::shared_ptr<const runtime::KernelLibrary> library_;
  RvmKernel kernel_;
  std::vector<Literal> literals_;
  std::vector<void*> buffers_;
  std::shared_ptr<Buffer> workspace_;
};

te::Computation Dense(int64_t m, int64_t n, int64_t k) {
  Tensor x = te::Input(0, "x", kFloat32, {Dim(m), Dim(k)}), w = te::Input(1, "w", kFloat32, {Dim(n), Dim(k)});
  Dim extents[] = {k};
  Tensor y = te::ComputeTensor("dense", kFloat32, {Dim(m), Dim(n)}, [&](Indices i) {
    return te::Reduce(te::ReduceOp::kSum, extents, [&](Indices r) { return x({i[0], r[0]}) * w({i[1], r[0]}); });
  });
  return {"dense", {x, w}, {y}};
}

// Arguments: rows, columns, depth, and whether the weight is packed.
void BM_Dense(benchmark::State& state) {
  int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Runner runner(Dense(m, n, k), {false, state.range(3) != 0});
  for (auto _ : state) runner.Run();
  state.counters["FLOP/s"] =
      benchmark::Counter(static_cast<double>(2 * m * n * k), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["B/s"] =
      benchmark::Counter(static_cast<double>(4 * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Dense)
    ->Args({1, 768, 256, 1})
    ->Args({1, 2048, 512, 1})
    ->Args({64, 768, 768, 1})
    ->Args({6, 768, 768, 1})
    ->Args({1, 768, 256, 0})
    ->Args({64, 768, 768, 0});

void BM_Unary(benchmark::State& state) {
  constexpr int64_t kCount = 4096;
  Tensor x = te::Input(0, "x", kFloat32, {Dim(kCount)});
  auto op = static_cast<te::UnaryOp>(state.range(0));
  Tensor y = te::ComputeTensor("y", kFloat32, x.dims(), [&](Indices i) { return te::Unary(op, x(i)); });
  Runner runner({"unary", {x}, {y}}, {});
  for (auto _ : state) runner.Run();
  state.SetItemsProcessed(state.iterations() * kCount);
}
BENCHMARK(BM_Unary)
    ->ArgName("op")
    ->Arg(static_cast<int>(te::UnaryOp::kTanh))
    ->Arg(static_cast<int>(te::UnaryOp::kExp))
    ->Arg(static_cast<int>(te::UnaryOp::kSigmoid));

void BM_CompileDense(benchmark::State& state) {
  auto target = codegen::ParseHostTarget("host");
  for (auto _ : state) {
    Dim m = Dim::Var(0, "m");
    te::Computation computation = Dense(1, 768, 256);
    if (state.range(0) != 0) {
      Tensor x = te::Input(0, "x", kFloat32, {m, Dim(256)}), w = computation.inputs[1];
      Dim extents[] = {256};
      Tensor y = te::ComputeTensor("dense", kFloat32, {m, Dim(768)}, [&](Indices i) {
        return te::Reduce(te::ReduceOp::kSum, extents, [&](Indices r) { return x({i[0], r[0]}) * w({i[1], r[0]}); });
      });
      computation = {"dense", {x, w}, {y}};
    }
    auto schedule = schedule::MakeSchedule(computation, {false, true}, codegen::ScheduleTarget(*target));
    benchmark::DoNotOptimize(codegen::CompileKernels(*target, {{"kernel", *schedule}}, {}));
  }
}
BENCHMARK(BM_CompileDense)->ArgName("symbolic")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rvm
