#include "kernels/te/tensor.h"

#include <atomic>
#include <bit>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/stack_guard.h"

namespace rvm::te {
namespace {

// Unique ids of index variables; their order is irrelevant.
int64_t NextIndexId() {
  static std::atomic<int64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Expr Make(ExprNode node) { return Expr(std::make_shared<const ExprNode>(std::move(node))); }

bool IsIndexConst(const Expr& e, int64_t value) {
  return e->kind == ExprKind::kIntConst && e->dtype == kInt64 && e->int_value == value;
}

Expr MakeIndex(const IndexVar& var) {
  ExprNode node{ExprKind::kIndex, kInt64};
  node.index = var;
  return Make(std::move(node));
}

std::vector<IndexVar> MakeAxes(std::span<const Dim> extents, std::string_view prefix, std::vector<Expr>& indices) {
  std::vector<IndexVar> axes;
  for (size_t i = 0; i < extents.size(); ++i) {
    axes.push_back({NextIndexId(), extents[i], absl::StrCat(absl::string_view(prefix.data(), prefix.size()), i)});
    // The index of an axis of extent 1 is always 0, which simplifies reads.
    indices.push_back(extents[i] == Dim(1) ? Index(0) : MakeIndex(axes.back()));
  }
  return axes;
}

std::string Text(UnaryOp op) { return std::string(kUnaryOpNames[static_cast<size_t>(op)]); }
std::string Text(BinaryOp op) { return std::string(kBinaryOpNames[static_cast<size_t>(op)]); }
std::string Text(ReduceOp op) { return std::string(kReduceOpNames[static_cast<size_t>(op)]); }

// Prints expressions with the given names of variables and tensors.
class Printer {
 public:
  Printer(bool canonical, std::vector<const TensorNode*>* pending) : canonical_(canonical), pending_(pending) {}

  std::string Of(const Expr& e) {
    return WithStack([&] { return OnThisStack(e); });
  }
  std::string NameOf(const TensorNode* tensor) {
    auto [it, added] = tensors_.try_emplace(tensor, tensors_.size());
    if (tensor->kind == TensorKind::kSelf) return "self";
    if (added && pending_ != nullptr) pending_->push_back(tensor);
    if (tensor->kind == TensorKind::kInput) return absl::StrCat("in", tensor->input_index);
    return canonical_ ? absl::StrCat("t", it->second) : absl::StrCat(tensor->name, it->second);
  }
  std::string NameOf(const IndexVar& var) {
    auto [it, added] = vars_.try_emplace(var.id, vars_.size());
    return absl::StrCat("i", it->second);
  }
  std::string DimText(const Dim& dim) {
    if (!canonical_) return dim.ToString();
    return SubstituteDim(
               dim,
               [](const Dim& leaf) -> std::optional<Dim> { return Dim::Var(leaf.id(), absl::StrCat("s", leaf.id())); })
        .ToString();
  }
  std::string Axes(const std::vector<IndexVar>& axes) {
    return absl::StrJoin(axes, ", ", [&](std::string* out, const IndexVar& axis) {
      absl::StrAppend(out, NameOf(axis), "<", DimText(axis.extent));
    });
  }

  std::string Of(const TensorUpdate& update) {
    std::string axes = Axes(update.axes);
    std::string text = absl::StrCat("update of ", NameOf(update.base.get()), " {", axes, "}",
                                    update.has_distinct_places ? "" : " in order",
                                    update.fold ? absl::StrCat(" ", Text(*update.fold)) : "");
    for (const Expr& e : Expressions(update)) absl::StrAppend(&text, ", ", Of(e));
    return text;
  }

 private:
  std::string OnThisStack(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kIntConst:
        return e->dtype == kInt64 ? absl::StrCat(e->int_value) : absl::StrCat(e->int_value, ":", e->dtype.ToString());
      case ExprKind::kFloatConst:
        return canonical_ ? absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(e->float_value)), ":", e->dtype.ToString())
                          : absl::StrCat(e->float_value, ":", e->dtype.ToString());
      case ExprKind::kIndex: return NameOf(e->index);
      case ExprKind::kDim: return DimText(e->dim);
      case ExprKind::kRead: return absl::StrCat(NameOf(e->tensor.get()), "[", Operands(*e), "]");
      case ExprKind::kUnary: return absl::StrCat(Text(e->unary), "(", Operands(*e), ")");
      case ExprKind::kBinary:
        return absl::StrCat("(", Of(e->operands[0]), " ", Text(e->binary), " ", Of(e->operands[1]), ")");
      case ExprKind::kSelect: return absl::StrCat("select(", Operands(*e), ")");
      case ExprKind::kCast: return absl::StrCat(e->dtype.ToString(), "(", Operands(*e), ")");
      case ExprKind::kBitcast: return absl::StrCat("bits_", e->dtype.ToString(), "(", Operands(*e), ")");
      case ExprKind::kReduce: {
        std::string axes = Axes(e->axes);
        return absl::StrCat(Text(e->reduce), "{", axes, "}(", Operands(*e), ")");
      }
    }
    return "";
  }
  std::string Operands(const ExprNode& e) {
    return absl::StrJoin(e.operands, ", ", [&](std::string* out, const Expr& o) { *out += Of(o); });
  }

