#include "kernels/codegen/llvm/tile_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/schedule/nest_cost.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::Tile;
using te::Expr;
using te::IndexVar;

using Values = TileSums::Values;

TileSums::TileSums(const TileSite& site, TileFactors& factors)
    : b_(site.b),
      e_(site.e),
      s_(site),
      t_(*site.nest.tile),
      f_(factors),
      depth_(site.nest.reduction()->axes),
      vector_(factors.vector()) {}

int64_t TileSums::CostOf(size_t axis) const {
  int64_t cost = std::max<int64_t>(t_.rows * t_.vectors / 8, 1);
  for (size_t inner = axis + 1; inner < depth_.size(); ++inner)
    cost = schedule::CostOfIterations(cost, depth_[inner].extent);
  return cost;
}

// One step of the innermost depth axis: so many of its positions.
Values TileSums::EmitStep(Value* row, int64_t height, const Panel& panel, Value* k, int64_t positions, Values sums) {
  e_.OpenScope();
  e_.Bind(depth_.back(), k);
  bool by_row = t_.row && t_.access == Tile::Access::kInPlace && te::DependsOn(t_.vector, s_.nest.axes[*t_.row].id);
  Values vectors;
  if (!by_row) vectors = f_.LoadVectors(panel);
  for (int64_t r = 0; r < height; ++r) {
    if (by_row) {
      e_.OpenScope();
      e_.Bind(s_.nest.axes[*t_.row], b_.CreateNSWAdd(row, I64(r)));
      vectors = f_.LoadVectors(panel);
      e_.CloseScope();
    }
    Value* factor = f_.EmitBroadcast(k, positions, {row, r});
    for (int64_t v = 0; v < t_.vectors; ++v) {
      Value*& sum = sums[static_cast<size_t>(r * t_.vectors + v)];
      sum = f_.MultiplyAdd(factor, vectors[static_cast<size_t>(v)], sum);
    }
  }
  for (auto i = static_cast<size_t>(height * t_.vectors); i < sums.size(); ++i) {
    sums[i] = f_.MultiplyAdd(f_.SignBits(), vectors[i % vectors.size()], sums[i]);
  }
  e_.CloseScope();
  return sums;
}

// Emits the segments of the innermost depth axis from segment_ on, one for each strand.
Values TileSums::EmitSegments(Value* row, int64_t height, const Panel& panel, Values sums) {
  int64_t strands = t_.Strands(height), unroll = std::max<int64_t>(t_.Unroll(height) / strands, 1);
  auto per_strand = static_cast<std::ptrdiff_t>(NumSums(height));
  auto step = [&](int64_t strand, Value* at, Values& next) {
    auto from = next.begin() + per_strand * strand;
    Values summed = EmitStep(row, height, panel, at, 1, {from, from + per_strand});
    std::copy(summed.begin(), summed.end(), from);
  };
  const Dim& extent = depth_.back().extent;
  Dim length = FloorDiv(extent, t_.segments), whole = FloorDiv(length, unroll) * unroll;
  Value* segment = e_.EmitExtent(length);
  auto steps = [&](Value* k, int64_t count, Values next) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t s = 0; s < strands; ++s) {
        Value* begin = b_.CreateNSWMul(segment, I64(segment_ + s));
        step(s, b_.CreateNSWAdd(b_.CreateNSWAdd(begin, k), I64(i)), next);
      }
    }
    return next;
  };
  // Runs `emit` for the iterations [first, last), one by one if their number is not known.
  auto rest = [&](const Dim& first, const Dim& last, Values next, llvm::function_ref<Values(Value*, Values)> emit) {
    if (first.is_const() && last.is_const()) {
      for (int64_t k = first.constant(); k < last.constant(); ++k) next = emit(I64(k), std::move(next));
      return next;
    }
    return EmitLoop(b_, e_.EmitExtent(first), e_.EmitExtent(last), 1, std::move(next),
                    [&](Value* k, const Values& carried) { return emit(k, carried); }, {.keep_rolled = true});
  };
  sums = EmitStoppableLoop(b_, {I64(0), e_.EmitExtent(whole), whole, unroll}, s_.cancel,
                           schedule::CostOfIterations(CostOf(depth_.size() - 1), unroll * strands), std::move(sums),
                           [&](Value* k, const Values& carried) { return steps(k, unroll, carried); },
                           {.keep_rolled = true});
  if (unroll > 1) {
    sums = rest(whole, length, std::move(sums), [&](Value* k, Values next) { return steps(k, 1, std::move(next)); });
  }
  if (segment_ + strands < t_.segments) return sums;
  return rest(length * t_.segments, extent, std::move(sums), [&](Value* k, Values next) {
    step(strands - 1, k, next);
    return next;
  });
}

