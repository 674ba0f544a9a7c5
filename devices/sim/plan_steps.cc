#include "devices/sim/plan_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "devices/sim/fixed_point.h"

namespace rvm::target {
namespace {

using device::FixedPoint;

struct Range {
  int64_t low, high;
};

// Returns the range of an integer that the vector unit stores; nullopt for other dtypes.
std::optional<Range> RangeOf(DataType dtype) {
  if (dtype == kInt8) return Range{-128, 127};
  if (dtype == kUInt8) return Range{0, 255};
  if (dtype == kInt32) return Range{INT32_MIN, INT32_MAX};
  return std::nullopt;
}

std::optional<Literal> ScalarAt(const CompositeCall& call, size_t number) {
  const Operand& operand = call.operands[number];
  bool is_scalar = operand.kind == Operand::Kind::kConstant && operand.constant.rank() == 0;
  return is_scalar ? std::optional(operand.constant) : std::nullopt;
}

std::optional<int64_t> IntegerAt(const CompositeCall& call, size_t number) {
  std::optional<Literal> scalar = ScalarAt(call, number);
  return scalar ? std::optional(scalar->IntAt(0)) : std::nullopt;
}

std::optional<double> NumberAt(const CompositeCall& call, size_t number) {
  std::optional<Literal> scalar = ScalarAt(call, number);
  return scalar ? std::optional(scalar->DoubleAt(0)) : std::nullopt;
}

// Returns the factor from the scale that is operand `from` to the one that is operand `to`.
std::optional<FixedPoint> FactorOf(const CompositeCall& call, size_t from, size_t to) {
  std::optional<double> numerator = NumberAt(call, from), denominator = NumberAt(call, to);
  if (!numerator || !denominator) return std::nullopt;
  return device::ToFixedPoint(*numerator / *denominator);
}

class StepPlanner {
 public:
  StepPlanner(const Composite& composite, size_t first, TileFunction& function)
      : function_(function), dtype_(composite.calls[first - 1].dtype), dims_(composite.calls[first - 1].dims) {}

  static bool IsView(std::string_view op) {
    const Row* row = FindRow(op);
    return row != nullptr && row->is_view;
  }

  bool Add(const CompositeCall& call) {
    const Row* row = FindRow(call.op);
    if (row == nullptr) return false;
    auto is_sum = [](const Operand& operand) { return operand.kind == Operand::Kind::kCall; };
    auto sum = std::find_if(call.operands.begin(), call.operands.end(), is_sum);
    if (sum == call.operands.end()) return false;
    bool is_kept = RangeOf(dtype_).has_value() && (row->is_view || HasSameDims(call));
    if (!is_kept || !(this->*row->add)(call, static_cast<size_t>(sum - call.operands.begin()))) return false;
    dtype_ = call.dtype;
    dims_ = call.dims;
    return true;
  }

 private:
  // Adds a call whose operand number `sum` is the result so far.
  using AddCall = bool (StepPlanner::*)(const CompositeCall& call, size_t sum);
  struct Row {
    std::string_view op;
    AddCall add;
    bool is_view = false;
  };
  static const Row* FindRow(std::string_view op);

  // Extents that are known stay; others may grow if the operator broadcasts.
  bool HasSameDims(const CompositeCall& call) const {
    return std::equal(dims_.begin(), dims_.end(), call.dims.begin(), call.dims.end(),
                      [](const Dim& a, const Dim& b) { return !a.is_const() || a == b; });
  }

  void Step(std::string text) { function_.steps.push_back({std::move(text), std::nullopt}); }
  void Plus(int64_t number) {
    if (number != 0) Step(absl::StrCat("plus ", number));
  }
  void Multiply(const FixedPoint& factor, std::string_view rounding) {
    std::string name(rounding);
    Step(absl::StrCat("multiply ", factor.significand, " ", factor.right_shift, " ", name));
  }
  void Clamp(Range range) { Step(absl::StrCat("clamp ", range.low, " ", range.high)); }

