// Computes networks of convolutions on images with their channels last.
//
// Takes and gives A-normal form. Programs with devices stay as they are. Kernels on channels-last images are faster on
// CPUs: their vectors are full, however narrow the image, and rows of pixels follow one another
// (docs/decisions/0085-networks-with-channels-last.md). `nn.conv2d` and `nn.conv2d_transpose` with constant filters on
// images in NCHW are computed in NHWC, and so is what follows it as far as each step has an equal one in that layout:
// pooling, elementwise operators, tables, sums along axes, padding, slices, concatenations and splits. A tensor is
// transposed where it enters these steps, and where another step or a result reads it; a convolution of an image of few
// channels reads it in planes. Transposes of the program between the layouts are dropped.
//
// A function stays as it is if its convolutions are few, or would leave lanes idle, or are little beside the transposes
// that they need.
#include "compiler/passes/layouts/channels_last.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/dim.h"
#include "base/literal.h"
#include "base/permute.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

constexpr std::array<int64_t, 4> kToLast = kAxesOfNhwc, kToFirst = {0, 3, 1, 2};
constexpr size_t kRank = 4;
// Channels that fill a vector. A result whose channels are no multiple leaves lanes idle.
constexpr int64_t kLanes = 16;
// Results of fewer channels are not computed in this layout; images of bytes lose more in the other one.
constexpr int64_t kMinChannels = 16, kMinChannelsOfBytes = 8;
// An image of fewer channels is read in planes: a row of a window has more positions than a pixel.
constexpr int64_t kMinDepth = 4;
// Multiplications in convolutions, of which some time is saved, for each element that is transposed.
constexpr double kMinMultiplications = 200;
// Lanes that compute, with those that are idle because channels are no multiple of a vector's, for each that is needed.
constexpr double kMaxLanes = 1.2;

bool IsConvolution(std::string_view op) { return op == "nn.conv2d" || op == "nn.conv2d_transpose"; }

// Returns whether tiles compute convolutions of the dtypes: products of floats, or of integers of up to 16 bits.
bool Gains(const ir::TensorType& data, const ir::TensorType& out) {
  const DataType from = data.dtype.dtype, to = out.dtype.dtype;
  if (from.is_float()) return (from == kFloat32 || from == kBFloat16) && (to == from || to == kFloat32);
  return (from == kInt8 || from == kUInt8 || from == kInt16) && to == kInt32;
}

bool IsImage(const Expr* expr) { return TensorOf(expr) != nullptr && TensorOf(expr)->shape.dims.size() == kRank; }

// Returns where an axis of NCHW is in NHWC.
int64_t AxisInLast(int64_t axis) {
  axis = axis < 0 ? axis + static_cast<int64_t>(kRank) : axis;
  return std::ranges::find(kToLast, axis) - kToLast.begin();
}

// Returns whether the type is `before` with its axes moved by `axes`.
bool IsMoved(const ir::Type* type, const ir::Type* before, const std::array<int64_t, 4>& axes) {
  const auto *moved = DynCast<ir::TensorType>(type), *from = DynCast<ir::TensorType>(before);
  if (moved == nullptr || from == nullptr || moved->shape.dims.size() != kRank || from->shape.dims.size() != kRank ||
      !(moved->dtype.dtype == from->dtype.dtype)) {
    return false;
  }
  for (size_t i = 0; i < kRank; ++i) {
    if (!(moved->shape.dims[i] == from->shape.dims[static_cast<size_t>(axes[i])])) return false;
  }
  return true;
}

int64_t NumConvolutions(const Expr* body) {
  int64_t count = 0;
  for (; body->expr_kind == ir::ExprKind::kLet; body = Cast<ir::Let>(body)->body) {
    const Expr* value = Cast<ir::Let>(body)->value;
    count += ir::OpCallee(value) != nullptr && IsConvolution(ir::OpCallee(value)->name);
  }
  return count + (ir::OpCallee(body) != nullptr && IsConvolution(ir::OpCallee(body)->name));
}

class LayoutChanger : public Rewriter {
 public:
  using Rewriter::Rewriter;

  // Returns the body of a function with other layouts, or the body itself.
  Expr* Run(Expr* body) {
    if (NumConvolutions(body) < kMinConvolutionsOfNetwork) return body;
    Expr* rest = body;
    for (; rest->expr_kind == ir::ExprKind::kLet; rest = Cast<ir::Let>(rest)->body) {
      const auto& let = *Cast<ir::Let>(rest);
      if (!Move(let.var, let.value, let.span)) chain_.push_back({let.var, Rewrite(let.value), let.span});
    }
    Expr* end = End(rest);
    return Pays(end) ? MakeLets(arena_, chain_, end) : body;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? renamed_.end() : renamed_.find(use->var);
    return found == renamed_.end() ? RewriteChildren(expr) : At(expr->span).Use(found->second);
  }

