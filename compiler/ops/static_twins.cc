#include "compiler/ops/static_twins.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/dim_bounds.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

using List = ir::AttrValue::List;

// How the elements of an argument are written as an attribute.
enum class Form : uint8_t { kNone, kInt, kInts, kPairs, kFloat, kRegion };

struct TakenArg {
  size_t arg = 0;
  std::string_view attr;
  Form form = Form::kNone;
};

struct Operation {
  const OpDef& op;
  const ir::Attrs& attrs;
  const KnownArguments& known;
  const ir::Type* result;

  const Dims* DimsOf(const ir::Type* type) const {
    const auto* tensor = ir::DynCast<ir::TensorType>(type);
    return tensor != nullptr && tensor->shape.is_dims() ? &tensor->shape.dims : nullptr;
  }
};

// Sets attributes that stand for extents; false if there are none.
using BySymbols = bool (*)(const Operation& call, ir::Attrs& attrs);

struct Twin {
  std::string_view dynamic, plain;
  std::array<TakenArg, 3> taken;
  BySymbols by_symbols = nullptr;
};

bool Same(const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; }

// 0 copies the next extent, and -3 joins the next two.
bool JoinedShape(const Dims& in, const Dims& out, List& shape) {
  size_t at = 0;
  for (const Dim& dim : out) {
    if (dim.is_const() && dim != Dim(0)) {
      shape.emplace_back(dim.constant());
      ++at;
    } else if (at < in.size() && Same(dim, in[at])) {
      shape.emplace_back(0);
      ++at;
    } else if (at + 1 < in.size() && Same(dim, in[at] * in[at + 1])) {
      shape.emplace_back(-3);
      at += 2;
    } else {
      return false;
    }
  }
  return true;
}

// 0 copies an extent, and -1 is the quotient of the extents that are not copied.
bool ReshapeAttrs(const Operation& call, ir::Attrs& attrs) {
  const Dims *in = call.DimsOf(call.known.types[0]), *out = call.DimsOf(call.result);
  if (in == nullptr || out == nullptr) return false;
  List shape;
  Dims rest = *in;
  std::optional<size_t> inferred;
  bool has_zero = false, copies = false;
  int64_t given = 1;
  for (size_t i = 0; i < out->size(); ++i) {
    const Dim& dim = (*out)[i];
    if (dim.is_const()) {
      has_zero = has_zero || dim == Dim(0);
      if (__builtin_mul_overflow(given, dim.constant(), &given)) return false;
      shape.emplace_back(dim.constant());
    } else if (i < in->size() && Same(dim, (*in)[i])) {
      copies = true;
      rest[i] = 1;
      shape.emplace_back(0);
    } else if (!inferred) {
      inferred = i;
      shape.emplace_back(-1);
    } else {
      List joined;
      if (!JoinedShape(*in, *out, joined)) return false;
      attrs.Set("newshape", joined);
      attrs.Set("allowzero", 0);
      return true;
    }
  }
  if (has_zero && (copies || inferred)) return false;
  if (inferred && !Same(FloorDiv(Volume(rest), given), (*out)[*inferred])) return false;
  attrs.Set("newshape", shape);
  attrs.Set("allowzero", has_zero ? 1 : 0);
  return true;
}

// -1 keeps an extent.
bool BroadcastAttrs(const Operation& call, ir::Attrs& attrs) {
  const Dims *in = call.DimsOf(call.known.types[0]), *out = call.DimsOf(call.result);
  if (in == nullptr || out == nullptr || in->size() > out->size()) return false;
  List shape;
  size_t lead = out->size() - in->size();
  for (size_t i = 0; i < out->size(); ++i) {
    const Dim& dim = (*out)[i];
    bool is_kept = i >= lead && Same(dim, (*in)[i - lead]);
    if (!is_kept && !dim.is_const()) return false;
    shape.emplace_back(dim.is_const() ? dim.constant() : -1);
  }
  attrs.Set("shape", shape);
  return true;
}

// Returns the number that stands for position `at` of an axis: itself, or its distance to the end.
std::optional<int64_t> Position(const Dim& at, const Dim& extent) {
  if (at.is_const()) return at.constant();
  std::optional<int64_t> distance = (at - extent).AsConst();
  for (int64_t d = -8; !distance && d <= 0; ++d) {
    if (Same(extent + d, at)) distance = d;
  }
  if (!distance || !IsNatural(at)) return std::nullopt;
  return *distance >= 0 ? INT64_MAX : *distance;
}

