#include "kernels/codegen/llvm/tile_factors.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/expansion_emitter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::Tile;
using te::Expr;
using te::IndexVar;

using Values = TileFactors::Values;

// A constant of fewer bytes may still be in a cache when the kernel is called again.
constexpr int64_t kMinBytesToPrefetch = 1024 * 1024;
// How far ahead a panel is asked for. Tiles of several rows take so long for a line that the CPU's own prefetching does
// not reach that far.
constexpr int64_t kBytesAhead = 4096;
constexpr int64_t kLineBytes = 64;
// Addresses that general registers hold in a loop.
constexpr int64_t kMaxHeldRows = 8;
// Operands of the intrinsic.
constexpr uint32_t kForRead = 0, kInAllCaches = 3, kOfData = 1;

TileFactors::TileFactors(const TileSite& site)
    : b_(site.b), e_(site.e), s_(site), t_(*site.nest.tile), depth_(site.nest.reduction()->axes) {
  element_ = e_.RegisterType(site.nest.tensors[0].value->operands[0].dtype());
  vector_ = llvm::FixedVectorType::get(element_, static_cast<unsigned>(t_.lanes));
  factor_ = e_.MemoryType(t_.vector.dtype());
  columns_ = site.nest.axes[t_.column].extent;
  panels_ = FloorDiv(columns_ + (t_.panel() - 1), t_.panel());
  const bool is_read = t_.broadcast->kind == te::ExprKind::kRead && e_.pointers.contains(t_.broadcast->tensor.get());
  if (is_read && t_.row) row_stride_ = te::Stride(t_.broadcast->operands[0], s_.nest.axes[*t_.row].id);
}

// Returns the position of the bound variables of `axes` in row-major order.
Value* TileFactors::Linear(const std::vector<size_t>& axes) {
  Value* linear = I64(0);
  for (size_t axis : axes) {
    linear = b_.CreateNSWMul(linear, e_.EmitExtent(s_.nest.axes[axis].extent));
    linear = b_.CreateNSWAdd(linear, e_.EmitVariable(s_.nest.axes[axis]));
  }
  return linear;
}

TileFactors::Panel TileFactors::BeginPanel(Value* index, bool loads_vectors) {
  Panel panel{index, b_.CreateNSWMul(index, I64(t_.panel())), nullptr, {}, {}};
  if (t_.overlaps) {
    panel.column = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, panel.column, I64(columns_.constant() - t_.panel()));
  }
  if (!loads_vectors) return panel;
  if (!t_.sources.empty()) {
    for (const Tile::Source& source : t_.sources) panel.sources.push_back(SourceBase(source, index));
  } else if (t_.access == Tile::Access::kPanels) {
    Value* number = b_.CreateNSWAdd(b_.CreateNSWMul(Linear(t_.outer), e_.EmitExtent(panels_)), index);
    Dim depth = t_.panel() * t_.depth_step * Steps();
    for (size_t i = 0; i + 1 < depth_.size(); ++i) depth = depth * depth_[i].extent;
    panel.base =
        b_.CreateInBoundsGEP(factor_, e_.pointers.at(t_.panels.get()), b_.CreateNSWMul(number, e_.EmitExtent(depth)));
  } else if (t_.masked) {
    int64_t elements = t_.lanes * t_.column_stride * t_.depth_step;
    llvm::SmallVector<llvm::Constant*, 16> lanes;
    for (int64_t i = 0; i < elements; ++i) lanes.push_back(b_.getInt32(static_cast<uint32_t>(i)));
    Value* left = b_.CreateNSWSub(e_.EmitExtent(columns_), panel.column);
    left = b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, I64(t_.panel())), b_.getInt32Ty());
    // Up to the last column, and not the elements between it and the one that would follow.
    auto apart = static_cast<uint32_t>(t_.column_stride * t_.depth_step);
    auto between = static_cast<uint32_t>(t_.column_stride - 1);
    left = b_.CreateNSWSub(b_.CreateNSWMul(left, b_.getInt32(apart)), b_.getInt32(between));
    for (int64_t v = 0; v < t_.vectors; ++v) {
      Value* here = b_.CreateNSWSub(left, b_.getInt32(static_cast<uint32_t>(v * elements)));
      panel.masks.push_back(b_.CreateICmpSLT(llvm::ConstantVector::get(lanes),
                                             b_.CreateVectorSplat(static_cast<unsigned>(elements), here)));
    }
  }
  return panel;
}

