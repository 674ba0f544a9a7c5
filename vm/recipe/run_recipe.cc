#include "vm/recipe/run_recipe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/order_keys.h"
#include "base/stop_flag.h"

namespace rvm::vm {
namespace {

int64_t WrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrappingMultiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// The storage of a uniform value (`first`) or of a linear value.
struct Cell {
  int64_t first, stride;
  int64_t At(int64_t lane) const { return WrappingAdd(first, WrappingMultiply(stride, lane)); }
};

// The tensors of a call fit into memory, so a product can overflow only if one of its factors is 0.
int64_t Number(const DimProgram& program, std::span<const int64_t> symbols) {
  return program.Evaluate(symbols).value_or(0);
}

// Clears memory; returns false if the run must stop.
bool Clear(std::byte* data, int64_t bytes, const volatile int32_t* cancel) {
  constexpr int64_t kPiece = 1 << 20;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    if (IsSet(cancel)) return false;
    std::memset(data + begin, 0, static_cast<size_t>(std::min(kPiece, bytes - begin)));
  }
  return true;
}

class NestRun {
 public:
  struct Buffer {
    std::byte* data;
    int64_t elements;
  };

  NestRun(const RecipePlan::Nest& nest, std::span<const int64_t> symbols, const Buffer* buffers, std::byte* scratch,
          const volatile int32_t* cancel)
      : nest_(nest), symbols_(symbols), buffers_(buffers), scratch_(scratch), cancel_(cancel) {}

  int32_t Run();

 private:
  void Begin(const NestPlan& plan);
  bool ChooseColumns() const;
  void RunRows();     // along the last reduced axis
  void RunColumns();  // along the last axis, or no reduction
  void Reduce(int64_t begin, int64_t n);
  void StartReduction(int64_t n);
  void Fold(int64_t place, bool across, int64_t n);
  void RunSteps(const std::vector<PlanStep>& steps, int64_t begin, int64_t n);
  static std::optional<int64_t> FirstElement(const Buffer& buffer, Cell at, int64_t begin, int64_t n);
  void LoadLinear(const PlanStep& step, int64_t begin, int64_t n);
  void StoreLinear(const PlanStep& step, Cell at, int64_t begin, int64_t n);
  void Scatter(const PlanStep& step, int64_t n);
  void Bitcast(const PlanStep& step, int64_t n);
  void Order(const PlanStep& step);
  bool Stopped() {
    if (code_ == kRvmOk && IsSet(cancel_)) code_ = kRvmCancelled;
    return code_ != kRvmOk;
  }

  // Iterate over the positions of axes [from, to); the last axis varies fastest.
  void Rewind(size_t from, size_t to) { std::fill(index_.begin() + from, index_.begin() + to, 0); }
  bool Advance(size_t from, size_t to) {
    for (size_t axis = to; axis-- > from;) {
      if (++index_[axis] < extents_[axis]) return true;
      index_[axis] = 0;
    }
    return false;
  }
  bool Empty(size_t from, size_t to) const {
    return std::any_of(extents_.begin() + from, extents_.begin() + to, [](int64_t extent) { return extent <= 0; });
  }

  Cell& cell(uint32_t value) { return *static_cast<Cell*>(at_[value]); }
  std::byte* own(uint32_t value) { return vectors_ + int64_t{plan_->vector_of[value]} * kBlockLanes * 8; }

