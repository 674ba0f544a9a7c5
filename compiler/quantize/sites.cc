#include "compiler/quantize/sites.h"

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/permute.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/rewriter.h"

namespace rvm::quantize {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using passes::TensorOf;

class SiteFinder {
 public:
  explicit SiteFinder(const ir::Module& module) {
    for (const ir::GlobalFunction& global : module.functions) {
      function_ = std::string(global.ShownName());
      ir::ForEachExpr(global.function->body, [&](const Expr* expr) {
        if (const auto* let = DynCast<ir::Let>(expr)) Bind(*let);
        if (ir::OpCallee(expr) != nullptr) Add(*Cast<ir::Call>(expr));
        return true;
      });
    }
  }

  std::vector<Site> Take() { return std::move(sites_); }

 private:
  struct Weight {
    const Literal* literal;
    std::string_view name;
    bool is_transposed = false;
  };

  void Bind(const ir::Let& let) {
    if (ir::OpCallee(let.value) == nullptr) return;
    names_[let.value] = let.var->name;
    if (ir::OpCallee(let.value)->name == "transpose") transposes_[let.var] = Cast<ir::Call>(let.value);
  }

  // The constant that an operand is, or is a transpose of; nullopt if it is something else.
  std::optional<Weight> WeightOf(const Expr* expr) const {
    if (const auto* constant = DynCast<ir::Constant>(expr)) {
      if (constant->literal.dtype() != kFloat32) return std::nullopt;
      return Weight{&constant->literal, constant->name};
    }
    const ir::Call* transpose = nullptr;
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = transposes_.find(use->var);
      if (found != transposes_.end()) transpose = found->second;
    } else if (ir::OpCallee(expr) != nullptr && ir::OpCallee(expr)->name == "transpose") {
      transpose = Cast<ir::Call>(expr);
    }
    if (transpose == nullptr) return std::nullopt;
    const auto* constant = DynCast<ir::Constant>(transpose->args[0]);
    bool fits = constant != nullptr && constant->literal.dtype() == kFloat32 && constant->literal.rank() == 2 &&
                (transpose->attrs.IsNone("axes") || transpose->attrs.GetInts("axes") == std::vector<int64_t>{1, 0});
    if (!fits) return std::nullopt;
    return Weight{&constant->literal, constant->name, true};
  }

  void Add(const ir::Call& call) {
    if (!known_.insert(&call).second) return;
    const std::string_view op = ir::OpCallee(&call)->name;
    if (op == "nn.dense" || op == "nn.matmul") AddProduct(call, op == "nn.dense");
    if (op.starts_with("nn.conv")) AddConvolution(call, op);
    if (op == "take") AddTable(call);
  }

  void AddProduct(const ir::Call& call, bool is_dense) {
    const ir::TensorType* data = TensorOf(call.args[0]);
    std::optional<Weight> weight = WeightOf(call.args[1]);
    if (!weight || data == nullptr || data->dtype.dtype != kFloat32 || weight->literal->rank() != 2) return;
    if (data->shape.dims.empty() || TensorOf(&call) == nullptr || TensorOf(&call)->dtype.dtype != kFloat32) return;
    if (!is_dense && (call.attrs.GetBool("transpose_a") || data->shape.dims.size() < 2)) return;
    bool has_rows = is_dense || call.attrs.GetBool("transpose_b");
    if (weight->is_transposed) has_rows = !has_rows;
    Append(call, SiteKind::kProduct, *weight, has_rows ? *weight->literal : RowsOf(*weight->literal), 0);
  }

  // Calls that share a matrix share its transpose.
  const Literal& RowsOf(const Literal& matrix) {
    auto [found, added] = transposed_.try_emplace(matrix.data());
    if (added) found->second = Permuted(matrix, std::vector<int64_t>{1, 0});
    return found->second;
  }

  void AddConvolution(const ir::Call& call, std::string_view op) {
    for (std::string_view name :
         {"nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"}) {
      if (op != name) continue;
      const ir::TensorType* data = TensorOf(call.args[0]);
      std::optional<Weight> weight = WeightOf(call.args[1]);
      bool fits = weight && !weight->is_transposed && data != nullptr && data->dtype.dtype == kFloat32 &&
                  TensorOf(&call) != nullptr && TensorOf(&call)->dtype.dtype == kFloat32;
      const size_t axis = call.attrs.GetString("kernel_layout").find('O');
      const bool is_grouped = call.attrs.GetInt("groups") != 1;
      // The outputs of a transposed convolution's groups share indices of that axis.
      if (!fits || axis == std::string::npos || (is_grouped && op.ends_with("_transpose"))) return;
      Append(call, SiteKind::kConvolution, *weight, *weight->literal, static_cast<int64_t>(axis), is_grouped);
    }
  }

  void AddTable(const ir::Call& call) {
    std::optional<Weight> weight = WeightOf(call.args[0]);
    if (!weight || weight->is_transposed || weight->literal->rank() != 2 || TensorOf(call.args[1]) == nullptr) return;
    if (call.attrs.IsNone("axis") || call.attrs.GetInt("axis") != 0 || call.attrs.GetInt("batch_dims") != 0) return;
    Append(call, SiteKind::kTable, *weight, *weight->literal, 0);
  }

  // Adds a site, unless its weight is empty.
  void Append(const ir::Call& call, SiteKind kind, const Weight& weight, Literal literal, int64_t axis,
              bool is_grouped = false) {
    if (literal.num_elements() == 0) return;
    auto named = names_.find(&call);
    std::string name(!weight.name.empty() ? weight.name : named != names_.end() ? named->second : "result");
    int64_t number = ++counts_[name];
    if (number > 1) absl::StrAppend(&name, ".", number);
    sites_.push_back({&call, kind, std::move(literal), axis, function_, std::move(name), is_grouped});
  }

  std::string function_;
  std::vector<Site> sites_;
  absl::flat_hash_set<const ir::Call*> known_;
  absl::flat_hash_map<const Expr*, std::string> names_;
  absl::flat_hash_map<const ir::Var*, const ir::Call*> transposes_;
  absl::flat_hash_map<const void*, Literal> transposed_;
  std::map<std::string, int64_t> counts_;
};

}  // namespace

std::string KindName(SiteKind kind) {
  switch (kind) {
    case SiteKind::kProduct: return "product";
    case SiteKind::kConvolution: return "convolution";
    case SiteKind::kTable: return "table";
  }
  RVM_UNREACHABLE("a site of no kind");
}

std::vector<Site> FindSites(const ir::Module& module) { return SiteFinder(module).Take(); }

}  // namespace rvm::quantize
