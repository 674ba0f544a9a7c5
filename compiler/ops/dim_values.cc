#include "compiler/ops/dim_values.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/dim_bounds.h"
#include "base/dim_size.h"
#include "base/value.h"
#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/relations.h"

namespace rvm::ops {
namespace {

// Tensors that hold shapes are small.
constexpr int64_t kMaxElements = 256;
// The number of expressions that one Evaluate visits.
constexpr int kMaxVisits = 512;

using Elements = std::vector<Dim>;

bool IsDimType(DataType dtype) { return dtype == kInt32 || dtype == kInt64 || dtype == kBool; }

// Returns the dtype and the constant shape of a tensor type, with elements that are not known.
std::optional<DimTensor> UnknownOf(const ir::Type* type) {
  const auto* tensor = type == nullptr ? nullptr : ir::DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->shape.is_dims() || !tensor->dtype.is_concrete()) return std::nullopt;
  std::optional<Shape> shape = StaticShape(tensor->shape.dims);
  std::optional<int64_t> count = shape ? NumElements(*shape) : std::nullopt;
  if (!count || *count > kMaxElements || !IsDimType(tensor->dtype.dtype)) return std::nullopt;
  return DimTensor{tensor->dtype.dtype, *shape, Elements(static_cast<size_t>(*count), Dim::Any())};
}

std::optional<DimValue> UnknownValueOf(const ir::Type* type) {
  if (const auto* tuple = type == nullptr ? nullptr : ir::DynCast<ir::TupleType>(type)) {
    DimValue value{.is_tuple = true};
    for (const ir::Type* field : tuple->fields) value.fields.push_back(UnknownOf(field));
    return value;
  }
  std::optional<DimTensor> tensor = UnknownOf(type);
  return tensor ? std::optional(DimValue{false, {std::move(tensor)}}) : std::nullopt;
}

Dim FromBool(std::optional<bool> truth) { return truth ? Dim(*truth ? 1 : 0) : Dim::Any(); }

Dim Greater(const Dim& a, const Dim& b) { return IsAtMost(a, b) ? b : IsAtMost(b, a) ? a : Max(a, b); }
Dim Smaller(const Dim& a, const Dim& b) { return IsAtMost(a, b) ? a : IsAtMost(b, a) ? b : Min(a, b); }

std::optional<bool> IsLess(const Dim& a, const Dim& b) {
  if (IsAtMost(a + 1, b)) return true;
  return IsAtMost(b, a) ? std::optional(false) : std::nullopt;
}

// Returns the quotient or the remainder of natural numbers, which all roundings share, or of a rounding towards
// -infinity.
Dim Divided(const Dim& a, const Dim& b, bool is_remainder, bool rounds_down) {
  bool is_known = LowerBound(b).value_or(0) >= 1 && (rounds_down || IsNatural(a));
  if (!is_known) return Dim::Any();
  return is_remainder ? FloorMod(a, b) : FloorDiv(a, b);
}

Dim And(const Dim& a, const Dim& b) {
  return a == Dim(0) || b == Dim(0) ? Dim(0) : a == Dim(1) ? b : b == Dim(1) ? a : Dim::Any();
}
Dim Not(const Dim& a) { return a.is_const() ? Dim(1 - a.constant()) : Dim::Any(); }

using Binary = Dim (*)(const Dim& a, const Dim& b);
struct BinaryRow {
  std::string_view op;
  Binary combine;
};
constexpr BinaryRow kBinary[] = {
    {"add", [](const Dim& a, const Dim& b) { return a + b; }},
    {"subtract", [](const Dim& a, const Dim& b) { return WithoutCancelled(a - b); }},
    {"multiply", [](const Dim& a, const Dim& b) { return a * b; }},
    {"maximum", Greater},
    {"minimum", Smaller},
    {"floor_divide", [](const Dim& a, const Dim& b) { return Divided(a, b, false, true); }},
    {"floor_mod", [](const Dim& a, const Dim& b) { return Divided(a, b, true, true); }},
    {"divide", [](const Dim& a, const Dim& b) { return Divided(a, b, false, false); }},
    {"trunc_divide", [](const Dim& a, const Dim& b) { return Divided(a, b, false, false); }},
    {"mod", [](const Dim& a, const Dim& b) { return Divided(a, b, true, false); }},
    {"trunc_mod", [](const Dim& a, const Dim& b) { return Divided(a, b, true, false); }},
    {"less", [](const Dim& a, const Dim& b) { return FromBool(IsLess(a, b)); }},
    {"greater", [](const Dim& a, const Dim& b) { return FromBool(IsLess(b, a)); }},
    {"less_equal", [](const Dim& a, const Dim& b) { return Not(FromBool(IsLess(b, a))); }},
    {"greater_equal", [](const Dim& a, const Dim& b) { return Not(FromBool(IsLess(a, b))); }},
    {"equal", [](const Dim& a, const Dim& b) { return FromBool(AreEqual(a, b)); }},
    {"not_equal", [](const Dim& a, const Dim& b) { return Not(FromBool(AreEqual(a, b))); }},
    {"logical_and", And},
    {"logical_or", [](const Dim& a, const Dim& b) { return Not(And(Not(a), Not(b))); }},
};

Binary FindBinary(std::string_view op) {
  const auto* row = std::find_if(std::begin(kBinary), std::end(kBinary), [&](const auto& r) { return r.op == op; });
  return row == std::end(kBinary) ? nullptr : row->combine;
}

struct ReductionRow {
  std::string_view op;
  Binary combine;
};
constexpr ReductionRow kReductions[] = {{"sum", [](const Dim& a, const Dim& b) { return a + b; }},
                                        {"prod", [](const Dim& a, const Dim& b) { return a * b; }},
                                        {"max", Greater},
                                        {"min", Smaller}};

// Operators that give their first argument, which they check.
constexpr std::string_view kChecks[] = {"check_extent", "check_at_least"};

// Operators whose elements are those of some of their arguments: the arguments, as bits. The others must be constant.
struct MoveRow {
  std::string_view op;
  uint32_t moved = 1;
};
constexpr MoveRow kMoves[] = {{"broadcast_to"},
                              {"concatenate"},
                              {"dyn.broadcast_to"},
                              {"dyn.nn.pad", 5},
                              {"dyn.strided_slice"},
                              {"dyn.tile"},
                              {"gather"},
                              {"gather_nd"},
                              {"nn.pad", 3},
                              {"repeat"},
                              {"reverse"},
                              {"slice_like"},
                              {"split"},
                              {"stack"},
                              {"strided_slice"},
                              {"strided_set", 3},
                              {"take"},
                              {"tile"},
                              {"transpose"},
                              {"broadcast_to_like"}};

// Operators that repeat one number, or the scalar that is an argument.
struct FillRow {
  std::string_view op;
  int64_t number = 0;
  std::optional<size_t> scalar = std::nullopt;
};
constexpr FillRow kFills[] = {{"zeros"},        {"dyn.zeros"},  {"zeros_like"},     {"ones", 1},        {"dyn.ones", 1},
                              {"ones_like", 1}, {"full", 0, 0}, {"dyn.full", 0, 0}, {"full_like", 0, 1}};

template <typename Row>
const Row* FindRow(std::span<const Row> rows, std::string_view op) {
  auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.op == op; });
  return row == rows.end() ? nullptr : &*row;
}