 private:
  // Returns what becomes of the end of the body.
  Expr* End(Expr* end) {
    const ir::Builder at = At(end->span);
    ir::Var* var = at.Var("end", end->type);
    return ir::OpCallee(end) != nullptr && Move(var, end, end->span) ? Rewrite(at.Use(var)) : Rewrite(end);
  }

  bool Pays(const Expr* end) const {
    if (num_convolutions_ < kMinConvolutionsOfNetwork || lanes_ > needed_lanes_ * kMaxLanes) return false;
    // Only what the end depends on counts: the rest is dropped.
    UseCounts uses;
    CountUses(end, uses);
    double elements = 0;  // that are transposed
    for (size_t i = chain_.size(); i-- > 0;) {
      const Binding& step = chain_[i];
      if (ir::OpCallee(step.value) != nullptr && !uses.contains(step.var)) continue;
      CountUses(step.value, uses);
      if (transposes_.contains(step.var)) elements += TransposedElements(*step.var);
    }
    return needed_lanes_ >= elements * kMinMultiplications;
  }

  // An extent that is not known counts as 1. Images of one pixel and the like are transposed without a move.
  static double TransposedElements(const ir::Var& var) {
    const Dims& dims = DynCast<ir::TensorType>(var.type)->shape.dims;
    if (std::ranges::count(dims, Dim(1)) >= 2) return 0;
    double elements = 1;
    for (const Dim& dim : dims) elements *= static_cast<double>(dim.AsConst().value_or(1));
    return elements;
  }

  // Adds up the work of a convolution that has been moved. An extent that is not known counts as 1.
  void Count(const ir::Call& conv) {
    const Dims& out = TensorOf(&conv)->shape.dims;
    // Each element of the smaller image meets all filters.
    const bool is_transposed = ir::OpCallee(&conv)->name == "nn.conv2d_transpose";
    const Dims& positions = is_transposed ? TensorOf(conv.args[0])->shape.dims : out;
    double work = static_cast<double>(ConstantOf(conv.args[1])->num_elements());
    for (size_t axis : {2, 3}) work *= static_cast<double>(positions[axis].AsConst().value_or(1));
    const int64_t channels = out[1].constant(), padded = (channels + kLanes - 1) / kLanes * kLanes;
    ++num_convolutions_;
    needed_lanes_ += work;
    lanes_ += work * static_cast<double>(padded) / static_cast<double>(channels);
  }

  // ---- operands

  ir::Var* LastOf(const Expr* expr) const {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? last_.end() : last_.find(use->var);
    return found == last_.end() ? nullptr : found->second;
  }

  bool HasLast(const std::vector<Expr*>& args) const {
    return std::ranges::any_of(args, [&](const Expr* arg) { return LastOf(arg) != nullptr; });
  }

  // Returns an image with its channels last.
  Expr* ToLast(Expr* image, ir::Span span) {
    const ir::Builder at = At(span);
    if (ir::Var* last = LastOf(image)) return at.Use(last);
    if (const auto* constant = DynCast<ir::Constant>(image)) return at.Constant(Permuted(constant->literal, kToLast));
    ir::VarExpr* moved = at.Bind("last", Transposed(Rewrite(image), kToLast, span), chain_);
    if (const auto* use = DynCast<ir::VarExpr>(image)) last_[use->var] = moved->var;
    transposes_.insert(moved->var);
    return moved;
  }

  // Returns an operand that broadcasts with images; null if it cannot be had.
  Expr* BroadcastOperand(Expr* arg, ir::Span span) {
    const ir::TensorType* type = TensorOf(arg);
    if (type == nullptr) return nullptr;
    if (type->shape.dims.empty()) return Rewrite(arg);
    if (type->shape.dims.size() == kRank) return ToLast(arg, span);
    const Literal* literal = ConstantOf(arg);
    if (literal == nullptr) return nullptr;
    Shape shape(kRank - literal->shape().size(), 1);
    shape.insert(shape.end(), literal->shape().begin(), literal->shape().end());
    const Literal whole =
        Literal::FromBytes(literal->dtype(), shape, {literal->data(), static_cast<size_t>(literal->bytes())});
    return At(span).Constant(Permuted(whole, kToLast));
  }