  bool canonical_;
  std::vector<const TensorNode*>* pending_;
  absl::flat_hash_map<const TensorNode*, size_t> tensors_;
  absl::flat_hash_map<int64_t, size_t> vars_;
};

std::string Describe(const Computation& computation, bool canonical) {
  std::vector<const TensorNode*> pending;
  Printer printer(canonical, &pending);
  std::string text = canonical ? "" : absl::StrCat(computation.name, ":\n");
  for (const Tensor& input : computation.inputs) {
    absl::StrAppend(&text, "  ", printer.NameOf(input.get()), ": ", input.dtype().ToString(), "(");
    for (const Dim& dim : input.dims()) absl::StrAppend(&text, printer.DimText(dim), ",");
    text += ")\n";
  }
  for (const Computation::ValueSymbol& value : computation.values) {
    absl::StrAppend(&text, "  ", printer.DimText(value.symbol), " = ",
                    printer.NameOf(computation.inputs[value.input].get()), "[", value.element, "]\n");
  }
  std::string outputs;
  for (const Tensor& output : computation.outputs) absl::StrAppend(&outputs, " ", printer.NameOf(output.get()));
  for (size_t i = 0; i < pending.size(); ++i) {
    const TensorNode* tensor = pending[i];
    if (tensor->kind == TensorKind::kInput) continue;
    std::string name = printer.NameOf(tensor);
    std::string axes = printer.Axes(tensor->axes);
    std::string form = tensor->self ? " scan" : tensor->is_ordered ? " ordered" : tensor->is_stored ? " stored" : "";
    if (tensor->is_ordered && tensor->ordered_first != tensor->dims.back())
      absl::StrAppend(&form, " first ", printer.DimText(tensor->ordered_first));
    absl::StrAppend(&text, "  ", name, "[", axes, "]: ", tensor->dtype.ToString(), form, " = ",
                    printer.Of(tensor->body), "\n");
    if (canonical && tensor->update) absl::StrAppend(&text, "    ", printer.Of(*tensor->update), "\n");
  }
  absl::StrAppend(&text, "  ->", outputs, "\n");
  return text;
}

}  // namespace

DataType Expr::dtype() const { return node_->dtype; }
DataType Tensor::dtype() const { return node_->dtype; }
const Dims& Tensor::dims() const { return node_->dims; }

Expr Tensor::operator()(std::span<const Expr> indices) const {
  RVM_CHECK(indices.size() == rank(), "a tensor is read with another number of indices than its rank");
  ExprNode node{ExprKind::kRead, dtype()};
  node.tensor = *this;
  node.operands.assign(indices.begin(), indices.end());
  return Make(std::move(node));
}
Expr Tensor::operator()(std::initializer_list<Expr> indices) const {
  return (*this)(std::span<const Expr>(indices.begin(), indices.size()));
}

Tensor Input(int64_t index, std::string name, DataType dtype, Dims dims) {
  TensorNode node{TensorKind::kInput, dtype, std::move(dims), std::move(name)};
  node.input_index = index;
  return Tensor(std::make_shared<const TensorNode>(std::move(node)));
}

namespace {

Tensor Compute(TensorNode node, const std::function<Expr(std::span<const Expr>)>& body) {
  std::vector<Expr> indices;
  node.axes = MakeAxes(node.dims, "i", indices);
  node.body = body(indices);
  RVM_CHECK(node.body.dtype() == node.dtype, "a computation's body has another dtype than its tensor");
  return Tensor(std::make_shared<const TensorNode>(std::move(node)));
}

}  // namespace

Tensor ComputeTensor(std::string name, DataType dtype, Dims dims,
                     const std::function<Expr(std::span<const Expr>)>& body) {
  return Compute({TensorKind::kCompute, dtype, std::move(dims), std::move(name)}, body);
}

Tensor ScanTensor(std::string name, DataType dtype, Dims dims,
                  const std::function<Expr(std::span<const Expr>, const Tensor&)>& body) {
  TensorNode self{TensorKind::kSelf, dtype, dims, "self"};
  TensorNode node{TensorKind::kCompute, dtype, std::move(dims), std::move(name)};
  node.self = Tensor(std::make_shared<const TensorNode>(std::move(self)));
  Tensor read = node.self;
  return Compute(std::move(node), [&](std::span<const Expr> i) { return body(i, read); });
}

