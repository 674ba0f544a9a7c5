#include "kernels/te/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "kernels/te/expr_pool.h"

namespace rvm::te {
namespace {

// One element: integers and bools in `i` (canonical for their dtype), floats in `d`.
struct Number {
  int64_t i = 0;
  double d = 0;
};

bool ComputesInFloat32(DataType dtype) { return dtype.is_float() && dtype.bits <= 32; }

int64_t WrapTo(DataType dtype, int64_t value) {
  if (dtype.is_bool()) return value != 0;
  int shift = 64 - dtype.bits;
  uint64_t shifted = static_cast<uint64_t>(value) << shift;
  return dtype.is_int() ? static_cast<int64_t>(shifted) >> shift : static_cast<int64_t>(shifted >> shift);
}

double RoundTo(DataType dtype, double value) { return ComputesInFloat32(dtype) ? static_cast<float>(value) : value; }

int64_t ShiftLeft(int64_t a, int64_t b, DataType dtype) {
  if (b < 0 || b >= dtype.bits) return 0;
  return WrapTo(dtype, static_cast<int64_t>(static_cast<uint64_t>(a) << b));
}

int64_t ShiftRight(int64_t a, int64_t b, DataType dtype) {
  if (b < 0 || b >= dtype.bits) return dtype.is_int() && a < 0 ? -1 : 0;
  return dtype.is_int() ? a >> b : static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
}

int64_t IntPower(int64_t base, int64_t exponent, DataType dtype) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return WrapTo(dtype, static_cast<int64_t>(result));
}

int64_t Divide(BinaryOp op, int64_t a, int64_t b, DataType dtype) {
  if (b == 0) return 0;
  if (!dtype.is_int()) {
    uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    bool modulo = op == BinaryOp::kFloorMod || op == BinaryOp::kTruncMod;
    return static_cast<int64_t>(modulo ? x % y : x / y);
  }
  if (op == BinaryOp::kFloorDivide) return WrapTo(dtype, EvaluateBinaryDim(DimKind::kFloorDiv, a, b));
  if (op == BinaryOp::kFloorMod) return EvaluateBinaryDim(DimKind::kFloorMod, a, b);
  if (op == BinaryOp::kTruncMod) return b == -1 ? 0 : a % b;
  return b == -1 ? WrapTo(dtype, static_cast<int64_t>(-static_cast<uint64_t>(a))) : a / b;
}

int64_t IntBinary(BinaryOp op, int64_t a, int64_t b, DataType dtype) {
  auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  bool less = dtype.is_int() ? a < b : u(a) < u(b);
  switch (op) {
    case BinaryOp::kAdd: return WrapTo(dtype, static_cast<int64_t>(u(a) + u(b)));
    case BinaryOp::kSubtract: return WrapTo(dtype, static_cast<int64_t>(u(a) - u(b)));
    case BinaryOp::kMultiply: return WrapTo(dtype, static_cast<int64_t>(u(a) * u(b)));
    case BinaryOp::kDivide:
    case BinaryOp::kFloorDivide:
    case BinaryOp::kFloorMod:
    case BinaryOp::kTruncDivide:
    case BinaryOp::kTruncMod: return Divide(op, a, b, dtype);
    case BinaryOp::kPower: return IntPower(a, b, dtype);
    case BinaryOp::kMaximum: return less ? b : a;
    case BinaryOp::kMinimum: return less ? a : b;
    case BinaryOp::kAnd: return a & b;
    case BinaryOp::kOr: return a | b;
    case BinaryOp::kXor: return a ^ b;
    case BinaryOp::kShiftLeft: return ShiftLeft(a, b, dtype);
    case BinaryOp::kShiftRight: return ShiftRight(a, b, dtype);
    case BinaryOp::kEqual: return a == b;
    case BinaryOp::kNotEqual: return a != b;
    case BinaryOp::kLess: return less;
    case BinaryOp::kLessEqual: return less || a == b;
    case BinaryOp::kGreater: return !less && a != b;
    case BinaryOp::kGreaterEqual: return !less;
  }
  return 0;
}

// Returns the `maximum` and `minimum` of IEEE 754: NaN if either is NaN, and -0 is less than 0.
double Extreme(BinaryOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  bool less = a < b || (a == b && std::signbit(a));
  return less == (op == BinaryOp::kMaximum) ? b : a;
}

double FloatArithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSubtract: return a - b;
    case BinaryOp::kMultiply: return a * b;
    case BinaryOp::kDivide: return a / b;
    case BinaryOp::kFloorDivide: return std::floor(a / b);
    case BinaryOp::kFloorMod: return a - b * std::floor(a / b);
    case BinaryOp::kTruncDivide: return std::trunc(a / b);
    case BinaryOp::kTruncMod: return std::fmod(a, b);
    case BinaryOp::kPower: return std::pow(a, b);
    case BinaryOp::kMaximum:
    case BinaryOp::kMinimum: return Extreme(op, a, b);
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor:
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
    case BinaryOp::kEqual:
    case BinaryOp::kNotEqual:
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual: RVM_UNREACHABLE("a bitwise operation on floats");
  }
}