// Returns the first element of a constant in the panel of that number, at the bound position of the loops around the
// tile.
Value* TileFactors::SourceBase(const Tile::Source& source, Value* panel) {
  int64_t depth = t_.panel();
  for (const schedule::StridedAxis& axis : source.layout.depth) depth *= axis.extent;
  Value* number = b_.CreateNSWAdd(b_.CreateNSWMul(Linear(source.outer), e_.EmitExtent(panels_)), panel);
  Value* first = b_.CreateNSWMul(number, I64(depth));
  return b_.CreateInBoundsGEP(e_.MemoryType(source.tensor.dtype()), e_.pointers.at(source.tensor.get()), first);
}

// Loads the elements of a constant for that vector of columns, at the bound position of the depth and those of its
// step.
Value* TileFactors::LoadSource(const te::ExprNode& read, const Panel& panel, int64_t vector) {
  size_t i = 0;
  while (t_.sources[i].read != &read) ++i;
  Value* place = I64(0);
  for (size_t axis : t_.sources[i].depth) {
    place = b_.CreateNSWMul(place, e_.EmitExtent(depth_[axis].extent));
    place = b_.CreateNSWAdd(place, e_.EmitVariable(depth_[axis]));
  }
  int64_t elements = t_.lanes * t_.sources[i].layout.depth_step;
  place = b_.CreateNSWAdd(b_.CreateNSWMul(place, I64(t_.panel())), I64(vector * elements));
  llvm::Type* element = e_.MemoryType(read.dtype);
  auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(elements));
  llvm::Align align(static_cast<uint64_t>(read.dtype.bytes()));
  Value* address = b_.CreateInBoundsGEP(element, panel.sources[i], place);
  const int64_t bytes = elements * read.dtype.bytes();
  if (vector * bytes % kLineBytes == 0) Prefetch(t_.sources[i].layout, read.dtype, address, bytes);
  return b_.CreateAlignedLoad(type, address, align);
}

void TileFactors::PrefetchPanel(Value* address, int64_t bytes) {
  if (t_.packed) Prefetch(*t_.packed, t_.vector.dtype(), address, bytes);
}

void TileFactors::Prefetch(const schedule::PackedLayout& layout, DataType dtype, Value* address, int64_t bytes) {
  int64_t size = layout.column.extent * dtype.bytes();
  for (const auto* axes : {&layout.outer, &layout.depth}) {
    for (const schedule::StridedAxis& axis : *axes) size *= axis.extent;
  }
  if (size < kMinBytesToPrefetch) return;
  for (int64_t line = 0; line < bytes; line += kLineBytes) {
    Value* ahead = b_.CreateGEP(b_.getInt8Ty(), address, I64(kBytesAhead + line));
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                       {ahead, b_.getInt32(kForRead), b_.getInt32(kInAllCaches), b_.getInt32(kOfData)});
  }
}

Values TileFactors::Expand(const Expr& expansion, const Panel& panel) {
  Values vectors;
  for (int64_t v = 0; v < t_.vectors; ++v) {
    vectors.push_back(EmitExpansion(b_, e_, expansion, t_.lanes,
                                    [&](const te::ExprNode& read) { return LoadSource(read, panel, v); }));
  }
  return vectors;
}

Value* TileFactors::EmitCodes(const Expr& code, const Panel& panel, int64_t vector) {
  if (code->kind == te::ExprKind::kRead) return LoadSource(*code, panel, vector);
  Value* bytes = EmitCodes(code->operands[0], panel, vector);
  Value* by = b_.CreateVectorSplat(static_cast<unsigned>(t_.lanes * t_.depth_step), e_.Emit(code->operands[1]));
  return code->binary == te::BinaryOp::kAnd ? b_.CreateAnd(bytes, by) : b_.CreateLShr(bytes, by);
}