bool SliceAttrs(const Operation& call, ir::Attrs& attrs) {
  const Dims* in = call.DimsOf(call.known.types[0]);
  std::vector<Dim> begin = call.known.elements(1), end = call.known.elements(2), stride = call.known.elements(3);
  bool is_known = in != nullptr && !begin.empty() && begin.size() == end.size() && begin.size() == stride.size();
  if (!is_known || call.attrs.GetString("slice_mode") == "size") return false;
  std::vector<int64_t> axes;
  if (!call.attrs.IsNone("axes")) axes = call.attrs.GetInts("axes");
  List begins, ends, strides;
  for (size_t k = 0; k < begin.size(); ++k) {
    size_t axis = k < axes.size() ? Normal(axes[k], in->size()) : k;
    if (axis >= in->size() || !stride[k].is_const()) return false;
    std::optional<int64_t> from = Position(begin[k], (*in)[axis]), to = Position(end[k], (*in)[axis]);
    if (!from || !to) return false;
    begins.emplace_back(*from);
    ends.emplace_back(*to);
    strides.emplace_back(stride[k].constant());
  }
  attrs.Set("begin", begins);
  attrs.Set("end", ends);
  attrs.Set("strides", strides);
  return true;
}

constexpr TakenArg kShape = {0, "shape", Form::kInts};

constexpr Twin kTwins[] = {
    {"dyn.broadcast_to", "broadcast_to", {{{1, "shape", Form::kInts}}}, BroadcastAttrs},
    {"dyn.expand_dims", "expand_dims", {{{1, "axis", Form::kInt}}}},
    {"dyn.full", "full", {{{1, "shape", Form::kInts}}}},
    {"dyn.image.resize2d", "image.resize2d", {{{1, "size", Form::kInts}, {2, "roi", Form::kRegion}}}},
    {"dyn.nn.pad", "nn.pad", {{{1, "pad_width", Form::kPairs}}}},
    {"dyn.nn.upsampling", "nn.upsampling", {{{1, "scale_h", Form::kFloat}, {2, "scale_w", Form::kFloat}}}},
    {"dyn.nn.upsampling3d",
     "nn.upsampling3d",
     {{{1, "scale_d", Form::kFloat}, {2, "scale_h", Form::kFloat}, {3, "scale_w", Form::kFloat}}}},
    {"dyn.one_hot", "one_hot", {{{3, "depth", Form::kInt}}}},
    {"dyn.ones", "ones", {{kShape}}},
    {"dyn.random.normal", "random.normal", {{{3, "out_shape", Form::kInts}}}},
    {"dyn.random.uniform", "random.uniform", {{{3, "out_shape", Form::kInts}}}},
    {"dyn.reshape", "reshape", {{{1, "newshape", Form::kInts}}}, ReshapeAttrs},
    {"dyn.sparse_to_dense", "sparse_to_dense", {{{3, "output_shape", Form::kInts}}}},
    {"dyn.squeeze", "squeeze", {{{1, "axis", Form::kInts}}}},
    {"dyn.strided_slice",
     "strided_slice",
     {{{1, "begin", Form::kInts}, {2, "end", Form::kInts}, {3, "strides", Form::kInts}}},
     SliceAttrs},
    {"dyn.tile", "tile", {{{1, "reps", Form::kInts}}}},
    {"dyn.topk", "topk", {{{1, "k", Form::kInt}}}},
    {"dyn.zeros", "zeros", {{kShape}}},
};

const Twin* FindTwin(std::string_view name) {
  const auto* twin =
      std::find_if(std::begin(kTwins), std::end(kTwins), [&](const Twin& t) { return t.dynamic == name; });
  return twin == std::end(kTwins) ? nullptr : twin;
}

bool IsTaken(const Twin& twin, size_t arg) {
  return std::any_of(twin.taken.begin(), twin.taken.end(),
                     [&](const TakenArg& taken) { return taken.form != Form::kNone && taken.arg == arg; });
}

