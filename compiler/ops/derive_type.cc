#include "compiler/ops/derive_type.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rvm::ops {
namespace {

// The result is one hole; unifying with it defines it.
class ForwardContext : public TypeContext {
 public:
  ForwardContext(const ir::Attrs& attrs, std::span<const ir::Type* const> args, std::span<const Literal* const> values,
                 ir::Arena& arena)
      : attrs_(attrs), args_(args), values_(values), arena_(arena), hole_(arena.New<ir::HoleType>(int64_t{0})) {}

  ir::Arena& arena() override { return arena_; }
  const ir::Attrs& attrs() const override { return attrs_; }
  size_t num_args() const override { return args_.size(); }
  const ir::Type* arg(size_t i) override { return args_[i]; }
  const Literal* arg_value(size_t i) override { return i < values_.size() ? values_[i] : nullptr; }
  const ir::Type* result() override { return derived_.result == nullptr ? hole_ : derived_.result; }

  bool Unify(const ir::Type* a, const ir::Type* b) override {
    if (a == hole_) std::swap(a, b);
    if (b == hole_) {
      derived_.result = a;
      return true;
    }
    if (ir::TypesEqual(a, b)) return true;
    Fail(diagnostics::DiagnosticKind::kOperatorResultMismatch,
         absl::StrCat("`", ir::TypeToString(a), "` is not `", ir::TypeToString(b), "`"), -1);
    return false;
  }
  bool RequireEqual(const Dim& a, const Dim& b, std::string_view what, diagnostics::DiagnosticKind) override {
    return Require(a, b, false, what);
  }
  Dim RequireBroadcast(const Dim& a, const Dim& b, std::string_view what) override {
    if (a == Dim(1)) return b;
    if (b == Dim(1)) return a;
    Require(a, b, true, what);
    return Broadcast(a, b);
  }
  Dim DataDependentDim() override { return Dim::Any(); }
  Solve Fail(diagnostics::DiagnosticKind, std::string message, int) override {
    if (message_.empty()) message_ = std::move(message);
    return Solve::kFailed;
  }

  absl::StatusOr<DerivedResult> Finish(Solve solve) {
    if (message_.empty() && solve == Solve::kDone && derived_.result != nullptr) return std::move(derived_);
    return absl::InvalidArgumentError(message_.empty() ? "the argument types do not determine the result" : message_);
  }

 private:
  bool Require(const Dim& a, const Dim& b, bool broadcast, std::string_view what) {
    switch (CompareDims(a, b)) {
      case DimEquality::kEqual: return true;
      case DimEquality::kUnknown: derived_.checks.push_back({a, b, broadcast, std::string(what)}); return true;
      case DimEquality::kDifferent:
        if (broadcast && !(a.is_const() && b.is_const())) {
          derived_.checks.push_back({a, b, broadcast, std::string(what)});
          return true;
        }
        Fail(diagnostics::DiagnosticKind::kShapeMismatch,
             absl::StrCat(absl::string_view(what.data(), what.size()), ": saw ", a.ToString(), " and ", b.ToString(),
                          "; expected equal"),
             -1);
        return false;
    }
    return false;
  }

  const ir::Attrs& attrs_;
  std::span<const ir::Type* const> args_;
  std::span<const Literal* const> values_;
  ir::Arena& arena_;
  const ir::Type* hole_;
  DerivedResult derived_{nullptr, {}};
  std::string message_;
};

}  // namespace

absl::StatusOr<DerivedResult> DeriveResult(const OpDef& op, const ir::Attrs& attrs,
                                           std::span<const ir::Type* const> args,
                                           std::span<const Literal* const> values, ir::Arena& arena) {
  ForwardContext context(attrs, args, values, arena);
  Solve solve = op.type_relation(context);
  absl::StatusOr<DerivedResult> result = context.Finish(solve);
  if (result.ok()) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("`", absl::string_view(op.name.data(), op.name.size()), "`: ", result.status().message()));
}

}  // namespace rvm::ops
