#include "vm/recipe/recipe_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/fold.h"

namespace rvm::vm {
namespace {

// Returns the constant as the bits of a lane.
int64_t ConstantBits(const RecipeStep& step) {
  int64_t lane = 0;
  if (!step.dtype.is_float()) {
    lane = step.bits;
    if (UnaryFunction wrap = FindWrap(step.dtype); wrap != nullptr) wrap(&lane, &step.bits, 1);
    return lane;
  }
  FindCast(kFloat64, step.dtype)(&lane, &step.bits, 1);
  return lane;
}

enum class Form : uint8_t { kUniform, kLinear, kVector };

class NestPlanner {
 public:
  // `reduces`: the nest has a reduction.
  NestPlanner(const RecipeNest& nest, const RecipePlan& plan, bool reduces, int axis)
      : nest_(nest), buffers_(plan.buffers), reduces_(reduces) {
    plan_.axis = axis;
  }

  NestPlan Run();

 private:
  struct Value {
    Form form = Form::kUniform;
    DataType dtype;
    bool constant = false;                   // does not depend on the other axes: computed once per nest
    std::optional<int64_t> number, stride;   // if known: the value of a constant; the stride of a linear value
    std::optional<uint32_t> vector, linear;  // the same value in the other forms, if computed
  };

  bool live(uint32_t step) const { return live_[step]; }
  void MarkLive();
  void MarkLimits();
  uint32_t NewValue(Form form, DataType dtype, bool constant);
  void AddStep(uint32_t number);
  void AddReduce(uint32_t number);
  void AddUnary(uint32_t number);
  void AddBinary(uint32_t number);
  void AddSelect(uint32_t number);
  void AddLoad(uint32_t number);
  void AddStore(uint32_t number);
  void AddBitcast(uint32_t number);
  void AddOrder(uint32_t number);
  void AddLimit(uint32_t number);
  bool AddLinear(uint32_t number);
  uint32_t AsVector(uint32_t value);
  uint32_t AsLinear(uint32_t value);
  // `value` converted to a vector if `form` is kVector.
  uint32_t In(Form form, uint32_t value) { return form == Form::kVector ? AsVector(value) : value; }
  Form Join(std::initializer_list<uint32_t> values) const;
  bool AllConstant(std::initializer_list<uint32_t> values) const;
  void Emit(PlanStep step, bool constant, Form form);
  void Wrap(uint32_t value);
  void PlaceVectors();