std::optional<ir::AttrValue> NumbersOf(const Operation& call, const TakenArg& taken) {
  std::vector<Dim> elements = call.known.elements(taken.arg);
  const Dims* dims = call.DimsOf(call.known.types[taken.arg]);
  bool is_empty = dims != nullptr && dims->size() == 1 && (*dims)[0] == Dim(0);
  std::optional<Shape> numbers = StaticShape(Dims(elements.begin(), elements.end()));
  if (!numbers || (elements.empty() && !is_empty)) return std::nullopt;
  List list(numbers->begin(), numbers->end());
  if (taken.form == Form::kInts) return list;
  if (taken.form == Form::kInt) return list.size() == 1 ? std::optional(list[0]) : std::nullopt;
  if (list.size() % 2 != 0) return std::nullopt;
  List pairs;
  for (size_t i = 0; i < list.size(); i += 2) pairs.emplace_back(List{list[i], list[i + 1]});
  return pairs;
}

// The attribute that says what argument `taken.arg` says; nullopt if it is not constant.
std::optional<ir::AttrValue> AttributeOf(const Operation& call, const TakenArg& taken) {
  if (taken.form == Form::kRegion && call.attrs.GetString("coordinate_transformation_mode") != "tf_crop_and_resize") {
    return ir::AttrValue();  // not read
  }
  if (taken.form != Form::kFloat && taken.form != Form::kRegion) return NumbersOf(call, taken);
  const Literal* literal = call.known.literal(taken.arg);
  if (literal == nullptr || literal->num_elements() > 16) return std::nullopt;
  List list;
  for (int64_t i = 0; i < literal->num_elements(); ++i) list.emplace_back(literal->DoubleAt(i));
  if (taken.form == Form::kRegion) return list;
  return list.size() == 1 ? std::optional(list[0]) : std::nullopt;
}

// Returns the attributes that the twins share, and defaults.
ir::Attrs SharedAttrs(const OpDef& op, const ir::Attrs& attrs, const OpDef& plain) {
  ir::Attrs shared;
  for (const AttrSpec& spec : plain.attrs) {
    bool is_shared = std::any_of(op.attrs.begin(), op.attrs.end(),
                                 [&](const AttrSpec& own) { return own.name == spec.name && own.type == spec.type; });
    const ir::AttrValue* value = is_shared ? attrs.Find(spec.name) : nullptr;
    if (value != nullptr && !value->is_none()) shared.Set(std::string(spec.name), *value);
  }
  return shared;
}

}  // namespace

const OpDef* StaticTwinOf(const OpDef& op) {
  const Twin* twin = FindTwin(op.name);
  return twin == nullptr ? nullptr : FindOp(twin->plain);
}

std::optional<StaticCall> ToStaticCall(const OpDef& op, const ir::Attrs& attrs, const KnownArguments& known,
                                       const ir::Type* result) {
  const Twin* twin = FindTwin(op.name);
  if (twin == nullptr) return std::nullopt;
  Operation operation{op, attrs, known, result};
  StaticCall call{.op = FindOp(twin->plain)};
  call.attrs = SharedAttrs(op, attrs, *call.op);
  bool is_expressed = true;
  for (const TakenArg& taken : twin->taken) {
    if (taken.form == Form::kNone) continue;
    std::optional<ir::AttrValue> value = AttributeOf(operation, taken);
    is_expressed = is_expressed && value.has_value();
    if (value) call.attrs.Set(std::string(taken.attr), *std::move(value));
  }
  // `dyn.reshape` and `reshape` read other codes below -1.
  bool is_coded = op.name == "dyn.reshape";
  if ((is_coded || !is_expressed) && (twin->by_symbols == nullptr || !twin->by_symbols(operation, call.attrs))) {
    return std::nullopt;
  }
  for (size_t i = 0; i < known.types.size(); ++i) {
    if (!IsTaken(*twin, i)) call.args.push_back(i);
  }
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  if (!CompleteAttrs(*call.op, {}, call.attrs, diagnostics)) return std::nullopt;
  // In the order of the table, so that equal calls are found to be equal.
  ir::Attrs ordered;
  for (const AttrSpec& spec : call.op->attrs) ordered.Set(std::string(spec.name), *call.attrs.Find(spec.name));
  call.attrs = std::move(ordered);
  return call;
}

}  // namespace rvm::ops