// Emits the innermost depth axis, several steps per iteration; strands are summed one after the other.
Values TileSums::EmitInnermost(Value* row, int64_t height, const Panel& panel, Values sums) {
  f_.HoldRows(row, height);
  if (t_.segments > 0) return EmitSegments(row, height, panel, std::move(sums));
  const Dim& extent = depth_.back().extent;
  int64_t group = t_.depth_step;
  int64_t strands = t_.Strands(height), unroll = t_.Unroll(height);
  auto per_strand = static_cast<std::ptrdiff_t>(NumSums(height));
  auto steps = [&](Value* k, int64_t count, Values next) {
    for (int64_t s = 0; s < count; ++s) {
      auto from = next.begin() + per_strand * (s % strands);
      Value* at = b_.CreateNSWAdd(k, I64(s * group));
      Values strand = EmitStep(row, height, panel, at, group, {from, from + per_strand});
      std::copy(strand.begin(), strand.end(), from);
    }
    return next;
  };
  LoopHints hints{.keep_rolled = true};
  if (t_.depth_block > 0 && depth_.size() == 1) {
    const auto [first, behind] = positions_;
    Value* count = b_.CreateNSWSub(behind, first);
    Value* middle = b_.CreateNSWAdd(first, b_.CreateNSWSub(count, b_.CreateURem(count, I64(unroll))));
    auto some = [&](int64_t at_once) {
      return [&, at_once](Value* k, const Values& carried) { return steps(k, at_once, carried); };
    };
    sums = EmitLoop(b_, first, middle, unroll, std::move(sums), some(unroll), hints);
    return unroll == 1 ? sums : EmitLoop(b_, middle, behind, 1, std::move(sums), some(1), hints);
  }
  Value* end = e_.EmitExtent(extent);
  Dim whole = FloorDiv(extent, unroll * group) * (unroll * group);
  Value* last = e_.EmitExtent(whole);
  sums = EmitStoppableLoop(
      b_, {I64(0), last, whole, unroll * group}, s_.cancel,
      schedule::CostOfIterations(CostOf(depth_.size() - 1), unroll), std::move(sums),
      [&](Value* k, const Values& carried) { return steps(k, unroll, carried); }, hints);
  if (extent.is_const()) {
    int64_t rest = extent.constant() - whole.constant();
    sums = steps(last, rest / group, std::move(sums));
    if (rest % group == 0) return sums;
    Value* at = b_.CreateNSWAdd(last, I64(rest / group * group));
    Values strand = EmitStep(row, height, panel, at, rest % group, {sums.begin(), sums.begin() + per_strand});
    std::copy(strand.begin(), strand.end(), sums.begin());
    return sums;
  }
  if (unroll == 1) return sums;
  return EmitLoop(
      b_, last, end, 1, std::move(sums), [&](Value* k, const Values& carried) { return steps(k, 1, carried); }, hints);
}

// Emits one step of a product in blocks, at the bound position of the depth.
void TileSums::EmitBlockStep(Value* row, int64_t height, const Panel& panel, Values& sums) {
  Values vectors;
  for (int64_t v = 0; v < t_.vectors; ++v) {
    vectors.push_back(f_.Widen(t_.vector.dtype(), f_.EmitCodes(t_.vector, panel, v)));
  }
  for (int64_t r = 0; r < height; ++r) {
    Value* factor = f_.EmitBroadcast(e_.EmitVariable(depth_.back()), t_.depth_step, {row, r});
    for (int64_t v = 0; v < t_.vectors; ++v) {
      Value*& sum = sums[static_cast<size_t>(r * t_.vectors + v)];
      sum = f_.MultiplyAdd(factor, vectors[static_cast<size_t>(v)], sum);
    }
  }
}

// Emits the steps of the axes of a block from `axis` on, one behind the other: `count` of the first axis, from `first`
// on.
void TileSums::EmitBlockSteps(size_t axis, Value* first, int64_t count, Value* row, int64_t height, const Panel& panel,
                              Values& sums) {
  bool is_innermost = axis + 1 == depth_.size();
  for (int64_t i = 0; i < count; ++i) {
    e_.OpenScope();
    e_.Bind(depth_[axis], b_.CreateNSWAdd(first, I64(is_innermost ? i * t_.depth_step : i)));
    if (is_innermost) {
      EmitBlockStep(row, height, panel, sums);
    } else {
      int64_t next = depth_[axis + 1].extent.constant();
      if (axis + 2 == depth_.size()) next /= t_.depth_step;
      EmitBlockSteps(axis + 1, I64(0), next, row, height, panel, sums);
    }
    e_.CloseScope();
  }
}

