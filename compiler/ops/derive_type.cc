#include "compiler/ops/derive_type.h"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rvm::ops {
namespace {

// The result is a hole, which is filled when a type is unified with it.
class ForwardContext : public TypeContext {
 public:
  ForwardContext(const ir::Attrs& attrs, std::span<const ir::Type* const> args, std::span<const Literal* const> values,
                 ir::Arena& arena, const ValueDims& value_dims, const KnownValues& known_values)
      : attrs_(attrs),
        args_(args),
        values_(values),
        arena_(arena),
        value_dims_(value_dims),
        known_values_(known_values),
        hole_(arena.New<ir::HoleType>(int64_t{0})) {}

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
    return Require(DimRelation::kEqual, a, b, what);
  }
  bool RequireAtLeast(const Dim& a, const Dim& b, std::string_view what) override {
    return Require(DimRelation::kAtLeast, a, b, what);
  }
  Dim RequireBroadcast(const Dim& a, const Dim& b, std::string_view what) override {
    if (a == Dim(1)) return b;
    if (b == Dim(1)) return a;
    Require(DimRelation::kBroadcast, a, b, what);
    return Broadcast(a, b);
  }
  Dim ValueDim(size_t arg, int64_t element) override {
    const Literal* literal = arg_value(arg);
    return literal != nullptr ? Dim(literal->IntAt(element)) : value_dims_(arg, element);
  }
  std::optional<Dim> KnownValue(size_t arg, int64_t element) override {
    if (known_values_ == nullptr) return std::nullopt;
    const Literal* literal = arg_value(arg);
    return literal != nullptr ? Dim(literal->IntAt(element)) : known_values_(arg, element);
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
  bool Require(DimRelation relation, const Dim& a, const Dim& b, std::string_view what) {
    bool are_known = a.is_const() && b.is_const();
    if (CompareDims(a, b) == DimEquality::kEqual || (are_known && Holds(relation, a.constant(), b.constant())))
      return true;
    bool may_hold = relation == DimRelation::kEqual ? CompareDims(a, b) == DimEquality::kUnknown : !are_known;
    if (may_hold) {
      derived_.checks.push_back({a, b, relation, std::string(what)});
      return true;
    }
    std::string failure = are_known ? FailureText(relation, a.constant(), b.constant())
                                    : absl::StrCat(a.ToString(), " differs from ", b.ToString());
    Fail(diagnostics::DiagnosticKind::kShapeMismatch,
         absl::StrCat(absl::string_view(what.data(), what.size()), ": ", failure), -1);
    return false;
  }

  const ir::Attrs& attrs_;
  std::span<const ir::Type* const> args_;
  std::span<const Literal* const> values_;
  ir::Arena& arena_;
  const ValueDims& value_dims_;
  const KnownValues& known_values_;
  const ir::Type* hole_;
  DerivedResult derived_{nullptr, {}};
  std::string message_;
};

}  // namespace

absl::StatusOr<DerivedResult> DeriveResult(TypeRelation relation, std::string_view name, const ir::Attrs& attrs,
                                           std::span<const ir::Type* const> args,
                                           std::span<const Literal* const> values, ir::Arena& arena,
                                           const ValueDims& value_dims, const KnownValues& known_values) {
  ForwardContext context(attrs, args, values, arena, value_dims, known_values);
  Solve solve = relation(context);
  absl::StatusOr<DerivedResult> result = context.Finish(solve);
  if (result.ok()) return result;
  std::string quoted = absl::StrCat("`", absl::string_view(name.data(), name.size()), "`");
  if (absl::StartsWith(result.status().message(), quoted)) return result;
  return absl::InvalidArgumentError(absl::StrCat(quoted, ": ", result.status().message()));
}

absl::StatusOr<DerivedResult> DeriveResult(const OpDef& op, const ir::Attrs& attrs,
                                           std::span<const ir::Type* const> args,
                                           std::span<const Literal* const> values, ir::Arena& arena,
                                           const ValueDims& value_dims, const KnownValues& known_values) {
  return DeriveResult(op.type_relation, op.name, attrs, args, values, arena, value_dims, known_values);
}

}  // namespace rvm::ops