Value* TileFactors::PanelAddress(const Panel& panel) {
  Value* linear = I64(0);
  for (const IndexVar& axis : depth_) {
    bool innermost = axis.id == depth_.back().id;
    Value* extent = e_.EmitExtent(innermost ? Steps() * t_.depth_step : axis.extent);
    linear = b_.CreateNSWAdd(b_.CreateNSWMul(linear, extent), e_.EmitVariable(axis));
  }
  return b_.CreateInBoundsGEP(factor_, panel.base, b_.CreateNSWMul(linear, I64(t_.panel())));
}

Values TileFactors::LoadVectors(const Panel& panel) {
  if (!t_.sources.empty()) return Expand(t_.vector, panel);
  Value* first = t_.access == Tile::Access::kPanels ? PanelAddress(panel) : FirstColumn(t_.vector, panel);
  const DataType dtype = t_.vector.dtype();
  PrefetchPanel(first, t_.panel() * t_.depth_step * dtype.bytes());
  return LoadColumns(dtype, first, panel);
}

Values TileFactors::LoadShared(const Panel& panel) {
  return LoadColumns(t_.broadcast.dtype(), FirstColumn(t_.broadcast, panel), panel);
}

// Returns the address of an element in the first column of the panel.
Value* TileFactors::FirstColumn(const Expr& read, const Panel& panel) {
  e_.OpenScope();
  e_.Bind(s_.nest.axes[t_.column], panel.column);
  Value* first = e_.Address(read.dtype(), e_.pointers.at(read->tensor.get()), e_.Emit(read->operands[0]));
  e_.CloseScope();
  return first;
}

Values TileFactors::LoadColumns(DataType dtype, Value* first, const Panel& panel) {
  Values loaded;
  for (int64_t v = 0; v < t_.vectors; ++v) {
    Value* address = e_.Address(dtype, first, I64(v * t_.lanes * t_.column_stride * t_.depth_step));
    Value* vector = panel.masks.empty() ? LoadVector(dtype, address)
                                        : LoadMasked(dtype, address, panel.masks[static_cast<size_t>(v)]);
    loaded.push_back(Widen(dtype, vector));
  }
  return loaded;
}

// Reads nothing behind the last column.
Value* TileFactors::LoadVector(DataType dtype, Value* address) {
  llvm::Type* element = e_.MemoryType(dtype);
  llvm::Align align(static_cast<uint64_t>(dtype.bytes()));
  int64_t stride = t_.column_stride;
  auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(t_.lanes * t_.depth_step));
  if (stride == 1) return b_.CreateAlignedLoad(type, address, align);
  Value* vector = llvm::PoisonValue::get(type);
  for (int64_t part = 0; part < stride; ++part) {
    // The last part ends with the last column.
    int64_t begin = part * t_.lanes - (part + 1 == stride ? stride - 1 : 0);
    Value* next = b_.CreateAlignedLoad(type, b_.CreateGEP(element, address, I64(begin)), align);
    llvm::SmallVector<int, 16> lanes;
    for (int64_t i = 0; i < t_.lanes; ++i) {
      int64_t at = i * stride;
      bool is_here = at / t_.lanes == part;
      lanes.push_back(static_cast<int>(is_here ? t_.lanes + at - begin : i));
    }
    vector = b_.CreateShuffleVector(vector, next, lanes);
  }
  return vector;
}

// A vector of columns that lie apart is one of several vectors of neighbours.
Value* TileFactors::LoadMasked(DataType dtype, Value* address, Value* mask) {
  llvm::Align align(static_cast<uint64_t>(dtype.bytes()));
  auto* wide = llvm::FixedVectorType::get(e_.MemoryType(dtype),
                                          static_cast<unsigned>(t_.lanes * t_.column_stride * t_.depth_step));
  Value* all = b_.CreateMaskedLoad(wide, address, align, mask, llvm::Constant::getNullValue(wide));
  if (t_.column_stride == 1) return all;
  llvm::SmallVector<int, 16> columns;
  for (int64_t i = 0; i < t_.lanes; ++i) columns.push_back(static_cast<int>(i * t_.column_stride));
  return b_.CreateShuffleVector(all, columns);
}

