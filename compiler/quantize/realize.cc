#include "compiler/quantize/realize.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/rewriter.h"

namespace rvm::quantize {
namespace {

using ir::DynCast;
using ir::Expr;
using passes::TensorOf;

// The sums of so many products of codes fit int32.
constexpr int64_t kMaxDepth = 131072;

// Products per element of the result.
int64_t DepthOf(const Site& site) {
  return site.weight.num_elements() / std::max<int64_t>(1, site.weight.shape()[static_cast<size_t>(site.channel_axis)]);
}

enum class Numbers : uint8_t { kIntegers, kFloats };

// Makes the expressions that stand in place of one site.
class SiteWriter {
 public:
  SiteWriter(const ir::Builder& at, const Site& site, const SitePlan& plan, const StoredWeight& stored)
      : at_(at), site_(site), plan_(plan), stored_(stored) {}

  Expr* Realized(Expr* data) {
    if (site_.kind == SiteKind::kTable) return Rows(data);
    if (RowOf(plan_.scheme).bits == 8 && RowOf(plan_.scheme).multiplies_bytes()) return ProductOfBytes(data);
    Expr* codes = Named(stored_.codes, "codes");
    switch (plan_.scheme) {
      case Scheme::kFloat16:
      case Scheme::kBfloat16: return Product(data, Wide(codes), "");
      case Scheme::kW16A16: return Product(Narrow(data), codes, "float32");
      case Scheme::kW8: return Times(Product(data, Wide(codes), ""), AlongOutputs(stored_.scales));
      case Scheme::kW4: return Product(data, Expanded(codes, Named(stored_.scales, "scales")), "");
      case Scheme::kW4A8Dynamic: {
        Chain chain;
        Expr* rows = RoundedInGroups(data, Numbers::kIntegers, chain);
        return ir::MakeLets(at_.arena(), chain, Product(rows, Expanded(codes, Named(stored_.scales, "scales")), ""));
      }
      case Scheme::kFloat:
      case Scheme::kW8A8Dynamic:
      case Scheme::kW8A8: break;
    }
    RVM_UNREACHABLE("a site that stays in floats is not written");
  }

  Expr* Simulated(Expr* data) {
    Literal weight = quantize::Restored(site_, stored_, plan_.scheme);
    if (site_.kind == SiteKind::kTable) return Take(at_.Constant(std::move(weight)), data);
    Expr* constant = at_.Constant(std::move(weight));
    if (RowOf(plan_.scheme).activations == kFloat32) return Product(data, constant, "");
    Chain chain;
    Expr* restored = at_.Bind("rounded", Restored(data, chain), chain);
    return ir::MakeLets(at_.arena(), chain, Product(restored, constant, ""));
  }

 private:
  using Chain = std::vector<ir::Binding>;
  // Activations as whole numbers in float32, and what one of them stands for.
  struct RoundedRows {
    Expr* codes;
    Expr* scale;
  };

  ir::Call* Op(std::string_view name, std::vector<Expr*> args, ir::Attrs attrs = {}) {
    return ops::BuildCall(at_, name, std::move(args), std::move(attrs));
  }
  // Returns a constant that has a name after the weight.
  Expr* Named(Literal literal, std::string_view part) {
    ir::Constant* constant = at_.Constant(std::move(literal));
    constant->name = absl::StrCat(site_.name.substr(0, site_.name.find('.')), "_", std::string(part));
    return constant;
  }
  Expr* Number(double value) { return at_.Constant(Literal::Scalar(kFloat32, value)); }
  Expr* Times(Expr* a, Expr* b) { return Op("multiply", {a, b}); }
  Expr* Narrow(Expr* x) { return Op("cast", {x}, {{"dtype", "bfloat16"}}); }
  Expr* Wide(Expr* x) { return Op("cast", {x}, {{"dtype", "float32"}}); }

  // Numbers of 4 bits times the scales of their groups.
  Expr* Expanded(Expr* codes, Expr* scales) {
    Expr* centred = Op("subtract", {Wide(Op("unpack_bits", {codes}, {{"bits", 4}})), Number(kZeroCode)});
    return Times(centred, Op("repeat", {scales}, {{"repeats", plan_.group}, {"axis", -1}}));
  }

  Expr* Take(Expr* table, Expr* indices) {
    return Op("take", {table, indices}, {{"axis", 0}, {"mode", *site_.call->attrs.Find("mode")}});
  }

