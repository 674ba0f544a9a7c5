// Gives the data of products of bytes the other sign than their weights have.
//
// Takes and gives A-normal form. Programs with devices stay as they are. CPUs multiply four bytes of an unsigned and
// four of a signed factor in one instruction (docs/decisions/0086-mixed-signs.md). Where a convolution or a matrix
// product has data and constant weights of one dtype, its tile flips the upper bits of the data in each step, and sums
// up the weights beside its own sums. Here the data is flipped where it is made: x of int8 becomes x + 128 of uint8,
// and x of uint8 becomes x - 128 of int8. What that adds to the sums is known here, and is subtracted from them, with
// constants that the program adds in one step.
//
// Padding, max pooling, moves, concatenations and look-ups in constant tables give flipped tensors from flipped ones;
// conversions to wider numbers read a flipped tensor, too. Other uses read the tensor as it was.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/literal.h"
#include "base/value.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

constexpr int64_t kUpperBit = 128;

bool IsByte(DataType dtype) { return dtype == kInt8 || dtype == kUInt8; }

// Returns the dtype of the tensor; kBool, which is none of those that matter here, if `expr` is no tensor.
DataType DTypeOf(const Expr* expr) {
  const ir::TensorType* type = TensorOf(expr);
  return type != nullptr && type->dtype.is_concrete() ? type->dtype.dtype : kBool;
}

DataType Other(DataType byte) { return byte == kInt8 ? kUInt8 : kInt8; }

// Returns what an element has more once it is flipped.
int64_t Increase(DataType byte) { return byte == kInt8 ? kUpperBit : -kUpperBit; }

// Returns the bytes with their upper bits flipped.
Literal Flipped(const Literal& bytes) {
  std::vector<std::byte> flipped(bytes.data(), bytes.data() + bytes.bytes());
  for (std::byte& byte : flipped) byte ^= std::byte{kUpperBit};
  return Literal::FromBytes(Other(bytes.dtype()), bytes.shape(), flipped);
}

// A product of data by constant weights, both bytes, with sums in int32.
struct Product {
  const Literal* weights;
  int64_t axis;                      // of the result, along which the weights' columns lie
  size_t column;                     // the axis of the weights that has them
  std::vector<ops::Window> windows;  // of a convolution
  bool has_depth;                    // sums products of several channels
};

std::optional<Product> ReadProduct(const ir::Call& call) {
  const std::string_view op = ir::OpCallee(&call)->name;
  const bool is_conv = op == "nn.conv1d" || op == "nn.conv2d" || op == "nn.conv3d";
  if ((!is_conv && op != "nn.dense" && op != "nn.matmul") || DTypeOf(&call) != kInt32) return std::nullopt;
  const Literal* weights = ConstantOf(call.args[1]);
  if (weights == nullptr || !IsByte(weights->dtype()) || TensorOf(call.args[0]) == nullptr) return std::nullopt;
  const auto last = static_cast<int64_t>(TensorOf(&call)->shape.dims.size()) - 1;
  if (!is_conv) {
    const bool by_rows = op == "nn.dense" || call.attrs.GetBool("transpose_b");
    if (weights->rank() != 2) return std::nullopt;
    return Product{weights, last, size_t{by_rows ? 0u : 1u}, {}, true};
  }
  const std::string kernel = call.attrs.GetString("kernel_layout"), data = call.attrs.GetString("data_layout");
  const std::string& given = call.attrs.GetString("out_layout");
  const ops::Layout layout(kernel);
  std::vector<int64_t> taps;
  for (size_t axis : layout.spatial) taps.push_back(weights->shape()[axis]);
  std::optional<std::vector<ops::Window>> windows = ops::MakeWindows(call.attrs, taps, nullptr);
  const auto axis = static_cast<int64_t>((given.empty() ? data : given).find('C'));
  const int64_t columns = weights->shape()[layout.axis('O')];
  if (!windows || !(TensorOf(&call)->shape.dims[static_cast<size_t>(axis)] == Dim(columns))) return std::nullopt;
  return Product{weights, axis, layout.axis('O'), *std::move(windows), weights->shape()[layout.axis('I')] > 1};
}

