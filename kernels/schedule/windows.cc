#include "kernels/schedule/windows.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/fold.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

// Maximum number of steps along a row, and of positions of the other axes of the reduction: both are unrolled.
constexpr int64_t kMaxSteps = 64;
// The greatest distance of neighbouring windows: vectors of them are picked from so many vectors of places.
constexpr int64_t kMaxStride = 4;
// Places between the steps of windows are of use for other windows; a row of few would have too many.
constexpr int64_t kMaxDilation = 8;

bool IsIdentity(const ExprNode& reduce, const Expr& e) {
  int64_t identity = FoldIdentity(reduce.reduce, e->dtype);
  if (e->kind == ExprKind::kFloatConst) return std::bit_cast<int64_t>(e->float_value) == identity;
  return e->kind == ExprKind::kIntConst && e->int_value == identity;
}

class WindowFinder {
 public:
  WindowFinder(te::ExprPool& pool, const IndexVar& window, const ExprNode& reduce)
      : pool_(pool), reduce_(reduce), window_(window), step_(reduce.axes.back()), value_(reduce.operands[0]) {
    if (value_->kind != ExprKind::kSelect || !IsIdentity(reduce, value_->operands[2])) return;
    condition_ = value_->operands[0];
    value_ = value_->operands[1];
  }

  std::optional<Windows> Run() {
    if (!FindSlides() || slides_.empty()) return std::nullopt;
    result_.steps = step_.extent.constant();
    // Places between windows would be of no use. Columns of a matrix, whose rows are the steps, share no place.
    if (result_.stride > std::min(kMaxStride, result_.reach() + 1)) return std::nullopt;
    if (result_.dilation >= std::min(kMaxDilation + 1, window_.extent.AsConst().value_or(kMaxDilation + 1)))
      return std::nullopt;
    // Windows side by side in one row are short rows, which are folded one by one.
    if (result_.stride > result_.reach() && reduce_.axes.size() == 1) return std::nullopt;
    const Dim places = window_.extent * result_.stride + (step_.extent - 1) * result_.dilation;
    result_.place = pool_.Fresh(places, "x");
    result_.limits.push_back({result_.place});
    for (const IndexVar& axis : std::span(reduce_.axes).first(reduce_.axes.size() - 1)) {
      result_.limits.push_back({axis});
    }
    te::Rewrite by_place = ByPlace();
    result_.value = pool_.Copy(value_, by_place);
    for (const ExprNode* node : te::Postorder({result_.value})) {
      // A choice that the limits do not make branches in each lane.
      bool branches =
          node->kind == ExprKind::kSelect && (te::MustBranch(node->operands[1]) || te::MustBranch(node->operands[2]));
      if (branches) return std::nullopt;
    }
    bool has_limits = !condition_ || AddLimits(pool_.Copy(condition_, by_place));
    return has_limits ? std::optional(std::move(result_)) : std::nullopt;
  }

 private:
  // Finds the largest index expressions that depend on the window or the step. Returns false if one of them is no
  // function of the place, the same multiple of both in all of them.
  bool FindSlides() {
    absl::flat_hash_set<const ExprNode*> seen;
    std::vector<Expr> open = {value_};
    if (condition_) open.push_back(condition_);
    while (!open.empty()) {
      const Expr e = std::move(open.back());
      open.pop_back();
      bool depends = te::DependsOn(e, window_.id) || te::DependsOn(e, step_.id);
      if (!depends || !seen.insert(e.get()).second) continue;
      std::optional<int64_t> stride, dilation;
      if (e->dtype == kInt64) stride = te::Stride(e, window_.id), dilation = te::Stride(e, step_.id);
      if (stride && dilation) {
        if (!AddSlide(e, *stride, *dilation)) return false;
      } else {
        open.insert(open.end(), e->operands.begin(), e->operands.end());
      }
    }
    return true;
  }

  bool AddSlide(const Expr& e, int64_t stride, int64_t dilation) {
    if (stride <= 0 || dilation <= 0) return false;
    int64_t scale = std::gcd(stride, dilation);
    if (slides_.empty()) result_.stride = stride / scale, result_.dilation = dilation / scale;
    slides_.emplace_back(e, scale);
    return stride / scale == result_.stride && dilation / scale == result_.dilation;
  }