bool FloatCompare(BinaryOp op, double a, double b) {
  if (op == BinaryOp::kEqual) return a == b;
  if (op == BinaryOp::kNotEqual) return a != b;
  if (op == BinaryOp::kLess) return a < b;
  if (op == BinaryOp::kLessEqual) return a <= b;
  return op == BinaryOp::kGreater ? a > b : a >= b;
}

double FloatUnary(UnaryOp op, double a) {
  switch (op) {
    case UnaryOp::kNegative: return -a;
    case UnaryOp::kAbs: return std::abs(a);
    case UnaryOp::kSign: return std::isnan(a) ? a : (a > 0) - (a < 0);
    case UnaryOp::kFloor: return std::floor(a);
    case UnaryOp::kCeil: return std::ceil(a);
    case UnaryOp::kRound: return std::nearbyint(a);
    case UnaryOp::kTrunc: return std::trunc(a);
    case UnaryOp::kSqrt: return std::sqrt(a);
    case UnaryOp::kRsqrt: return 1 / std::sqrt(a);
    case UnaryOp::kExp: return std::exp(a);
    case UnaryOp::kLog: return std::log(a);
    case UnaryOp::kLog2: return std::log2(a);
    case UnaryOp::kLog10: return std::log10(a);
    case UnaryOp::kTanh: return std::tanh(a);
    case UnaryOp::kSigmoid: return 1 / (1 + std::exp(-a));
    case UnaryOp::kErf: return std::erf(a);
    case UnaryOp::kSin: return std::sin(a);
    case UnaryOp::kCos: return std::cos(a);
    case UnaryOp::kTan: return std::tan(a);
    case UnaryOp::kAsin: return std::asin(a);
    case UnaryOp::kAcos: return std::acos(a);
    case UnaryOp::kAtan: return std::atan(a);
    case UnaryOp::kSinh: return std::sinh(a);
    case UnaryOp::kCosh: return std::cosh(a);
    case UnaryOp::kAsinh: return std::asinh(a);
    case UnaryOp::kAcosh: return std::acosh(a);
    case UnaryOp::kAtanh: return std::atanh(a);
    case UnaryOp::kLogicalNot:
    case UnaryOp::kBitwiseNot:
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
    case UnaryOp::kIsFinite: RVM_UNREACHABLE("a logical operation on floats");
  }
}

int64_t IntUnary(UnaryOp op, int64_t a, DataType dtype) {
  switch (op) {
    case UnaryOp::kNegative: return WrapTo(dtype, static_cast<int64_t>(-static_cast<uint64_t>(a)));
    case UnaryOp::kAbs:
      return dtype.is_int() && a < 0 ? WrapTo(dtype, static_cast<int64_t>(-static_cast<uint64_t>(a))) : a;
    case UnaryOp::kSign: return dtype.is_int() ? (a > 0) - (a < 0) : a != 0;
    case UnaryOp::kLogicalNot: return a == 0;
    case UnaryOp::kBitwiseNot: return dtype.is_bool() ? a == 0 : WrapTo(dtype, ~a);
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf: return 0;
    case UnaryOp::kIsFinite: return 1;
#define RVM_CASE(Name, text) case UnaryOp::k##Name:
      RVM_UNARY_ROUNDING_OPS(RVM_CASE)
      RVM_UNARY_FLOAT_OPS(RVM_CASE)
#undef RVM_CASE
      return a;  // rounding does not change an integer
  }
}