  const RecipePlan::Nest& nest_;
  std::span<const int64_t> symbols_;
  const Buffer* buffers_;
  std::byte* scratch_;
  const volatile int32_t* cancel_;
  const NestPlan* plan_ = nullptr;
  void** at_ = nullptr;  // by value: a pointer to its cell or to its lanes
  std::byte* vectors_ = nullptr;
  std::array<int64_t, kMaxRecipeAxes> extents_ = {};
  std::array<int64_t, kMaxRecipeAxes> index_ = {};
  int32_t code_ = kRvmOk;
};

void NestRun::Begin(const NestPlan& plan) {
  plan_ = &plan;
  at_ = reinterpret_cast<void**>(scratch_);
  auto* cells = reinterpret_cast<Cell*>(scratch_ + int64_t{plan.num_values} * 8);
  auto end = reinterpret_cast<uintptr_t>(cells + plan.num_values);
  vectors_ = reinterpret_cast<std::byte*>((end + 63) / 64 * 64);
  for (uint32_t value = 0; value < plan.num_values; ++value) {
    at_[value] = plan.vector_of[value] == kNoVector ? static_cast<void*>(&cells[value]) : own(value);
  }
  for (const auto& [value, bits] : plan.constants) cell(value) = {bits, 0};
  for (const auto& [value, which] : plan.extents) cell(value) = {Number(nest_.extents[which], symbols_), 0};
  RunSteps(plan.inner.once, 0, 1);
  RunSteps(plan.outer.once, 0, 1);
}

// The element number in lane `begin` of `at`; nullopt if it or one of the next n - 1 lanes is out of bounds.
std::optional<int64_t> NestRun::FirstElement(const Buffer& buffer, Cell at, int64_t begin, int64_t n) {
  __int128 first = __int128{at.first} + __int128{at.stride} * begin;
  __int128 last = first + __int128{at.stride} * (n - 1);
  auto inside = [&](__int128 number) { return number >= 0 && number < buffer.elements; };
  return inside(first) && inside(last) ? std::optional(static_cast<int64_t>(first)) : std::nullopt;
}

void NestRun::LoadLinear(const PlanStep& step, int64_t begin, int64_t n) {
  const Buffer& buffer = buffers_[step.buffer];
  Cell at = cell(step.a);
  if (std::optional<int64_t> from = FirstElement(buffer, at, begin, n)) {
    if (at.stride == 1 && IsLane(step.dtype)) {
      at_[step.to] = buffer.data + *from * step.dtype.bytes();  // used in place, without a copy
      return;
    }
    at_[step.to] = own(step.to);
    return step.load(at_[step.to], buffer.data, *from, at.stride, n);
  }
  at_[step.to] = own(step.to);
  std::array<int64_t, kBlockLanes> numbers;
  for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(i)] = at.At(begin + i);
  step.gather(at_[step.to], buffer.data, buffer.elements, numbers.data(), n);
}

void NestRun::StoreLinear(const PlanStep& step, Cell at, int64_t begin, int64_t n) {
  const Buffer& buffer = buffers_[step.buffer];
  if (std::optional<int64_t> first = FirstElement(buffer, at, begin, n)) {
    step.store(buffer.data, *first, at.stride, at_[step.b], n);
  } else {
    code_ = kRecipeStoresOutside;
  }
}

void NestRun::Scatter(const PlanStep& step, int64_t n) {
  const auto* numbers = static_cast<const int64_t*>(at_[step.a]);
  const auto* lanes = static_cast<const std::byte*>(at_[step.b]);
  const auto* writes = static_cast<const int64_t*>(step.condition == PlanStep::kByLane ? at_[step.c] : nullptr);
  for (int64_t i = 0; i < n; ++i) {
    if (writes != nullptr && writes[i] == 0) continue;
    if (static_cast<uint64_t>(numbers[i]) >= static_cast<uint64_t>(buffers_[step.buffer].elements)) {
      code_ = kRecipeStoresOutside;
      return;
    }
    step.store(buffers_[step.buffer].data, numbers[i], 1, lanes + i * LaneBytes(step.dtype), 1);
  }
}

void NestRun::Bitcast(const PlanStep& step, int64_t n) {
  std::array<int64_t, kBlockLanes> memory;
  step.store(memory.data(), 0, 1, at_[step.a], n);
  step.load(at_[step.to], memory.data(), 0, 1, n);
}

void NestRun::Order(const PlanStep& step) {
  const Buffer& buffer = buffers_[step.buffer];
  int64_t first = cell(step.a).first, keys = cell(step.b).first;
  bool inside = keys >= 0 && keys <= buffer.elements / 4 && first >= 0 && first <= buffer.elements - 4 * keys;
  if (!inside) {
    code_ = kRecipeStoresOutside;
    return;
  }
  bool all = keys == 0 || OrderKeys(reinterpret_cast<int64_t*>(buffer.data) + first, keys, cancel_);
  if (!all) code_ = kRvmCancelled;
}