// For each element of a tensor of shape `to` the element of one of shape `from` that broadcasting puts there.
std::vector<size_t> BroadcastPlaces(const Shape& from, const Shape& to, size_t count) {
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    int64_t rest = static_cast<int64_t>(i), place = 0, stride = 1;
    for (size_t back = 1; back <= to.size(); ++back) {
      int64_t extent = to[to.size() - back], at = rest % extent;
      rest /= extent;
      if (back > from.size()) continue;
      int64_t own = from[from.size() - back];
      place += (own == 1 ? 0 : at) * stride;
      stride *= own;
    }
    places.push_back(static_cast<size_t>(place));
  }
  return places;
}

// The call of one operator.
class Call {
 public:
  Call(const OpDef& op, const ir::Attrs& attrs, std::span<const ir::Type* const> types,
       std::span<const std::optional<DimValue>> args, const ir::Type* result)
      : op_(op), attrs_(attrs), types_(types), args_(args), result_(result) {}

  std::optional<DimValue> Evaluate() const {
    std::optional<DimValue> value = UnknownValueOf(result_);
    if (!value) return std::nullopt;
    if (const MoveRow* move = FindRow<MoveRow>(kMoves, op_.name)) return Moved(*move, *std::move(value));
    if (value->is_tuple) return std::nullopt;
    DimTensor& out = *value->fields[0];
    std::optional<Elements> elements = ElementsOf(out);
    if (!elements || elements->size() != out.elements.size()) return std::nullopt;
    out.elements = *std::move(elements);
    Limit(out);
    return value;
  }