  Expr* Transposed(Expr* image, const std::array<int64_t, 4>& axes, ir::Span span) {
    return ops::BuildCall(At(span), "transpose", {image}, {{"axes", ir::IntList({axes.begin(), axes.end()})}});
  }

  // ---- steps

  // Appends what becomes of the step, if it has an equal one in the other layout.
  bool Move(ir::Var* var, Expr* value, ir::Span span) {
    if (const auto* project = DynCast<ir::Project>(value)) return MoveField(var, *project);
    if (ir::OpCallee(value) == nullptr) return false;
    const auto& call = *Cast<ir::Call>(value);
    if (!ir::TypesEqual(var->type, call.type)) return false;
    const std::string_view op = ir::OpCallee(&call)->name;
    if (op == "transpose") return MoveTranspose(var, call);
    if (op == "split") return MoveSplit(var, value);
    Expr* moved = Moved(call);
    if (moved == nullptr) return false;
    if (IsMoved(moved->type, call.type, kToLast)) {
      Define(var, moved, span);
      if (IsConvolution(op)) Count(call);
      return true;
    }
    // Sums over the pixels of each channel have no layout.
    if (IsImage(&call) || !ir::TypesEqual(moved->type, call.type)) return false;
    chain_.push_back({var, moved, span});
    return true;
  }

  void Define(ir::Var* var, Expr* moved, ir::Span span) {
    ir::VarExpr* last = At(span).Bind("last", moved, chain_);
    last_[var] = last->var;
    transposes_.insert(var);
    chain_.push_back({var, Transposed(At(span).Use(last->var), kToFirst, span), span});
  }

  // Drops a transpose of an image that is there, and keeps one of an image in NHWC, which may be all that is used.
  bool MoveTranspose(const ir::Var* var, const ir::Call& call) {
    if (!IsImage(&call)) return false;
    ir::Var* last = LastOf(call.args[0]);
    if (last != nullptr && IsMoved(call.type, call.args[0]->type, kToLast) &&
        std::ranges::equal(AxesOf(call), kToLast)) {
      renamed_[var] = last;
      return true;
    }
    const auto* use = DynCast<ir::VarExpr>(call.args[0]);
    if (use == nullptr || !std::ranges::equal(AxesOf(call), kToFirst)) return false;
    auto found = renamed_.find(use->var);
    last_[var] = found == renamed_.end() ? use->var : found->second;
    return false;
  }

  bool MoveSplit(ir::Var* var, Expr* value) {
    const auto& call = *Cast<ir::Call>(value);
    if (!HasLast(call.args)) return false;
    Expr* moved = WithAxis(call);
    if (moved == nullptr) return false;
    const auto *before = DynCast<ir::TupleType>(call.type), *type = DynCast<ir::TupleType>(moved->type);
    for (size_t i = 0; i < before->fields.size(); ++i) {
      if (!IsMoved(type->fields[i], before->fields[i], kToLast)) return false;
    }
    tuples_[var] = At(call.span).Bind("last", moved, chain_)->var;
    chain_.push_back({var, Rewrite(value), call.span});
    return true;
  }

  bool MoveField(ir::Var* var, const ir::Project& project) {
    const auto* use = DynCast<ir::VarExpr>(project.tuple);
    auto found = use == nullptr ? tuples_.end() : tuples_.find(use->var);
    if (found == tuples_.end() || !ir::TypesEqual(var->type, project.type)) return false;
    const ir::Builder at = At(project.span);
    Define(var, at.Project(at.Use(found->second), project.index), project.span);
    return true;
  }