  // Adds a tensor to the result, each element multiplied by the factor, and `zero` subtracted before.
  bool AddTensor(const Operand& operand, int64_t zero, const FixedPoint& factor) {
    bool is_tensor = operand.kind == Operand::Kind::kArgument && RangeOf(operand.dtype).has_value() &&
                     !operand.dims.empty() && operand.dims.size() <= dims_.size() && zero >= -128 && zero <= 255;
    if (!is_tensor) return false;
    TileTensor tensor{operand.number, operand.dtype, zero, operand.dims, {}};
    size_t skipped = dims_.size() - operand.dims.size();
    for (size_t axis = 0; axis < operand.dims.size(); ++axis) {
      const Place& place = function_.result.places[skipped + axis];
      bool is_repeated = operand.dims[axis] == Dim(1) || place.terms.empty();
      tensor.places.push_back(is_repeated ? Place{} : place);
    }
    function_.steps.push_back({absl::StrCat("add ", factor.significand, " ", factor.right_shift), std::move(tensor)});
    return true;
  }
  static constexpr FixedPoint kOne = {1, 0};

  bool AddBias(const CompositeCall& call, size_t sum) {
    const Operand& bias = call.operands[1];
    if (sum != 0 || dtype_ != kInt32 || bias.kind != Operand::Kind::kArgument) return false;
    auto rank = static_cast<int64_t>(dims_.size());
    int64_t axis = call.attrs->GetInt("axis");
    const Place& place = function_.result.places[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    TileTensor tensor{bias.number, bias.dtype, 0, bias.dims, {place}};
    function_.steps.push_back({"add 1 0", std::move(tensor)});
    Step("wrap int32");
    return true;
  }

  bool AddSum(const CompositeCall& call, size_t sum) {
    if (dtype_ != kInt32 || call.operands.size() != 2) return false;
    if (std::optional<int64_t> number = IntegerAt(call, 1 - sum)) {
      Plus(*number);
    } else if (!AddTensor(call.operands[1 - sum], 0, kOne)) {
      return false;
    }
    Step("wrap int32");
    return true;
  }

  bool AddRequantize(const CompositeCall& call, size_t sum) {
    const std::string &rounding = call.attrs->GetString("rounding"), &compute = call.attrs->GetString("compute_dtype");
    std::optional<int64_t> from = IntegerAt(call, 2), to = IntegerAt(call, 4);
    std::optional<FixedPoint> factor = FactorOf(call, 1, 3);
    std::optional<Range> range = RangeOf(call.dtype);
    bool is_fixed_point = compute == "None" || compute == "int32" || compute == "int64";
    if (sum != 0 || !from || !to || !factor || !range || !is_fixed_point) return false;
    Plus(-*from);
    if (*from != 0) Step("wrap int32");
    Multiply(*factor, rounding == "TONEAREST" ? "nearest" : "up");
    Plus(*to);
    Clamp(*range);
    return true;
  }

  // The sum of two quantised tensors, of which the result so far is one.
  bool AddQuantized(const CompositeCall& call, size_t sum) {
    if (sum > 1) return false;
    size_t other = 1 - sum;
    auto scale_of = [](size_t side) { return 2 + 2 * side; };
    auto zero_of = [](size_t side) { return 3 + 2 * side; };
    std::optional<int64_t> own_zero = IntegerAt(call, zero_of(sum)), other_zero = IntegerAt(call, zero_of(other)),
                           zero = IntegerAt(call, 7);
    std::optional<FixedPoint> own = FactorOf(call, scale_of(sum), 6), factor = FactorOf(call, scale_of(other), 6);
    std::optional<Range> range = RangeOf(call.dtype);
    bool is_byte = call.dtype == kInt8 || call.dtype == kUInt8;
    if (!own_zero || !other_zero || !zero || !own || !factor || !range || !is_byte) return false;
    Plus(-*own_zero);
    if (*own_zero != 0) Step("wrap int32");
    Multiply(*own, "up");
    if (!AddTensor(call.operands[other], *other_zero, *factor)) return false;
    Plus(*zero);
    Clamp(*range);
    return true;
  }

  bool AddMaximum(const CompositeCall& call, size_t sum) {
    std::optional<int64_t> bound = IntegerAt(call, 1 - sum);
    if (bound) Clamp({*bound, RangeOf(dtype_)->high});
    return bound.has_value();
  }

  bool AddMinimum(const CompositeCall& call, size_t sum) {
    std::optional<int64_t> bound = IntegerAt(call, 1 - sum);
    if (bound) Clamp({RangeOf(dtype_)->low, *bound});
    return bound.has_value();
  }

  bool AddClip(const CompositeCall& call, size_t) {
    double low = call.attrs->GetDouble("a_min"), high = call.attrs->GetDouble("a_max");
    std::optional<Range> range = RangeOf(dtype_);
    auto is_element = [&](double bound) {
      return bound == std::trunc(bound) && bound >= static_cast<double>(range->low) &&
             bound <= static_cast<double>(range->high);
    };
    if (!is_element(low) || !is_element(high) || low > high) return false;
    Clamp({static_cast<int64_t>(low), static_cast<int64_t>(high)});
    return true;
  }

  bool AddRelu(const CompositeCall&, size_t) {
    Clamp({0, RangeOf(dtype_)->high});
    return true;
  }

  bool AddCast(const CompositeCall& call, size_t) {
    if (!RangeOf(call.dtype)) return false;
    Step(absl::StrCat("wrap ", call.dtype.ToString()));
    return true;
  }

  bool AddView(const CompositeCall& call, size_t) {
    std::optional<std::vector<size_t>> axes = AxesOfView(dims_, call.dims);
    if (!axes) return false;
    std::vector<Place> places;
    for (size_t axis : *axes) places.push_back(function_.result.places[axis]);
    function_.result.places = std::move(places);
    return true;
  }

  bool AddDequantize(const CompositeCall& call, size_t sum) {
    std::optional<double> scale = NumberAt(call, 1);
    std::optional<int64_t> zero = IntegerAt(call, 2);
    if (sum != 0 || !scale || !zero || call.dtype != kFloat32) return false;
    Plus(-*zero);
    if (*zero != 0) Step("wrap int32");
    Step(absl::StrCat("scale ", std::bit_cast<uint32_t>(static_cast<float>(*scale))));
    return true;
  }

  TileFunction& function_;
  DataType dtype_;  // of the result so far
  Dims dims_;
};

const StepPlanner::Row* StepPlanner::FindRow(std::string_view op) {
  static constexpr Row kRows[] = {
      {"nn.bias_add", &StepPlanner::AddBias},
      {"add", &StepPlanner::AddSum},
      {"qnn.requantize", &StepPlanner::AddRequantize},
      {"qnn.add", &StepPlanner::AddQuantized},
      {"maximum", &StepPlanner::AddMaximum},
      {"minimum", &StepPlanner::AddMinimum},
      {"clip", &StepPlanner::AddClip},
      {"nn.relu", &StepPlanner::AddRelu},
      {"cast", &StepPlanner::AddCast},
      {"qnn.dequantize", &StepPlanner::AddDequantize},
      {"nn.batch_flatten", &StepPlanner::AddView, true},
      {"reshape", &StepPlanner::AddView, true},
      {"squeeze", &StepPlanner::AddView, true},
  };
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& of) { return of.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

bool IsView(const CompositeCall& call) { return StepPlanner::IsView(call.op); }

std::optional<std::vector<size_t>> AxesOfView(const Dims& dims, const Dims& view) {
  auto is_unknown = [](const Dim& dim) { return !dim.is_const(); };
  // Two unknown extents may change places, or be divided anew.
  if (std::count_if(dims.begin(), dims.end(), is_unknown) > 1) return std::nullopt;
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const Dim* next = axes.size() < view.size() ? &view[axes.size()] : nullptr;
    bool is_kept = next != nullptr && (dims[axis].is_const() ? *next == dims[axis] : !next->is_const());
    if (is_kept) {
      axes.push_back(axis);
    } else if (dims[axis] != Dim(1)) {
      return std::nullopt;
    }
  }
  return axes.size() == view.size() ? std::optional(axes) : std::nullopt;
}

bool PlanSteps(const Composite& composite, size_t first, TileFunction& function) {
  StepPlanner planner(composite, first, function);
  for (size_t i = first; i < composite.calls.size(); ++i) {
    if (!planner.Add(composite.calls[i])) return false;
  }
  return true;
}

}  // namespace rvm::target