// `dtype`: of the operands.
Number Unary(UnaryOp op, Number a, DataType dtype) {
  if (!dtype.is_float()) return {IntUnary(op, a.i, dtype), 0};
  if (op == UnaryOp::kIsNan) return {std::isnan(a.d), 0};
  if (op == UnaryOp::kIsInf) return {std::isinf(a.d), 0};
  if (op == UnaryOp::kIsFinite) return {std::isfinite(a.d), 0};
  return {0, RoundTo(dtype, FloatUnary(op, a.d))};
}

Number Binary(BinaryOp op, Number a, Number b, DataType dtype) {
  if (!dtype.is_float()) return {IntBinary(op, a.i, b.i, dtype), 0};
  if (IsComparison(op)) return {FloatCompare(op, a.d, b.d), 0};
  return {0, RoundTo(dtype, FloatArithmetic(op, a.d, b.d))};
}

Number CastNumber(Number value, DataType from, DataType to) {
  if (from.is_float() && to.is_float()) {
    double rounded = RoundTo(to, value.d);
    if (to.bits < 32) {
      std::byte buffer[8] = {};
      StoreDouble(to, buffer, value.d);
      rounded = LoadDouble(to, buffer);
    }
    return {0, rounded};
  }
  if (from.is_float()) {
    if (to.is_bool()) return {value.d != 0, 0};
    std::byte buffer[8] = {};
    StoreDouble(to, buffer, value.d);
    return {LoadInt(to, buffer), 0};
  }
  if (!to.is_float()) return {WrapTo(to, value.i), 0};
  bool is_unsigned = from.is_uint();
  double wide = is_unsigned ? static_cast<double>(static_cast<uint64_t>(value.i)) : static_cast<double>(value.i);
  float narrow = is_unsigned ? static_cast<float>(static_cast<uint64_t>(value.i)) : static_cast<float>(value.i);
  return {0, ComputesInFloat32(to) ? narrow : wide};
}

Number BitcastNumber(Number value, DataType from, DataType to) {
  std::byte bits[8] = {};
  from.is_float() ? StoreDouble(from, bits, value.d) : StoreInt(from, bits, value.i);
  return to.is_float() ? Number{0, LoadDouble(to, bits)} : Number{LoadInt(to, bits), 0};
}

// A row of positions along an axis is evaluated at once, node by node, if it has so many; `kMaxRow` of them in one go.
constexpr int64_t kMinRow = 16, kMaxRow = 1024;

// The limit for the elements of a tensor; more would take hours.
constexpr int64_t kMaxElements = int64_t{1} << 32;

class Evaluator {
 public:
  explicit Evaluator(std::span<const Literal> inputs) : inputs_(inputs) {}

  absl::Status BindSymbols(const Computation& computation);
  // The values of tensors that other tensors read are stored.
  absl::StatusOr<Literal> Compute(const Tensor& tensor, bool is_read);

 private:
  int64_t Value(const Dim& dim) const {
    std::optional<int64_t> value = EvaluateDim(dim, [&](const Dim& leaf) -> std::optional<int64_t> {
      auto found = symbols_.find(leaf.id());
      return found == symbols_.end() ? std::nullopt : std::optional<int64_t>(found->second);
    });
    RVM_CHECK(value.has_value(), "a te extent has an unbound symbol");
    return *value;
  }
  Number Eval(const Expr& e) {
    return WithStack([&] { return EvalOnThisStack(*e); });
  }
  Number EvalOnThisStack(const ExprNode& e);
  Number EvalReduce(const ExprNode& e);
  std::optional<Number> SumOfProducts(const ExprNode& e, const std::vector<int64_t>& extents);
  // Elements of a tensor of float32 at positions of an axis: from the first one, `stride` apart.
  struct Line {
    const float* first;
    int64_t stride;
  };
  std::optional<Line> LineOf(const ExprNode& read, const IndexVar& axis, int64_t count);
  Number Load(const ExprNode& read);

