#include "base/dim.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace rvm {
namespace {

bool IsCommutative(DimKind kind) {
  return kind == DimKind::kAdd || kind == DimKind::kMul || kind == DimKind::kMin || kind == DimKind::kMax ||
         kind == DimKind::kBroadcast;
}

// A sum of products: coefficient by monomial, where a monomial is a sorted list of atoms in
// text form. Text identifies an atom because variables print with their ids.
using Polynomial = std::map<std::vector<std::string>, int64_t>;
constexpr size_t kMaxTerms = 64;

std::string AtomKey(const Dim& dim) {
  switch (dim.kind()) {
    case DimKind::kVar: return absl::StrCat("v", dim.id());
    case DimKind::kHole: return absl::StrCat("h", dim.id());
    case DimKind::kConst: return absl::StrCat(dim.constant());
    case DimKind::kAny: return "?";
    case DimKind::kAdd:
    case DimKind::kSub:
    case DimKind::kMul:
    case DimKind::kFloorDiv:
    case DimKind::kFloorMod:
    case DimKind::kMin:
    case DimKind::kMax:
    case DimKind::kBroadcast: {
      std::string a = AtomKey(dim.lhs());
      std::string b = AtomKey(dim.rhs());
      if (IsCommutative(dim.kind()) && b < a) std::swap(a, b);
      return absl::StrCat("(", static_cast<int>(dim.kind()), " ", a, " ", b, ")");
    }
  }
}

// False if the expression is too large to normalise.
bool AddTo(Polynomial& sum, const Dim& dim, int64_t scale);

bool Product(const Dim& a, const Dim& b, Polynomial& product) {
  Polynomial pa, pb;
  if (!AddTo(pa, a, 1) || !AddTo(pb, b, 1) || pa.size() * pb.size() > kMaxTerms) return false;
  for (const auto& [ma, ca] : pa) {
    for (const auto& [mb, cb] : pb) {
      std::vector<std::string> monomial = ma;
      monomial.insert(monomial.end(), mb.begin(), mb.end());
      std::sort(monomial.begin(), monomial.end());
      product[monomial] += ca * cb;
    }
  }
  return true;
}

bool AddTo(Polynomial& sum, const Dim& dim, int64_t scale) {
  if (sum.size() > kMaxTerms) return false;
  switch (dim.kind()) {
    case DimKind::kConst: sum[{}] += scale * dim.constant(); return true;
    case DimKind::kAdd: return AddTo(sum, dim.lhs(), scale) && AddTo(sum, dim.rhs(), scale);
    case DimKind::kSub: return AddTo(sum, dim.lhs(), scale) && AddTo(sum, dim.rhs(), -scale);
    case DimKind::kMul: {
      Polynomial product;
      if (!Product(dim.lhs(), dim.rhs(), product)) return false;
      for (const auto& [monomial, coefficient] : product) sum[monomial] += scale * coefficient;
      return true;
    }
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kFloorDiv:
    case DimKind::kFloorMod:
    case DimKind::kMin:
    case DimKind::kMax:
    case DimKind::kBroadcast: sum[{AtomKey(dim)}] += scale; return true;
  }
}

bool ContainsKind(const Dim& dim, DimKind kind) {
  if (dim.kind() == kind) return true;
  return dim.is_binary() && (ContainsKind(dim.lhs(), kind) || ContainsKind(dim.rhs(), kind));
}

std::string_view Symbol(DimKind kind) {
  switch (kind) {
    case DimKind::kAdd: return " + ";
    case DimKind::kSub: return " - ";
    case DimKind::kMul: return " * ";
    case DimKind::kFloorDiv: return " / ";
    case DimKind::kFloorMod:
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kMin:
    case DimKind::kMax:
    case DimKind::kBroadcast: return "";
  }
}

// Returns whether `dim` is something times a multiple of `divisor`, as extents are after a reshape.
bool IsMultiple(const Dim& dim, std::optional<int64_t> divisor) {
  return divisor.value_or(0) > 0 && dim.kind() == DimKind::kMul && dim.rhs().is_const() &&
         dim.rhs().constant() % *divisor == 0;
}

// Returns a dim that equals a / divisor and is smaller; nullopt if there is none.
std::optional<Dim> SimplerQuotient(const Dim& a, int64_t divisor) {
  if (divisor == 1) return a;
  if (IsMultiple(a, divisor)) return a.lhs() * Dim(a.rhs().constant() / divisor);
  if (divisor <= 0 || !a.is_binary() || !a.rhs().is_const()) return std::nullopt;
  int64_t right = a.rhs().constant(), both;
  // Layers of stride 2 one behind another.
  if (a.kind() == DimKind::kFloorDiv && right > 0 && !__builtin_mul_overflow(right, divisor, &both)) {
    return FloorDiv(a.lhs(), Dim(both));
  }
  if (a.kind() == DimKind::kAdd && IsMultiple(a.lhs(), divisor)) {
    return FloorDiv(a.lhs(), Dim(divisor)) + Dim(EvaluateBinaryDim(DimKind::kFloorDiv, right, divisor));
  }
  return std::nullopt;
}

}  // namespace

