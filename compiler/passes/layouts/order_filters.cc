// Puts constant filters of convolutions into the layout that kernels and later passes read.
//
// Takes and gives A-normal form, after placement: what runs on a device stays as it is. Exporters write filters in the
// layouts of their frameworks. With one layout left, the passes behind this one know a convolution by its images alone.
// The layout is OIHW, or IOHW where the convolution is transposed. In groups of channels-last images it is HWIO, and
// HWOI where groups have one channel, whose filters are (channels, filters of a channel): their kernels compute vectors
// along the channels of the result, and read vectors of filters. Calls that share filters share the result.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/literal.h"
#include "base/permute.h"
#include "compiler/ops/families/window.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;

// Returns the layout for filters of `rank` axes.
std::string LayoutFor(const ir::Call& call, int64_t rank) {
  const bool is_transposed = ir::OpCallee(&call)->name.ends_with("_transpose");
  const std::string space = std::string("DHW").substr(static_cast<size_t>(5 - rank));
  const int64_t groups = call.attrs.GetInt("groups");
  const ir::TensorType* images = TensorOf(call.args[0]);
  const bool is_vector = !is_transposed && groups > 1 && call.attrs.GetString("data_layout").ends_with('C');
  if (!is_vector || images == nullptr) return absl::StrCat(is_transposed ? "IO" : "OI", space);
  return absl::StrCat(space, images->shape.dims.back() == Dim(groups) ? "OI" : "IO");
}

class FilterOrderer : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  Expr* RewriteNode(Expr* expr) override {
    Expr* result = RewriteChildren(expr);
    auto* call = ir::OpCallee(result) == nullptr ? nullptr : ir::Cast<ir::Call>(result);
    if (call == nullptr || !ops::TakesFilters(ir::OpCallee(call)->name) ||
        call->attrs.Find(target::kDeviceAttr) != nullptr) {
      return result;
    }
    const auto* filters = DynCast<ir::Constant>(call->args[1]);
    if (filters == nullptr) return result;
    const std::string from = call->attrs.GetString("kernel_layout"), to = LayoutFor(*call, filters->literal.rank());
    if (from == to) return result;
    auto* ordered = At(filters->span).Constant(Ordered(filters->literal, from, to));
    ordered->name = filters->name;
    call->args[1] = ordered;
    call->attrs.Set("kernel_layout", to);
    return result;
  }

 private:
  const Literal& Ordered(const Literal& filters, const std::string& from, const std::string& to) {
    Pairs& known = ordered_[{filters.data(), absl::StrCat(from, to)}];
    for (const auto& [before, after] : known) {
      if (before.shape() == filters.shape() && before.dtype() == filters.dtype()) return after;
    }
    std::vector<int64_t> axes;
    for (char axis : to) axes.push_back(static_cast<int64_t>(from.find(axis)));
    return known.emplace_back(filters, Permuted(filters, axes)).second;
  }

  using Pairs = std::vector<std::pair<Literal, Literal>>;                         // before and after
  absl::flat_hash_map<std::pair<const std::byte*, std::string>, Pairs> ordered_;  // by elements and layouts
};

absl::StatusOr<ir::Module> OrderFilters(const ir::Module& module, PassContext&) {
  FilterOrderer orderer(*module.arena);
  return MapFunctions(module, [&](const ir::GlobalFunction& global) { return orderer.Rewrite(global.function->body); });
}

}  // namespace

const Pass kOrderFilters = {.name = "order_filters",
                            .summary = "constant filters in the layout that kernels read",
                            .run = OrderFilters,
                            .needs = Form::kANormal,
                            .keeps_effect_order = true};

}  // namespace rvm::passes