// Returns what flipped data adds to the sums of the product, in the shape in which it broadcasts with them.
Literal IncreaseOfSums(const Product& product, int64_t rank, DataType data) {
  const Literal& weights = *product.weights;
  const int64_t columns = weights.shape()[product.column];
  int64_t inner = 1;
  for (auto i = static_cast<int64_t>(product.column) + 1; i < weights.rank(); ++i) inner *= weights.shape()[i];
  std::vector<int64_t> sums(static_cast<size_t>(columns), 0);
  for (int64_t i = 0; i < weights.num_elements(); ++i) {
    sums[static_cast<size_t>(i / inner % columns)] += weights.IntAt(i) * Increase(data);
  }
  Shape shape = {columns};
  shape.resize(static_cast<size_t>(rank - product.axis), 1);
  // Sums wrap in int32, and so does this.
  std::vector<int32_t> wrapped;
  for (int64_t sum : sums) wrapped.push_back(static_cast<int32_t>(sum));
  return Literal::FromValues<int32_t>(kInt32, std::move(shape), wrapped);
}

class SignMixer : public Rewriter {
 public:
  using Rewriter::Rewriter;

  Expr* Run(Expr* body) {
    Expr* end = body;
    for (; end->expr_kind == ir::ExprKind::kLet; end = Cast<ir::Let>(end)->body) {
      const auto& let = *Cast<ir::Let>(end);
      values_[let.var] = let.value;
    }
    for (Expr* rest = body; rest->expr_kind == ir::ExprKind::kLet; rest = Cast<ir::Let>(rest)->body) {
      WantDataOf(Cast<ir::Let>(rest)->value);
    }
    WantDataOf(end);
    if (wanted_.empty()) return body;
    for (Expr* rest = body; rest != end; rest = Cast<ir::Let>(rest)->body) {
      const auto& let = *Cast<ir::Let>(rest);
      chain_.push_back({let.var, Changed(let.var, let.value), let.span});
      if (wanted_.contains(let.var)) Flip(let.var, let.span);
    }
    end = Changed(nullptr, end);
    return MakeLets(arena_, chain_, end);
  }

 private:
  static const ir::Var* ByteOf(const Expr* expr) {
    const auto* use = DynCast<ir::VarExpr>(expr);
    return use != nullptr && IsByte(DTypeOf(expr)) ? use->var : nullptr;
  }

  // ---- what is to be flipped

  void WantDataOf(const Expr* value) {
    if (ir::OpCallee(value) == nullptr) return;
    const auto& call = *Cast<ir::Call>(value);
    std::optional<Product> product = ReadProduct(call);
    const ir::Var* data = product && product->has_depth ? ByteOf(call.args[0]) : nullptr;
    if (data != nullptr && DTypeOf(call.args[0]) == product->weights->dtype()) Want(data);
  }

  void Want(const ir::Var* first) {
    std::vector<const ir::Var*> open = {first};
    while (!open.empty()) {
      const ir::Var* var = open.back();
      open.pop_back();
      if (!wanted_.insert(var).second) continue;
      const ir::Call* call = PassingCall(var);
      if (call == nullptr || IsLookup(*call)) continue;
      for (const Expr* arg : DataOf(*call)) open.push_back(ByteOf(arg));
    }
  }

  static bool IsLookup(const ir::Call& call) { return ir::OpCallee(&call)->name == "take"; }

  // Returns the tensors that a call moves.
  static std::vector<Expr*> DataOf(const ir::Call& call) {
    const auto* tuple = DynCast<ir::Tuple>(call.args[0]);
    return tuple != nullptr ? tuple->fields : std::vector<Expr*>{call.args[0]};
  }

  // Returns the call that gives the variable, if it gives the flipped one from flipped data; else null.
  const ir::Call* PassingCall(const ir::Var* var) const {
    auto found = values_.find(var);
    const ops::OpDef* op = found == values_.end() ? nullptr : ir::OpCallee(found->second);
    if (op == nullptr || !ir::TypesEqual(found->second->type, var->type)) return nullptr;
    const auto& call = *Cast<ir::Call>(found->second);
    if (op->name == "take") return IsByte(DTypeOf(call.args[0])) && ConstantOf(call.args[0]) ? &call : nullptr;
    constexpr std::string_view kMoves[] = {"transpose",     "concatenate",   "strided_slice", "nn.max_pool1d",
                                           "nn.max_pool2d", "nn.max_pool3d", "nn.pad"};
    if (!op->is_reshape && std::ranges::find(kMoves, op->name) == std::end(kMoves)) return nullptr;
    if (op->name == "nn.pad" && ConstantOf(call.args[1]) == nullptr && ByteOf(call.args[1]) == nullptr) return nullptr;
    const std::vector<Expr*> data = DataOf(call);
    return std::ranges::all_of(data, [](const Expr* arg) { return ByteOf(arg) != nullptr; }) ? &call : nullptr;
  }

  // ---- flipped tensors