  // Returns the call in the other layout; null if there is none.
  Expr* Moved(const ir::Call& call) {
    const ops::OpDef& op = *ir::OpCallee(&call);
    if (IsConvolution(op.name)) return Convolution(call);
    if (op.name == "concatenate") return Concatenation(call);
    if (!HasLast(call.args)) return nullptr;
    if (Broadcasts(op)) return IsImage(&call) ? OfOperands(call, true) : nullptr;
    if (op.fusion == ops::FusionClass::kElementwise) return IsImage(&call) ? OfOperands(call, false) : nullptr;
    if (op.name == "take" && LastOf(call.args[1]) != nullptr) return Lookup(call);
    if (LastOf(call.args[0]) == nullptr) return nullptr;
    constexpr std::string_view kAlongAxis[] = {"nn.bias_add",   "nn.prelu",         "nn.softmax", "nn.log_softmax",
                                               "nn.group_norm", "nn.instance_norm", "take",       "repeat"};
    constexpr std::string_view kAlongAxes[] = {"sum", "mean", "max", "min", "prod"};
    constexpr std::string_view kWithLayout[] = {
        "nn.max_pool2d",          "nn.avg_pool2d",          "nn.global_max_pool2d", "nn.global_avg_pool2d",
        "nn.adaptive_max_pool2d", "nn.adaptive_avg_pool2d", "image.resize2d",       "nn.upsampling"};
    const auto is_one_of = [&](auto& names) { return std::ranges::find(names, op.name) != std::end(names); };
    if (is_one_of(kAlongAxes)) return WithAxes(call);
    if (!IsImage(&call) || (op.name == "take" && call.attrs.GetInt("batch_dims") != 0)) return nullptr;
    if (is_one_of(kAlongAxis)) return WithAxis(call);
    if (op.name == "nn.pad") return Pad(call);
    if (op.name == "strided_slice") return Slice(call);
    const ir::AttrValue* out = call.attrs.Find("out_layout");
    const bool fits = is_one_of(kWithLayout) && call.attrs.GetString("layout") == "NCHW" &&
                      (out == nullptr || call.attrs.GetString("out_layout").empty());
    if (!fits) return nullptr;
    ir::Attrs attrs = call.attrs;
    attrs.Set("layout", "NHWC");
    return Call(call, {ToLast(call.args[0], call.span)}, std::move(attrs));
  }

  // Returns a call with other operands and attributes; null if the operator does not take them.
  Expr* Call(const ir::Call& call, std::vector<Expr*> args, ir::Attrs attrs) {
    for (size_t i = args.size(); i < call.args.size(); ++i) args.push_back(Rewrite(call.args[i]));
    const ops::OpDef& op = *ir::OpCallee(&call);
    absl::StatusOr<const ir::Type*> type = ops::ResultType(arena_, op, attrs, args);
    return type.ok() ? At(call.span).CallOp(&op, std::move(args), std::move(attrs), *type) : nullptr;
  }

  Expr* OfOperands(const ir::Call& call, bool broadcasts) {
    std::vector<Expr*> args;
    for (Expr* arg : call.args) {
      if (!broadcasts && !SameExtents(arg->type, call.type)) return nullptr;
      args.push_back(BroadcastOperand(arg, call.span));
      if (args.back() == nullptr) return nullptr;
    }
    return Call(call, std::move(args), call.attrs);
  }

  // Returns the elements of a table at the places that an image holds, as `tabulate_bytes` makes them.
  Expr* Lookup(const ir::Call& call) {
    const ir::TensorType* table = TensorOf(call.args[0]);
    if (table == nullptr || table->shape.dims.size() != 1 || call.attrs.GetInt("batch_dims") != 0) return nullptr;
    return Call(call, {Rewrite(call.args[0]), ToLast(call.args[1], call.span)}, call.attrs);
  }

  Expr* Convolution(const ir::Call& call) {
    std::optional<ir::Attrs> attrs = WithChannelsLast(call, LastOf(call.args[0]) != nullptr);
    if (!attrs) return nullptr;
    Expr* image = attrs->GetString("data_layout") == "NHWC" ? ToLast(call.args[0], call.span) : Rewrite(call.args[0]);
    return Call(call, {image}, *std::move(attrs));
  }

  Expr* Concatenation(const ir::Call& call) {
    const auto* tuple = DynCast<ir::Tuple>(call.args[0]);
    if (tuple == nullptr || !IsImage(&call) || !HasLast(tuple->fields)) return nullptr;
    std::vector<Expr*> fields;
    for (Expr* field : tuple->fields) fields.push_back(ToLast(field, call.span));
    ir::Attrs attrs = call.attrs;
    attrs.Set("axis", AxisInLast(call.attrs.GetInt("axis")));
    return Call(call, {At(call.span).Tuple(std::move(fields))}, std::move(attrs));
  }

  Expr* Slice(const ir::Call& call) {
    std::vector<int64_t> axes;
    if (call.attrs.IsNone("axes")) {
      axes.resize(call.attrs.GetInts("begin").size());
      std::iota(axes.begin(), axes.end(), int64_t{0});
    } else {
      axes = call.attrs.GetInts("axes");
    }
    for (int64_t& axis : axes) axis = AxisInLast(axis);
    ir::Attrs attrs = call.attrs;
    attrs.Set("axes", ir::IntList(axes));
    return Call(call, {ToLast(call.args[0], call.span)}, std::move(attrs));
  }