Value* TileFactors::Widen(DataType from, Value* x) {
  if (t_.depth_step == 4 || t_.has_bfloat_pairs()) return x;
  const DataType sum = s_.nest.tensors[0].value->operands[0].dtype();
  if (sum.is_float() && !t_.blocks) return from == sum ? x : e_.WidenVector(from, sum, x);
  llvm::Type* type = x->getType()->getWithNewBitWidth(t_.depth_step > 1 ? 16 : element_->getIntegerBitWidth());
  return from.is_int() ? b_.CreateSExt(x, type) : b_.CreateZExt(x, type);
}

// Returns the address of the broadcast factor of a row, behind that of the bound row. All rows have one index: where it
// multiplies unknown extents, an index for each row would be as much work as what is done with the factor.
Value* TileFactors::FactorAddress(int64_t row) {
  const DataType dtype = t_.broadcast.dtype();
  if (!held_rows_.empty()) {
    Value* step = I64(*te::Stride(t_.broadcast->operands[0], depth_.back().id));
    return e_.Address(dtype, held_rows_[static_cast<size_t>(row)],
                      b_.CreateNSWMul(e_.EmitVariable(depth_.back()), step));
  }
  Value* first = e_.Address(dtype, e_.pointers.at(t_.broadcast->tensor.get()), e_.Emit(t_.broadcast->operands[0]));
  return e_.Address(dtype, first, I64(row * row_stride_.value_or(0)));
}

Value* TileFactors::RowAddress(Value* row) {
  e_.OpenScope();
  e_.Bind(s_.nest.axes[*t_.row], row);
  Value* address = FactorAddress(0);
  e_.CloseScope();
  return address;
}

void TileFactors::HoldRows(Value* row, int64_t height) {
  held_rows_.clear();
  const bool is_read = t_.broadcast->kind == te::ExprKind::kRead && t_.row && !t_.row_panels;
  if (!is_read || row_stride_ || height > kMaxHeldRows) return;
  if (!te::Stride(t_.broadcast->operands[0], depth_.back().id)) return;
  Values rows;
  for (int64_t r = 0; r < height; ++r) {
    e_.OpenScope();
    e_.Bind(s_.nest.axes[*t_.row], b_.CreateNSWAdd(row, I64(r)));
    e_.Bind(depth_.back(), I64(0));
    Value* address = FactorAddress(0);
    auto* type = llvm::FunctionType::get(address->getType(), {address->getType()}, false);
    rows.push_back(b_.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {address}));
    e_.CloseScope();
  }
  held_rows_ = std::move(rows);
}

Value* TileFactors::EmitFactor(int64_t row) {
  if (!row_stride_ && held_rows_.empty()) return e_.Emit(t_.broadcast);
  return e_.Load(t_.broadcast.dtype(), FactorAddress(row), I64(0));
}

// The broadcast factor at `positions` of the depth from `k` on, and zeros or what follows, as it is multiplied.
Value* TileFactors::EmitGroup(Value* k, int64_t positions, int64_t row) {
  const DataType dtype = t_.broadcast.dtype();
  bool adjacent = t_.broadcast->kind == te::ExprKind::kRead &&
                  te::Stride(t_.broadcast->operands[0], depth_.back().id) == int64_t{1};
  if (adjacent && (positions == t_.depth_step || t_.whole_steps)) {
    auto* type = llvm::FixedVectorType::get(e_.MemoryType(dtype), static_cast<unsigned>(t_.depth_step));
    const llvm::Align alignment(static_cast<uint64_t>(dtype.bytes()));
    return Widen(dtype, b_.CreateAlignedLoad(type, FactorAddress(row), alignment));
  }
  auto bits = static_cast<unsigned>(32 / t_.depth_step);
  Value* group = llvm::Constant::getNullValue(
      llvm::FixedVectorType::get(b_.getIntNTy(bits), static_cast<unsigned>(t_.depth_step)));
  for (int64_t i = 0; i < positions; ++i) {
    e_.OpenScope();
    e_.Bind(depth_.back(), b_.CreateNSWAdd(k, I64(i)));
    group = b_.CreateInsertElement(group, Widen(dtype, EmitFactor(row)), static_cast<uint64_t>(i));
    e_.CloseScope();
  }
  return group;
}

