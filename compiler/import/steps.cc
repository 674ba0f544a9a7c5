#include "compiler/import/steps.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/shapes.h"

namespace rvm::importing {
Operand Steps::Cast(Operand x, DataType dtype) {
  return DTypeOf(x) == dtype ? x : Op("cast", {x}, {{"dtype", dtype.ToString()}});
}

Operand Steps::Reshape(Operand x, const Dims& dims) {
  const Dims from = DimsOf(x);
  auto same = [](const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; };
  if (from.size() == dims.size() && std::equal(from.begin(), from.end(), dims.begin(), same)) return x;
  // With an attribute, where it can say it: 0 stands for the extent of that axis, -1 for what remains.
  ir::AttrValue::List shape;
  int inferred = 0;
  bool has_zero = false, copies = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is_const()) {
      has_zero = has_zero || dims[i].constant() == 0;
      shape.emplace_back(dims[i].constant());
    } else if (i < from.size() && same(dims[i], from[i])) {
      copies = true;
      shape.emplace_back(0);
    } else {
      ++inferred;
      shape.emplace_back(-1);
    }
  }
  bool is_known = inferred == 0 || (inferred == 1 && !has_zero);
  if (is_known && !(has_zero && copies)) {
    ir::Attrs attrs = {{"newshape", shape}};
    if (has_zero) attrs.Set("allowzero", 1);
    return emit_.OpAs(dims, "reshape", {x}, std::move(attrs));
  }
  return emit_.OpAs(dims, "dyn.reshape", {x, emit_.FromDims(dims)}, {{"allowzero", 1}});
}

Operand Steps::BroadcastTo(Operand x, const Dims& dims) {
  const Dims& from = DimsOf(x);
  auto same = [](const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; };
  if (from.size() == dims.size() && std::equal(from.begin(), from.end(), dims.begin(), same)) return x;
  if (std::optional<Shape> shape = StaticShape(dims)) {
    return Op("broadcast_to", {x}, {{"shape", ir::IntList(*shape)}});
  }
  return emit_.OpAs(dims, "dyn.broadcast_to", {x, emit_.FromDims(dims)});
}

Operand Steps::Transpose(Operand x, std::span<const int64_t> axes) {
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  return Op("transpose", {x}, {{"axes", ir::IntList(axes)}});
}

Operand Steps::SliceAxis(Operand x, int64_t axis, const Dim& begin, const Dim& end) {
  int64_t rank = RankOf(x);
  axis = Axis(axis, rank);
  if (failed()) return emit_.Placeholder();
  Dims dims = DimsOf(x);
  Dim& extent = dims[static_cast<size_t>(axis)];
  bool is_rest = CompareDims(end, extent) == DimEquality::kEqual;
  if (is_rest && begin == Dim(0)) return x;
  extent = end - begin;
  if (begin.is_const() && (end.is_const() || is_rest)) {
    int64_t last = end.is_const() ? end.constant() : INT64_MAX;
    return emit_.OpAs(dims, "strided_slice", {x},
                      {{"begin", ir::IntList({{begin.constant()}})},
                       {"end", ir::IntList({{last}})},
                       {"axes", ir::IntList({{axis}})}});
  }
  auto vector = [&](const Dim& dim) { return emit_.FromDims({{dim}}); };
  return emit_.OpAs(dims, "dyn.strided_slice", {x, vector(begin), vector(end), vector(1)},
                    {{"axes", ir::IntList({{axis}})}});
}

Operand Steps::Concatenate(Operands parts, int64_t axis) {
  constexpr size_t kMaxJoined = 32;
  while (parts.size() > 1) {
    Operands joined;
    for (size_t i = 0; i < parts.size(); i += kMaxJoined) {
      Operands group(parts.begin() + static_cast<ptrdiff_t>(i),
                     parts.begin() + static_cast<ptrdiff_t>(std::min(parts.size(), i + kMaxJoined)));
      joined.push_back(group.size() == 1 ? group[0] : Op("concatenate", {emit_.Tuple(group)}, {{"axis", axis}}));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

Operand Steps::Squeeze(Operand x, std::vector<int64_t> axes) {
  return axes.empty() ? x : Op("squeeze", {x}, {{"axis", ir::IntList(axes)}});
}

Operand Steps::Unsqueeze(Operand x, std::vector<int64_t> axes) {
  std::sort(axes.begin(), axes.end());
  for (int64_t axis : axes) x = Op("expand_dims", {x}, {{"axis", axis}});
  return x;
}

Operand Steps::Scalar(Operand x) { return Reshape(x, {}); }

Operand Steps::NumElements(Operand x) {
  Dim size = Product(DimsOf(x));
  return IsLongDim(size) ? Op("ndarray_size", {x}, {{"dtype", "int64"}}) : emit_.FromDim(size);
}

Operand Steps::Iota(const Dim& count) {
  return emit_.OpAs({count}, "arange", {Integer(0), emit_.FromDim(count), Integer(1)});
}

int64_t Steps::Axis(int64_t axis, int64_t rank) {
  int64_t positive = axis < 0 ? axis + rank : axis;
  if (positive >= 0 && positive < rank) return positive;
  Fail(absl::StrCat("axis ", axis, " is none of a tensor of rank ", rank));
  return 0;
}

std::vector<int64_t> Steps::Axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = Axis(axis, rank);
  return axes;
}

std::optional<std::vector<int64_t>> Steps::Constants(Operand x, std::string_view what) {
  if (x->constant && x->constant->dtype().is_integral()) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < x->constant->num_elements(); ++i) values.push_back(x->constant->IntAt(i));
    return values;
  }
  if (!x->is_placeholder) {
    Unsupported(absl::StrCat("its ", std::string(what), " is known only when the model runs; freeze the input it is"));
  }
  return std::nullopt;
}

std::optional<Dims> Steps::Symbols(Operand x) {
  if (x->elements) return Dims(x->elements->begin(), x->elements->end());
  if (!x->constant || !x->constant->dtype().is_integral()) return std::nullopt;
  Dims dims;
  for (int64_t i = 0; i < x->constant->num_elements(); ++i) dims.emplace_back(x->constant->IntAt(i));
  return dims;
}

// ---- mistakes

Operand Steps::Fail(std::string message) {
  emit_.Fail(absl::InvalidArgumentError(std::move(message)));
  return emit_.Placeholder();
}

Operand Steps::Unsupported(std::string message) {
  emit_.Fail(absl::UnimplementedError(std::move(message)));
  return emit_.Placeholder();
}

}  // namespace rvm::importing
