#include "kernels/schedule/schedule.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/schedule/arg_reduction.h"
#include "kernels/schedule/block_products.h"
#include "kernels/schedule/buffers.h"
#include "kernels/schedule/cpu_loops.h"
#include "kernels/schedule/cpu_schedule.h"
#include "kernels/schedule/depth_pairs.h"
#include "kernels/schedule/gpu_schedule.h"
#include "kernels/schedule/nest_builder.h"
#include "kernels/schedule/padding.h"
#include "kernels/schedule/row_groups.h"
#include "kernels/schedule/stored_factors.h"
#include "kernels/schedule/stored_views.h"

namespace rvm::schedule {
namespace {

std::string AxisNames(const LoopNest& nest, const std::vector<size_t>& axes) {
  return absl::StrJoin(axes, "x", [&](std::string* out, size_t axis) { *out += nest.axes[axis].extent.ToString(); });
}

std::string Describe(const LoopNest& nest) {
  const Tile& tile = *nest.tile;
  const bool has_sums = !tile.few || !tile.few->always();
  std::string text = absl::StrCat(" [", tile.rows, "x", tile.vectors, " vectors of ", tile.lanes);
  if (tile.access == Tile::Access::kInPlace) {
    text += " in place";
  } else {
    text += tile.is_packed() ? " packed" : has_sums ? " from panels" : "";
    if (!tile.sources.empty()) absl::StrAppend(&text, ", computed from ", tile.sources.size(), " constants");
    if (tile.scale) absl::StrAppend(&text, ", scaled behind ", tile.scaled_axes, " axes");
    if (tile.blocks) absl::StrAppend(&text, ", blocks of bytes by ", tile.depth_step);
  }
  if (tile.masked || tile.overlaps) text += tile.masked ? ", masked" : ", overlapping";
  if (tile.column_stride > 1) absl::StrAppend(&text, ", columns ", tile.column_stride, " apart");
  if (tile.packed_rows) text += ", rows packed";
  if (tile.row_panels) text += ", rows from panels";
  if (tile.row_parts > 1) absl::StrAppend(&text, ", rows in ", tile.row_parts, " parts");
  if (tile.panels_at_once > 1) absl::StrAppend(&text, ", ", tile.panels_at_once, " panels at once");
  if (!tile.outer.empty()) absl::StrAppend(&text, ", outer ", AxisNames(nest, tile.outer));
  if (!tile.inner.empty()) absl::StrAppend(&text, ", inner ", AxisNames(nest, tile.inner));
  if (tile.panels_first) text += " inside";
  absl::StrAppend(&text, ", depth ", absl::StrJoin(nest.reduction()->axes, "x", [](std::string* out, const auto& axis) {
    *out += axis.extent.ToString();
  }));
  if (tile.depth_block > 0) absl::StrAppend(&text, " in blocks of ", tile.depth_block);
  if (tile.window) absl::StrAppend(&text, ", rows share a window of ", tile.window->extent);
  if (tile.shared_by_column) text += " by column";
  int64_t strands = has_sums ? tile.Strands(tile.rows) : 1, unroll = has_sums ? tile.Unroll(tile.rows) : 1;
  if (tile.segments > 1) absl::StrAppend(&text, ", ", tile.segments, " segments");
  if (strands > 1) absl::StrAppend(&text, ", ", strands, " strands");
  if (unroll > 1) absl::StrAppend(&text, ", unrolled ", unroll);
  if (tile.matrices) {
    absl::StrAppend(&text, ", matrices of ", tile.matrices->rows, " rows by ", tile.matrices->step);
    if (tile.matrices->rest > 0) absl::StrAppend(&text, " and ", tile.matrices->rest);
  }
  if (tile.transposed_store) text += ", stored transposed";
  if (tile.few)
    absl::StrAppend(&text, tile.few->always() ? ", " : absl::StrCat(", up to ", tile.few->most, " "),
                    "rows along the depth");
  return text + "]";
}

std::string Describe(const Staging& side) {
  return absl::StrCat(side.vector > 1 ? absl::StrCat("vectors of ", side.vector, " ") : "",
                      side.along_depth ? "along the depth" : "along lines", side.is_by_line ? " by line" : "",
                      side.pad > 0 ? absl::StrCat(" + ", side.pad) : "", side.is_whole ? "" : ", edges");
}

std::string Describe(const Mma& mma) {
  std::string rows = mma.row_dtype.ToString(), columns = mma.column_dtype.ToString();
  return absl::StrCat(", mma ", mma.rows, "x8x", mma.depth, " of ",
                      mma.row_dtype == kFloat32 ? "tf32"
                      : rows == columns         ? rows
                                                : absl::StrCat(rows, " and ", columns));
}

std::string Describe(const LoopNest& nest, const BlockTile& tile) {
  return absl::StrCat(" [", tile.rows.lines, "x", tile.columns.lines, " by ", tile.thread_rows, "x",
                      tile.thread_columns, tile.mma ? Describe(*tile.mma) : "", ", depth ", tile.depth,
                      tile.is_whole_depth ? "" : " with zeros", "; rows ", Describe(tile.rows), "; columns ",
                      Describe(tile.columns),
                      tile.outer.empty() ? "" : absl::StrCat("; outer ", AxisNames(nest, tile.outer)), "]");
}

std::string Describe(const RowTeam& team) {
  return absl::StrCat("rows of ", team.elements(), " by ", team.threads, " threads [", team.steps,
                      team.vector > 1 ? absl::StrCat(" vectors of ", team.vector) : " elements", " each",
                      team.is_whole() ? "" : ", edges",
                      team.steps_at_once < team.steps ? absl::StrCat(", ", team.steps_at_once, " at once") : "", "]");
}

std::string KindOf(const LoopNest& nest) {
  if (nest.tensors[0].tensor->self) return "scan";
  if (nest.tensors[0].tensor->is_ordered) return "order";
  if (nest.update) return "update";
  if (nest.product) return "tail";
  switch (nest.form) {
    case NestForm::kPositions: return nest.reduction() != nullptr ? "reduce" : "loops";
    case NestForm::kColumns: return "columns";
    case NestForm::kWindows: return "windows";
    case NestForm::kTransposed: return "transposed";
    case NestForm::kTiles: return "tiles";
    case NestForm::kTeams: return "teams";
    case NestForm::kBlockTiles: return "block tiles";
  }
}

// `has_rows`: their threads are those of a RowTeam.
std::string DescribeNests(std::span<const LoopNest> nests, bool has_rows = false) {
  return absl::StrJoin(nests, "; ", [&](std::string* out, const LoopNest& nest) {
    std::string extents =
        absl::StrJoin(nest.axes, "x", [](std::string* text, const auto& axis) { *text += axis.extent.ToString(); });
    std::string tensors =
        absl::StrJoin(nest.tensors, ", ", [](std::string* text, const NestTensor& t) { *text += t.tensor->name; });
    absl::StrAppend(out, KindOf(nest), " ", extents.empty() ? "1" : extents, ": ", tensors);
    if (nest.tile) *out += Describe(nest);
    if (!nest.replicas.empty()) absl::StrAppend(out, " [", nest.replicas.size(), " elements at once]");
    size_t loops = 1;
    for (const std::vector<AxisRange>& ranges : nest.ranges) loops *= std::max<size_t>(ranges.size(), 1);
    const bool has_image = std::ranges::any_of(nest.ranges, [](const std::vector<AxisRange>& ranges) {
      return std::ranges::any_of(ranges, &AxisRange::is_image);
    });
    if (loops > 1)
      absl::StrAppend(out, " [in ", has_image ? loops - 1 : loops, has_image ? " ranges of a border]" : " ranges]");
    if (nest.block_tile) *out += Describe(nest, *nest.block_tile);
    if (nest.team && !has_rows) {
      absl::StrAppend(out, nest.block_tile ? " or" : "", " [", nest.team->threads,
                      nest.team->are_neighbours ? " neighbours" : " warps", " each]");
    }
    if (nest.elements_per_thread > 1) absl::StrAppend(out, " [", nest.elements_per_thread, " neighbours at once]");
    if (nest.column_block > 0) {
      absl::StrAppend(out, " [blocks of ", nest.column_block, ", ", nest.rows_at_once, " rows at once]");
    } else if (nest.form == NestForm::kColumns) {
      absl::StrAppend(out, " [all steps unrolled]");
    }
    if (nest.windows) absl::StrAppend(out, " [", nest.windows->steps, " steps by ", nest.windows->stride, "]");
    if (!nest.unswitched.empty()) absl::StrAppend(out, " [unswitched by ", nest.unswitched.size(), "]");
    if (nest.streamed) absl::StrAppend(out, " [streamed", nest.streamed->is_known() ? "" : " if large", "]");
    if (nest.limit) absl::StrAppend(out, " [if ", nest.limit->rows.ToString(), " > ", nest.limit->few, "]");
  });
}

}  // namespace

const PackedLayout* Schedule::Layout(size_t input) const {
  for (const LoopNest& nest : nests) {
    if (!nest.tile) continue;
    if (nest.tile->packed && nest.tile->panels->input_index == static_cast<int64_t>(input)) {
      return &*nest.tile->packed;
    }
    if (nest.tile->packed_rows && nest.tile->broadcast->tensor->input_index == static_cast<int64_t>(input)) {
      return &*nest.tile->packed_rows;
    }
    for (const Tile::Source& source : nest.tile->sources) {
      if (source.tensor->input_index == static_cast<int64_t>(input)) return &source.layout;
    }
  }
  return nullptr;
}

absl::flat_hash_map<int64_t, PackedVectors> PackedVectorsOf(const Schedule& schedule) {
  absl::flat_hash_map<int64_t, PackedVectors> vectors;
  for (const LoopNest& nest : schedule.nests) {
    if (!nest.tile || !nest.tile->is_packed()) continue;
    const Tile& tile = *nest.tile;
    const PackedVectors found = {tile.panel(), tile.row ? nest.axes[*tile.row].extent : Dim(1)};
    if (tile.packed) vectors.insert_or_assign(tile.panels->input_index, found);
    for (const Tile::Source& source : tile.sources) vectors.insert_or_assign(source.tensor->input_index, found);
  }
  return vectors;
}

const NestGroup::Local* NestGroup::FindLocal(const te::Tensor& tensor) const {
  auto found = std::ranges::find_if(local, [&](const Local& kept) { return kept.tensor.get() == tensor.get(); });
  return found == local.end() ? nullptr : &*found;
}

NestGroup Schedule::GroupOf(size_t nest) const {
  for (const NestGroup& group : groups) {
    if (group.first <= nest && nest < group.first + group.count) return group;
  }
  return {.first = nest, .count = 1};
}

std::string Describe(const Schedule& schedule) {
  if (schedule.groups.empty()) return DescribeNests(schedule.nests);
  return absl::StrJoin(schedule.groups, "; ", [&](std::string* out, const NestGroup& group) {
    std::string nests =
        DescribeNests(std::span(schedule.nests).subspan(group.first, group.count), group.team.has_value());
    if (group.team) {
      absl::StrAppend(out, Describe(*group.team), " {", nests, "}");
    } else if (group.count == 1) {
      *out += nests;
    } else {
      std::string parts = group.matmuls && group.matmuls->rows_between < group.rows
                              ? absl::StrCat(", between tiles by ", group.matmuls->rows_between)
                              : "";
      absl::StrAppend(out, "rows by ", group.rows, parts, " {", nests, "}");
    }
  });
}

te::Tensor NewTensor(Schedule& schedule, DataType dtype, Dims dims, std::string name) {
  te::TensorNode node{
      .kind = te::TensorKind::kCompute, .dtype = dtype, .dims = std::move(dims), .name = std::move(name)};
  schedule.tensors.emplace_back(std::make_shared<const te::TensorNode>(std::move(node)));
  return schedule.tensors.back();
}

namespace {

absl::StatusOr<Schedule> ScheduleOf(te::Computation computation, std::vector<bool> constant_inputs,
                                    const Target& target, const SumOrder& sum_order) {
  Schedule schedule;
  if (target.has_vectors) computation = SplitArgReductions(HoistPadding(computation, target));
  if (target.has_blocks) {
    te::ExprPool pool;
    computation = StoreViewsOfProducts(computation, pool);
  }
  if (target.has_pair_products) computation = PairDepth(computation, constant_inputs, target);
  schedule.computation = std::move(computation);
  schedule.constant_inputs = std::move(constant_inputs);
  schedule.target = target;
  schedule.sum_order = sum_order;
  RVM_RETURN_IF_ERROR(BuildNests(schedule));
  if (target.has_vectors) PlanForCpu(schedule);
  if (target.has_blocks) PlanForGpu(schedule);
  if (target.has_vectors || target.has_blocks) PlanRowGroups(schedule);
  PlanWorkspace(schedule);
  FindReuses(schedule);
  if (target.has_vectors) PlanLoops(schedule);
  return schedule;
}

// Makes a schedule that reads constants as they are stored where tiles pack them; others are converted first.
absl::StatusOr<Schedule> ScheduleOfStored(te::Computation computation, std::vector<bool> constant_inputs,
                                          const Target& target, const SumOrder& sum_order) {
  std::vector<bool> stored = constant_inputs;
  stored.resize(target.has_vectors ? computation.inputs.size() : 0, false);
  std::vector<bool> read = stored;
  te::Computation direct = ReadStoredFactors(computation, read);
  if (std::find(read.begin(), read.end(), true) == read.end()) {
    return ScheduleOf(std::move(computation), std::move(constant_inputs), target, sum_order);
  }
  RVM_ASSIGN_OR_RETURN(Schedule schedule,
                       ScheduleOf(MultiplyBlocks(direct, target), constant_inputs, target, sum_order));
  // Factors that no tile packs are converted once, not for each of their uses.
  bool all_packed = true;
  for (size_t i = 0; i < read.size(); ++i) {
    if (!read[i] || schedule.Layout(i) != nullptr) continue;
    stored[i] = all_packed = false;
  }
  if (all_packed) return schedule;
  read = stored;
  direct = MultiplyBlocks(ReadStoredFactors(computation, read), target);
  return ScheduleOf(std::move(direct), std::move(constant_inputs), target, sum_order);
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(te::Computation computation, std::vector<bool> constant_inputs,
                                      const Target& target, const SumOrder& sum_order) {
  RVM_ASSIGN_OR_RETURN(Schedule schedule, ScheduleOfStored(computation, std::move(constant_inputs), target, sum_order));
  schedule.source = std::move(computation);
  return schedule;
}

}  // namespace rvm::schedule