Value* TileFactors::EmitBroadcast(Value* k, int64_t positions, Row row) {
  auto lanes = static_cast<unsigned>(t_.lanes);
  e_.OpenScope();
  if (t_.row) e_.Bind(s_.nest.axes[*t_.row], row_stride_ ? row.first : b_.CreateNSWAdd(row.first, I64(row.index)));
  if (t_.row_panels) e_.Bind(t_.row_panels->row, I64(row.index));
  const bool is_group = t_.depth_step > 1;
  Value* factor = is_group ? EmitGroup(k, positions, row.index) : EmitFactor(row.index);
  e_.CloseScope();
  if (!is_group) return b_.CreateVectorSplat(lanes, factor);
  Value* splat = b_.CreateVectorSplat(lanes, b_.CreateBitCast(factor, b_.getInt32Ty()));
  if (t_.flips_sign()) splat = b_.CreateXor(splat, SignBits());
  return t_.depth_step == 4 ? splat : b_.CreateBitCast(splat, llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * lanes));
}

Value* TileFactors::SignBits() {
  return b_.CreateVectorSplat(static_cast<unsigned>(t_.lanes), b_.getInt32(0x80808080));
}

Value* TileFactors::MultiplyAdd(Value* factor, Value* vector, Value* sum) {
  if (t_.depth_step == 4) return AddFours(factor, vector, sum);
  if (t_.has_bfloat_pairs()) {
    auto* pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(2 * t_.lanes));
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                              {sum, b_.CreateBitCast(factor, pairs), b_.CreateBitCast(vector, pairs)});
  }
  if (t_.depth_step == 2) return b_.CreateAdd(sum, SumOfPairs(factor, vector));
  if (element_->isFloatingPointTy()) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {vector_}, {factor, vector, sum});
  }
  return b_.CreateAdd(sum, b_.CreateMul(factor, vector));
}

Value* TileFactors::SumOfPairs(Value* a, Value* b) {
  int64_t bits = t_.lanes * 32;
  llvm::Intrinsic::ID pairs = bits == 512   ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                              : bits == 256 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                            : llvm::Intrinsic::x86_sse2_pmadd_wd;
  return b_.CreateIntrinsic(pairs, {}, {a, b});
}

// Adds four products of bytes in each lane of int32, or two in each lane of int16 if sums are narrow.
Value* TileFactors::AddFours(Value* factor, Value* vector, Value* sum) {
  int64_t bits = t_.lanes * 32;
  auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(bits / 8));
  if (t_.blocks && t_.blocks->sums_narrow) {
    llvm::Intrinsic::ID pairs = bits == 512   ? llvm::Intrinsic::x86_avx512_pmaddubs_w_512
                                : bits == 256 ? llvm::Intrinsic::x86_avx2_pmadd_ub_sw
                                              : llvm::Intrinsic::x86_ssse3_pmadd_ub_sw_128;
    return b_.CreateAdd(sum, b_.CreateIntrinsic(pairs, {}, {vector, b_.CreateBitCast(factor, bytes)}));
  }
  if (s_.target.has_signed_fours) {
    return b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_sdot, {sum->getType(), bytes},
                              {sum, b_.CreateBitCast(factor, bytes), vector});
  }
  llvm::Intrinsic::ID fours =
      bits == 512 ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256;
  vector = b_.CreateBitCast(vector, sum->getType());
  if (t_.vector.dtype().is_uint()) std::swap(factor, vector);
  return b_.CreateIntrinsic(fours, {}, {sum, factor, vector});
}

}  // namespace rvm::codegen
