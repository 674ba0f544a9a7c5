#include "compiler/target/tile_product.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/op_def.h"
#include "serialization/device_contract.h"

namespace rvm::target {
namespace {

// The accelerator's bounds.
constexpr int64_t kMaxExtent = 0x7fffffff;
constexpr int64_t kMaxStep = 1 << 24;

// A coordinate: a constant and multiples of loops.
struct Place {
  struct Term {
    size_t loop;
    int64_t step = 1;
  };
  std::vector<Term> terms;
  int64_t constant = 0;
};

// A product as loops over tiles (sim_device.h).
struct Product {
  Dims loops;
  size_t num_outer = 0;
  size_t rows = 0, columns = 0, depth = 0;
  std::array<std::vector<Place>, 3> places;  // factors, result; by axis

  size_t Loop(const Dim& extent) {
    loops.push_back(extent);
    return loops.size() - 1;
  }
};

struct Operands {
  const ir::Attrs& attrs;
  Dims data, weight, result;
};

// (..., m, k) by (n, k)
std::optional<Product> DescribeDense(const Operands& op) {
  if (op.data.size() < 2) return std::nullopt;
  Product product;
  std::array<std::vector<Place>, 3>& places = product.places;
  for (size_t axis = 0; axis + 1 < op.data.size(); ++axis) {
    product.rows = product.Loop(op.data[axis]);
    places[0].push_back({{{product.rows}}});
    places[2].push_back({{{product.rows}}});
  }
  product.columns = product.Loop(op.weight[0]);
  product.num_outer = product.loops.size();
  product.depth = product.Loop(op.weight[1]);
  places[0].push_back({{{product.depth}}});
  places[1] = {{{{product.columns}}}, {{{product.depth}}}};
  places[2].push_back({{{product.columns}}});
  return product;
}

std::optional<Product> DescribeBatchMatmul(const Operands& op) {
  const Dim &a = op.data[0], &b = op.weight[0];
  // Whether an unknown extent is broadcast shows only at run time.
  bool is_known = (a.is_const() && b.is_const()) || CompareDims(a, b) == DimEquality::kEqual;
  if (!is_known) return std::nullopt;
  bool transposes_a = op.attrs.GetBool("transpose_a"), transposes_b = op.attrs.GetBool("transpose_b");
  Product product;
  size_t batch = product.Loop(a == Dim(1) ? b : a);
  product.rows = product.Loop(op.data[transposes_a ? 2 : 1]);
  product.columns = product.Loop(op.weight[transposes_b ? 1 : 2]);
  product.num_outer = 3;
  product.depth = product.Loop(op.weight[transposes_b ? 2 : 1]);
  auto batch_of = [&](const Dim& extent) { return extent == Dim(1) ? Place{} : Place{{{batch}}}; };
  product.places[0] = {batch_of(a), {{{product.rows}}}, {{{product.depth}}}};
  if (transposes_a) std::swap(product.places[0][1], product.places[0][2]);
  product.places[1] = {batch_of(b), {{{product.depth}}}, {{{product.columns}}}};
  if (transposes_b) std::swap(product.places[1][1], product.places[1][2]);
  product.places[2] = {{{{batch}}}, {{{product.rows}}}, {{{product.columns}}}};
  return product;
}

std::optional<Product> DescribeConvolution(const Operands& op) {
  const std::string& data_layout = op.attrs.GetString("data_layout");
  const std::string& out_layout = op.attrs.GetString("out_layout");
  ops::Layout data(data_layout), kernel(op.attrs.GetString("kernel_layout"));
  ops::Layout out(out_layout.empty() ? data_layout : out_layout);
  std::vector<int64_t> taps;
  for (size_t axis : kernel.spatial) taps.push_back(op.weight[axis].AsConst().value_or(0));
  std::optional<std::vector<ops::Window>> windows = ops::MakeWindows(op.attrs, taps, nullptr);
  const Dim &outputs = op.weight[kernel.axis('O')], &inputs = op.weight[kernel.axis('I')];
  int64_t groups = op.attrs.GetInt("groups");
  // With groups, filters of the form (C, M, ...) are read differently.
  bool is_plain = groups == 1 || (outputs.is_const() && op.data[data.axis('C')] == inputs * groups);
  for (size_t axis : data.spatial) is_plain = is_plain && op.data[axis].is_const();
  if (!windows || !is_plain) return std::nullopt;

  Product product;
  size_t batch = product.Loop(op.data[data.axis('N')]), group = product.Loop(groups);
  std::vector<size_t> steps;
  for (size_t axis : out.spatial) steps.push_back(product.Loop(op.result[axis]));
  product.rows = steps.back();
  product.columns = product.Loop(FloorDiv(outputs, groups));
  product.num_outer = product.loops.size();
  product.depth = product.Loop(inputs);
  int64_t in_step = inputs.AsConst().value_or(0), out_step = FloorDiv(outputs, groups).AsConst().value_or(0);

  for (std::vector<Place>& places : product.places) places.resize(op.data.size());
  product.places[0][data.axis('N')] = product.places[2][out.axis('N')] = {{{batch}}};
  product.places[0][data.axis('C')] = {{{group, in_step}, {product.depth}}};
  product.places[1][kernel.axis('I')] = {{{product.depth}}};
  product.places[1][kernel.axis('O')] = {{{group, out_step}, {product.columns}}};
  product.places[2][out.axis('C')] = {{{group, out_step}, {product.columns}}};
  for (size_t s = 0; s < steps.size(); ++s) {
    const ops::Window& window = (*windows)[s];
    size_t tap = product.Loop(window.extent);
    product.places[0][data.spatial[s]] = {{{steps[s], window.stride}, {tap, window.dilation}}, -window.pad_before};
    product.places[1][kernel.spatial[s]] = {{{tap}}};
    product.places[2][out.spatial[s]] = {{{steps[s]}}};
  }
  return product;
}

// Operators that become products, if their types fit. Those of quantised tensors have zero points.
struct Pattern {
  std::string_view op;
  std::optional<Product> (*describe)(const Operands&);
  bool has_zeros = false;
};
constexpr Pattern kPatterns[] = {
    {"nn.dense", DescribeDense},
    {"nn.batch_matmul", DescribeBatchMatmul},
    {"nn.conv1d", DescribeConvolution},
    {"nn.conv2d", DescribeConvolution},
    {"nn.conv3d", DescribeConvolution},
    {"qnn.dense", DescribeDense, true},
    {"qnn.batch_matmul", DescribeBatchMatmul, true},
    {"qnn.conv2d", DescribeConvolution, true},
};

const Pattern* FindPattern(const ir::Call& call) {
  const ops::OpDef* op = ir::OpCallee(&call);
  const auto* found = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                   [&](const Pattern& pattern) { return op != nullptr && pattern.op == op->name; });
  return found == std::end(kPatterns) ? nullptr : found;
}

// Returns the constant zero point of factor `factor`.
std::optional<int64_t> ZeroOf(const Pattern& pattern, const ir::Call& call, size_t factor) {
  if (!pattern.has_zeros) return 0;
  const auto* constant = ir::DynCast<ir::Constant>(call.args[factor + 2]);
  if (constant == nullptr || constant->literal.rank() != 0) return std::nullopt;
  int64_t zero = constant->literal.IntAt(0);
  return zero < -128 || zero > 255 ? std::nullopt : std::optional(zero);
}

bool IsByte(DataType dtype) { return dtype == kInt8 || dtype == kUInt8; }

// Returns whether the accelerator's bounds hold for all numbers of the code.
bool FitsBounds(const Product& product) {
  auto fits = [](int64_t number, int64_t most) { return number >= -most && number <= most; };
  for (const Dim& loop : product.loops) {
    if (loop.is_const() && !fits(loop.constant(), kMaxExtent)) return false;
  }
  for (const std::vector<Place>& places : product.places) {
    for (const Place& place : places) {
      bool all_fit = fits(place.constant, kMaxExtent);
      for (const Place::Term& term : place.terms) all_fit = all_fit && fits(term.step, kMaxStep);
      if (!all_fit) return false;
    }
  }
  return true;
}

const Dims& DimsOf(const ir::Type* type) { return ir::DynCast<ir::TensorType>(type)->shape.dims; }

class TileWriter {
 public:
  TileWriter(const KernelDesc& kernel, const Product& product) : kernel_(kernel), product_(product) {}