 private:
  std::optional<Elements> ElementsOf(const DimTensor& out) const {
    if (std::optional<Elements> measured = Measured()) return measured;
    bool is_check = std::find(std::begin(kChecks), std::end(kChecks), op_.name) != std::end(kChecks);
    if (op_.is_reshape || is_check || IsIdentity(op_)) return Argument(0);
    if (op_.name == "cast") return Converted(out.dtype);
    if (op_.name == "arange") return Range(out);
    if (op_.name == "where") return Selected(out);
    if (const FillRow* fill = FindRow<FillRow>(kFills, op_.name)) return Filled(*fill, out);
    if (const auto* reduction = FindRow<ReductionRow>(kReductions, op_.name)) return Reduced(reduction->combine, out);
    if (args_.size() == 1) return Unary();
    if (Binary combine = FindBinary(op_.name); combine != nullptr && args_.size() == 2) {
      std::optional<Elements> a = Broadcasted(0, out), b = Broadcasted(1, out);
      if (!a || !b) return std::nullopt;
      for (size_t i = 0; i < a->size(); ++i) (*a)[i] = combine((*a)[i], (*b)[i]);
      return a;
    }
    return std::nullopt;
  }

  const DimTensor* Tensor(size_t arg) const {
    if (arg >= args_.size() || !args_[arg] || args_[arg]->is_tuple) return nullptr;
    return args_[arg]->fields[0] ? &*args_[arg]->fields[0] : nullptr;
  }
  std::optional<Elements> Argument(size_t arg) const {
    const DimTensor* tensor = Tensor(arg);
    return tensor == nullptr ? std::nullopt : std::optional(tensor->elements);
  }
  std::optional<Elements> Broadcasted(size_t arg, const DimTensor& out) const {
    const DimTensor* tensor = Tensor(arg);
    if (tensor == nullptr || tensor->shape.size() > out.shape.size()) return std::nullopt;
    if (tensor->shape == out.shape) return tensor->elements;
    Elements elements;
    for (size_t place : BroadcastPlaces(tensor->shape, out.shape, out.elements.size())) {
      if (place >= tensor->elements.size()) return std::nullopt;
      elements.push_back(tensor->elements[place]);
    }
    return elements;
  }

  // Operators on the shape of their argument.
  std::optional<Elements> Measured() const {
    bool measures = op_.name == "extent" || op_.name == "shape_of" || op_.name == "ndarray_size";
    const auto* tensor =
        measures && !types_.empty() && types_[0] != nullptr ? ir::DynCast<ir::TensorType>(types_[0]) : nullptr;
    if (tensor == nullptr || !tensor->shape.is_dims()) return std::nullopt;
    const Dims& dims = tensor->shape.dims;
    if (op_.name == "shape_of") return Elements(dims.begin(), dims.end());
    if (op_.name == "ndarray_size") {
      Dim size = 1;
      for (const Dim& dim : dims) size = size * dim;
      return Elements{size};
    }
    int64_t axis = attrs_.GetInt("axis"), rank = static_cast<int64_t>(dims.size());
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? std::optional(Elements{dims[static_cast<size_t>(axis)]}) : std::nullopt;
  }

