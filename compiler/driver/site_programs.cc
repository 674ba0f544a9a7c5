#include "compiler/driver/site_programs.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compiler/ir/build.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/layouts/channels_last.h"
#include "compiler/passes/rewriter.h"

namespace rvm::driver {
namespace {

using quantize::Site;
using quantize::SiteKind;

// Returns the extents of the operand in the measured program.
Shape MeasuredShape(const ir::TensorType& type, const std::map<std::string, int64_t>& dims) {
  Shape shape;
  for (const Dim& dim : type.shape.dims) {
    if (dim.is_const()) {
      shape.push_back(dim.constant());
      continue;
    }
    auto given = dims.find(dim.ToString());
    const bool is_batch = shape.empty() && type.shape.dims.size() >= 3;
    shape.push_back(given != dims.end() ? given->second : is_batch ? 1 : 16);
  }
  return shape;
}

// The same with so many elements, if only one extent is open, or leading ones of a product are.
Shape ShapeOf(const Site& site, const std::map<std::string, int64_t>& dims, int64_t elements) {
  const ir::TensorType& type = *passes::TensorOf(site.data());
  Shape shape = MeasuredShape(type, dims);
  if (elements <= 0) return shape;
  const int64_t depth = shape.back();
  if (site.kind == SiteKind::kProduct && shape.size() >= 2 && depth > 0)
    return {std::max<int64_t>(1, elements / depth), depth};
  std::vector<size_t> open;
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (type.shape.dims[i].is_const()) {
      known *= shape[i];
    } else {
      open.push_back(i);
    }
  }
  if (open.size() == 1 && known > 0) shape[open[0]] = std::max<int64_t>(1, elements / known);
  return shape;
}

// Changes the operand's shape to that of the layout in which a network of convolutions computes this one; gives its
// attributes.
ir::Attrs InNetwork(const Site& site, Shape& data) {
  std::optional<ir::Attrs> attrs = passes::WithChannelsLast(*site.call, /*has_image_in_last=*/false);
  if (!attrs) return site.call->attrs;
  if (attrs->GetString("data_layout") != site.call->attrs.GetString("data_layout")) {
    Shape moved;
    for (int64_t axis : passes::kAxesOfNhwc) moved.push_back(data[static_cast<size_t>(axis)]);
    data = std::move(moved);
  }
  return *std::move(attrs);
}

// Returns the weight in float32: as the program stores it, or, if it is to be realized, as the site has it. A
// WeightStore knows a weight by its elements' place.
ir::Expr* Weight(const ir::Builder& at, const Site& site, bool is_realized) {
  if (site.stored == kFloat32 || is_realized) return at.Constant(site.weight);
  return ops::BuildCall(at, "cast", {at.Constant(quantize::Narrowed(site.weight, site.stored))},
                        {{"dtype", "float32"}});
}

// `def @main(%data) { operator(%data, weight) }`, of an operand of that shape. A product of rows that is to be realized
// is a dense layer.
PreparedProgram SiteProgram(const Site& site, const ir::Attrs& attrs, const Shape& data, bool is_realized) {
  PreparedProgram program;
  program.entries = {"main"};
  const ir::Builder at(*program.module.arena, {});
  ir::Var* var = at.DeclaredVar("data", ir::MakeTensorType(at.arena(), ToDims(data), kFloat32));
  const auto* given = ir::DynCast<ir::Constant>(site.call->args[1]);
  ir::Expr* body;
  if (site.kind == SiteKind::kConvolution) {
    body = ops::BuildCall(at, ir::OpCallee(site.call)->name, {at.Use(var), Weight(at, site, is_realized)}, attrs);
  } else if (is_realized || given == nullptr) {
    body = ops::BuildCall(at, "nn.dense", {at.Use(var), Weight(at, site, is_realized)});
  } else {
    body = ops::BuildCall(at, ir::OpCallee(site.call)->name, {at.Use(var), at.Constant(given->literal)}, attrs);
  }
  program.module.functions.push_back({"main", at.Function({}, {var}, body), {}});
  return program;
}

Literal RandomData(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape).value_or(0)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return Literal::FromValues<float>(kFloat32, shape, values);
}

std::string KeyOf(const Site& site, const quantize::SitePlan& plan, const Shape& data) {
  return absl::StrCat(
      std::string(ir::OpCallee(site.call)->name), " ",
      absl::StrJoin(
          site.call->attrs.entries(), " ",
          [](std::string* out, const ir::Attr& attr) { absl::StrAppend(out, attr.name, "=", attr.value.ToString()); }),
      ShapeToString(data), ShapeToString(site.weight.shape()), static_cast<int>(plan.scheme), " ", plan.group);
}

}  // namespace

SiteTimer::SiteTimer(const CompileOptions& options, const std::map<std::string, int64_t>& dims, int64_t weight_bytes,
                     bool has_network, const QuantizeRuntime& runtime, diagnostics::Diagnostics& diagnostics)
    : options_(options),
      dims_(dims),
      weight_bytes_(weight_bytes),
      has_network_(has_network),
      runtime_(runtime),
      diagnostics_(diagnostics) {}

absl::StatusOr<std::optional<SiteTimes>> SiteTimer::Measure(const Site& site, const quantize::SitePlan& plan,
                                                            int64_t elements, quantize::WeightStore& weights) {
  if (options_.target == "portable" || runtime_.time == nullptr) return std::nullopt;
  Shape shape = ShapeOf(site, dims_, elements);
  auto [known, added] = known_.try_emplace(KeyOf(site, plan, shape));
  if (!added) return known->second;
  const ir::Attrs attrs = has_network_ ? InNetwork(site, shape) : site.call->attrs;
  PreparedProgram before = SiteProgram(site, attrs, shape, false), after = SiteProgram(site, attrs, shape, true);
  std::vector<Site> only = quantize::FindSites(after.module);
  if (only.size() != 1) return std::nullopt;
  after.module = quantize::Realize(after.module, only, {plan}, weights);
  std::vector<std::shared_ptr<const VerifiedExecutable>> programs;
  for (PreparedProgram* program : {&before, &after}) {
    RVM_ASSIGN_OR_RETURN(CompiledProgram compiled, CompilePrepared(std::move(*program), {}, diagnostics_, options_));
    programs.push_back(std::move(compiled.executable));
  }
  const Literal operand = RandomData(shape);
  // The other weights are taken to shrink as much as this one.
  const int64_t others = std::max<int64_t>(0, weight_bytes_ - site.stored_bytes());
  const int64_t narrow = others * quantize::RowOf(plan.scheme).bits / site.stored.bits;
  absl::StatusOr<std::vector<double>> times = runtime_.time(programs, {others, narrow}, &operand);
  // This machine cannot run the target.
  if (absl::IsFailedPrecondition(times.status())) return std::nullopt;
  RVM_RETURN_IF_ERROR(times.status());
  known->second = SiteTimes{(*times)[0], (*times)[1]};
  return known->second;
}

}  // namespace rvm::driver
