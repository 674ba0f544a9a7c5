#include "kernels/codegen/llvm/matrix_emitter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/schedule/nest_cost.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::Tile;

namespace {

// The numbers of registers: those of sums are by block of rows, then by vector.
constexpr uint8_t kVectors = Tile::Matrices::kVectors, kSums = Tile::Matrices::kBlocks * kVectors, kRegisters = 8;
constexpr uint8_t kRowsOfStep = 4, kColumnsOfStep = 5, kRowsOfRest = 6, kColumnsOfRest = 7;
constexpr int64_t kLineBytes = 64;  // of a vector of columns
// Steps of the depth that are emitted one behind the other.
constexpr int64_t kMaxUnrolled = 4;
// The estimate of what a step costs, in additions, for loops that poll.
constexpr int64_t kCostOfStep = 16;

}  // namespace

MatrixEmitter::MatrixEmitter(const TileSite& site, TileFactors& factors)
    : b_(site.b), e_(site.e), s_(site), t_(*site.nest.tile), f_(factors), depth_(site.nest.reduction()->axes) {}

int64_t MatrixEmitter::VectorsFrom(int64_t vector) const { return std::min<int64_t>(kVectors, t_.vectors - vector); }

void MatrixEmitter::Configure(Value* rows) {
  // The operand of LDTILECFG: the palette, then the bytes of a row of each register from byte 16 on, in 16 bits, then
  // the numbers of rows from byte 48 on.
  constexpr int64_t kPlaceOfRows = 48;
  std::array<uint8_t, kLineBytes> shapes = {1};
  auto shape = [&](int64_t number, int64_t lines, int64_t bytes) {
    shapes[static_cast<size_t>(16 + 2 * number)] = static_cast<uint8_t>(bytes);
    shapes[static_cast<size_t>(kPlaceOfRows + number)] = static_cast<uint8_t>(lines);
  };
  const auto [least, most, steps, step, rest] = *t_.matrices;
  for (int64_t number = 0; number < kSums; ++number) shape(number, most, kLineBytes);
  const int64_t bytes_each = t_.broadcast.dtype().bytes();
  shape(kRowsOfStep, most, step * bytes_each);
  shape(kColumnsOfStep, step / t_.depth_step, kLineBytes);
  if (rest > 0) {
    shape(kRowsOfRest, most, rest * bytes_each);
    shape(kColumnsOfRest, rest / t_.depth_step, kLineBytes);
  }
  llvm::Constant* bytes = llvm::ConstantDataArray::get(b_.getContext(), shapes);
  if (llvm::isa<llvm::ConstantInt>(rows)) {
    auto* global = new llvm::GlobalVariable(*b_.GetInsertBlock()->getModule(), bytes->getType(), true,
                                            llvm::GlobalValue::PrivateLinkage, bytes, "shapes");
    global->setAlignment(llvm::Align(kLineBytes));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});
    return;
  }
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::AllocaInst* local = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(bytes->getType());
  local->setAlignment(llvm::Align(kLineBytes));
  b_.CreateStore(bytes, local);
  rows = b_.CreateTrunc(rows, b_.getInt8Ty());
  for (int64_t number = 0; number < kRegisters; ++number) {
    if (number == kColumnsOfStep || number == kColumnsOfRest) continue;
    if (number == kRowsOfRest && rest == 0) continue;
    b_.CreateStore(rows, b_.CreateInBoundsGEP(b_.getInt8Ty(), local, I64(kPlaceOfRows + number)));
  }
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {local});
}

void MatrixEmitter::Release() { b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {}); }

void MatrixEmitter::EmitSums(std::span<Value* const> rows, const TileFactors::Panel& panel, Value* buffer) {
  for (int64_t vector = 0; vector < t_.vectors; vector += kVectors) {
    auto each = [&](auto emit) {
      for (size_t block = 0; block < rows.size(); ++block) {
        for (int64_t v = 0; v < VectorsFrom(vector); ++v) {
          emit(b_.getInt8(static_cast<uint8_t>(block * kVectors + static_cast<size_t>(v))), block, vector + v);
        }
      }
    };
    each([&](Value* sums, size_t, int64_t) { b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {sums}); });
    e_.OpenScope();
    EmitDepth(0, rows, panel, vector);
    e_.CloseScope();
    each([&](Value* sums, size_t block, int64_t column) {
      Value* place = b_.CreateNSWMul(b_.CreateNSWSub(rows[block], rows[0]), I64(t_.panel()));
      place = b_.CreateNSWAdd(place, I64(column * t_.lanes));
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {},
                         {sums, b_.CreateInBoundsGEP(f_.element(), buffer, place), I64(4 * t_.panel())});
    });
  }
}