  // int32 and int64 are taken for the same: no tensor has 2^31 elements along an axis and a shape in int32.
  std::optional<Elements> Converted(DataType to) const {
    std::optional<Elements> elements = Argument(0);
    if (!elements || to != kBool || Tensor(0)->dtype == kBool) return elements;
    for (Dim& element : *elements) element = Not(FromBool(AreEqual(element, 0)));
    return elements;
  }

  std::optional<Elements> Range(const DimTensor& out) const {
    std::optional<Elements> start = Argument(0), step = Argument(2);
    if (!start || !step) return std::nullopt;
    Elements elements;
    for (size_t i = 0; i < out.elements.size(); ++i) {
      elements.push_back((*start)[0] + (*step)[0] * static_cast<int64_t>(i));
    }
    return elements;
  }

  std::optional<Elements> Selected(const DimTensor& out) const {
    std::optional<Elements> condition = Broadcasted(0, out), a = Broadcasted(1, out), b = Broadcasted(2, out);
    if (!condition || !a || !b) return std::nullopt;
    for (size_t i = 0; i < a->size(); ++i) {
      const Dim& truth = (*condition)[i];
      bool is_same = CompareDims((*a)[i], (*b)[i]) == DimEquality::kEqual;
      if (!truth.is_const() && !is_same) (*a)[i] = Dim::Any();
      if (truth == Dim(0)) (*a)[i] = (*b)[i];
    }
    return a;
  }

  std::optional<Elements> Filled(const FillRow& row, const DimTensor& out) const {
    Dim number = row.number;
    if (row.scalar) {
      const DimTensor* scalar = Tensor(*row.scalar);
      if (scalar == nullptr || scalar->elements.size() != 1) return std::nullopt;
      number = scalar->elements[0];
    }
    return Elements(out.elements.size(), number);
  }