  Expr* WithAxis(const ir::Call& call) {
    if (call.attrs.IsNone("axis")) return nullptr;
    ir::Attrs attrs = call.attrs;
    attrs.Set("axis", AxisInLast(call.attrs.GetInt("axis")));
    return Call(call, {ToLast(call.args[0], call.span)}, std::move(attrs));
  }

  Expr* WithAxes(const ir::Call& call) {
    if (call.attrs.IsNone("axis") || call.attrs.GetBool("exclude")) return nullptr;
    std::vector<int64_t> axes = call.attrs.GetInts("axis");
    for (int64_t& axis : axes) axis = AxisInLast(axis);
    // Without the axes that are gone the others must be in the order that they had.
    const auto has = [&](int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); };
    const bool keeps_order = has(AxisInLast(1)) || (has(AxisInLast(2)) && has(AxisInLast(3)));
    if (!call.attrs.GetBool("keepdims") && !keeps_order) return nullptr;
    ir::Attrs attrs = call.attrs;
    attrs.Set("axis", ir::IntList(axes));
    return Call(call, {ToLast(call.args[0], call.span)}, std::move(attrs));
  }

  Expr* Pad(const ir::Call& call) {
    const ir::AttrValue::List* widths = call.attrs.Find("pad_width")->AsList();
    if (widths == nullptr || widths->size() != kRank) return nullptr;
    ir::AttrValue::List moved;
    for (int64_t axis : kToLast) moved.push_back((*widths)[static_cast<size_t>(axis)]);
    ir::Attrs attrs = call.attrs;
    attrs.Set("pad_width", std::move(moved));
    return Call(call, {ToLast(call.args[0], call.span)}, std::move(attrs));
  }

  absl::flat_hash_map<const ir::Var*, ir::Var*> last_;     // the same image with its channels last
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;  // dropped transposes
  absl::flat_hash_map<const ir::Var*, ir::Var*> tuples_;   // the same parts of a split image
  absl::flat_hash_set<const ir::Var*> transposes_;         // between the layouts
  std::vector<Binding> chain_;
  int64_t num_convolutions_ = 0;
  double needed_lanes_ = 0, lanes_ = 0;
};

absl::StatusOr<ir::Module> ChannelsLast(const ir::Module& module, PassContext& context) {
  if (context.devices != nullptr && !context.devices->kinds().empty()) return module;
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return LayoutChanger(*module.arena).Run(global.function->body);
  });
}

}  // namespace

// Few channels of the result leave lanes idle, and so do groups of few channels.
std::optional<ir::Attrs> WithChannelsLast(const ir::Call& convolution, bool has_image_in_last) {
  if (!IsConvolution(ir::OpCallee(&convolution)->name)) return std::nullopt;
  const ir::TensorType *data = TensorOf(convolution.args[0]), *out = TensorOf(&convolution);
  // Filters that are computed would be moved in each call.
  if (ConstantOf(convolution.args[1]) == nullptr || data == nullptr || out == nullptr || !Gains(*data, *out))
    return std::nullopt;
  ir::Attrs attrs = convolution.attrs;
  const std::string out_layout = attrs.GetString("out_layout");
  const int64_t groups = attrs.GetInt("groups");
  const int64_t min_channels = data->dtype.dtype.is_float() ? kMinChannels : kMinChannelsOfBytes;
  const bool is_transposed = ir::OpCallee(&convolution)->name == "nn.conv2d_transpose";
  const bool is_depthwise = !is_transposed && data->shape.dims[1] == Dim(groups);
  const bool fits = attrs.GetString("data_layout") == "NCHW" && (out_layout.empty() || out_layout == "NCHW") &&
                    out->shape.dims[1].AsConst().value_or(0) >= min_channels && (groups == 1 || is_depthwise);
  if (!fits) return std::nullopt;
  const bool has_few = data->shape.dims[1].AsConst().value_or(kMinDepth) < kMinDepth;
  if (!is_transposed && !has_image_in_last && has_few) {
    attrs.Set("out_layout", "NHWC");
  } else {
    attrs.Set("data_layout", "NHWC");
    attrs.Set("out_layout", "");
  }
  return attrs;
}

const Pass kChannelsLast = {.name = "channels_last",
                            .summary = "networks of convolutions on images with their channels last",
                            .run = ChannelsLast,
                            .needs = Form::kANormal,
                            .keeps_effect_order = true};

}  // namespace rvm::passes