  const RecipeNest& nest_;
  const std::vector<RecipePlan::Buffer>& buffers_;
  bool reduces_;
  NestPlan plan_;
  PlanPart* part_ = &plan_.outer;
  std::vector<bool> live_;
  std::vector<bool> limits_;        // by step: a limit is made from it
  std::vector<uint32_t> value_of_;  // by step
  std::vector<Value> values_;
};

void NestPlanner::MarkLive() {
  live_.assign(nest_.steps.size(), false);
  for (size_t i = nest_.steps.size(); i-- > 0;) {
    const RecipeStep& step = nest_.steps[i];
    bool keeps = !MakesValue(step.op) || step.op == RecipeOp::kReduce;
    if (!live_[i] && !keeps) continue;
    live_[i] = true;
    switch (step.op) {
      case RecipeOp::kStoreIf:
      case RecipeOp::kSelect: live_[step.c] = true; [[fallthrough]];
      case RecipeOp::kBinary:
      case RecipeOp::kOrder:
      case RecipeOp::kStore: live_[step.b] = true; [[fallthrough]];
      case RecipeOp::kLoad:
      case RecipeOp::kUnary:
      case RecipeOp::kCast:
      case RecipeOp::kBitcast:
      case RecipeOp::kReduce: live_[step.a] = true; break;
      case RecipeOp::kLimit: live_[step.b] = true; break;
      case RecipeOp::kConstant:
      case RecipeOp::kIndex:
      case RecipeOp::kExtent: break;
    }
  }
}

// Marks what limits are made from. Its operands come before each step.
void NestPlanner::MarkLimits() {
  limits_.assign(nest_.steps.size(), false);
  for (size_t i = nest_.steps.size(); i-- > 0;) {
    const RecipeStep& step = nest_.steps[i];
    if (step.op == RecipeOp::kLimit) limits_[step.b] = true;
    if (!limits_[i]) continue;
    uint8_t fields = kRecipeOps[static_cast<size_t>(step.op)].fields;
    if (fields & kAField) limits_[step.a] = true;
    if (fields & kBField) limits_[step.b] = true;
    if (fields & kCField) limits_[step.c] = true;
  }
}

uint32_t NestPlanner::NewValue(Form form, DataType dtype, bool constant) {
  values_.push_back({.form = form, .dtype = dtype, .constant = constant});
  return static_cast<uint32_t>(values_.size() - 1);
}

Form NestPlanner::Join(std::initializer_list<uint32_t> values) const {
  bool uniform =
      std::all_of(values.begin(), values.end(), [&](uint32_t v) { return values_[v].form == Form::kUniform; });
  return uniform ? Form::kUniform : Form::kVector;
}

bool NestPlanner::AllConstant(std::initializer_list<uint32_t> values) const {
  return std::all_of(values.begin(), values.end(), [&](uint32_t v) { return values_[v].constant; });
}

// Linear values are computed once per row, although they are used once per block.
void NestPlanner::Emit(PlanStep step, bool constant, Form form) {
  std::vector<PlanStep>& steps = form == Form::kVector ? part_->block : constant ? part_->once : part_->row;
  steps.push_back(step);
}

void NestPlanner::Wrap(uint32_t value) {
  UnaryFunction wrap = FindWrap(values_[value].dtype);
  if (wrap == nullptr) return;
  Emit({.kind = PlanStep::kUnary, .to = value, .a = value, .unary = wrap}, values_[value].constant,
       values_[value].form);
}

uint32_t NestPlanner::AsVector(uint32_t value) {
  if (values_[value].form == Form::kVector) return value;
  if (values_[value].vector) return *values_[value].vector;
  DataType dtype = values_[value].dtype;
  uint32_t vector = NewValue(Form::kVector, dtype, false);
  PlanStep step{.kind = PlanStep::kUnary, .to = vector, .a = value, .unary = FindSpread(dtype)};
  if (values_[value].form == Form::kLinear) step = {.kind = PlanStep::kLinearVector, .to = vector, .a = value};
  Emit(step, false, Form::kVector);
  values_[value].vector = vector;
  return vector;
}

uint32_t NestPlanner::AsLinear(uint32_t value) {
  if (values_[value].form == Form::kLinear) return value;
  if (values_[value].linear) return *values_[value].linear;
  bool constant = values_[value].constant;
  uint32_t linear = NewValue(Form::kLinear, kInt64, constant);
  values_[linear].stride = 0;
  Emit({.kind = PlanStep::kLinearOf, .to = linear, .a = value}, constant, Form::kLinear);
  values_[value].linear = linear;
  return linear;
}

// Adds step `number` as an operation on linear values if it is a sum or a multiple of them; false if it is not.
bool NestPlanner::AddLinear(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  if (step.dtype != kInt64) return false;
  uint32_t a = value_of_[step.a], b = value_of_[step.b];
  Form form_a = values_[a].form, form_b = values_[b].form;
  if (form_a == Form::kVector || form_b == Form::kVector) return false;
  if (form_a == Form::kUniform && form_b == Form::kUniform) return false;
  auto op = static_cast<BinaryOp>(step.function);
  PlanStep linear{.kind = PlanStep::kLinearAdd};
  std::optional<int64_t> stride;
  if (op == BinaryOp::kAdd || op == BinaryOp::kSubtract) {
    if (op == BinaryOp::kSubtract) linear.kind = PlanStep::kLinearSub;
    linear.a = AsLinear(a);
    linear.b = AsLinear(b);
    std::optional<int64_t> x = values_[linear.a].stride, y = values_[linear.b].stride;
    // Strides above this bound are treated as unknown.
    bool known = x && y && std::max(std::abs(*x), std::abs(*y)) < (int64_t{1} << 60);
    if (known) stride = op == BinaryOp::kAdd ? *x + *y : *x - *y;
  } else if (op == BinaryOp::kMultiply && (form_a == Form::kUniform || form_b == Form::kUniform)) {
    if (form_a == Form::kUniform) std::swap(a, b);
    linear = {.kind = PlanStep::kLinearScale, .a = a, .b = b};
    std::optional<int64_t> x = values_[a].stride, y = values_[b].number;
    int64_t product = 0;
    if (x && y && !__builtin_mul_overflow(*x, *y, &product)) stride = product;
  } else {
    return false;
  }
  bool constant = AllConstant({linear.a, linear.b});
  linear.to = NewValue(Form::kLinear, kInt64, constant);
  values_[linear.to].stride = stride;
  Emit(linear, constant, Form::kLinear);
  value_of_[number] = linear.to;
  return true;
}

void NestPlanner::AddUnary(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  uint32_t a = value_of_[step.a];
  DataType from = values_[a].dtype;
  Form form = Join({a});
  bool constant = values_[a].constant && form == Form::kUniform;
  UnaryFunction function =
      step.op == RecipeOp::kCast ? FindCast(from, step.dtype) : FindUnary(static_cast<UnaryOp>(step.function), from);
  a = In(form, a);
  uint32_t to = NewValue(form, step.dtype, constant);
  Emit({.kind = PlanStep::kUnary, .to = to, .a = a, .unary = function}, constant, form);
  if (step.op == RecipeOp::kUnary && step.dtype.is_integral() && Wraps(static_cast<UnaryOp>(step.function))) Wrap(to);
  value_of_[number] = to;
}

void NestPlanner::AddBinary(uint32_t number) {
  if (AddLinear(number)) return;
  const RecipeStep& step = nest_.steps[number];
  auto op = static_cast<BinaryOp>(step.function);
  uint32_t a = value_of_[step.a], b = value_of_[step.b];
  DataType from = values_[a].dtype;
  Form form = Join({a, b});
  bool constant = AllConstant({a, b}) && form == Form::kUniform;
  // A uniform operand may stay one if the other is a vector.
  if (values_[a].form != Form::kUniform) a = AsVector(a);
  if (values_[b].form != Form::kUniform) b = AsVector(b);
  uint32_t to = NewValue(form, step.dtype, constant);
  PlanStep made{.kind = PlanStep::kBinary, .to = to, .a = a, .b = b, .binary = FindBinary(op, from)};
  made.one_a = values_[a].form == Form::kUniform;
  made.one_b = values_[b].form == Form::kUniform;
  Emit(made, constant, form);
  if (step.dtype.is_integral() && Wraps(op)) Wrap(to);
  value_of_[number] = to;
}

void NestPlanner::AddSelect(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  uint32_t a = value_of_[step.a], b = value_of_[step.b], c = value_of_[step.c];
  Form form = Join({a, b, c});
  bool constant = AllConstant({a, b, c}) && form == Form::kUniform;
  a = In(form, a);
  b = In(form, b);
  c = In(form, c);
  uint32_t to = NewValue(form, step.dtype, constant);
  Emit({.kind = PlanStep::kSelect, .to = to, .a = a, .b = b, .c = c, .select = FindSelect(step.dtype)}, constant, form);
  value_of_[number] = to;
}

void NestPlanner::AddLoad(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  uint32_t a = value_of_[step.a];
  Form form = values_[a].form == Form::kUniform ? Form::kUniform : Form::kVector;
  PlanStep made{.kind = PlanStep::kLoadOne, .dtype = buffers_[step.buffer].dtype, .a = a, .buffer = step.buffer};
  if (values_[a].form == Form::kLinear) made.kind = PlanStep::kLoadLinear;
  if (values_[a].form == Form::kVector) made.kind = PlanStep::kGather;
  std::optional<int64_t> stride = values_[a].stride;
  bool near = form == Form::kUniform || (stride && (*stride == 0 || *stride == 1));
  plan_.far_loads += near ? 0 : 1;
  // Only limits are made from what was loaded `once`: otherwise an earlier step of the nest may store to the location.
  bool constant = limits_[number];
  made.to = NewValue(form, step.dtype, constant);
  made.load = FindLoad(made.dtype);
  made.gather = FindGather(made.dtype);
  Emit(made, constant, form);
  value_of_[number] = made.to;
}

void NestPlanner::AddStore(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  uint32_t a = value_of_[step.a], b = value_of_[step.b];
  PlanStep made{.kind = PlanStep::kStoreOne, .dtype = buffers_[step.buffer].dtype, .buffer = step.buffer};
  made.store = FindStore(made.dtype);
  Form form = Join({a, b});
  bool is_conditional = step.op == RecipeOp::kStoreIf, by_lane = false;
  if (is_conditional) {
    made.c = value_of_[step.c];
    by_lane = values_[made.c].form == Form::kVector;
    made.condition = by_lane ? PlanStep::kByLane : PlanStep::kForAll;
    if (by_lane) form = Form::kVector;
  }
  if (form == Form::kVector) {
    bool linear = values_[a].form == Form::kLinear && !by_lane;
    made.kind = linear ? PlanStep::kStoreLinear : PlanStep::kScatter;
    if (!linear) a = AsVector(a);
    b = AsVector(b);
  }
  made.a = a;
  made.b = b;
  Emit(made, false, form);
}

void NestPlanner::AddLimit(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  Emit({.kind = PlanStep::kLimit, .a = step.a, .b = value_of_[step.b]}, true, Form::kUniform);
}

void NestPlanner::AddBitcast(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  uint32_t a = value_of_[step.a];
  Form form = Join({a});
  bool constant = values_[a].constant && form == Form::kUniform;
  PlanStep made{.kind = PlanStep::kBitcast};
  made.load = FindLoad(step.dtype);
  made.store = FindStore(values_[a].dtype);
  made.a = In(form, a);
  made.to = NewValue(form, step.dtype, constant);
  Emit(made, constant, form);
  value_of_[number] = made.to;
}

void NestPlanner::AddOrder(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  PlanStep made{.kind = PlanStep::kOrder, .dtype = kInt64, .buffer = step.buffer};
  made.a = value_of_[step.a];
  made.b = value_of_[step.b];
  Emit(made, false, Form::kUniform);
}

// The steps after the reduction form the outer part, which begins with the result.
void NestPlanner::AddReduce(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  uint32_t reduced = value_of_[step.a];
  bool by_row = plan_.axis >= static_cast<int>(nest_.axes.size());
  if (values_[reduced].form == Form::kLinear || by_row) reduced = AsVector(reduced);
  plan_.reduced = reduced;
  plan_.one_reduced = values_[reduced].form == Form::kUniform;
  part_ = &plan_.outer;
  Form form = by_row || plan_.axis < 0 ? Form::kUniform : Form::kVector;
  bool arg = IsArg(static_cast<ReduceOp>(step.function));
  plan_.result = NewValue(form, values_[value_of_[step.a]].dtype, false);
  plan_.places = arg ? NewValue(form, kInt64, false) : plan_.result;
  value_of_[number] = plan_.places;
}

void NestPlanner::AddStep(uint32_t number) {
  const RecipeStep& step = nest_.steps[number];
  switch (step.op) {
    case RecipeOp::kConstant: {
      uint32_t value = NewValue(Form::kUniform, step.dtype, true);
      values_[value].number = step.bits;
      plan_.constants.emplace_back(value, ConstantBits(step));
      value_of_[number] = value;
      break;
    }
    case RecipeOp::kExtent: {
      uint32_t value = NewValue(Form::kUniform, kInt64, true);
      plan_.extents.emplace_back(value, step.a);
      value_of_[number] = value;
      break;
    }
    case RecipeOp::kIndex: {
      bool along = static_cast<int>(step.a) == plan_.axis;
      Form form = along ? Form::kLinear : Form::kUniform;
      uint32_t value = NewValue(form, kInt64, along);  // the index along the axis is the same for every row
      if (along) values_[value].stride = 1;
      value_of_[number] = value;
      Emit({.kind = along ? PlanStep::kIndexAlong : PlanStep::kIndex, .to = value, .a = step.a}, along, form);
      break;
    }
    case RecipeOp::kLoad: return AddLoad(number);
    case RecipeOp::kUnary:
    case RecipeOp::kCast: return AddUnary(number);
    case RecipeOp::kBinary: return AddBinary(number);
    case RecipeOp::kSelect: return AddSelect(number);
    case RecipeOp::kReduce: return AddReduce(number);
    case RecipeOp::kStore:
    case RecipeOp::kStoreIf: return AddStore(number);
    case RecipeOp::kBitcast: return AddBitcast(number);
    case RecipeOp::kOrder: return AddOrder(number);
    case RecipeOp::kLimit: return AddLimit(number);
  }
}

// Assigns arrays to vectors. The array of a vector is reused after its last use in its part.
void NestPlanner::PlaceVectors() {
  plan_.num_values = static_cast<uint32_t>(values_.size());
  plan_.vector_of.assign(values_.size(), kNoVector);
  auto take = [&, free = std::vector<uint32_t>()](uint32_t value, bool give_back) mutable {
    uint32_t& place = plan_.vector_of[value];
    if (give_back) {
      free.push_back(place);
    } else if (place == kNoVector && free.empty()) {
      place = plan_.num_vectors++;
    } else if (place == kNoVector) {
      place = free.back();
      free.pop_back();
    }
  };
  auto is_vector = [&](uint32_t value) { return values_[value].form == Form::kVector; };
  if (reduces_) {
    for (uint32_t value : {plan_.result, plan_.places}) {
      if (is_vector(value)) take(value, false);
    }
  }
  for (const PlanPart* part : {&plan_.inner, &plan_.outer}) {
    std::vector<size_t> last(values_.size(), 0);
    std::vector<bool> defined(values_.size(), false);
    for (size_t i = 0; i < part->block.size(); ++i) {
      const PlanStep& step = part->block[i];
      for (uint32_t value : {step.a, step.b, step.c, step.to}) last[value] = i;
    }
    if (part == &plan_.inner && reduces_) last[plan_.reduced] = part->block.size();
    for (size_t i = 0; i < part->block.size(); ++i) {
      const PlanStep& step = part->block[i];
      bool makes = step.kind < PlanStep::kStoreOne;
      if (makes) {
        take(step.to, false);
        defined[step.to] = true;
      }
      absl::InlinedVector<uint32_t, 4> ending = {step.a, step.b, step.c, step.to};
      std::sort(ending.begin(), ending.end());
      ending.erase(std::unique(ending.begin(), ending.end()), ending.end());
      for (uint32_t value : ending) {
        if (last[value] == i && defined[value]) take(value, true);
      }
    }
  }
}

NestPlan NestPlanner::Run() {
  MarkLive();
  MarkLimits();
  value_of_.assign(nest_.steps.size(), 0);
  if (reduces_) part_ = &plan_.inner;
  for (uint32_t i = 0; i < nest_.steps.size(); ++i) {
    if (live(i)) AddStep(i);
  }
  PlaceVectors();
  return std::move(plan_);
}

constexpr int64_t kShort = 16;  // with fewer lanes, running along the axis does not pay off

// Compiles dims; `status` is the error for the first one that is nested too deeply.
struct DimCompiler {
  const KernelDesc& desc;
  absl::Status status;