// Returns the sums of a block, whose axes are those from `axis` on, in int32.
Values TileSums::EmitBlockSums(size_t axis, Value* row, int64_t height, const Panel& panel) {
  const Tile::Blocks& blocks = *t_.blocks;
  auto lanes = static_cast<unsigned>(t_.lanes);
  auto* wide = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
  auto* narrow = llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * lanes);
  auto steps = [&](Value* first, const Values& carried) {
    Values sums = carried;
    if (blocks.sums_narrow) sums.assign(carried.size(), llvm::Constant::getNullValue(narrow));
    EmitBlockSteps(axis, first, blocks.steps_at_once, row, height, panel, sums);
    for (size_t i = 0; i < sums.size() && blocks.sums_narrow; ++i) {
      sums[i] = b_.CreateAdd(carried[i], f_.SumOfPairs(sums[i], llvm::ConstantInt::get(narrow, 1)));
    }
    return sums;
  };
  Values sums(static_cast<size_t>(NumSums(height)), llvm::Constant::getNullValue(wide));
  int64_t extent = depth_[axis].extent.constant(),
          positions = blocks.steps_at_once * (axis + 1 == depth_.size() ? t_.depth_step : 1);
  if (positions == extent) return steps(I64(0), sums);
  LoopRange range{I64(0), I64(extent), depth_[axis].extent, positions};
  return EmitStoppableLoop(b_, range, s_.cancel, CostOf(axis), std::move(sums), steps, {.keep_rolled = true});
}

// Adds the sums of a block, scaled.
Values TileSums::EmitBlock(size_t axis, Value* row, int64_t height, const Panel& panel, Values sums) {
  const Tile::Blocks& blocks = *t_.blocks;
  Values products = EmitBlockSums(axis, row, height, panel), scales = f_.Expand(t_.scale, panel), zeros, minima;
  if (blocks.zero) zeros = f_.Expand(blocks.zero, panel);
  if (blocks.minimum) minima = f_.Expand(blocks.minimum, panel);
  auto splat = [&](const Expr& e) { return b_.CreateVectorSplat(static_cast<unsigned>(t_.lanes), e_.Emit(e)); };
  auto multiply_add = [&](Value* a, Value* b, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {vector_}, {a, b, c});
  };
  for (int64_t r = 0; r < height; ++r) {
    e_.OpenScope();
    if (t_.row) e_.Bind(s_.nest.axes[*t_.row], b_.CreateNSWAdd(row, I64(r)));
    Value* row_scale = splat(blocks.row_scale);
    Value* minus_row_sum = blocks.row_sum ? b_.CreateFNeg(splat(blocks.row_sum)) : nullptr;
    e_.CloseScope();
    for (int64_t v = 0; v < t_.vectors; ++v) {
      auto i = static_cast<size_t>(r * t_.vectors + v), column = static_cast<size_t>(v);
      Value* product = b_.CreateSIToFP(products[i], vector_);
      if (blocks.zero) product = multiply_add(minus_row_sum, zeros[column], product);
      product = b_.CreateFMul(product, scales[column]);
      if (blocks.minimum) product = multiply_add(minus_row_sum, minima[column], product);
      sums[i] = multiply_add(row_scale, product, sums[i]);
    }
  }
  return sums;
}

// Emits the axes of the depth from `axis` on, whose sums are multiplied by the scale.
Values TileSums::EmitScaled(size_t axis, Value* row, int64_t height, const Panel& panel, Values sums) {
  if (t_.blocks) return EmitBlock(axis, row, height, panel, std::move(sums));
  Values inner(sums.size(), llvm::Constant::getNullValue(vector_));
  inner = EmitDepth(axis, row, height, panel, std::move(inner));
  Values scales = f_.Expand(t_.scale, panel);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = f_.MultiplyAdd(scales[i % scales.size()], inner[i], sums[i]);
  return sums;
}