// Runs `steps` for the lanes [begin, begin + n) of the axis run along.
void NestRun::RunSteps(const std::vector<PlanStep>& steps, int64_t begin, int64_t n) {
  for (const PlanStep& s : steps) {
    if (s.condition == PlanStep::kForAll && cell(s.c).first == 0) continue;
    switch (s.kind) {
      case PlanStep::kIndex: cell(s.to).first = index_[s.a]; break;
      case PlanStep::kIndexAlong: cell(s.to) = {0, 1}; break;
      case PlanStep::kUnary: s.unary(at_[s.to], at_[s.a], n); break;
      case PlanStep::kBinary: s.binary(at_[s.to], at_[s.a], at_[s.b], s.one_a, s.one_b, n); break;
      case PlanStep::kSelect: s.select(at_[s.to], static_cast<int64_t*>(at_[s.a]), at_[s.b], at_[s.c], n); break;
      case PlanStep::kLinearAdd: {
        Cell a = cell(s.a), b = cell(s.b);
        cell(s.to) = {WrappingAdd(a.first, b.first), WrappingAdd(a.stride, b.stride)};
        break;
      }
      case PlanStep::kLinearSub: {
        Cell a = cell(s.a), b = cell(s.b);
        cell(s.to) = {WrappingAdd(a.first, WrappingMultiply(b.first, -1)),
                      WrappingAdd(a.stride, WrappingMultiply(b.stride, -1))};
        break;
      }
      case PlanStep::kLinearScale: {
        Cell a = cell(s.a);
        int64_t by = cell(s.b).first;
        cell(s.to) = {WrappingMultiply(a.first, by), WrappingMultiply(a.stride, by)};
        break;
      }
      case PlanStep::kLinearOf: cell(s.to) = {cell(s.a).first, 0}; break;
      case PlanStep::kLinearVector: {
        auto* lanes = static_cast<int64_t*>(at_[s.to]);
        Cell a = cell(s.a);
        for (int64_t i = 0; i < n; ++i) lanes[i] = a.At(begin + i);
        break;
      }
      case PlanStep::kLoadOne: {
        const Buffer& buffer = buffers_[s.buffer];
        s.gather(at_[s.to], buffer.data, buffer.elements, &cell(s.a).first, 1);
        break;
      }
      case PlanStep::kLoadLinear: LoadLinear(s, begin, n); break;
      case PlanStep::kGather: {
        const Buffer& buffer = buffers_[s.buffer];
        s.gather(at_[s.to], buffer.data, buffer.elements, static_cast<int64_t*>(at_[s.a]), n);
        break;
      }
      case PlanStep::kStoreOne: StoreLinear(s, {cell(s.a).first, 0}, 0, 1); break;
      case PlanStep::kStoreLinear: StoreLinear(s, cell(s.a), begin, n); break;
      case PlanStep::kScatter: Scatter(s, n); break;
      case PlanStep::kBitcast: Bitcast(s, n); break;
      case PlanStep::kOrder: Order(s); break;
      case PlanStep::kLimit: extents_[s.a] = std::clamp<int64_t>(cell(s.b).first, 0, extents_[s.a]); break;
    }
  }
}

void NestRun::StartReduction(int64_t n) {
  if (nest_.arg != nullptr) {
    std::memset(at_[plan_->places], 0, static_cast<size_t>(n) * 8);
    std::memset(at_[plan_->result], 0, static_cast<size_t>(n * LaneBytes(nest_.reduce_dtype)));
    return;
  }
  StoreIdentity(nest_.reduce, nest_.reduce_dtype, at_[plan_->result]);
  if (n > 1) FindSpread(nest_.reduce_dtype)(at_[plan_->result], at_[plan_->result], n);
}

void NestRun::Fold(int64_t place, bool across, int64_t n) {
  void* result = at_[plan_->result];
  const void* values = at_[plan_->reduced];
  if (nest_.arg != nullptr) {
    nest_.arg(result, static_cast<int64_t*>(at_[plan_->places]), values, place, across, n);
  } else if (across) {
    nest_.fold(result, values, n);
    if (nest_.wrap != nullptr) nest_.wrap(result, result, 1);
  } else {
    nest_.fold_lanes(result, result, values, false, plan_->one_reduced, n);
    if (nest_.wrap != nullptr) nest_.wrap(result, result, n);
  }
}

void NestRun::RunRows() {
  size_t outer = nest_.num_outer, all = nest_.axes.size();
  bool empty = Empty(outer, all);
  int64_t length = extents_[all - 1];
  do {
    StartReduction(1);
    Rewind(outer, all);
    int64_t place = 0;
    if (!empty) {
      do {
        RunSteps(plan_->inner.row, 0, 1);
        for (int64_t begin = 0; begin < length && !Stopped(); begin += kBlockLanes) {
          int64_t n = std::min(kBlockLanes, length - begin);
          RunSteps(plan_->inner.block, begin, n);
          Fold(place + begin, true, n);
        }
        place += length;
      } while (!Stopped() && Advance(outer, all - 1));
    }
    RunSteps(plan_->outer.row, 0, 1);
  } while (!Stopped() && Advance(0, outer));
}