  // Positions `begin` to `begin + count` of an axis.
  struct Row {
    int64_t axis, begin, count;
  };
  using Numbers = std::vector<Number>;
  // Returns the values at the positions of a row: those of Eval, one by one.
  Numbers EvalRow(const Expr& e, const Row& row) {
    return WithStack([&] { return EvalRowOnThisStack(e, row); });
  }
  Numbers EvalRowOnThisStack(const Expr& e, const Row& row);
  Numbers EvalEach(const Expr& e, const Row& row);
  Numbers LoadRow(const ExprNode& read, const Row& row);
  bool Depends(const Expr& e, int64_t axis);
  const Literal& SourceOf(const ExprNode& read) const;
  void StoreRows(const Tensor& tensor, const Shape& shape, size_t axis, std::byte* elements);
  void StorePositions(const Tensor& tensor, const Shape& shape, std::byte* elements);

  std::span<const Literal> inputs_;
  absl::flat_hash_map<int64_t, int64_t> symbols_;
  absl::flat_hash_map<int64_t, int64_t> indices_;
  absl::flat_hash_map<const TensorNode*, Literal> computed_;
  int64_t position_ = 0;  // the number of elements computed so far of the current tensor
  absl::flat_hash_map<std::pair<const ExprNode*, int64_t>, bool> depends_;  // by node and axis
};

absl::Status Evaluator::BindSymbols(const Computation& computation) {
  if (inputs_.size() != computation.inputs.size()) return absl::InvalidArgumentError("wrong number of inputs");
  for (const Computation::ValueSymbol& value : computation.values) {
    if (value.element >= inputs_[value.input].num_elements())
      return absl::InvalidArgumentError(absl::StrCat("input ", value.input, " has no element ", value.element));
    symbols_[value.symbol.id()] = inputs_[value.input].IntAt(value.element);
  }
  for (bool check : {false, true}) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Dims& dims = computation.inputs[i].dims();
      if (inputs_[i].dtype() != computation.inputs[i].dtype() || inputs_[i].shape().size() != dims.size()) {
        return absl::InvalidArgumentError(absl::StrCat("input ", i, " has another dtype or rank"));
      }
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (!check && dims[axis].kind() == DimKind::kVar)
          symbols_.try_emplace(dims[axis].id(), inputs_[i].shape()[axis]);
        if (check && Value(dims[axis]) != inputs_[i].shape()[axis]) {
          return absl::InvalidArgumentError(absl::StrCat("input ", i, " axis ", axis, ": saw ",
                                                         inputs_[i].shape()[axis], "; expected ", dims[axis].ToString(),
                                                         " = ", Value(dims[axis])));
        }
      }
    }
  }
  return absl::OkStatus();
}

const Literal& Evaluator::SourceOf(const ExprNode& read) const {
  const TensorNode* tensor = read.tensor.get();
  if (tensor->kind == TensorKind::kInput) return inputs_[static_cast<size_t>(tensor->input_index)];
  auto found = computed_.find(tensor);
  RVM_CHECK(found != computed_.end(), "a te tensor is read before it is computed");
  return found->second;
}

Number Evaluator::Load(const ExprNode& read) {
  const Literal& source = SourceOf(read);
  int64_t offset = 0;
  for (size_t axis = 0; axis < read.operands.size(); ++axis) {
    int64_t index = Eval(read.operands[axis]).i;
    int64_t extent = source.shape()[axis];
    RVM_CHECK(index >= 0 && index < extent, "a te read is out of bounds");
    offset = offset * extent + index;
  }
  RVM_CHECK(read.tensor->kind != TensorKind::kSelf || offset < position_, "a te scan reads what it will compute later");
  return read.dtype.is_float() ? Number{0, source.DoubleAt(offset)} : Number{source.IntAt(offset), 0};
}