  DimProgram operator()(const Dim& dim) {
    std::optional<DimProgram> program = DimProgram::Compile(dim, desc.num_symbols);
    if (program.has_value()) return *std::move(program);
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("in the recipe of kernel `", desc.name, "`: dim `", dim.ToString(), "` is too deep")));
    return {};
  }
  std::vector<DimProgram> operator()(const Dims& dims) {
    std::vector<DimProgram> programs;
    for (const Dim& dim : dims) programs.push_back((*this)(dim));
    return programs;
  }
};

void PlanReduction(const RecipeNest& nest, const RecipeStep& step, const RecipePlan& plan, RecipePlan::Nest& made) {
  made.reduces = true;
  made.reduce = static_cast<ReduceOp>(step.function);
  made.reduce_dtype = nest.steps[step.a].dtype;
  if (IsArg(made.reduce)) {
    made.arg = FindArg(made.reduce, made.reduce_dtype);
  } else {
    made.fold = FindFold(made.reduce, made.reduce_dtype);
    made.fold_lanes = FindBinary(FoldedOp(made.reduce), made.reduce_dtype);
    if (!made.reduce_dtype.is_float() && Wraps(FoldedOp(made.reduce))) made.wrap = FindWrap(made.reduce_dtype);
  }
  if (nest.reduce_axes.empty()) return;
  auto last = static_cast<int>(nest.axes.size() + nest.reduce_axes.size()) - 1;
  made.by_row = NestPlanner(nest, plan, true, last).Run();
  if (nest.axes.empty()) {
    made.prefers_columns = false;
    return;
  }
  int far_by_column = made.by_column.far_loads, far_by_row = made.by_row.far_loads;
  std::optional<int64_t> length = nest.reduce_axes.back().AsConst();
  made.prefers_columns = far_by_column < far_by_row || (far_by_column == 0 && length && *length < kShort);
}