// Reduces the columns [begin, begin + n).
void NestRun::Reduce(int64_t begin, int64_t n) {
  size_t outer = nest_.num_outer, all = nest_.axes.size();
  StartReduction(n);
  if (Empty(outer, all)) return;
  Rewind(outer, all);
  int64_t place = 0;
  do {
    RunSteps(plan_->inner.row, 0, 1);
    RunSteps(plan_->inner.block, begin, n);
    Fold(place++, false, n);
  } while (!Stopped() && Advance(outer, all));
}

void NestRun::RunColumns() {
  bool along = plan_->axis >= 0;
  size_t rows = nest_.num_outer - (along ? 1 : 0);
  int64_t length = along ? extents_[rows] : 1;
  do {
    if (!nest_.reduces) RunSteps(plan_->outer.row, 0, 1);
    for (int64_t begin = 0; begin < length && !Stopped(); begin += kBlockLanes) {
      int64_t n = std::min(kBlockLanes, length - begin);
      if (nest_.reduces) {
        Reduce(begin, n);
        RunSteps(plan_->outer.row, 0, 1);
      }
      RunSteps(plan_->outer.block, begin, n);
    }
  } while (!Stopped() && Advance(0, rows));
}

bool NestRun::ChooseColumns() const {
  if (!nest_.reduces || nest_.num_outer == nest_.axes.size()) return true;
  if (nest_.num_outer == 0) return false;
  constexpr int64_t kFew = 8;
  int64_t column = extents_[nest_.num_outer - 1], row = extents_[nest_.axes.size() - 1];
  if (row < kFew && column > 4 * row) return true;
  if (column < kFew && row > 4 * column) return false;
  return nest_.prefers_columns;
}

int32_t NestRun::Run() {
  for (size_t axis = 0; axis < nest_.axes.size(); ++axis) extents_[axis] = Number(nest_.axes[axis], symbols_);
  if (Empty(0, nest_.num_outer)) return kRvmOk;
  bool columns = ChooseColumns();
  Begin(columns ? nest_.by_column : nest_.by_row);
  if (Empty(0, nest_.num_outer)) return code_;  // after limits
  columns ? RunColumns() : RunRows();
  return code_;
}

// Returns the number of elements of the buffer; 0 if their size in bytes overflows.
int64_t Elements(const RecipePlan::Buffer& buffer, std::span<const int64_t> symbols) {
  int64_t elements = 1;
  for (const DimProgram& dim : buffer.dims) {
    int64_t extent = Number(dim, symbols);
    if (extent <= 0 || __builtin_mul_overflow(elements, extent, &elements)) return 0;
  }
  int64_t bytes = 0;
  return __builtin_mul_overflow(elements, buffer.dtype.bytes(), &bytes) ? 0 : elements;
}

}  // namespace

int32_t RunRecipe(const RecipePlan& plan, void* const* buffers, std::span<const int64_t> symbols,
                  int64_t workspace_bytes, const RvmKernelContext& context) {
  static constexpr int32_t kNever = 0;
  const volatile int32_t* cancel = context.cancel == nullptr ? &kNever : context.cancel;
  absl::InlinedVector<NestRun::Buffer, 16> all;
  auto* scratch = static_cast<std::byte*>(context.workspace);
  size_t tensors = plan.num_params + plan.num_results;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    NestRun::Buffer buffer{nullptr, Elements(plan.buffers[i], symbols)};
    int64_t bytes = buffer.elements * plan.buffers[i].dtype.bytes();
    if (i < tensors) {
      buffer.data = static_cast<std::byte*>(buffers[i]);
    } else {
      int64_t offset = Number(plan.buffers[i].offset, symbols);
      bool fits = offset >= 0 && offset % 64 == 0 && offset <= workspace_bytes && bytes <= workspace_bytes - offset;
      if (!fits) buffer.elements = bytes = 0;
      buffer.data = scratch + plan.scratch_bytes + (fits ? offset : 0);
    }
    all.push_back(buffer);
    // Elements that the recipe does not write must not reveal old memory.
    int64_t param = i >= plan.num_params && i < tensors ? plan.begun[i - plan.num_params] : -1;
    int64_t begun = param < 0 ? 0 : std::min(buffer.elements, all[static_cast<size_t>(param)].elements);
    begun *= plan.buffers[i].dtype.bytes();
    if (i >= plan.num_params && !Clear(buffer.data + begun, bytes - begun, cancel)) return kRvmCancelled;
  }
  for (const RecipePlan::Nest& nest : plan.nests) {
    NestRun run(nest, symbols, all.data(), scratch, cancel);
    if (int32_t code = run.Run(); code != kRvmOk) return code;
  }
  return kRvmOk;
}

}  // namespace rvm::vm