// ---- rows

bool Evaluator::Depends(const Expr& e, int64_t axis) {
  auto [found, is_new] = depends_.try_emplace({e.get(), axis}, false);
  if (is_new) found->second = DependsOn(e, axis);
  return found->second;
}

Evaluator::Numbers Evaluator::EvalEach(const Expr& e, const Row& row) {
  Numbers values;
  values.reserve(static_cast<size_t>(row.count));
  for (int64_t i = 0; i < row.count; ++i) {
    indices_[row.axis] = row.begin + i;
    values.push_back(Eval(e));
  }
  return values;
}

Evaluator::Numbers Evaluator::LoadRow(const ExprNode& read, const Row& row) {
  const Literal& source = SourceOf(read);
  Numbers values(static_cast<size_t>(row.count));  // offsets first
  for (size_t axis = 0; axis < read.operands.size(); ++axis) {
    const int64_t extent = source.shape()[axis];
    const Numbers indices = EvalRow(read.operands[axis], row);
    for (size_t i = 0; i < values.size(); ++i) {
      RVM_CHECK(indices[i].i >= 0 && indices[i].i < extent, "a te read is out of bounds");
      values[i].i = values[i].i * extent + indices[i].i;
    }
  }
  const bool is_float = read.dtype.is_float();
  for (Number& value : values) {
    value = is_float ? Number{0, source.DoubleAt(value.i)} : Number{source.IntAt(value.i), 0};
  }
  return values;
}

Evaluator::Numbers Evaluator::EvalRowOnThisStack(const Expr& e, const Row& row) {
  if (!Depends(e, row.axis)) return Numbers(static_cast<size_t>(row.count), Eval(e));
  const DataType from = e->operands.empty() ? e->dtype : e->operands[0].dtype();
  switch (e->kind) {
    case ExprKind::kIndex: {
      Numbers values(static_cast<size_t>(row.count));
      for (size_t i = 0; i < values.size(); ++i) values[i].i = row.begin + static_cast<int64_t>(i);
      return values;
    }
    case ExprKind::kRead: return LoadRow(*e, row);
    case ExprKind::kCast: {
      Numbers values = EvalRow(e->operands[0], row);
      for (Number& value : values) value = CastNumber(value, from, e->dtype);
      return values;
    }
    case ExprKind::kBinary: {
      Numbers a = EvalRow(e->operands[0], row);
      const Numbers b = EvalRow(e->operands[1], row);
      for (size_t i = 0; i < a.size(); ++i) a[i] = Binary(e->binary, a[i], b[i], from);
      return a;
    }
    case ExprKind::kUnary: {
      Numbers a = EvalRow(e->operands[0], row);
      for (Number& value : a) value = Unary(e->unary, value, from);
      return a;
    }
    // Operands of a choice that are not chosen may be out of bounds.
    case ExprKind::kSelect:
    case ExprKind::kBitcast:
    case ExprKind::kReduce:
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kDim: return EvalEach(e, row);
  }
  return {};
}

// nullopt if the read is something else.
std::optional<Evaluator::Line> Evaluator::LineOf(const ExprNode& read, const IndexVar& axis, int64_t count) {
  if (read.kind != ExprKind::kRead || read.dtype != kFloat32 || read.tensor->kind == TensorKind::kSelf) {
    return std::nullopt;
  }
  const Literal& source = SourceOf(read);
  int64_t first = 0, stride = 0;
  indices_[axis.id] = 0;
  for (size_t i = 0; i < read.operands.size(); ++i) {
    const int64_t extent = source.shape()[i], index = Eval(read.operands[i]).i;
    const std::optional<int64_t> step = Stride(read.operands[i], axis.id);
    if (!step) return std::nullopt;
    const int64_t last = index + *step * (count - 1);
    RVM_CHECK(index >= 0 && index < extent && last >= 0 && last < extent, "a te read is out of bounds");
    first = first * extent + index;
    stride = stride * extent + *step;
  }
  return Line{source.values<float>().data() + first, stride};
}