Tensor OrderTensor(std::string name, const Dims& dims, const Dim& first,
                   const std::function<Expr(std::span<const Expr>)>& key) {
  TensorNode node{TensorKind::kCompute, kInt64, dims, std::move(name)};
  node.dims.insert(node.dims.end() - 1, Dim(4));
  node.is_ordered = true;
  node.ordered_first = first;
  return Compute(std::move(node), [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    Expr which = at[at.size() - 2];
    at.erase(at.end() - 2);
    auto is = [&](int64_t number) { return Binary(BinaryOp::kEqual, which, Index(number)); };
    return Select(is(0), key(at), Select(is(1), at.back(), Index(0)));
  });
}

Dim OrderedRowSize(const Tensor& tensor) { return tensor.dims().back() * tensor.dims().end()[-2]; }

Tensor Stored(const Tensor& tensor) {
  TensorNode node = *tensor;
  node.is_stored = true;
  return Tensor(std::make_shared<const TensorNode>(std::move(node)));
}

Tensor WithUpdate(const Tensor& tensor, TensorUpdate update, const Dims& extents,
                  const std::function<TensorUpdate::Position(std::span<const Expr>)>& position) {
  RVM_CHECK(update.base.dtype() == tensor.dtype() && update.base.rank() == tensor.rank(),
            "a tensor is an update of another kind of tensor");
  std::vector<Expr> indices;
  update.axes = MakeAxes(extents, "u", indices);
  update.counts.resize(extents.size());
  update.self =
      Tensor(std::make_shared<const TensorNode>(TensorNode{TensorKind::kSelf, tensor.dtype(), tensor.dims(), "self"}));
  update.position = position(indices);
  RVM_CHECK(update.position.value.dtype() == tensor.dtype() && update.position.place.size() == tensor.rank(),
            "an update writes other elements than its tensor has");
  TensorNode node = *tensor;
  node.update = std::make_shared<const TensorUpdate>(std::move(update));
  return Tensor(std::make_shared<const TensorNode>(std::move(node)));
}

std::vector<Expr> Expressions(const TensorUpdate& update) {
  std::vector<Expr> all = {update.position.value};
  all.insert(all.end(), update.position.place.begin(), update.position.place.end());
  all.push_back(update.position.condition);
  all.insert(all.end(), update.counts.begin(), update.counts.end());
  all.insert(all.end(), update.usual.begin(), update.usual.end());
  std::erase_if(all, [](const Expr& e) { return !e; });
  return all;
}

Expr Reduce(ReduceOp op, std::span<const Dim> extents, const std::function<Expr(std::span<const Expr>)>& body) {
  std::vector<Expr> indices;
  std::vector<IndexVar> axes = MakeAxes(extents, "r", indices);
  Expr reduced = body(indices);
  DataType dtype = IsArg(op) ? kInt64 : reduced.dtype();
  ExprNode node{ExprKind::kReduce, dtype};
  node.reduce = op;
  node.axes = std::move(axes);
  node.operands = {std::move(reduced)};
  return Make(std::move(node));
}

Expr IntConst(DataType dtype, int64_t value) {
  ExprNode node{ExprKind::kIntConst, dtype};
  node.int_value = value;
  return Make(std::move(node));
}
Expr FloatConst(DataType dtype, double value) {
  ExprNode node{ExprKind::kFloatConst, dtype};
  node.float_value = value;
  return Make(std::move(node));
}
Expr Const(DataType dtype, double value) {
  return dtype.is_float() ? FloatConst(dtype, value) : IntConst(dtype, static_cast<int64_t>(value));
}
Expr Index(int64_t value) { return IntConst(kInt64, value); }
Expr DimValue(const Dim& dim) {
  if (dim.is_const()) return Index(dim.constant());
  ExprNode node{ExprKind::kDim, kInt64};
  node.dim = dim;
  return Make(std::move(node));
}

Expr Unary(UnaryOp op, Expr a) {
  bool predicate = op == UnaryOp::kLogicalNot || IsTest(op);
  ExprNode node{ExprKind::kUnary, predicate ? kBool : a.dtype()};
  node.unary = op;
  node.operands = {std::move(a)};
  return Make(std::move(node));
}