// Emits all positions of the window, see Tile::window, for each vector that the rows read.
Values TileSums::EmitWindow(Value* row, int64_t height, const Panel& panel, Values sums) {
  const auto [axis, step, extent] = *t_.window;
  auto in_window = [&](int64_t k, llvm::function_ref<void()> emit) {
    e_.OpenScope();
    e_.Bind(s_.nest.axes[*t_.row], row);
    e_.Bind(depth_[axis], I64(k));
    emit();
    e_.CloseScope();
  };
  std::vector<Values> factors;  // by position of the window, and by vector where they differ
  for (int64_t k = 0; k < extent; ++k) {
    in_window(k, [&] {
      factors.push_back(t_.shared_by_column ? f_.LoadShared(panel) : Values{f_.EmitBroadcast(I64(k), 1, {row, 0})});
    });
  }
  for (int64_t at = 0; at < t_.window->Reads(height); ++at) {
    Values vectors;
    in_window(at, [&] { vectors = f_.LoadVectors(panel); });
    for (int64_t r = std::max<int64_t>((at - extent + step) / step, 0); r < height && r * step <= at; ++r) {
      const Values& factor = factors[static_cast<size_t>(at - r * step)];
      for (int64_t v = 0; v < t_.vectors; ++v) {
        Value*& sum = sums[static_cast<size_t>(r * t_.vectors + v)];
        auto column = static_cast<size_t>(v);
        sum = f_.MultiplyAdd(factor[t_.shared_by_column ? column : 0], vectors[column], sum);
      }
    }
  }
  return sums;
}

// Emits the axes of the depth from `axis` on around the window.
Values TileSums::EmitWindows(size_t axis, Value* row, int64_t height, const Panel& panel, Values sums) {
  if (axis == t_.window->axis) return EmitWindows(axis + 1, row, height, panel, std::move(sums));
  if (axis == depth_.size()) return EmitWindow(row, height, panel, std::move(sums));
  const IndexVar& around = depth_[axis];
  auto body = [&](Value* at, const Values& carried) {
    e_.OpenScope();
    e_.Bind(around, at);
    Values next = EmitWindows(axis + 1, row, height, panel, carried);
    e_.CloseScope();
    return next;
  };
  // Positions without a stride are emitted whole: LLVM would compute the place of each vector in each iteration.
  bool is_loop = te::Stride(t_.vector->operands[0], around.id).has_value() || !around.extent.is_const() ||
                 around.extent.constant() > t_.window->extent;
  if (is_loop) {
    int64_t cost = schedule::CostOfIterations(CostOf(axis), axis > t_.window->axis ? t_.window->extent : 1);
    LoopRange range{I64(0), e_.EmitExtent(around.extent), around.extent};
    return EmitStoppableLoop(b_, range, s_.cancel, cost, std::move(sums), body, {.keep_rolled = true});
  }
  for (int64_t at = 0; at < around.extent.constant(); ++at) sums = body(I64(at), sums);
  return sums;
}

Values TileSums::EmitDepth(size_t axis, Value* row, int64_t height, const Panel& panel, Values sums) {
  if (t_.window) return EmitWindows(0, row, height, panel, std::move(sums));
  if (axis + 1 == depth_.size()) return EmitInnermost(row, height, panel, std::move(sums));
  LoopRange range{I64(0), e_.EmitExtent(depth_[axis].extent), depth_[axis].extent};
  if (t_.depth_block > 0 && axis == 0) range = {positions_.first, positions_.second, t_.depth_block};
  return EmitStoppableLoop(b_, range, s_.cancel, CostOf(axis), std::move(sums),
                           [&](Value* at, const Values& carried) {
                             e_.OpenScope();
                             e_.Bind(depth_[axis], at);
                             bool scales = t_.scale && t_.scaled_axes == axis + 1;
                             Values next = scales ? EmitScaled(axis + 1, row, height, panel, carried)
                                                  : EmitDepth(axis + 1, row, height, panel, carried);
                             e_.CloseScope();
                             return next;
                           },
                           {.keep_rolled = true});
}

Values TileSums::EmitStrands(Value* row, int64_t height, const Panel& panel, int64_t segment) {
  segment_ = segment;
  auto size = static_cast<size_t>(NumSums(height) * t_.Strands(height));
  Values sums(size, llvm::Constant::getNullValue(vector_));
  e_.OpenScope();
  bool scales = t_.scale && t_.scaled_axes == 0;
  sums =
      scales ? EmitScaled(0, row, height, panel, std::move(sums)) : EmitDepth(0, row, height, panel, std::move(sums));
  e_.CloseScope();
  return sums;
}

}  // namespace rvm::codegen