  absl::StatusOr<std::string> Write(uint32_t number, const std::array<size_t, 3>& arguments,
                                    const std::array<int64_t, 2>& zeros) {
    out_ =
        absl::StrCat("product ", device_contract::FunctionName(number, 0), "\nloops ", product_.loops.size(), " ",
                     product_.num_outer, " ", product_.rows, " ", product_.columns, " ", product_.depth, "\nextents");
    for (const Dim& loop : product_.loops) RVM_RETURN_IF_ERROR(AddExtent(loop));
    for (size_t t = 0; t < 3; ++t) {
      bool is_result = t == 2;
      const KernelTensor& tensor = is_result ? kernel_.results[0] : kernel_.params[arguments[t]];
      size_t argument = is_result ? kernel_.params.size() : arguments[t];
      absl::StrAppend(&out_, "\ntensor ", argument, " ", tensor.dtype.ToString(), " ", is_result ? 0 : zeros[t], " ",
                      tensor.dims.size());
      for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
        out_ += "\naxis";
        RVM_RETURN_IF_ERROR(AddExtent(tensor.dims[axis]));
        AddPlace(product_.places[t][axis]);
      }
    }
    return out_ + "\n";
  }

 private:
  absl::Status AddExtent(const Dim& dim) {
    if (dim.is_const()) {
      absl::StrAppend(&out_, " ", dim.constant());
      return absl::OkStatus();
    }
    if (dim.kind() != DimKind::kVar) {
      return absl::UnimplementedError(absl::StrCat("the extent ", dim.ToString(), " is computed"));
    }
    // Behind the tensors and the workspace.
    absl::StrAppend(&out_, " a", kernel_.params.size() + kernel_.results.size() + 1 + static_cast<size_t>(dim.id()));
    return absl::OkStatus();
  }