  // Rows of a table.
  Expr* Rows(Expr* indices) {
    Expr* codes = Take(Named(stored_.codes, "codes"), indices);
    if (RowOf(plan_.scheme).bits == 16) return Wide(codes);
    const Literal& scales = stored_.scales;
    if (RowOf(plan_.scheme).bits == 4) return Expanded(codes, Take(Named(scales, "scales"), indices));
    Literal column = Literal::FromValues<float>(kFloat32, {scales.num_elements(), 1}, scales.values<float>());
    return Times(Wide(codes), Take(Named(std::move(column), "scales"), indices));
  }

  // Returns the operator of the site; a matrix is multiplied by rows.
  Expr* Product(Expr* data, Expr* weight, std::string_view out_dtype) {
    const std::string dtype(out_dtype);
    if (site_.kind == SiteKind::kProduct) return Op("nn.dense", {data, weight}, {{"out_dtype", dtype}});
    ir::Attrs attrs = site_.call->attrs;
    attrs.Set("out_dtype", dtype);
    return Op(ir::OpCallee(site_.call)->name, {data, weight}, std::move(attrs));
  }

  // Returns the axis of the result that has the outputs.
  int64_t OutputAxis() const {
    const auto rank = static_cast<int64_t>(TensorOf(site_.call)->shape.dims.size());
    if (site_.kind == SiteKind::kProduct) return rank - 1;
    const std::string& layout = site_.call->attrs.GetString("out_layout");
    return static_cast<int64_t>((layout.empty() ? site_.call->attrs.GetString("data_layout") : layout).find('C'));
  }

  // Numbers of the outputs, in the shape that broadcasts with the result.
  Expr* AlongOutputs(const Literal& numbers) {
    Shape shape = {numbers.num_elements()};
    shape.resize(TensorOf(site_.call)->shape.dims.size() - static_cast<size_t>(OutputAxis()), 1);
    return Named(Literal::FromValues<float>(kFloat32, std::move(shape), numbers.values<float>()), "scales");
  }

  // Activations are rounded to -127 ... 127 steps, of the calibrated size or of that which the greatest of them asks
  // for: in each row of a product, in each image of a convolution.
  RoundedRows Rounded(Expr* data, Chain& chain) {
    if (plan_.scheme == Scheme::kW8A8) {
      const float step = StaticStep();
      Expr* scaled = Op("round_half_even", {Times(data, Number(1.0 / step))});
      return {Op("clip", {scaled}, {{"a_min", -kMaxCode}, {"a_max", kMaxCode}}), Number(step)};
    }
    ir::AttrValue::List axes;
    const auto rank = static_cast<int64_t>(TensorOf(data)->shape.dims.size());
    for (int64_t i = site_.kind == SiteKind::kProduct ? rank - 1 : 1; i < rank; ++i) axes.emplace_back(i);
    return RoundedAlong(std::move(axes), data, chain);
  }

  // Rounds activations to the steps that the greatest element along the axes asks for.
  RoundedRows RoundedAlong(ir::AttrValue::List axes, Expr* data, Chain& chain) {
    Expr* greatest = at_.Bind("greatest", Op("max", {Op("abs", {data})}, {{"axis", axes}, {"keepdims", true}}), chain);
    Expr* inverse = Op("divide", {Number(kMaxCode), Op("maximum", {greatest, Number(1e-30)})});
    Expr* codes = Op("round_half_even", {Times(data, inverse)});
    return {codes, Times(greatest, Number(1.0 / kMaxCode))};
  }

  // Returns rows in floats of which each group of the depth is rounded to bytes.
  Expr* RoundedInGroups(Expr* data, Numbers numbers, Chain& chain) {
    const int64_t depth = site_.weight.shape()[1];
    constexpr int64_t kSameExtent = 0;
    std::vector<int64_t> whole(TensorOf(data)->shape.dims.size() - 1, kSameExtent), groups = whole;
    groups.insert(groups.end(), {depth / plan_.group, plan_.group});
    whole.push_back(depth);
    Expr* grouped = at_.Bind("groups", Op("reshape", {data}, {{"newshape", ir::IntList(groups)}}), chain);
    RoundedRows rows = RoundedAlong(ir::IntList({{-1}}), grouped, chain);
    if (numbers == Numbers::kIntegers) rows.codes = Wide(Op("cast", {rows.codes}, {{"dtype", "int8"}}));
    return Op("reshape", {Times(rows.codes, rows.scale)}, {{"newshape", ir::IntList(whole)}});
  }