Expr Binary(BinaryOp op, Expr a, Expr b) {
  RVM_CHECK(a.dtype() == b.dtype(), "operands of a te operation have different dtypes");
  if (a.dtype() == kInt64) {  // index arithmetic
    bool constants = a->kind == ExprKind::kIntConst && b->kind == ExprKind::kIntConst;
    switch (op) {
      case BinaryOp::kAdd:
        if (constants) return Index(a->int_value + b->int_value);
        if (IsIndexConst(a, 0)) return b;
        if (IsIndexConst(b, 0)) return a;
        break;
      case BinaryOp::kSubtract:
        if (constants) return Index(a->int_value - b->int_value);
        if (IsIndexConst(b, 0)) return a;
        break;
      case BinaryOp::kMultiply:
        if (constants) return Index(a->int_value * b->int_value);
        if (IsIndexConst(a, 1)) return b;
        if (IsIndexConst(b, 1)) return a;
        if (IsIndexConst(a, 0) || IsIndexConst(b, 0)) return Index(0);
        break;
      case BinaryOp::kFloorDivide:
        if (constants) return Index(EvaluateBinaryDim(DimKind::kFloorDiv, a->int_value, b->int_value));
        if (IsIndexConst(b, 1)) return a;
        break;
      case BinaryOp::kFloorMod:
        if (constants) return Index(EvaluateBinaryDim(DimKind::kFloorMod, a->int_value, b->int_value));
        if (IsIndexConst(b, 1)) return Index(0);
        break;
      case BinaryOp::kDivide:
      case BinaryOp::kTruncDivide:
      case BinaryOp::kTruncMod:
      case BinaryOp::kPower:
      case BinaryOp::kMaximum:
      case BinaryOp::kMinimum:
#define RVM_CASE(Name, text) case BinaryOp::k##Name:
        RVM_BINARY_BIT_OPS(RVM_CASE)
        RVM_COMPARISONS(RVM_CASE)
#undef RVM_CASE
        break;
    }
  }
  ExprNode node{ExprKind::kBinary, IsComparison(op) ? kBool : a.dtype()};
  node.binary = op;
  node.operands = {std::move(a), std::move(b)};
  return Make(std::move(node));
}

Expr Select(Expr condition, Expr then, Expr otherwise) {
  RVM_CHECK(condition.dtype().is_bool() && then.dtype() == otherwise.dtype(), "a te select of mixed dtypes");
  ExprNode node{ExprKind::kSelect, then.dtype()};
  node.operands = {std::move(condition), std::move(then), std::move(otherwise)};
  return Make(std::move(node));
}

Expr Cast(DataType dtype, Expr a) {
  if (a.dtype() == dtype) return a;
  ExprNode node{ExprKind::kCast, dtype};
  node.operands = {std::move(a)};
  return Make(std::move(node));
}

Expr Bitcast(DataType dtype, Expr a) {
  if (a.dtype() == dtype) return a;
  RVM_CHECK(a.dtype().bits == dtype.bits, "a te bitcast to a dtype of other size");
  ExprNode node{ExprKind::kBitcast, dtype};
  node.operands = {std::move(a)};
  return Make(std::move(node));
}

Expr operator+(Expr a, Expr b) { return Binary(BinaryOp::kAdd, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return Binary(BinaryOp::kSubtract, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return Binary(BinaryOp::kMultiply, std::move(a), std::move(b)); }

Expr BroadcastIndex(const Expr& index, const Dim& read_extent, const Dim& iterated_extent) {
  if (read_extent == Dim(1)) return Index(0);
  if (read_extent.is_const() || CompareDims(read_extent, iterated_extent) == DimEquality::kEqual) return index;
  return Select(Binary(BinaryOp::kEqual, DimValue(read_extent), Index(1)), Index(0), index);
}

std::string ToString(const Computation& computation) { return Describe(computation, false); }
std::string ToString(const Expr& expr) { return Printer(false, nullptr).Of(expr); }
std::string Fingerprint(const Computation& computation) { return Describe(computation, true); }

int64_t OperationCost(const ExprNode& e) {
  switch (e.kind) {
    case ExprKind::kUnary: return IsRoot(e.unary) || IsTranscendental(e.unary) ? 20 : 1;
    case ExprKind::kBinary:
      if (e.binary == BinaryOp::kPower) return 40;
      return IsDivision(e.binary) ? 5 : 1;
    case ExprKind::kCast: {
      // Between float64 and int64 most machines convert one element at a time.
      DataType from = e.operands[0].dtype();
      return from.bits == 64 && e.dtype.bits == 64 && from.is_float() != e.dtype.is_float() ? 5 : 1;
    }
    case ExprKind::kSelect: return 1;
    case ExprKind::kIntConst:
    case ExprKind::kFloatConst:
    case ExprKind::kIndex:
    case ExprKind::kDim:
    case ExprKind::kRead:
    case ExprKind::kBitcast:
    case ExprKind::kReduce: return 0;
  }
}

}  // namespace rvm::te
