// Dim: one extent of a tensor shape, as a symbolic integer expression.
//
// A Dim is a non-negative integer when evaluated. Variables have identity: two
// variables are the same dim iff their ids are equal; the name is for people.
// Each `?` (Any) is a different unknown: it is not provably equal to anything, not even to another `?`.
//
// Constructors simplify (constants fold, x+0, x*1, ...), so equal sums and
// products of the same parts in the same order are structurally equal, and linear combinations
// are compared by Canonical form in ProvablyEqual.
//
// Values are immutable and cheap to copy; safe to share between threads.
#ifndef RVM_BASE_DIM_H_
#define RVM_BASE_DIM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace rvm {

enum class DimKind : uint8_t {
  kConst,  // a constant
  kAny,    // `?`
  kVar,    // a named, rigid variable: a type parameter, which is an extent, or a symbol of a kernel
  kHole,   // an unknown that type inference will fill
  kAdd,
  kSub,
  kMul,
  kFloorDiv,  // rounds to -infinity; x floordiv 0 is 0
  kFloorMod,
  kMin,
  kMax,
  kBroadcast,  // the broadcast of two dims: b if a is 1, else a
};

class Dim {
 public:
  Dim() : Dim(0) {}
  Dim(int64_t constant) : kind_(DimKind::kConst), number_(constant) {}  // NOLINT: implicit on purpose
  static Dim Any();
  static Dim Var(int64_t id, std::string name);
  // A variable that may be negative: a symbol of a kernel that is the value of an element.
  static Dim Value(int64_t id, std::string name);
  static Dim Hole(int64_t id);

  DimKind kind() const { return kind_; }
  bool is_const() const { return kind_ == DimKind::kConst; }
  bool is_any() const { return kind_ == DimKind::kAny; }
  // REQUIRES: is_const().
  int64_t constant() const { return number_; }
  std::optional<int64_t> AsConst() const { return is_const() ? std::optional<int64_t>(number_) : std::nullopt; }
  // REQUIRES: kVar or kHole.
  int64_t id() const { return number_; }
  const std::string& name() const;  // of a kVar
  bool may_be_negative() const;     // of a kVar: it was made by Value
  // REQUIRES: a binary kind.
  const Dim& lhs() const;
  const Dim& rhs() const;
  bool is_binary() const { return kind_ >= DimKind::kAdd; }

  // Structural identity; `?` is identical to `?` here.
  bool operator==(const Dim& other) const;

  // "n", "3", "?", "n + 1", "(n + 1) * 2".
  std::string ToString() const;

  template <typename H>
  friend H AbslHashValue(H h, const Dim& d) {
    h = H::combine(std::move(h), static_cast<int>(d.kind_), d.number_);
    return d.is_binary() ? H::combine(std::move(h), d.lhs(), d.rhs()) : std::move(h);
  }

 private:
  friend Dim MakeBinaryDim(DimKind kind, const Dim& a, const Dim& b);
  friend Dim BinaryDimAsIs(DimKind kind, const Dim& a, const Dim& b);
  struct Node;
  DimKind kind_;
  int64_t number_ = 0;
  std::shared_ptr<const Node> node_;
};

struct Dim::Node {
  std::string name;
  Dim lhs, rhs;
  bool may_be_negative = false;
};

// `kind` is one of the binary kinds; the result is simplified.
Dim MakeBinaryDim(DimKind kind, const Dim& a, const Dim& b);
// Likewise, without a simplification: a dim of a file, whose writer simplified by the rules of its version.
Dim BinaryDimAsIs(DimKind kind, const Dim& a, const Dim& b);
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim FloorDiv(const Dim& a, const Dim& b);
Dim FloorMod(const Dim& a, const Dim& b);
Dim Min(const Dim& a, const Dim& b);
Dim Max(const Dim& a, const Dim& b);
Dim Broadcast(const Dim& a, const Dim& b);

// Returns the arithmetic of a binary kind on numbers; wraps.
int64_t EvaluateBinaryDim(DimKind kind, int64_t a, int64_t b);
// Returns whether the result of that arithmetic overflows.
bool OverflowsBinaryDim(DimKind kind, int64_t a, int64_t b);

// Whether two dims are equal for every value of their variables. kUnknown
// where that depends on the values (or on a `?` or a hole).
enum class DimEquality : uint8_t { kEqual, kDifferent, kUnknown };
DimEquality CompareDims(const Dim& a, const Dim& b);
// A text that is the same for two dims only if they are equal for every value of their variables, and for equal sums of
// products whatever their order; empty if a `?` occurs, which equals nothing.
std::string CanonicalText(const Dim& dim);

// A relation between two dims that is checked at run time.
enum class DimRelation : uint8_t {
  kEqual,
  kBroadcast,  // equal, or either is 1
  kAtLeast,    // a >= b
};
bool Holds(DimRelation relation, int64_t a, int64_t b);
// "2 differs from 3", "-1 is below 0".
std::string FailureText(DimRelation relation, int64_t a, int64_t b);

// Replaces variables and holes; `replace` returns nullopt to keep a leaf.
Dim SubstituteDim(const Dim& dim, const std::function<std::optional<Dim>(const Dim& leaf)>& replace);

// Returns whether `dim` consists only of constants and of leaves for which `accepts` returns true, combined by +, -, *,
// floordiv, floormod, min and max.
bool IsArithmeticOf(const Dim& dim, const std::function<bool(const Dim& leaf)>& accepts);

// Value under an assignment of the variables; nullopt if a leaf has none.
std::optional<int64_t> EvaluateDim(const Dim& dim, const std::function<std::optional<int64_t>(const Dim& leaf)>& value);

// True if a `?`, a hole, or any non-constant leaf occurs.
bool ContainsAny(const Dim& dim);
bool ContainsHole(const Dim& dim);

using Dims = absl::InlinedVector<Dim, 4>;
// A shape with known extents.
using Shape = absl::InlinedVector<int64_t, 6>;

// "(2, n, ?)", "()", "(3,)" is written "(3)".
std::string DimsToString(const Dims& dims);
std::string ShapeToString(const Shape& shape);
// All dims constant: the shape; else nullopt.
std::optional<Shape> StaticShape(const Dims& dims);
Dims ToDims(const Shape& shape);
// Product of the extents; 1 for rank 0. nullopt on overflow of int64.
std::optional<int64_t> NumElements(const Shape& shape);
Dim NumElements(std::span<const Dim> dims);

}  // namespace rvm

#endif  // RVM_BASE_DIM_H_