// Returns a sum of products of elements of float32, as of constant matrices, which are large; nullopt if `e` is
// something else.
std::optional<Number> Evaluator::SumOfProducts(const ExprNode& e, const std::vector<int64_t>& extents) {
  const ExprNode& product = *e.operands[0];
  const bool fits = e.reduce == ReduceOp::kSum && product.kind == ExprKind::kBinary && product.dtype == kFloat32 &&
                    product.binary == BinaryOp::kMultiply && extents.size() == 1 && extents[0] > 0;
  if (!fits) return std::nullopt;
  const std::optional<Line> a = LineOf(*product.operands[0], e.axes[0], extents[0]);
  const std::optional<Line> b = a ? LineOf(*product.operands[1], e.axes[0], extents[0]) : std::nullopt;
  if (!b) return std::nullopt;
  float sum = 0;
  for (int64_t i = 0; i < extents[0]; ++i) {
    const float term = a->first[i * a->stride] * b->first[i * b->stride];
    sum += term;
  }
  return Number{0, sum};
}

Number Evaluator::EvalReduce(const ExprNode& e) {
  const Expr& body = e.operands[0];
  DataType dtype = body.dtype();
  int64_t count = 1;
  std::vector<int64_t> extents;
  for (const IndexVar& axis : e.axes) {
    extents.push_back(Value(axis.extent));
    count *= extents.back();
  }
  if (std::optional<Number> sum = SumOfProducts(e, extents)) return *sum;
  Number best;
  bool is_float = dtype.is_float();
  double infinity = std::numeric_limits<double>::infinity();
  switch (e.reduce) {
    case ReduceOp::kProduct: best = {1, 1}; break;
    case ReduceOp::kMaximum:
      best = {dtype.is_int() ? std::numeric_limits<int64_t>::min() >> (64 - dtype.bits) : 0, -infinity};
      break;
    case ReduceOp::kMinimum:
      best = {dtype.is_int()    ? std::numeric_limits<int64_t>::max() >> (64 - dtype.bits)
              : dtype.is_bool() ? 1
                                : static_cast<int64_t>(~uint64_t{0} >> (64 - dtype.bits)),
              infinity};
      break;
    case ReduceOp::kAll: best = {1, 1}; break;
    case ReduceOp::kSum:
    case ReduceOp::kAny:
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMaxLast:
    case ReduceOp::kArgMinLast: break;
  }
  int64_t best_at = 0;
  const bool has_rows = !extents.empty() && extents.back() >= kMinRow;
  Numbers row;  // the values at positions of the last axis, from the one of `step` on
  for (int64_t step = 0, in_row = 0; step < count; ++step, ++in_row) {
    if (in_row == static_cast<int64_t>(row.size())) {
      int64_t rest = step;
      for (size_t axis = e.axes.size(); axis-- > 0;) {
        indices_[e.axes[axis].id] = rest % extents[axis];
        rest /= extents[axis];
      }
      const int64_t begin = has_rows ? indices_.at(e.axes.back().id) : 0;
      row = has_rows ? EvalRow(body, {e.axes.back().id, begin, std::min(extents.back() - begin, kMaxRow)})
                     : Numbers{Eval(body)};
      in_row = 0;
    }
    const Number v = row[static_cast<size_t>(in_row)];
    auto fold = [&](BinaryOp op) {
      best = is_float ? Number{0, RoundTo(dtype, FloatArithmetic(op, best.d, v.d))}
                      : Number{IntBinary(op, best.i, v.i, dtype), 0};
    };
    switch (e.reduce) {
      case ReduceOp::kSum: fold(BinaryOp::kAdd); break;
      case ReduceOp::kProduct: fold(BinaryOp::kMultiply); break;
      case ReduceOp::kMaximum: fold(BinaryOp::kMaximum); break;
      case ReduceOp::kMinimum: fold(BinaryOp::kMinimum); break;
      case ReduceOp::kAll: best.i = best.i != 0 && v.i != 0; break;
      case ReduceOp::kAny: best.i = best.i != 0 || v.i != 0; break;
      case ReduceOp::kArgMax:
      case ReduceOp::kArgMin:
      case ReduceOp::kArgMaxLast:
      case ReduceOp::kArgMinLast: {
        bool want_max = e.reduce == ReduceOp::kArgMax || e.reduce == ReduceOp::kArgMaxLast;
        bool last = e.reduce == ReduceOp::kArgMaxLast || e.reduce == ReduceOp::kArgMinLast;
        bool better;
        if (is_float && (std::isnan(v.d) || std::isnan(best.d))) {
          better = std::isnan(v.d) && (last || !std::isnan(best.d));
        } else {
          bool more = is_float ? (want_max ? v.d > best.d : v.d < best.d)
                               : IntBinary(want_max ? BinaryOp::kGreater : BinaryOp::kLess, v.i, best.i, dtype) != 0;
          bool same = is_float ? v.d == best.d : v.i == best.i;
          better = more || (last && same);
        }
        if (step == 0 || better) {
          best = v;
          best_at = step;
        }
      }
    }
  }
  if (IsArg(e.reduce)) return {best_at, 0};
  return best;
}

