#include "kernels/codegen/testing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "kernels/runtime/kernel_library.h"
#include "kernels/te/evaluate.h"
#include "kernels/te/schedule.h"

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
  double tolerance = dtype.bits == 16 ? (dtype.code == TypeCode::kBFloat ? 2e-2 : 4e-3) : options.tolerance;
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
    absl::StatusOr<HostTarget> target = ParseHostTarget(options_.target);
    ASSERT_TRUE(target.ok()) << target.status();
    CodegenOptions codegen{.opt_level = options_.opt_level, .keep_ir = true};
    absl::StatusOr<CompiledObject> object =
        CompileKernels(*target, {{"kernel", computation_, options_.constant_inputs}}, codegen);
    ASSERT_TRUE(object.ok()) << object.status();
    object_ = *std::move(object);
    absl::StatusOr<std::shared_ptr<const runtime::KernelLibrary>> library =
        runtime::KernelLibrary::Load(object_.object);
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *library;
  }

  void Run(const std::vector<Literal>& inputs, const Symbols& symbols) {
    absl::StatusOr<std::vector<Literal>> expected = te::Evaluate(computation_, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const CompiledKernel& kernel = object_.kernels[0];
    std::vector<Literal> packed = inputs;
    std::vector<void*> buffers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (kernel.input_layouts[i]) packed[i] = Pack(*kernel.input_layouts[i], inputs[i]);
      buffers.push_back(const_cast<std::byte*>(packed[i].data()));
    }
    std::vector<std::shared_ptr<Buffer>> outputs;
    constexpr int64_t kGuard = 64;
    for (const Literal& e : *expected) {
      outputs.push_back(Buffer::Allocate(e.bytes() + kGuard));
      std::memset(outputs.back()->data(), 0x5a, static_cast<size_t>(e.bytes() + kGuard));
      buffers.push_back(outputs.back()->data());
    }
    std::vector<int64_t> dims;
    for (const Dim& symbol : te::KernelSymbols(computation_)) dims.push_back(symbols.at(symbol.id()));
    int64_t workspace_bytes = Value(kernel.workspace, symbols);
    std::shared_ptr<Buffer> workspace = Buffer::Allocate(workspace_bytes + kGuard);
    std::memset(workspace->data(), 0x5a, static_cast<size_t>(workspace_bytes + kGuard));
    RvmKernelContext context{workspace->data(), options_.threads ? RunInPieces : nullptr, nullptr, nullptr};
    ASSERT_EQ(library_->Find("kernel")(buffers.data(), dims.data(), &context), kRvmOk);
    for (int64_t i = 0; i < kGuard; ++i)
      ASSERT_EQ(workspace->data()[workspace_bytes + i], std::byte{0x5a}) << "workspace overrun";
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Literal& e = (*expected)[i];
      for (int64_t j = 0; j < kGuard; ++j)
        ASSERT_EQ(outputs[i]->data()[e.bytes() + j], std::byte{0x5a}) << "output overrun";
      Compare(e, Literal(e.dtype(), e.shape(), outputs[i]), options_, computation_);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  bool loaded() const { return library_ != nullptr; }
  CompiledObject object_;

 private:
  const te::Computation& computation_;
  const CheckOptions& options_;
  std::shared_ptr<const runtime::KernelLibrary> library_;
};

}  // namespace

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

CompiledObject CheckKernel(const te::Computation& computation, const CheckOptions& options) {
  Harness harness(computation, options);
  harness.Compile();
  std::mt19937 random(7);
  for (const std::vector<int64_t>& values : options.symbol_values) {
    if (!harness.loaded() || testing::Test::HasFatalFailure()) break;
    Symbols symbols;
    std::vector<Dim> names = te::KernelSymbols(computation);
    for (size_t i = 0; i < names.size(); ++i) symbols[names[i].id()] = values[i];
    std::vector<Literal> inputs;
    for (const te::Tensor& input : computation.inputs)
      inputs.push_back(RandomLiteral(input.dtype(), ShapeOf(input.dims(), symbols), options.range, random));
    harness.Run(inputs, symbols);
  }
  return harness.object_;
}

void CheckKernelOn(const te::Computation& computation, const std::vector<Literal>& inputs,
                   const CheckOptions& options) {
  Harness harness(computation, options);
  harness.Compile();
  if (harness.loaded()) harness.Run(inputs, {});
}

}  // namespace rvm::codegen