  void AddPlace(const Place& place) {
    absl::StrAppend(&out_, " ", place.constant);
    for (size_t loop = 0; loop < product_.loops.size(); ++loop) {
      int64_t step = 0;
      for (const Place::Term& term : place.terms) step += term.loop == loop ? term.step : 0;
      absl::StrAppend(&out_, " ", step);
    }
  }

  const KernelDesc& kernel_;
  const Product& product_;
  std::string out_;
};

}  // namespace

bool IsTileProduct(const ir::Call& call) {
  const Pattern* pattern = FindPattern(call);
  if (pattern == nullptr) return false;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto* type = ir::DynCast<ir::TensorType>(call.args[i]->type);
    if (type == nullptr || !type->shape.is_dims() || (i < 2 && !IsByte(type->dtype.dtype))) return false;
  }
  const auto* result = ir::DynCast<ir::TensorType>(call.type);
  if (result == nullptr || !result->shape.is_dims() || result->dtype.dtype != kInt32) return false;
  if (!ZeroOf(*pattern, call, 0) || !ZeroOf(*pattern, call, 1)) return false;
  std::optional<Product> product =
      pattern->describe({call.attrs, DimsOf(call.args[0]->type), DimsOf(call.args[1]->type), DimsOf(call.type)});
  return product.has_value() && FitsBounds(*product);
}

absl::StatusOr<std::string> MakeTileProduct(uint32_t number, const KernelDesc& kernel, const ir::Function& primitive) {
  const ir::Expr* body = primitive.body;
  if (const auto* let = ir::DynCast<ir::Let>(body)) body = let->value;
  const auto* call = ir::DynCast<ir::Call>(body);
  const Pattern* pattern = call == nullptr ? nullptr : FindPattern(*call);
  RVM_CHECK(pattern != nullptr && kernel.results.size() == 1, "a kernel for the accelerator is no product");
  std::array<size_t, 3> arguments = {};
  std::array<int64_t, 2> zeros = {};
  for (size_t factor = 0; factor < 2; ++factor) {
    const auto* use = ir::DynCast<ir::VarExpr>(call->args[factor]);
    RVM_CHECK(use != nullptr, "a factor is no parameter of its kernel");
    auto param = std::find(primitive.params.begin(), primitive.params.end(), use->var);
    RVM_CHECK(param != primitive.params.end(), "a factor is no parameter of its kernel");
    arguments[factor] = static_cast<size_t>(param - primitive.params.begin());
    zeros[factor] = ZeroOf(*pattern, *call, factor).value_or(0);
  }
  std::optional<Product> product = pattern->describe(
      {call->attrs, kernel.params[arguments[0]].dims, kernel.params[arguments[1]].dims, kernel.results[0].dims});
  if (!product) return absl::UnimplementedError("its extents are not known");
  return TileWriter(kernel, *product).Write(number, arguments, zeros);
}

}  // namespace rvm::target