Dim Dim::Any() {
  Dim dim;
  dim.kind_ = DimKind::kAny;
  return dim;
}

Dim Dim::Var(int64_t id, std::string name) {
  Dim dim;
  dim.kind_ = DimKind::kVar;
  dim.number_ = id;
  dim.node_ = std::make_shared<Node>(Node{std::move(name), Dim(), Dim()});
  return dim;
}

Dim Dim::Value(int64_t id, std::string name) {
  Dim dim;
  dim.kind_ = DimKind::kVar;
  dim.number_ = id;
  dim.node_ = std::make_shared<Node>(Node{std::move(name), Dim(), Dim(), true});
  return dim;
}

Dim Dim::Hole(int64_t id) {
  Dim dim;
  dim.kind_ = DimKind::kHole;
  dim.number_ = id;
  return dim;
}

const std::string& Dim::name() const { return node_->name; }
bool Dim::may_be_negative() const { return node_->may_be_negative; }
const Dim& Dim::lhs() const { return node_->lhs; }
const Dim& Dim::rhs() const { return node_->rhs; }

bool Dim::operator==(const Dim& other) const {
  if (kind_ != other.kind_) return false;
  if (is_binary()) return node_ == other.node_ || (lhs() == other.lhs() && rhs() == other.rhs());
  return number_ == other.number_;
}

std::string Dim::ToString() const {
  switch (kind_) {
    case DimKind::kConst: return absl::StrCat(number_);
    case DimKind::kAny: return "?";
    case DimKind::kVar: return name();
    case DimKind::kHole: return "_";
    case DimKind::kMin: return absl::StrCat("min(", lhs().ToString(), ", ", rhs().ToString(), ")");
    case DimKind::kMax: return absl::StrCat("max(", lhs().ToString(), ", ", rhs().ToString(), ")");
    case DimKind::kBroadcast: return absl::StrCat("broadcast(", lhs().ToString(), ", ", rhs().ToString(), ")");
    case DimKind::kFloorMod: return absl::StrCat("mod(", lhs().ToString(), ", ", rhs().ToString(), ")");
    case DimKind::kAdd:
    case DimKind::kSub:
    case DimKind::kMul:
    case DimKind::kFloorDiv: break;
  }
  auto operand = [](const Dim& d) {
    bool bare = !d.is_binary() || d.kind() >= DimKind::kFloorMod;
    return bare ? d.ToString() : absl::StrCat("(", d.ToString(), ")");
  };
  std::string_view symbol = Symbol(kind_);
  return absl::StrCat(operand(lhs()), absl::string_view(symbol.data(), symbol.size()), operand(rhs()));
}

