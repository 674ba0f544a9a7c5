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
    Literal literal;  // float32
    DataType stored = kFloat32;
    std::string_view name = {};
    bool is_transposed = false;
  };

  void Bind(const ir::Let& let) {
    if (ir::OpCallee(let.value) == nullptr) return;
    names_[let.value] = let.var->name;
    const std::string_view op = ir::OpCallee(let.value)->name;
    if (op == "transpose" || op == "cast") steps_[let.var] = Cast<ir::Call>(let.value);
  }

  // Returns the call that gives an operand, if that is a step between a constant and its use; else null.
  const ir::Call* StepTo(const Expr* expr) const {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = steps_.find(use->var);
      return found == steps_.end() ? nullptr : found->second;
    }
    return ir::OpCallee(expr) == nullptr ? nullptr : Cast<ir::Call>(expr);
  }

  // Returns the constant that an operand is, or is a transpose or a wider form of; nullopt if it is something else.
  std::optional<Weight> WeightOf(const Expr* expr) {
    Weight weight;
    bool is_widened = false;
    while (DynCast<ir::Constant>(expr) == nullptr) {
      const ir::Call* step = StepTo(expr);
      if (step == nullptr) return std::nullopt;
      const std::string_view op = ir::OpCallee(step)->name;
      const ir::TensorType* from = TensorOf(step->args[0]);
      if (op == "transpose" && !weight.is_transposed) {
        const bool swaps = step->attrs.IsNone("axes") || step->attrs.GetInts("axes") == std::vector<int64_t>{1, 0};
        if (!swaps || from == nullptr || from->shape.dims.size() != 2) return std::nullopt;
        weight.is_transposed = true;
      } else if (op == "cast" && !is_widened && step->attrs.GetString("dtype") == "float32") {
        is_widened = true;
      } else {
        return std::nullopt;
      }
      expr = step->args[0];
    }
    const auto* constant = Cast<ir::Constant>(expr);
    weight.name = constant->name;
    weight.stored = constant->literal.dtype();
    if (weight.stored != kFloat32 && !(is_widened && weight.stored.is_small_float())) return std::nullopt;
    weight.literal = weight.stored == kFloat32 ? constant->literal : Widened(constant->literal);
    return weight;
  }

  // Calls that share a weight share its wider form.
  const Literal& Widened(const Literal& literal) {
    auto [found, added] = widened_.try_emplace(literal.data());
    if (added) {
      std::vector<float> values(static_cast<size_t>(literal.num_elements()));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(literal.DoubleAt(static_cast<int64_t>(i)));
      found->second = Literal::FromValues<float>(kFloat32, literal.shape(), values);
    }
    return found->second;
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
    if (!weight || data == nullptr || data->dtype.dtype != kFloat32 || weight->literal.rank() != 2) return;
    if (data->shape.dims.empty() || TensorOf(&call) == nullptr || TensorOf(&call)->dtype.dtype != kFloat32) return;
    if (!is_dense && (call.attrs.GetBool("transpose_a") || data->shape.dims.size() < 2)) return;
    bool has_rows = is_dense || call.attrs.GetBool("transpose_b");
    if (weight->is_transposed) has_rows = !has_rows;
    Append(call, SiteKind::kProduct, *weight, has_rows ? weight->literal : RowsOf(weight->literal), 0);
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
      Append(call, SiteKind::kConvolution, *weight, weight->literal, static_cast<int64_t>(axis), is_grouped);
    }
  }

  void AddTable(const ir::Call& call) {
    std::optional<Weight> weight = WeightOf(call.args[0]);
    if (!weight || weight->is_transposed || weight->literal.rank() != 2 || TensorOf(call.args[1]) == nullptr) return;
    if (call.attrs.IsNone("axis") || call.attrs.GetInt("axis") != 0 || call.attrs.GetInt("batch_dims") != 0) return;
    Append(call, SiteKind::kTable, *weight, weight->literal, 0);
  }

  // Adds a site, unless its weight is empty.
  void Append(const ir::Call& call, SiteKind kind, const Weight& weight, Literal literal, int64_t axis,
              bool is_grouped = false) {
    if (literal.num_elements() == 0) return;
    auto named = names_.find(&call);
    std::string name(!weight.name.empty() ? weight.name : named != names_.end() ? named->second : "result");
    int64_t number = ++counts_[name];
    if (number > 1) absl::StrAppend(&name, ".", number);
    sites_.push_back({&call, kind, std::move(literal), weight.stored, axis, function_, std::move(name), is_grouped});
  }

  std::string function_;
  std::vector<Site> sites_;
  absl::flat_hash_set<const ir::Call*> known_;
  absl::flat_hash_map<const Expr*, std::string> names_;
  absl::flat_hash_map<const ir::Var*, const ir::Call*> steps_;
  absl::flat_hash_map<const void*, Literal> transposed_, widened_;
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
