// Gradients of operators that write updates at indices.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

// A call of `scatter_elements` or `scatter_nd`: data, indices, updates.
struct Scatter {
  std::string_view mode;           // the attribute that names the reduction
  std::function<Term(Term)> read;  // from where updates are written, of data's shape, in the shape of updates
  Term is_place;                   // whether an update is written; broadcasts with updates
  Term updates;                    // those that are read
  std::function<void(Term)> give;  // gives the updates their share
};

// Returns whether indices are of a place; `extents` broadcasts with them.
Term IsInRange(Pullback& p, Term extents) {
  Term indices = Wide(p.x(1));
  return p.Call("logical_and", {p.Call("less", {indices, extents}), p.Call("greater_equal", {indices, -extents})});
}

Term Scattered(Pullback& p, const Scatter& scatter, Term data, Term updates, const std::string& reduction) {
  ir::Attrs attrs = p.attrs();
  attrs.Set(std::string(scatter.mode), reduction);
  return p.Call(p.op(), {data, p.x(1), updates}, attrs);
}

// Gives the gradient of updates of which the last one of a position stays: each writes its number, and reads whether it
// is there.
void GiveUpdate(Pullback& p, const Scatter& scatter) {
  p.Give(0, Scattered(p, scatter, p.d(), p.Call("zeros_like", {scatter.updates}), "update"));
  Term none = Wide(p.Call("zeros_like", {p.x(0)})), numbers = Numbered(scatter.updates);
  Term written = scatter.read(Scattered(p, scatter, none, numbers, "update"));
  scatter.give(Where(p.Call("equal", {written, numbers}), scatter.read(p.d()), Zero(p.d())));
}

// The share of a factor is the product of the others. It is a quotient where no other one is zero, else zero.
void GiveProduct(Pullback& p, const Scatter& scatter) {
  Term ones = p.Call("ones_like", {p.x(0)}), updates = scatter.updates;
  p.Give(0, p.d() * Scattered(p, scatter, ones, updates, "mul"));
  Term is_zero = p.Call("equal", {updates, Zero(updates)});
  Term factors = Where(is_zero, p.Scalar(1, updates), updates);
  Term products = p.d() * Scattered(p, scatter, p.x(0), factors, "mul");
  Term zero = Cast(is_zero, updates.type().dtype);
  Term zeros = scatter.read(Scattered(p, scatter, p.Call("zeros_like", {p.x(0)}), zero, "add")) - zero;
  Term others = Where(p.Call("greater", {zeros, Zero(zeros)}), Zero(zeros), scatter.read(products) / factors);
  scatter.give(Where(scatter.is_place, others, Zero(others)));
}

// Data and all updates of a place count alike.
void GiveMean(Pullback& p, const Scatter& scatter) {
  Term ones = WideFloat(p.Call("ones_like", {p.x(0)}));
  Term counts = Scattered(p, scatter, ones, WideFloat(p.Call("ones_like", {scatter.updates})), "add");
  Term share = WideFloat(p.d()) / counts;
  p.Give(0, share);
  scatter.give(Where(scatter.is_place, scatter.read(share), Zero(share)));
}

// Equal extremes share.
void GiveExtreme(Pullback& p, const Scatter& scatter) {
  ir::DTypeTerm dtype = p.type(0).dtype;
  Term data = Cast(p.Call("equal", {p.x(0), p.y()}), dtype);
  Term reached = p.Call("logical_and", {p.Call("equal", {scatter.updates, scatter.read(p.y())}), scatter.is_place});
  Term updates = Cast(reached, dtype);
  Term share = p.d() / Scattered(p, scatter, data, updates, "add");
  p.Give(0, data * share);
  scatter.give(updates * scatter.read(share));
}