int64_t EvaluateBinaryDim(DimKind kind, int64_t a, int64_t b) {
  auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  switch (kind) {
    case DimKind::kAdd: return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case DimKind::kSub: return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    case DimKind::kMul: return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case DimKind::kFloorDiv:
    case DimKind::kFloorMod: {
      if (b == 0) return 0;
      if (b == -1) return kind == DimKind::kFloorMod ? 0 : wrap(-static_cast<uint64_t>(a));
      int64_t quotient = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) --quotient;
      return kind == DimKind::kFloorDiv ? quotient : a - quotient * b;
    }
    case DimKind::kMin: return std::min(a, b);
    case DimKind::kMax: return std::max(a, b);
    case DimKind::kBroadcast: return a == 1 ? b : a;
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole: RVM_UNREACHABLE("not a binary dim");
  }
}

bool OverflowsBinaryDim(DimKind kind, int64_t a, int64_t b) {
  int64_t result;
  switch (kind) {
    case DimKind::kAdd: return __builtin_add_overflow(a, b, &result);
    case DimKind::kSub: return __builtin_sub_overflow(a, b, &result);
    case DimKind::kMul: return __builtin_mul_overflow(a, b, &result);
    case DimKind::kFloorDiv: return b == -1 && __builtin_sub_overflow(int64_t{0}, a, &result);
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole:
    case DimKind::kFloorMod:
    case DimKind::kMin:
    case DimKind::kMax:
    case DimKind::kBroadcast: return false;
  }
}

Dim MakeBinaryDim(DimKind kind, const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return Dim(EvaluateBinaryDim(kind, a.constant(), b.constant()));
  bool has_any = a.is_any() || b.is_any();
  if (IsCommutative(kind) && a.is_const()) return MakeBinaryDim(kind, b, a);
  std::optional<int64_t> right = b.AsConst();
  switch (kind) {
    case DimKind::kAdd:
    case DimKind::kSub:
      if (right == 0) return a;
      if (int64_t sum; kind == DimKind::kAdd && right && a.kind() == DimKind::kAdd && a.rhs().is_const() &&
                       !__builtin_add_overflow(a.rhs().constant(), *right, &sum)) {
        return a.lhs() + Dim(sum);
      }
      break;
    case DimKind::kMul:
      if (right == 1) return a;
      if (right == 0) return b;
      break;
    case DimKind::kFloorDiv:
      if (std::optional<Dim> simpler = right ? SimplerQuotient(a, *right) : std::nullopt) return *simpler;
      break;
    case DimKind::kFloorMod:
      if (right == 1 || IsMultiple(a, right)) return Dim(0);
      break;
    case DimKind::kMin:
    case DimKind::kMax:
      if (a == b && !has_any) return a;
      break;
    case DimKind::kBroadcast:
      if (right == 1) return a;
      if (right) return b;  // a is 1 or equal
      if (a == b && !has_any) return a;
      break;
    case DimKind::kConst:
    case DimKind::kAny:
    case DimKind::kVar:
    case DimKind::kHole: RVM_UNREACHABLE("not a binary dim");
  }
  if (has_any) return Dim::Any();
  Dim dim = BinaryDimAsIs(kind, a, b);
  if (DimEquality e = kind == DimKind::kSub ? CompareDims(a, b) : DimEquality::kUnknown; e == DimEquality::kEqual) {
    return Dim(0);
  }
  return dim;
}

Dim BinaryDimAsIs(DimKind kind, const Dim& a, const Dim& b) {
  Dim dim;
  dim.kind_ = kind;
  dim.node_ = std::make_shared<Dim::Node>(Dim::Node{"", a, b});
  return dim;
}

Dim operator+(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kAdd, a, b); }
Dim operator-(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kSub, a, b); }
Dim operator*(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kMul, a, b); }
Dim FloorDiv(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kFloorDiv, a, b); }
Dim FloorMod(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kFloorMod, a, b); }
Dim Min(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kMin, a, b); }
Dim Max(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kMax, a, b); }
Dim Broadcast(const Dim& a, const Dim& b) { return MakeBinaryDim(DimKind::kBroadcast, a, b); }

