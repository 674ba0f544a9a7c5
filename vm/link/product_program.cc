#include "vm/link/product_program.h"

#include <cstddef>
#include <utility>

namespace rvm::vm {
namespace {

constexpr size_t kExtents = 4;         // of DeviceProduct::dims(): batches, rows, columns, depth
constexpr size_t kDimsOfMatrices = 4;  // offset, and strides of batches, rows and columns
constexpr size_t kFirstAddend = 3;     // of DeviceProduct::matrices()

}  // namespace

std::optional<ProductProgram> ProductProgram::Compile(const DeviceProduct& product, uint32_t num_symbols) {
  ProductProgram program;
  for (const Dim& dim : product.dims()) {
    std::optional<DimProgram> compiled = DimProgram::Compile(dim, num_symbols);
    if (!compiled) return std::nullopt;
    program.dims_.push_back(*std::move(compiled));
  }
  for (const DeviceProduct::Matrix* matrix : product.matrices()) {
    program.matrices_.push_back({matrix->argument, matrix->dtype});
  }
  program.scale_ = product.scale;
  program.allows_tf32_ = product.allows_tf32;
  return program;
}

device::ProductSize ProductProgram::SizeOf(std::span<const int64_t> symbols) const {
  device::ProductSize size = {.multiplications = 1,
                              .is_exact_float32 = matrices_[0].dtype == kFloat32 && !allows_tf32_};
  for (size_t i = 0; i < kExtents; ++i) {
    size.depth = dims_[i].Evaluate(symbols).value_or(0);
    if (size.depth <= 0 || __builtin_mul_overflow(size.multiplications, size.depth, &size.multiplications)) return {};
  }
  return size;
}

std::optional<device::Product> ProductProgram::Bind(std::span<const int64_t> symbols,
                                                    std::span<const device::Argument> args) const {
  auto extent = [&](size_t i) { return dims_[i].Evaluate(symbols).value_or(0); };
  device::Product product = {.batches = extent(0),
                             .rows = extent(1),
                             .columns = extent(2),
                             .depth = extent(3),
                             .a = {},
                             .b = {},
                             .d = {},
                             .addends = {},
                             .scale = scale_,
                             .allows_tf32 = allows_tf32_};
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const device::Argument& arg = args[matrices_[i].argument];
    if (arg.kind != device::Argument::Kind::kBlock || arg.block == nullptr) return std::nullopt;
    int64_t parts[kDimsOfMatrices];
    for (size_t k = 0; k < kDimsOfMatrices; ++k) {
      parts[k] = dims_[kExtents + kDimsOfMatrices * i + k].Evaluate(symbols).value_or(-1);
      if (parts[k] < 0) return std::nullopt;
    }
    device::Matrix matrix = {arg.block, matrices_[i].dtype, parts[0], parts[1], parts[2], parts[3]};
    if (i >= kFirstAddend) {
      product.addends.push_back(matrix);
    } else {
      (i == 0 ? product.a : i == 1 ? product.b : product.d) = matrix;
    }
  }
  return product;
}

}  // namespace rvm::vm