bool RunsInOrder(const RecipeNest& nest) {
  for (const RecipeStep& step : nest.steps) {
    if (step.op == RecipeOp::kOrder) return true;
    bool loads_stored =
        step.op == RecipeOp::kLoad && std::any_of(nest.steps.begin(), nest.steps.end(), [&](const RecipeStep& other) {
          return IsStore(other.op) && other.buffer == step.buffer;
        });
    if (loads_stored) return true;
  }
  return false;
}

int64_t ScratchBytes(const NestPlan& plan) {
  return int64_t{plan.num_values} * 24 + 64 + int64_t{plan.num_vectors} * kBlockLanes * 8;
}

}  // namespace

absl::StatusOr<RecipePlan> MakeRecipePlan(const KernelDesc& desc, const KernelRecipe& recipe) {
  RecipePlan plan;
  DimCompiler compile{desc, {}};
  plan.num_params = desc.params.size();
  plan.num_results = desc.results.size();
  for (const KernelTensor& param : desc.params) plan.buffers.push_back({param.dtype, compile(param.dims), {}});
  for (const KernelTensor& result : desc.results) plan.buffers.push_back({result.dtype, compile(result.dims), {}});
  plan.begun.assign(plan.num_results, -1);
  for (const KernelDesc::Update& update : desc.updates) plan.begun[update.result] = update.param;
  for (const RecipeWorkspace& workspace : recipe.workspaces) {
    plan.buffers.push_back({workspace.dtype, {compile(workspace.elements)}, compile(workspace.offset)});
  }
  for (const RecipeNest& nest : recipe.nests) {
    RecipePlan::Nest& made = plan.nests.emplace_back();
    made.num_outer = nest.axes.size();
    made.axes = compile(nest.axes);
    for (const Dim& axis : nest.reduce_axes) made.axes.push_back(compile(axis));
    made.extents = compile(nest.extents);
    auto reduce = std::find_if(nest.steps.begin(), nest.steps.end(),
                               [](const RecipeStep& step) { return step.op == RecipeOp::kReduce; });
    bool reduces = reduce != nest.steps.end();
    int axis = RunsInOrder(nest) ? -1 : static_cast<int>(nest.axes.size()) - 1;
    made.by_column = NestPlanner(nest, plan, reduces, axis).Run();
    if (reduces) PlanReduction(nest, *reduce, plan, made);
    if (axis < 0) made.prefers_columns = nest.reduce_axes.empty();
    plan.scratch_bytes = std::max({plan.scratch_bytes, ScratchBytes(made.by_column), ScratchBytes(made.by_row)});
  }
  plan.scratch_bytes = (plan.scratch_bytes + 63) / 64 * 64;
  if (!compile.status.ok()) return compile.status;
  return plan;
}

}  // namespace rvm::vm