Number Evaluator::EvalOnThisStack(const ExprNode& e) {
  switch (e.kind) {
    case ExprKind::kIntConst: return {WrapTo(e.dtype, e.int_value), 0};
    case ExprKind::kFloatConst: return CastNumber({0, e.float_value}, kFloat64, e.dtype);
    case ExprKind::kIndex: return {indices_.at(e.index.id), 0};
    case ExprKind::kDim: return {Value(e.dim), 0};
    case ExprKind::kRead: return Load(e);
    case ExprKind::kSelect: return Eval(e.operands[0]).i != 0 ? Eval(e.operands[1]) : Eval(e.operands[2]);
    case ExprKind::kCast: return CastNumber(Eval(e.operands[0]), e.operands[0].dtype(), e.dtype);
    case ExprKind::kBitcast: return BitcastNumber(Eval(e.operands[0]), e.operands[0].dtype(), e.dtype);
    case ExprKind::kReduce: return EvalReduce(e);
    case ExprKind::kUnary: return Unary(e.unary, Eval(e.operands[0]), e.operands[0].dtype());
    case ExprKind::kBinary: return Binary(e.binary, Eval(e.operands[0]), Eval(e.operands[1]), e.operands[0].dtype());
  }
  return {};
}

// The computed tensors that `e` reads, in the order of their first reads.
void CollectReads(const Expr& e, std::vector<const Tensor*>& reads) {
  if (e->kind == ExprKind::kRead && e->tensor->kind == TensorKind::kCompute) reads.push_back(&e->tensor);
  for (const Expr& operand : e->operands) WithStack([&] { CollectReads(operand, reads); });
}

// Sorts rows of n keys as specified by te::OrderTensor.
void OrderRows(int64_t* elements, int64_t count, int64_t n) {
  for (int64_t* row = elements; row < elements + count; row += 4 * n) {
    int64_t *keys = row, *places = row + n;
    std::stable_sort(places, places + n, [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    std::vector<int64_t> sorted;
    for (int64_t i = 0; i < n; ++i) sorted.push_back(keys[places[i]]);
    std::copy(sorted.begin(), sorted.end(), keys);
  }
}

Literal ToScalar(DataType dtype, Number value) {
  std::byte bytes[8] = {};
  dtype.is_float() ? StoreDouble(dtype, bytes, value.d) : StoreInt(dtype, bytes, value.i);
  return Literal::FromBytes(dtype, {}, std::span(bytes).first(static_cast<size_t>(dtype.bytes())));
}

void Store(DataType dtype, std::byte* address, Number value) {
  dtype.is_float() ? StoreDouble(dtype, address, value.d) : StoreInt(dtype, address, value.i);
}

void Evaluator::StorePositions(const Tensor& tensor, const Shape& shape, std::byte* elements) {
  const int64_t count = *NumElements(shape);
  for (int64_t i = 0; i < count; ++i) {
    position_ = i;
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0;) {
      indices_[tensor->axes[axis].id] = rest % shape[axis];
      rest /= shape[axis];
    }
    Store(tensor->dtype, elements + i * tensor->dtype.bytes(), Eval(tensor->body));
  }
}

// Computes rows along an axis, for each position of the others.
void Evaluator::StoreRows(const Tensor& tensor, const Shape& shape, size_t axis, std::byte* elements) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) stride *= shape[i];
  const int64_t rows = *NumElements(shape) / shape[axis];
  for (int64_t number = 0; number < rows; ++number) {
    int64_t rest = number, first = 0, apart = 1;  // the offset of the row's first element
    for (size_t i = shape.size(); i-- > 0; apart *= shape[i]) {
      if (i == axis) continue;
      indices_[tensor->axes[i].id] = rest % shape[i];
      first += rest % shape[i] * apart;
      rest /= shape[i];
    }
    for (int64_t begin = 0; begin < shape[axis]; begin += kMaxRow) {
      const int64_t count = std::min(shape[axis] - begin, kMaxRow);
      const Numbers values = EvalRow(tensor->body, {tensor->axes[axis].id, begin, count});
      for (int64_t i = 0; i < count; ++i) {
        std::byte* address = elements + (first + (begin + i) * stride) * tensor->dtype.bytes();
        Store(tensor->dtype, address, values[static_cast<size_t>(i)]);
      }
    }
  }
}