  te::Rewrite ByPlace() {
    te::Rewrite by_place;
    Expr zero = pool_.Intern(*te::Index(0)), place = pool_.Variable(result_.place);
    for (const auto& [slide, scale] : slides_) {
      te::Rewrite at_step;
      at_step.variables[window_.id] = zero;
      at_step.variables[step_.id] = result_.dilation == 1 ? place : zero;
      Expr at = pool_.Copy(slide, at_step);
      if (result_.dilation > 1) {
        at =
            pool_.Binary(BinaryOp::kAdd, at, pool_.Binary(BinaryOp::kMultiply, place, pool_.Intern(*te::Index(scale))));
      }
      by_place.done.emplace(slide.get(), at);
    }
    return by_place;
  }

  // Makes limits of a conjunction of comparisons, each with one of the variables.
  bool AddLimits(const Expr& condition) {
    if (condition->kind == ExprKind::kIntConst) return condition->int_value != 0;
    if (condition->kind != ExprKind::kBinary) return false;
    const Expr &a = condition->operands[0], &b = condition->operands[1];
    if (condition->binary == BinaryOp::kAnd) return AddLimits(a) && AddLimits(b);
    if (a.dtype() != kInt64) return false;
    if (condition->binary == BinaryOp::kGreaterEqual) return AddLimit(a, b, 0);
    if (condition->binary == BinaryOp::kGreater) return AddLimit(a, b, 1);
    if (condition->binary == BinaryOp::kLessEqual) return AddLimit(b, a, 0);
    return condition->binary == BinaryOp::kLess && AddLimit(b, a, 1);
  }

  // The limit that a >= b + distance is to the only variable on which it depends.
  bool AddLimit(const Expr& a, const Expr& b, int64_t distance) {
    Windows::Limits* limited = nullptr;
    for (Windows::Limits& limits : result_.limits) {
      bool depends = te::DependsOn(a, limits.variable.id) || te::DependsOn(b, limits.variable.id);
      if (depends && limited != nullptr) return false;
      if (depends) limited = &limits;
    }
    if (limited == nullptr) return false;
    const int64_t id = limited->variable.id;
    std::optional<int64_t> up = te::Stride(a, id), down = te::Stride(b, id);
    if (!up || !down || *up == *down) return false;
    te::Rewrite at_first;
    at_first.variables[id] = pool_.Intern(*te::Index(0));
    Expr first = pool_.Copy(a, at_first), second = pool_.Copy(b, at_first);
    auto difference = [&](const Expr& x, const Expr& y, int64_t more) {
      return pool_.Binary(BinaryOp::kAdd, pool_.Binary(BinaryOp::kSubtract, x, y), pool_.Intern(*te::Index(more)));
    };
    int64_t scale = *up > *down ? *up - *down : *down - *up;
    auto scaled = [&](const Expr& e) {
      return pool_.Binary(BinaryOp::kFloorDivide, e, pool_.Intern(*te::Index(scale)));
    };
    if (*up > *down) {
      limited->begins.push_back(scaled(difference(second, first, distance + scale - 1)));
    } else {
      limited->ends.push_back(scaled(difference(first, second, scale - distance)));
    }
    return true;
  }

  te::ExprPool& pool_;
  const ExprNode& reduce_;
  const IndexVar &window_, &step_;
  Expr condition_, value_;                        // the value where the condition, if it is not null, holds
  std::vector<std::pair<Expr, int64_t>> slides_;  // index expressions, and by how much they grow per place
  Windows result_;
};

}  // namespace

std::optional<Windows> FindWindows(te::ExprPool& pool, const std::vector<IndexVar>& axes, const ExprNode& reduce) {
  if (axes.empty() || reduce.axes.empty() || IsArg(reduce.reduce) || IsTruth(reduce.reduce)) return std::nullopt;
  if (reduce.operands[0].dtype().is_bool() || axes.back().extent == Dim(1)) return std::nullopt;
  for (const Dim& extent :
       {reduce.axes.back().extent, te::NumPositions(std::span(reduce.axes).first(reduce.axes.size() - 1))}) {
    bool is_unrolled = extent.is_const() && extent.constant() >= 1 && extent.constant() <= kMaxSteps;
    if (!is_unrolled) return std::nullopt;
  }
  if (reduce.axes.back().extent == Dim(1)) return std::nullopt;
  return WindowFinder(pool, axes.back(), reduce).Run();
}

}  // namespace rvm::schedule
