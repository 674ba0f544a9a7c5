#include "kernels/loops/lower.h"

#include <span>

#include "base/check.h"
#include "kernels/loops/builder.h"
#include "kernels/loops/lower_forms.h"
#include "kernels/loops/reduction.h"
#include "kernels/schedule/block.h"
#include "kernels/schedule/block_tile_planner.h"
#include "kernels/schedule/gpu_schedule.h"

namespace rvm::loops {

using schedule::kBlockThreads;
using schedule::LoopNest;
using schedule::NestForm;
using schedule::NestGroup;
using schedule::NestTensor;
using schedule::Schedule;

void FinishNest(Builder& b, const LoopNest& nest, Value first) {
  for (size_t i = 0; i < nest.tensors.size(); ++i) {
    const NestTensor& t = nest.tensors[i];
    Value value = i == 0 ? first : b.Emit(t.value);
    if (t.stored) b.StoreTensor(t.tensor, b.Emit(nest.store_offset), value);
    b.BindTensor(t.tensor, b.Rounded(t.tensor.dtype(), value));
  }
}

namespace {

// Emits a position whose axes are bound.
void LowerPosition(Builder& b, const LoopNest& nest) {
  for (const schedule::Replica& replica : nest.replicas) {
    Value value = b.Emit(replica.value);
    b.StoreTensor(nest.tensors[0].tensor, b.Emit(replica.store_offset), value);
  }
  if (!nest.replicas.empty()) return;
  const te::ExprNode* reduce = nest.reduction();
  if (reduce == nullptr) return FinishNest(b, nest, b.Emit(nest.tensors[0].value));
  Reduction reduction(b, *reduce);
  FinishNest(b, nest, reduction.Result(EmitReduction(b, reduction, *reduce)));
}

Program LowerNest(const Schedule& schedule, const LoopNest& nest) {
  Builder b(schedule);
  PartMerger merger(b);
  switch (nest.form) {
    case NestForm::kPositions: {
      Dim count = te::NumPositions(nest.axes);
      Value position = b.Plus(b.Times(b.block(), b.Number(kBlockThreads)), b.thread());
      b.If(b.IsBelow(position, b.Extent(count)), [&] {
        b.BindFlat(nest.axes, position);
        LowerPosition(b, nest);
      });
      return b.Take(FloorDiv(count + Dim(kBlockThreads - 1), Dim(kBlockThreads)));
    }
    case NestForm::kTeams: LowerTeam(b, merger, nest, b.block()); break;
    case NestForm::kTransposed: LowerTransposed(b, nest, b.block()); break;
    case NestForm::kBlockTiles: {
      if (!nest.team) {
        LowerBlockTile(b, nest, b.block());
        break;
      }
      Value by_tiles = b.Binary(BinaryOp::kNotEqual, kInt64, b.Extent(IsWorthTiles(nest)), b.Number(0));
      LowerBlockTile(b, nest, b.block(), by_tiles);
      LowerTeam(b, merger, nest, b.block(), b.Unary(UnaryOp::kLogicalNot, kBool, by_tiles));
      break;
    }
    case NestForm::kColumns:
    case NestForm::kWindows:
    case NestForm::kTiles: RVM_UNREACHABLE("a nest for a CPU");
  }
  return b.Take(Blocks(nest));
}

// Makes the program in which a block has a row of each nest. Its threads wait for one another between nests, as they
// read what others stored.
Program LowerRows(const Schedule& schedule, const NestGroup& group) {
  Builder b(schedule);
  PartMerger merger(b);
  std::span<const LoopNest> nests = std::span(schedule.nests).subspan(group.first, group.count);
  for (const LoopNest& nest : nests) {
    if (&nest != &nests.front()) b.Barrier();
    Value size = b.Extent(te::NumPositions(std::span(nest.axes).subspan(1)));
    Value first = b.Times(b.block(), size), end = b.Plus(first, size);
    if (nest.form == NestForm::kTeams) {
      b.For(first, end, b.Number(1), [&](Value at) {
        LowerTeam(b, merger, nest, at);
        b.Barrier();  // the next position uses the same memory
      });
    } else {
      b.For(b.Plus(first, b.thread()), end, b.Number(kBlockThreads), [&](Value at) {
        b.BindFlat(nest.axes, at);
        LowerPosition(b, nest);
      });
    }
  }
  return b.Take(nests[0].axes[0].extent);
}

}  // namespace

std::vector<Program> Lower(const Schedule& schedule) {
  std::vector<Program> programs;
  for (const NestGroup& launch : schedule::Launches(schedule)) {
    if (launch.team) {
      Builder b(schedule);
      LowerRowTeam(b, schedule, launch);
      programs.push_back(b.Take(Blocks(*launch.team)));
    } else if (launch.count == 1) {
      programs.push_back(LowerNest(schedule, schedule.nests[launch.first]));
    } else {
      programs.push_back(LowerRows(schedule, launch));
    }
  }
  return programs;
}

}  // namespace rvm::loops
