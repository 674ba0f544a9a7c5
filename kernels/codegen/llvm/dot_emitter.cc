#include "kernels/codegen/llvm/dot_emitter.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/transpose_vectors.h"
#include "kernels/schedule/stored_factors.h"

namespace rvm::codegen {
namespace {

using llvm::Value;
using Values = std::vector<Value*>;

// Columns of dot products that are computed together with several rows, each with a register for its sum.
constexpr int64_t kColumnsAtOnce = 4;
// Maximum number of vectors of the depth that are loaded one after the other without a loop, and those of an iteration.
constexpr int64_t kMaxUnrolledSteps = 16, kStepsAtOnce = 4;

}  // namespace

DotEmitter::DotEmitter(const TileSite& site, TileFactors& factors)
    : b_(site.b), e_(site.e), s_(site), t_(*site.nest.tile), f_(factors) {}

// Returns the products of vectors along the depth: for each of `height` rows one of each of `count` neighbouring
// columns.
Values DotEmitter::EmitDots(Value* row, int64_t height, Value* column, int64_t count) {
  const schedule::Tile::FewRows& few = *t_.few;
  // Returns the address of a factor's first position of the depth.
  auto begin = [&](const te::Expr& factor, const std::optional<size_t>& axis, Value* at) {
    e_.OpenScope();
    if (axis) e_.Bind(s_.nest.axes[*axis], at);
    e_.Bind(few.depth, I64(0));
    const te::Expr element = schedule::ElementOf(factor, s_.target);
    Value* address = e_.Address(element.dtype(), e_.pointers.at(element->tensor.get()), e_.Emit(element->operands[0]));
    e_.CloseScope();
    return std::pair(element.dtype(), address);
  };
  auto load = [&](const std::pair<DataType, Value*>& from, Value* k) {
    const auto& [dtype, address] = from;
    auto* type = llvm::FixedVectorType::get(e_.MemoryType(dtype), static_cast<unsigned>(t_.lanes));
    return f_.Widen(dtype, b_.CreateAlignedLoad(type, e_.Address(dtype, address, k),
                                                llvm::Align(static_cast<uint64_t>(dtype.bytes()))));
  };
  std::vector<std::pair<DataType, Value*>> rows, columns;
  for (int64_t r = 0; r < height; ++r) rows.push_back(begin(few.broadcast, t_.row, b_.CreateNSWAdd(row, I64(r))));
  for (int64_t c = 0; c < count; ++c) {
    columns.push_back(begin(few.vector, t_.column, b_.CreateNSWAdd(column, I64(c))));
  }
  // Adds the products of `steps` vectors of the depth from `k` on. No sums: these are the first products.
  auto added = [&](Value* k, int64_t steps, Values sums) {
    for (int64_t step = 0; step < steps; ++step) {
      Value* at = b_.CreateNSWAdd(k, I64(step * t_.lanes));
      const bool is_first = sums.empty();
      Values vectors;
      for (const auto& from : columns) vectors.push_back(load(from, at));
      size_t next = 0;
      for (const auto& from : rows) {
        Value* factor = load(from, at);
        for (Value* vector : vectors) {
          if (is_first) {
            sums.push_back(b_.CreateFMul(factor, vector));
          } else {
            sums[next] = f_.MultiplyAdd(factor, vector, sums[next]);
            ++next;
          }
        }
      }
    }
    return sums;
  };
  const int64_t steps = few.depth.extent.constant() / t_.lanes;
  if (steps <= kMaxUnrolledSteps) return added(I64(0), steps, {});
  const int64_t first = (steps - 1) % kStepsAtOnce + 1;  // leaves whole iterations
  Values sums = added(I64(0), first, {});
  return EmitLoop(b_, I64(first * t_.lanes), I64(steps * t_.lanes), kStepsAtOnce * t_.lanes, std::move(sums),
                  [&](Value* k, const Values& carried) { return added(k, kStepsAtOnce, carried); },
                  {.keep_rolled = true});
}

// Returns the sum of the lanes of a vector.
Value* DotEmitter::SumOfLanes(Value* vector) {
  llvm::IRBuilder<>::FastMathFlagGuard guard(b_);
  llvm::FastMathFlags flags = b_.getFastMathFlags();
  flags.setAllowReassoc(true);
  b_.setFastMathFlags(flags);
  return b_.CreateFAddReduce(llvm::ConstantFP::getNegativeZero(f_.element()), vector);
}

// Stores so many rows of dot products with `count` neighbouring columns of a panel: `column` is the first in the panel.
void DotEmitter::EmitRows(Value* row, int64_t height, Value* panel, Value* column, int64_t count, Buffer buffer) {
  Values sums = EmitDots(row, height, b_.CreateNSWAdd(panel, column), count);
  llvm::Type* element = f_.element();
  auto store = [&](Value* value, Value* r, Value* c) {
    Value* place = t_.transposed_store ? b_.CreateNSWAdd(b_.CreateNSWMul(c, I64(buffer.rows)), r)
                                       : b_.CreateNSWAdd(b_.CreateNSWMul(r, I64(t_.panel())), c);
    b_.CreateAlignedStore(value, b_.CreateInBoundsGEP(element, buffer.first, place),
                          llvm::Align(element->getScalarSizeInBits() / 8));
  };
  for (int64_t r = 0; r < height; ++r) {
    Value* at = b_.CreateNSWAdd(row, I64(r));
    const Values own(sums.begin() + r * count, sums.begin() + (r + 1) * count);
    if (count == 1) {
      store(SumOfLanes(own[0]), at, column);
      continue;
    }
    Value* four = SumsOfLanes(b_, own);
    if (!t_.transposed_store) {
      store(four, at, column);
      continue;
    }
    for (int64_t c = 0; c < count; ++c) {
      store(b_.CreateExtractElement(four, static_cast<uint64_t>(c)), at, b_.CreateNSWAdd(column, I64(c)));
    }
  }
}

// Emits a loop over the columns from `from` to `to` of a panel, so many at once.
void DotEmitter::EmitColumns(const Rows& rows, Value* panel, Value* from, Value* to, int64_t count, Buffer buffer) {
  const int64_t at_once = s_.target.vector_registers >= 32 ? 4 : 2;
  // Emits the rows from `first` up to `last`, `height` at once.
  auto rows_of = [&](Value* first, Value* last, int64_t height, Value* column) {
    EmitLoop(b_, first, last, height, {}, [&](Value* row, const Values&) -> Values {
      EmitRows(row, height, panel, column, count, buffer);
      return {};
    });
  };
  EmitLoop(b_, from, to, count, {}, [&](Value* column, const Values&) -> Values {
    if (rows.first != nullptr || !rows.count.is_const()) {
      const bool has_range = rows.first != nullptr;
      rows_of(has_range ? rows.first : I64(0), has_range ? rows.last : e_.EmitExtent(rows.count), 1, column);
      return {};
    }
    const int64_t rest = rows.count.constant() % at_once, whole = rows.count.constant() - rest;
    if (whole > 0) rows_of(I64(0), I64(whole), at_once, column);
    if (rest > 0) EmitRows(I64(whole), rest, panel, column, count, buffer);
    return {};
  });
}

void DotEmitter::EmitPanel(const Rows& rows, Value* panel, Value* width, Buffer buffer) {
  Value* whole = I64(0);
  if (t_.lanes >= kColumnsAtOnce) {
    whole = b_.CreateAnd(width, I64(-kColumnsAtOnce));
    EmitColumns(rows, panel, I64(0), whole, kColumnsAtOnce, buffer);
  }
  EmitColumns(rows, panel, whole, width, 1, buffer);
}

}  // namespace rvm::codegen