void GiveScatter(Pullback& p, const Scatter& scatter) {
  const std::string reduction = p.attrs().GetString(scatter.mode);
  if (reduction == "update") return GiveUpdate(p, scatter);
  if (reduction == "mul") return GiveProduct(p, scatter);
  if (reduction == "mean") return GiveMean(p, scatter);
  if (reduction == "min" || reduction == "max") return GiveExtreme(p, scatter);
  p.Give(0, p.d());
  scatter.give(Where(scatter.is_place, scatter.read(p.d()), Zero(p.d())));
}

// `x` with zeros behind it, up to the extents of `like`.
Term PaddedLike(Pullback& p, Term x, Term like) {
  std::vector<Term> behind;
  for (int64_t axis = 0; axis < x.rank(); ++axis) behind.push_back(Extent(like, axis) - Extent(x, axis));
  Term after = Stacked(behind, 0);
  return p.Call("dyn.nn.pad", {x, Stacked({p.Call("zeros_like", {after}), after}, 1), Zero(x)});
}

// `x`, of data's shape, with the extents of indices along `axes`: cut, or with zeros behind it.
Term WithExtentsOfIndices(Pullback& p, Term x, const std::vector<int64_t>& axes) {
  ir::Attrs along{{"axes", ir::IntList(axes)}};
  bool may_be_longer = false;
  std::vector<Term> behind;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const Dim &from = p.type(0).shape.dims[static_cast<size_t>(axis)],
              &to = p.type(1).shape.dims[static_cast<size_t>(axis)];
    bool is_named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    bool is_cut = from.is_const() && to.is_const() && to.constant() <= from.constant();
    may_be_longer = may_be_longer || (is_named && !is_cut);
    Term more = is_named && !is_cut ? Extent(p.x(1), axis) - Extent(p.x(0), axis) : p.Int(0);
    behind.push_back(p.Call("maximum", {more, p.Int(0)}));
  }
  if (may_be_longer) {
    Term before = p.Call("zeros_like", {Stacked(behind, 0)});
    x = p.Call("dyn.nn.pad", {x, Stacked({before, Stacked(behind, 0)}, 1), Zero(x)});
  }
  return p.Call("slice_like", {x, p.x(1)}, along);
}

// Returns whether updates certainly have the extents of the indices.
bool ReadsAllUpdates(Pullback& p) {
  const Dims &indices = p.type(1).shape.dims, &updates = p.type(2).shape.dims;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (CompareDims(indices[i], updates[i]) != DimEquality::kEqual) return false;
  }
  return true;
}

}  // namespace

void ScatterElementsGradient(Pullback& p) {
  const Dims &data = p.type(0).shape.dims, &indices = p.type(1).shape.dims;
  int64_t axis = AxisOf(p);
  std::vector<int64_t> others;
  for (size_t i = 0; i < data.size(); ++i) {
    if (static_cast<int64_t>(i) == axis || CompareDims(data[i], indices[i]) == DimEquality::kEqual) continue;
    others.push_back(static_cast<int64_t>(i));
  }
  auto read = [&](Term from) {
    if (!others.empty()) from = WithExtentsOfIndices(p, from, others);
    return p.Call("gather", {from, p.x(1)}, ir::Attrs{{"axis", axis}});
  };
  bool reads_all = ReadsAllUpdates(p);
  Term updates = reads_all ? p.x(2) : p.Call("slice_like", {p.x(2), p.x(1)});
  auto give = [&](Term share) { p.Give(2, reads_all ? share : PaddedLike(p, share, p.x(2))); };
  GiveScatter(p, {"reduction", read, IsInRange(p, Extent(p.x(0), axis)), updates, give});
}

void ScatterNdGradient(Pullback& p) {
  Term is_place = p.Call("all", {IsInRange(p, ExtentsOfTuples(p))}, ir::Attrs{{"axis", ir::IntList({{0}})}});
  // The axes of places come first in updates.
  is_place = Expanded(is_place, is_place.rank(), p.rank(2) - is_place.rank());
  GiveScatter(p, {"mode", [&](Term from) { return p.Call("gather_nd", {from, p.x(1)}); }, is_place, p.x(2),
                  [&](Term share) { p.Give(2, share); }});
}

}  // namespace rvm::ops