void MatrixEmitter::EmitDepth(size_t axis, std::span<Value* const> rows, const TileFactors::Panel& panel,
                              int64_t vector) {
  if (axis + 1 == depth_.size()) return EmitInnermost(rows, panel, vector);
  int64_t cost = kCostOfStep;
  for (size_t inner = axis + 1; inner < depth_.size(); ++inner)
    cost = schedule::CostOfIterations(cost, depth_[inner].extent);
  EmitStoppableLoop(b_, {I64(0), e_.EmitExtent(depth_[axis].extent), depth_[axis].extent}, s_.cancel, cost, {},
                    [&](Value* at, const TileFactors::Values&) -> TileFactors::Values {
                      e_.OpenScope();
                      e_.Bind(depth_[axis], at);
                      EmitDepth(axis + 1, rows, panel, vector);
                      e_.CloseScope();
                      return {};
                    },
                    {.keep_rolled = true});
}

void MatrixEmitter::EmitInnermost(std::span<Value* const> rows, const TileFactors::Panel& panel, int64_t vector) {
  const Tile::Matrices& matrices = *t_.matrices;
  const int64_t whole = matrices.steps * matrices.step;
  constexpr Factors kStep = {kRowsOfStep, kColumnsOfStep}, kRest = {kRowsOfRest, kColumnsOfRest};
  if (matrices.steps <= kMaxUnrolled) {
    for (int64_t k = 0; k < whole; k += matrices.step) EmitStep(I64(k), kStep, rows, panel, vector);
  } else {
    EmitStoppableLoop(b_, {I64(0), I64(whole), Dim(whole), matrices.step}, s_.cancel, kCostOfStep, {},
                      [&](Value* k, const TileFactors::Values&) -> TileFactors::Values {
                        EmitStep(k, kStep, rows, panel, vector);
                        return {};
                      },
                      {.keep_rolled = true});
  }
  if (matrices.rest > 0) EmitStep(I64(whole), kRest, rows, panel, vector);
}

// Multiplies each block of rows by each vector. Neighbouring products share a factor, which is loaded once for both.
void MatrixEmitter::EmitStep(Value* k, Factors factors, std::span<Value* const> rows, const TileFactors::Panel& panel,
                             int64_t vector) {
  const bool is_signed = t_.broadcast.dtype().is_int();
  llvm::Intrinsic::ID multiply = t_.has_bfloat_pairs() ? llvm::Intrinsic::x86_tdpbf16ps
                                 : t_.vector.dtype().is_int()
                                     ? (is_signed ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbusd)
                                     : (is_signed ? llvm::Intrinsic::x86_tdpbsud : llvm::Intrinsic::x86_tdpbuud);
  auto load = [&](uint8_t number, Value* address, int64_t stride) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {b_.getInt8(number), address, I64(stride)});
  };
  e_.OpenScope();
  e_.Bind(depth_.back(), k);
  Value* columns = f_.PanelAddress(panel);
  if (vector == 0) f_.PrefetchPanel(columns, t_.matrices->step * t_.panel() * t_.vector.dtype().bytes());
  const int64_t vectors = VectorsFrom(vector);
  for (size_t block = 0; block < rows.size(); ++block) {
    load(factors.rows, f_.RowAddress(rows[block]), f_.row_bytes());
    for (int64_t i = 0; i < vectors; ++i) {
      const int64_t v = block % 2 == 0 ? i : vectors - 1 - i;
      if (block == 0 || i > 0) {
        load(factors.columns, b_.CreateInBoundsGEP(b_.getInt8Ty(), columns, I64((vector + v) * kLineBytes)),
             kLineBytes * t_.vectors);
      }
      auto sums = static_cast<uint8_t>(block * kVectors + static_cast<size_t>(v));
      b_.CreateIntrinsic(multiply, {}, {b_.getInt8(sums), b_.getInt8(factors.rows), b_.getInt8(factors.columns)});
    }
  }
  e_.CloseScope();
}

}  // namespace rvm::codegen
