#include "compiler/import/checks.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::importing {
namespace {

// Returns the option that gives `axis` of `x` an extent: "--shape x=n,N".
std::string ShapeOption(Steps& c, Operand x, int64_t axis) {
  if (x->name.empty()) return "give the extents of the inputs that decide it: --shape INPUT=EXTENT,...";
  std::string option = absl::StrCat("give it as a number N: --shape ", x->name, "=");
  const Dims& dims = c.DimsOf(x);
  for (size_t i = 0; i < dims.size(); ++i) {
    bool is_plain = dims[i].is_const() || c.emit().IsNamed(dims[i]);
    std::string extent = is_plain ? dims[i].ToString() : "?";
    absl::StrAppend(&option, i == 0 ? "" : ",", static_cast<int64_t>(i) == axis ? "N" : extent);
  }
  return option;
}

std::string SplitText(int64_t axis) {
  return absl::StrCat("axis ", axis, " of what is split, and the sum of the sizes of its parts");
}

}  // namespace

std::optional<int64_t> KnownExtent(Steps& c, Operand x, int64_t axis, std::string_view what) {
  Dim extent = c.ExtentOf(x, axis);
  if (c.failed() || x->is_placeholder) return std::nullopt;
  if (extent.is_const()) return extent.constant();
  int64_t rank = c.RankOf(x);
  if (axis < 0) axis += rank;
  std::string which = rank == 1 ? "the length" : absl::StrCat("the extent of axis ", axis);
  c.Unsupported(absl::StrCat(which, " of its ", Abseil(what), " is not known; ", ShapeOption(c, x, axis)));
  return std::nullopt;
}

Operand CheckAtLeast(Steps& c, Operand x, Operand a, Operand b, std::string_view what) {
  if (c.failed() || a->is_placeholder || b->is_placeholder) return x;
  if (a->constant && b->constant && a->constant->IntAt(0) >= b->constant->IntAt(0)) return x;
  return c.Op("check_at_least", {x, a, b}, {{"what", std::string(what)}});
}

Operand CheckRange(Steps& c, Operand x, Operand values, Operand least, Operand greatest, std::string_view what) {
  values = c.Cast(values, kInt64);
  if (c.failed() || values->is_placeholder) return x;
  Operand low = c.RankOf(values) == 0 ? values : c.Op("min", {values});
  Operand high = c.RankOf(values) == 0 ? values : c.Op("max", {values});
  x = CheckAtLeast(c, x, low, least, absl::StrCat(Abseil(what), ", and the least one that there is"));
  return CheckAtLeast(c, x, greatest, high, absl::StrCat("the greatest that there is, and ", Abseil(what)));
}

Operand CheckSizes(Steps& c, Operand x, int64_t axis, const Dims& sizes) {
  Dim extent = c.ExtentOf(x, axis), total = 0;
  for (const Dim& size : sizes) {
    if (size.is_const() && size.constant() < 0) return c.Fail(absl::StrCat("the size of a part is ", size.constant()));
    bool may_be_negative = !size.is_const() && size.kind() != DimKind::kVar;
    if (may_be_negative) x = CheckAtLeast(c, x, c.emit().FromDim(size), c.Integer(0), "the size of a part");
    total = total + size;
  }
  if (c.failed() || CompareDims(total, extent) == DimEquality::kEqual) return x;
  if (total.is_const() && extent.is_const()) {
    return c.Fail(absl::StrCat("the sizes of its parts add up to ", total.constant(), "; axis ", axis,
                               " of its input has extent ", extent.constant()));
  }
  return c.Op("check_extent", {x, c.emit().FromDim(total)}, {{"axis", axis}, {"what", SplitText(axis)}});
}

Operand CheckSizes(Steps& c, Operand x, int64_t axis, Operand sizes) {
  x = CheckAtLeast(c, x, c.Op("min", {sizes}), c.Integer(0), "the least size of a part");
  return c.Op("check_extent", {x, c.Op("sum", {sizes})}, {{"axis", axis}, {"what", SplitText(axis)}});
}

}  // namespace rvm::importing