  std::optional<Elements> Reduced(Binary combine, const DimTensor& out) const {
    const DimTensor* in = Tensor(0);
    if (in == nullptr || in->dtype == kBool || in->elements.empty()) return std::nullopt;
    std::vector<bool> is_reduced = ReducedAxes(attrs_, in->shape.size());
    std::vector<std::optional<Dim>> results(out.elements.size());
    for (size_t i = 0; i < in->elements.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), place = 0, stride = 1;
      for (size_t axis = in->shape.size(); axis-- > 0;) {
        int64_t at = rest % in->shape[axis];
        rest /= in->shape[axis];
        if (is_reduced[axis]) continue;
        place += at * stride;
        stride *= in->shape[axis];
      }
      if (static_cast<size_t>(place) >= results.size()) return std::nullopt;
      std::optional<Dim>& result = results[static_cast<size_t>(place)];
      result = result ? combine(*result, in->elements[i]) : in->elements[i];
    }
    Elements elements;
    for (const std::optional<Dim>& result : results) elements.push_back(result.value_or(Dim::Any()));
    return elements;
  }

  std::optional<Elements> Unary() const {
    std::optional<Elements> elements = Argument(0);
    if (!elements) return std::nullopt;
    for (Dim& element : *elements) {
      if (op_.name == "negative") {
        element = Dim(0) - element;
      } else if (op_.name == "logical_not") {
        element = Not(element);
      } else if (op_.name == "abs" && element.is_const() && element.constant() != INT64_MIN) {
        element = std::abs(element.constant());
      } else if (op_.name != "abs" || !IsNatural(element)) {
        return std::nullopt;
      }
    }
    return elements;
  }

  // Returns a tensor that holds the indices of its elements in `elements`, which it appends them to.
  static Value Places(const DimTensor& tensor, Elements& elements) {
    std::vector<int64_t> places(tensor.elements.size());
    std::iota(places.begin(), places.end(), static_cast<int64_t>(elements.size()));
    elements.insert(elements.end(), tensor.elements.begin(), tensor.elements.end());
    return Value::Tensor(Literal::FromValues<int64_t>(kInt64, tensor.shape, places));
  }

  std::optional<Value> PlacesOf(size_t arg, Elements& elements) const {
    const std::optional<DimValue>& known = args_[arg];
    std::optional<DimValue> value = known ? known : UnknownValueOf(types_[arg]);
    if (!value) return std::nullopt;
    std::vector<Value> fields;
    const auto* tuple = types_[arg] == nullptr ? nullptr : ir::DynCast<ir::TupleType>(types_[arg]);
    for (size_t i = 0; i < value->fields.size(); ++i) {
      if (!value->fields[i] && tuple != nullptr && i < tuple->fields.size()) {
        value->fields[i] = UnknownOf(tuple->fields[i]);
      }
      if (!value->fields[i]) return std::nullopt;
      fields.push_back(Places(*value->fields[i], elements));
    }
    return value->is_tuple ? Value::Tuple(std::move(fields)) : fields[0];
  }

  // Runs the operator itself, on the indices of the elements in place of the elements.
  std::optional<DimValue> Moved(const MoveRow& row, DimValue result) const {
    std::vector<Value> values;
    Elements elements;
    for (size_t i = 0; i < args_.size(); ++i) {
      std::optional<Value> value;
      if ((row.moved >> i & 1) != 0) {
        value = PlacesOf(i, elements);
      } else if (const DimTensor* tensor = Tensor(i)) {
        std::optional<Literal> literal = ToLiteral(*tensor);
        if (literal) value = Value::Tensor(*std::move(literal));
      }
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    absl::StatusOr<Value> places = EvaluateOp(op_, attrs_, values);
    if (!places.ok()) return std::nullopt;
    for (size_t f = 0; f < result.fields.size(); ++f) {
      const Literal& at = result.is_tuple ? places->fields()[f].tensor() : places->tensor();
      std::optional<DimTensor>& field = result.fields[f];
      if (!field || at.shape() != field->shape) return std::nullopt;
      for (int64_t i = 0; i < at.num_elements(); ++i) {
        field->elements[static_cast<size_t>(i)] = elements[static_cast<size_t>(at.IntAt(i))];
      }
    }
    return result;
  }

  // Numbers that int32 arithmetic would wrap, and long expressions, are not known.
  static void Limit(DimTensor& tensor) {
    for (Dim& element : tensor.elements) {
      bool wraps = tensor.dtype == kInt32 && element.is_const() &&
                   element.constant() != static_cast<int32_t>(element.constant());
      if (wraps || CountDimNodes(element, kMaxDerivedDimNodes) >= kMaxDerivedDimNodes) element = Dim::Any();
    }
  }

  const OpDef& op_;
  const ir::Attrs& attrs_;
  std::span<const ir::Type* const> types_;
  std::span<const std::optional<DimValue>> args_;
  const ir::Type* result_;
};

}  // namespace

std::optional<DimTensor> ToDimTensor(const Literal& literal) {
  if (!IsDimType(literal.dtype()) || literal.num_elements() > kMaxElements) return std::nullopt;
  DimTensor tensor{literal.dtype(), literal.shape(), {}};
  for (int64_t i = 0; i < literal.num_elements(); ++i) tensor.elements.emplace_back(literal.IntAt(i));
  return tensor;
}

bool IsConstant(const DimTensor& tensor) {
  return std::all_of(tensor.elements.begin(), tensor.elements.end(), [](const Dim& dim) { return dim.is_const(); });
}

