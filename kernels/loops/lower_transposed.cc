#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/loops/lower_forms.h"
#include "kernels/schedule/block.h"

namespace rvm::loops {

using schedule::kBlockWarps;
using schedule::kTransposeTile;
using schedule::kWarpThreads;
using te::IndexVar;

namespace {

constexpr int64_t kStride = kTransposeTile + 1;  // words from line to line, so that a column is in different banks

}  // namespace

// Computes a square of values with the block's threads side by side along the axis of the reads, and stores them with
// the threads side by side along the last axis.
void LowerTransposed(Builder& b, const schedule::LoopNest& nest, Value block) {
  const IndexVar &read_axis = nest.axes[*nest.transposed], &store_axis = nest.axes.back();
  DataType dtype = nest.tensors[0].value.dtype();
  Value side = b.Number(kTransposeTile);
  auto squares = [&](const IndexVar& axis) {
    return b.Quotient(b.Plus(b.Extent(axis.extent), b.Number(kTransposeTile - 1)), side);
  };
  Value of_store = squares(store_axis), of_read = squares(read_axis), rest = b.Quotient(block, of_store);
  Value first_store = b.Times(b.Remainder(block, of_store), side);
  Value first_read = b.Times(b.Remainder(rest, of_read), side);
  std::vector<IndexVar> outer;
  for (size_t axis = 0; axis + 1 < nest.axes.size(); ++axis) {
    if (axis != *nest.transposed) outer.push_back(nest.axes[axis]);
  }
  Value lane = b.Remainder(b.thread(), b.Number(kWarpThreads)), warp = b.Quotient(b.thread(), b.Number(kWarpThreads));
  BufferId square = b.NewShared(dtype, kTransposeTile * kStride);
  // A warp takes 32 elements along one axis, and each fourth of the other.
  auto for_each_element = [&](bool along_reads, absl::FunctionRef<void(Value place)> emit) {
    b.For(warp, side, b.Number(kBlockWarps), [&](Value other) {
      Value in_read = along_reads ? lane : other, in_store = along_reads ? other : lane;
      Value read = b.Plus(first_read, in_read), stored = b.Plus(first_store, in_store);
      Value is_there =
          b.And(b.IsBelow(read, b.Extent(read_axis.extent)), b.IsBelow(stored, b.Extent(store_axis.extent)));
      b.If(is_there, [&] {
        b.Bind(read_axis, read);
        b.Bind(store_axis, stored);
        emit(b.Plus(b.Times(in_read, b.Number(kStride)), in_store));
      });
    });
  };
  b.Scoped([&] {
    b.BindFlat(outer, b.Quotient(rest, of_read));
    for_each_element(true, [&](Value place) { b.Store(square, place, b.Emit(nest.tensors[0].value)); });
    b.Barrier();
    for_each_element(false, [&](Value place) { FinishNest(b, nest, b.Load(dtype, square, place)); });
  });
}

}  // namespace rvm::loops