  // Appends the flipped tensor of one that has been bound.
  void Flip(ir::Var* var, ir::Span span) {
    const ir::Call* call = PassingCall(var);
    Expr* flipped = call == nullptr ? nullptr : FlippedCall(*call, span);
    if (flipped == nullptr) flipped = FlipBits(var, span);
    flipped_[var] = At(span).Bind("flipped", flipped, chain_)->var;
  }

  Expr* FlipBits(ir::Var* var, ir::Span span) {
    const ir::Builder at = At(span);
    Expr* bits = at.Use(var);
    const DataType dtype = DTypeOf(bits);
    if (dtype == kInt8) bits = at.Bind("bits", ops::BuildCall(at, "cast", {bits}, {{"dtype", "uint8"}}), chain_);
    Expr* flipped = ops::BuildCall(at, "bitwise_xor", {bits, at.Constant(Literal::ScalarInt(kUInt8, kUpperBit))});
    if (dtype == kInt8) return flipped;
    return ops::BuildCall(at, "cast", {at.Bind("flipped", flipped, chain_)}, {{"dtype", "int8"}});
  }

  // Returns the flipped tensor that `expr` stands for, at the end of the chain.
  Expr* FlippedData(const Expr* expr, ir::Span span) {
    ir::Var* var = Cast<ir::VarExpr>(expr)->var;
    // Parameters are flipped where they are first needed.
    if (!flipped_.contains(var)) Flip(var, span);
    return At(span).Use(flipped_.at(var));
  }

  Expr* FlippedCall(const ir::Call& call, ir::Span span) {
    const ir::Builder at = At(span);
    std::vector<Expr*> args = RewriteAll(call.args);
    if (IsLookup(call)) {
      args[0] = at.Constant(Flipped(*ConstantOf(call.args[0])));
      return Call(call, std::move(args), call.attrs);
    }
    std::vector<Expr*> data = DataOf(call);
    for (Expr*& arg : data) arg = FlippedData(arg, span);
    args[0] = DynCast<ir::Tuple>(call.args[0]) != nullptr ? at.Tuple(std::move(data)) : data[0];
    if (ir::OpCallee(&call)->name == "nn.pad") {
      const Literal* value = ConstantOf(call.args[1]);
      args[1] = value != nullptr ? at.Constant(Flipped(*value)) : FlippedData(call.args[1], span);
    }
    return Call(call, std::move(args), call.attrs);
  }

  Expr* Call(const ir::Call& call, std::vector<Expr*> args, ir::Attrs attrs) {
    const ops::OpDef& op = *ir::OpCallee(&call);
    absl::StatusOr<const ir::Type*> type = ops::ResultType(arena_, op, attrs, args);
    return type.ok() ? At(call.span).CallOp(&op, std::move(args), std::move(attrs), *type) : nullptr;
  }

  // ---- uses

  // Returns what becomes of the value of `var`, or of the end of the body, for which `var` is null. The methods below
  // give null where it stays as it is.
  Expr* Changed(const ir::Var* var, Expr* value) {
    if (ir::OpCallee(value) == nullptr || DynCast<ir::TensorType>(value->type) == nullptr) return value;
    const auto& call = *Cast<ir::Call>(value);
    const std::string_view op = ir::OpCallee(&call)->name;
    Expr* changed = op == "cast"                      ? ChangedCast(var, call)
                    : op == "add" || op == "subtract" ? ChangedSum(var, call)
                                                      : ChangedProduct(var, call);
    return changed == nullptr ? value : changed;
  }

  Expr* ChangedProduct(const ir::Var* var, const ir::Call& call) {
    std::optional<Product> product = ReadProduct(call);
    const ir::Var* data = product ? ByteOf(call.args[0]) : nullptr;
    const DataType dtype = DTypeOf(call.args[0]);
    if (data == nullptr || !wanted_.contains(data) || dtype != product->weights->dtype()) return nullptr;
    ir::Attrs attrs = call.attrs;
    Expr* padded = PaddedData(call, *product, attrs);
    Expr* sums = padded == nullptr ? nullptr : Call(call, {padded, call.args[1]}, std::move(attrs));
    if (sums == nullptr || !ir::TypesEqual(sums->type, call.type)) return nullptr;
    const auto rank = static_cast<int64_t>(TensorOf(&call)->shape.dims.size());
    return Less(var, sums, IncreaseOfSums(*product, rank, dtype), call.span);
  }