std::optional<Literal> ToLiteral(const DimTensor& tensor) {
  if (!IsConstant(tensor)) return std::nullopt;
  auto values = [&]<typename T>(T) {
    std::vector<T> numbers;
    for (const Dim& dim : tensor.elements) numbers.push_back(static_cast<T>(dim.constant()));
    return Literal::FromValues<T>(tensor.dtype, tensor.shape, numbers);
  };
  if (tensor.dtype == kInt64) return values(int64_t{0});
  return tensor.dtype == kInt32 ? values(int32_t{0}) : values(uint8_t{0});
}

std::optional<DimValue> EvaluateOnDims(const OpDef& op, const ir::Attrs& attrs, std::span<const ir::Type* const> types,
                                       std::span<const std::optional<DimValue>> args, const ir::Type* result) {
  return Call(op, attrs, types, args, result).Evaluate();
}

std::optional<DimValue> DimEvaluator::Evaluate(const ir::Expr* expr) {
  budget_ = kMaxVisits;
  return Visit(expr);
}

std::vector<Dim> DimEvaluator::Elements(const ir::Expr* expr) {
  std::optional<DimValue> value = Evaluate(expr);
  bool is_known = value && !value->is_tuple && value->fields[0];
  return is_known ? std::move(value->fields[0]->elements) : std::vector<Dim>();
}

const std::optional<DimValue>& DimEvaluator::Visit(const ir::Expr* expr) {
  static const std::optional<DimValue> kUnknown;
  if (auto found = known_.find(expr); found != known_.end()) return found->second;
  if (--budget_ < 0) return kUnknown;
  std::optional<DimValue> value = VisitNew(expr);
  return known_[expr] = std::move(value);
}

std::optional<DimValue> DimEvaluator::VisitNew(const ir::Expr* expr) {
  if (const auto* constant = ir::DynCast<ir::Constant>(expr)) {
    std::optional<DimTensor> tensor = ToDimTensor(constant->literal);
    return tensor ? std::optional(DimValue{false, {std::move(tensor)}}) : std::nullopt;
  }
  if (const auto* use = ir::DynCast<ir::VarExpr>(expr)) {
    const ir::Expr* value = bound_to_(use->var);
    return value == nullptr ? std::nullopt : Visit(value);
  }
  if (const auto* let = ir::DynCast<ir::Let>(expr)) return Visit(let->body);
  if (const auto* match = ir::DynCast<ir::Match>(expr)) {
    return match->clauses.size() == 1 ? Visit(match->clauses[0].body) : std::nullopt;
  }
  if (const auto* tuple = ir::DynCast<ir::Tuple>(expr)) {
    DimValue value{.is_tuple = true};
    for (const ir::Expr* field : tuple->fields) {
      const std::optional<DimValue>& known = Visit(field);
      value.fields.push_back(known && !known->is_tuple ? known->fields[0] : std::nullopt);
    }
    return value;
  }
  if (const auto* project = ir::DynCast<ir::Project>(expr)) {
    const std::optional<DimValue>& tuple = Visit(project->tuple);
    if (!tuple || !tuple->is_tuple || project->index >= tuple->fields.size()) return std::nullopt;
    const std::optional<DimTensor>& field = tuple->fields[project->index];
    return field ? std::optional(DimValue{false, {field}}) : std::nullopt;
  }
  const auto* call = ir::DynCast<ir::Call>(expr);
  return call != nullptr && ir::OpCallee(call) != nullptr ? VisitCall(*call) : std::nullopt;
}

std::optional<DimValue> DimEvaluator::VisitCall(const ir::Call& call) {
  const ir::Type* result = type_of_(&call);
  if (!UnknownValueOf(result)) return std::nullopt;
  std::vector<const ir::Type*> types;
  std::vector<std::optional<DimValue>> args;
  for (const ir::Expr* arg : call.args) {
    types.push_back(type_of_(arg));
    args.push_back(Visit(arg));
  }
  return EvaluateOnDims(*ir::OpCallee(&call), call.attrs, types, args, result);
}

}  // namespace rvm::ops