  // Returns rounded activations in floats.
  Expr* Restored(Expr* data, Chain& chain) {
    if (plan_.scheme == Scheme::kW16A16) return Wide(Narrow(data));
    if (plan_.scheme == Scheme::kW4A8Dynamic) return RoundedInGroups(data, Numbers::kFloats, chain);
    RoundedRows rows = Rounded(data, chain);
    return Times(rows.codes, rows.scale);
  }

  float StaticStep() const { return static_cast<float>(std::max(plan_.greatest / kMaxCode, 1e-30)); }

  Expr* ProductOfBytes(Expr* data) {
    Chain chain;
    RoundedRows rows = Rounded(data, chain);
    Expr* bytes = at_.Bind("bytes", Op("cast", {rows.codes}, {{"dtype", "int8"}}), chain);
    Expr* sums = Wide(Product(bytes, Named(stored_.codes, "codes"), "int32"));
    if (plan_.scheme != Scheme::kW8A8) {
      // A vector has one scale.
      return ir::MakeLets(at_.arena(), chain, Times(Times(sums, rows.scale), AlongOutputs(stored_.scales)));
    }
    std::vector<float> scales;
    for (float scale : stored_.scales.values<float>()) scales.push_back(scale * StaticStep());
    const auto count = static_cast<int64_t>(scales.size());
    Expr* scale = AlongOutputs(Literal::FromValues<float>(kFloat32, {count}, scales));
    return ir::MakeLets(at_.arena(), chain, Times(sums, scale));
  }

  ir::Builder at_;
  const Site& site_;
  const SitePlan& plan_;
  const StoredWeight& stored_;
};

class Realizer : public passes::Rewriter {
 public:
  Realizer(ir::Arena& arena, const std::vector<Site>& sites, const std::vector<SitePlan>& plans, WeightStore& weights,
           Numbers numbers)
      : Rewriter(arena), sites_(sites), plans_(plans), weights_(weights), numbers_(numbers) {
    RVM_CHECK(sites.size() == plans.size(), "each site has a plan");
    for (size_t i = 0; i < sites.size(); ++i) {
      if (plans[i].scheme != Scheme::kFloat) index_of_[sites[i].call] = i;
    }
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* call = DynCast<ir::Call>(expr);
    auto found = call == nullptr ? index_of_.end() : index_of_.find(call);
    if (found == index_of_.end()) return RewriteChildren(expr);
    const Site& site = sites_[found->second];
    const SitePlan& plan = plans_[found->second];
    const StoredWeight* stored = weights_.Find(site, plan.scheme, plan.group);
    RVM_CHECK(stored != nullptr, "a plan that cannot be realized");
    SiteWriter writer(At(expr->span), site, plan, *stored);
    Expr* data = Rewrite(call->args[site.kind == SiteKind::kTable ? 1 : 0]);
    return numbers_ == Numbers::kIntegers ? writer.Realized(data) : writer.Simulated(data);
  }

 private:
  const std::vector<Site>& sites_;
  const std::vector<SitePlan>& plans_;
  WeightStore& weights_;
  const Numbers numbers_;
  absl::flat_hash_map<const ir::Call*, size_t> index_of_;
};

ir::Module Rewritten(const ir::Module& module, const std::vector<Site>& sites, const std::vector<SitePlan>& plans,
                     WeightStore& weights, Numbers numbers) {
  Realizer realizer(*module.arena, sites, plans, weights, numbers);
  return passes::MapFunctions(
      module, [&](const ir::GlobalFunction& global) { return realizer.Rewrite(global.function->body); });
}

}  // namespace

bool CanRealize(const Site& site, Scheme scheme, int64_t group, WeightStore& weights) {
  if (scheme == Scheme::kFloat) return true;
  if (RowOf(scheme).multiplies_bytes() && site.kind != SiteKind::kTable) {
    if (DepthOf(site) > kMaxDepth) return false;
    if (site.kind == SiteKind::kConvolution && TensorOf(site.data())->shape.dims.size() < 2) return false;
    // Activations are split into groups.
    if (RowOf(scheme).bits == 4 && !TensorOf(site.data())->shape.dims.back().is_const()) return false;
  }
  return weights.Find(site, scheme, group) != nullptr;
}

ir::Module Realize(const ir::Module& module, const std::vector<Site>& sites, const std::vector<SitePlan>& plans,
                   WeightStore& weights) {
  return Rewritten(module, sites, plans, weights, Numbers::kIntegers);
}

ir::Module Simulate(const ir::Module& module, const std::vector<Site>& sites, const std::vector<SitePlan>& plans,
                    WeightStore& weights) {
  return Rewritten(module, sites, plans, weights, Numbers::kFloats);
}

}  // namespace rvm::quantize
