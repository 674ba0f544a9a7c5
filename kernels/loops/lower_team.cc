#include <vector>

#include "kernels/loops/lower_forms.h"
#include "kernels/schedule/block.h"

namespace rvm::loops {

void LowerTeam(Builder& b, PartMerger& merger, const schedule::LoopNest& nest, Value block, Value is_chosen) {
  const schedule::Team& team = *nest.team;
  const te::ExprNode& reduce = *nest.reduction();
  Value threads = b.Number(team.threads), positions = b.Number(team.positions());
  // Parts of a position, or positions, are neighbours.
  Value part = team.are_neighbours ? b.Remainder(b.thread(), threads) : b.Quotient(b.thread(), positions);
  Value slot = team.are_neighbours ? b.Quotient(b.thread(), threads) : b.Remainder(b.thread(), positions);
  Value position = b.Plus(b.Times(block, positions), slot);
  Value is_position = b.IsBelow(position, b.Extent(te::NumPositions(nest.axes)));
  if (is_chosen.valid()) is_position = b.And(is_position, is_chosen);
  b.Scoped([&] {
    b.BindFlat(nest.axes, position);
    Value end = b.Select(kInt64, is_position, b.Extent(te::NumPositions(reduce.axes)), b.Number(0));
    Reduction reduction(b, reduce);
    std::vector<PartMerger::Pending> sum = {{reduction, EmitReductionPart(b, reduction, reduce, part, end, threads)}};
    merger.Merge(sum, {part, team.threads, team.are_neighbours ? 1 : team.positions()}, /*to_all=*/false);
    Value is_first = b.Binary(BinaryOp::kEqual, kInt64, part, b.Number(0));
    b.If(b.And(is_position, is_first), [&] { FinishNest(b, nest, reduction.Result(sum[0].partial)); });
  });
}

}  // namespace rvm::loops