DimEquality CompareDims(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) {
    return a.constant() == b.constant() ? DimEquality::kEqual : DimEquality::kDifferent;
  }
  if (ContainsAny(a) || ContainsAny(b)) return DimEquality::kUnknown;
  if (a == b) return DimEquality::kEqual;
  Polynomial difference;
  if (!AddTo(difference, a, 1) || !AddTo(difference, b, -1)) return DimEquality::kUnknown;
  bool constant = true;
  int64_t value = 0;
  for (const auto& [monomial, coefficient] : difference) {
    if (coefficient == 0) continue;
    if (monomial.empty()) {
      value = coefficient;
    } else {
      constant = false;
    }
  }
  if (!constant) return DimEquality::kUnknown;
  return value == 0 ? DimEquality::kEqual : DimEquality::kDifferent;
}

std::string CanonicalText(const Dim& dim) {
  if (ContainsAny(dim)) return "";
  Polynomial sum;
  if (!AddTo(sum, dim, 1)) return AtomKey(dim);
  std::string text;
  for (const auto& [monomial, coefficient] : sum) {
    if (coefficient != 0) absl::StrAppend(&text, "+", coefficient, "*", absl::StrJoin(monomial, "*"));
  }
  return text.empty() ? "0" : text;
}

bool Holds(DimRelation relation, int64_t a, int64_t b) {
  switch (relation) {
    case DimRelation::kEqual: return a == b;
    case DimRelation::kBroadcast: return a == b || a == 1 || b == 1;
    case DimRelation::kAtLeast: return a >= b;
  }
  return false;
}

std::string FailureText(DimRelation relation, int64_t a, int64_t b) {
  switch (relation) {
    case DimRelation::kEqual: return absl::StrCat(a, " differs from ", b);
    case DimRelation::kBroadcast: return absl::StrCat(a, " differs from ", b, " and neither is 1");
    case DimRelation::kAtLeast: return absl::StrCat(a, " is below ", b);
  }
  return "";
}

Dim SubstituteDim(const Dim& dim, const std::function<std::optional<Dim>(const Dim&)>& replace) {
  if (dim.is_binary()) {
    return MakeBinaryDim(dim.kind(), SubstituteDim(dim.lhs(), replace), SubstituteDim(dim.rhs(), replace));
  }
  if (dim.is_const() || dim.is_any()) return dim;
  return replace(dim).value_or(dim);
}

bool IsArithmeticOf(const Dim& dim, const std::function<bool(const Dim& leaf)>& accepts) {
  if (dim.is_const()) return true;
  if (!dim.is_binary()) return accepts(dim);
  return dim.kind() != DimKind::kBroadcast && IsArithmeticOf(dim.lhs(), accepts) && IsArithmeticOf(dim.rhs(), accepts);
}

std::optional<int64_t> EvaluateDim(const Dim& dim, const std::function<std::optional<int64_t>(const Dim&)>& value) {
  if (dim.is_const()) return dim.constant();
  if (!dim.is_binary()) return value(dim);
  std::optional<int64_t> a = EvaluateDim(dim.lhs(), value);
  std::optional<int64_t> b = EvaluateDim(dim.rhs(), value);
  if (!a || !b) return std::nullopt;
  return EvaluateBinaryDim(dim.kind(), *a, *b);
}

bool ContainsAny(const Dim& dim) { return ContainsKind(dim, DimKind::kAny); }
bool ContainsHole(const Dim& dim) { return ContainsKind(dim, DimKind::kHole); }

std::string DimsToString(const Dims& dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", dims[i].ToString());
  return text + ")";
}

std::string ShapeToString(const Shape& shape) { return DimsToString(ToDims(shape)); }

std::optional<Shape> StaticShape(const Dims& dims) {
  Shape shape;
  for (const Dim& dim : dims) {
    if (!dim.is_const()) return std::nullopt;
    shape.push_back(dim.constant());
  }
  return shape;
}

Dims ToDims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

std::optional<int64_t> NumElements(const Shape& shape) {
  int64_t count = 1;
  bool overflow = false;
  for (int64_t extent : shape) {
    if (extent == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(count, extent, &count);
  }
  return overflow ? std::nullopt : std::optional<int64_t>(count);
}

Dim NumElements(std::span<const Dim> dims) {
  Dim product = 1;
  for (const Dim& dim : dims) product = product * dim;
  return product;
}

}  // namespace rvm