absl::StatusOr<Literal> Evaluator::Compute(const Tensor& tensor, bool is_read) {
  if (tensor->kind == TensorKind::kInput) return inputs_[static_cast<size_t>(tensor->input_index)];
  auto found = computed_.find(tensor.get());
  if (found != computed_.end()) return found->second;
  Shape shape;
  for (const Dim& dim : tensor->dims) shape.push_back(std::max<int64_t>(Value(dim), 0));
  const std::optional<int64_t> elements = NumElements(shape);
  if (!elements || *elements > kMaxElements) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: a tensor would have extents ", DimsToString(ToDims(shape))));
  }
  // Skips what would be read, which may be large: the number of elements in each window of no image.
  if (*elements == 0) {
    Literal empty(tensor->dtype, shape, Buffer::Allocate(0));
    if (is_read) computed_.emplace(tensor.get(), empty);
    return empty;
  }
  std::vector<const Tensor*> reads;
  CollectReads(tensor->body, reads);
  for (const Tensor* read : reads) {
    absl::Status status = WithStack([&] { return Compute(*read, /*is_read=*/true).status(); });
    if (!status.ok()) return status;
  }
  if (tensor->dims.empty()) {
    Literal literal = ToScalar(tensor->dtype, Eval(tensor->body));
    if (is_read) computed_.emplace(tensor.get(), literal);
    return literal;
  }
  const int64_t count = *elements;
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * tensor->dtype.bytes());
  Literal literal(tensor->dtype, shape, buffer);
  if (tensor->self) computed_.emplace(tensor->self.get(), literal);
  // Positions of a scan are computed in order.
  size_t axis = tensor->self ? 0 : shape.size();
  while (axis > 0 && shape[axis - 1] < kMinRow) --axis;
  axis > 0 ? StoreRows(tensor, shape, axis - 1, buffer->data()) : StorePositions(tensor, shape, buffer->data());
  if (tensor->is_ordered) OrderRows(reinterpret_cast<int64_t*>(buffer->data()), count, shape.back());
  if (is_read) computed_.emplace(tensor.get(), literal);
  return literal;
}

}  // namespace

absl::StatusOr<std::vector<Literal>> Evaluate(const Computation& computation, std::span<const Literal> inputs) {
  Evaluator evaluator(inputs);
  if (absl::Status status = evaluator.BindSymbols(computation); !status.ok()) return status;
  std::vector<Literal> outputs;
  for (const Tensor& output : computation.outputs) {
    bool is_read = computation.outputs.size() > 1;  // perhaps by another output
    absl::StatusOr<Literal> literal = evaluator.Compute(output, is_read);
    if (!literal.ok()) return literal.status();
    outputs.push_back(*std::move(literal));
  }
  return outputs;
}

}  // namespace rvm::te