  // Returns the flipped data of a product, padded with flipped zeros if `attrs` have it padded; they do not then.
  Expr* PaddedData(const ir::Call& call, const Product& product, ir::Attrs& attrs) {
    Expr* data = FlippedData(call.args[0], call.span);
    const auto has_padding = [](const ops::Window& window) { return window.pad_before != 0 || window.pad_after != 0; };
    if (std::ranges::none_of(product.windows, has_padding)) return data;
    const ops::Layout layout(attrs.GetString("data_layout"));
    std::vector<std::array<int64_t, 2>> widths(layout.letters.size(), {0, 0});
    for (size_t i = 0; i < product.windows.size(); ++i) {
      widths[layout.spatial[i]] = {product.windows[i].pad_before, product.windows[i].pad_after};
    }
    ir::AttrValue::List list;
    for (const auto& [before, after] : widths) list.push_back(ir::AttrValue::List{before, after});
    const ir::Builder at = At(call.span);
    Expr* zero = at.Constant(Flipped(Literal::ScalarInt(Other(DTypeOf(data)), 0)));
    attrs.Set("padding", ir::AttrValue::List{int64_t{0}});
    return at.Bind("padded", ops::BuildCall(at, "nn.pad", {data, zero}, {{"pad_width", std::move(list)}}), chain_);
  }

  Expr* ChangedCast(const ir::Var* var, const ir::Call& call) {
    const ir::Var* data = ByteOf(call.args[0]);
    const DataType to = DTypeOf(&call);
    const bool holds = to.is_float() || (to.is_int() && to.bits > 8);
    if (data == nullptr || !holds || !flipped_.contains(data)) return nullptr;
    const int64_t increase = Increase(DTypeOf(call.args[0]));
    const Literal literal =
        to.is_float() ? Literal::Scalar(to, static_cast<double>(increase)) : Literal::ScalarInt(to, increase);
    return Less(var, Call(call, {At(call.span).Use(flipped_.at(data))}, call.attrs), literal, call.span);
  }

  // Subtracts once what sums and a constant have more.
  Expr* ChangedSum(const ir::Var* var, const ir::Call& call) {
    const size_t constant = ConstantOf(call.args[1]) != nullptr ? 1 : 0;
    const auto* use = DynCast<ir::VarExpr>(call.args[1 - constant]);
    const Literal* literal = ConstantOf(call.args[constant]);
    auto found = use == nullptr ? increased_.end() : increased_.find(use->var);
    const bool is_difference = ir::OpCallee(&call)->name == "subtract";
    bool fits = literal != nullptr && found != increased_.end() && !(is_difference && constant == 0) &&
                literal->dtype().is_int() && ir::TypesEqual(call.args[1 - constant]->type, call.type);
    if (!fits) return nullptr;
    const auto& [sums, increase] = found->second;
    const ops::OpDef& op = *ops::FindOp(is_difference ? "add" : "subtract");
    const std::array<Value, 2> args = {Value::Tensor(increase), Value::Tensor(*literal)};
    absl::StatusOr<Value> together = ops::EvaluateOp(op, *ops::WithDefaults(op, {}), args);
    if (!together.ok()) return nullptr;
    return Less(var, At(call.span).Use(sums), together->tensor(), call.span);
  }

  // Returns `more`, which has `increase` more than the value of `var`, less that.
  Expr* Less(const ir::Var* var, Expr* more, Literal increase, ir::Span span) {
    const ir::Builder at = At(span);
    const auto* use = DynCast<ir::VarExpr>(more);
    ir::Var* sums = use != nullptr ? use->var : at.Bind("more", more, chain_)->var;
    if (var != nullptr && increase.dtype().is_int()) increased_.insert_or_assign(var, std::pair(sums, increase));
    return ops::BuildCall(at, "subtract", {at.Use(sums), at.Constant(std::move(increase))});
  }

  std::vector<Binding> chain_;
  absl::flat_hash_map<const ir::Var*, Expr*> values_;
  absl::flat_hash_set<const ir::Var*> wanted_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> flipped_;
  absl::flat_hash_map<const ir::Var*, std::pair<ir::Var*, Literal>> increased_;  // values, as one less a constant
};

absl::StatusOr<ir::Module> MixedSigns(const ir::Module& module, PassContext& context) {
  if (context.devices != nullptr && !context.devices->kinds().empty()) return module;
  return MapFunctions(
      module, [&](const ir::GlobalFunction& global) { return SignMixer(*module.arena).Run(global.function->body); });
}

}  // namespace

const Pass kMixedSigns = {.name = "mixed_signs",
                          .summary = "products of bytes of an unsigned and a signed factor",
                          .run = MixedSigns,
                          .needs = Form::kANormal,
                          .keeps_effect_order = true};

}  // namespace rvm::passes
