#include "compiler/import/given_inputs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "compiler/import/extent_expression.h"

namespace rvm::importing {
namespace {

bool IsExtent(std::string_view text) {
  if (text == "?") return true;
  auto are_all = [&](auto accepts) { return std::all_of(text.begin(), text.end(), accepts); };
  if (text.empty()) return false;
  if (ParseExtentExpression(text, [](std::string_view) { return std::optional(Dim::Any()); })) return true;
  if (absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) {
    return text.size() <= 18 && are_all([](unsigned char c) { return absl::ascii_isdigit(c); });
  }
  // Names of models need not be identifiers.
  auto is_part = [](unsigned char c) { return absl::ascii_isgraph(c) && c != ',' && c != '?'; };
  return text[0] != '-' && text[0] != '+' && are_all(is_part);
}

}  // namespace

absl::StatusOr<Literal> FitGivenValue(std::string_view input, const Literal& value, DataType dtype, const Dims& dims) {
  auto fail = [&](std::string saw, std::string expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("the value given to input `", Abseil(input), "`: saw ", saw, "; expected ", expected));
  };
  // A number fits every shape of one element.
  bool is_scalar = value.rank() == 0;
  Shape shape = is_scalar ? Shape(dims.size(), 1) : value.shape();
  bool fits = shape.size() == dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = !dims[i].is_const() || dims[i].constant() == shape[i];
  if (!fits) {
    return fail(is_scalar ? "a number" : absl::StrCat("the shape ", ShapeToString(value.shape())),
                absl::StrCat("the shape ", DimsToString(dims)));
  }
  bool keeps_integers = dtype.is_float() || (dtype.is_integral() && value.dtype().is_integral());
  if (value.dtype() != dtype && (value.dtype().is_bool() || dtype.is_bool() || !keeps_integers)) {
    return fail(value.dtype().ToString(), dtype.ToString());
  }
  auto buffer = Buffer::Allocate(value.num_elements() * dtype.bytes());
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    std::byte* to = buffer->data() + i * dtype.bytes();
    if (value.dtype() == dtype) {
      std::copy_n(value.data() + i * dtype.bytes(), dtype.bytes(), to);
    } else if (dtype.is_float()) {
      StoreDouble(dtype, to, value.DoubleAt(i));
    } else {
      StoreInt(dtype, to, value.IntAt(i));
      bool changes_sign = (LoadInt(dtype, to) < 0) != (value.IntAt(i) < 0);
      if (LoadInt(dtype, to) != value.IntAt(i) || changes_sign) {
        return fail(absl::StrCat(value.IntAt(i)), absl::StrCat("a number that ", dtype.ToString(), " holds"));
      }
    }
  }
  return Literal(dtype, std::move(shape), std::move(buffer));
}

absl::Status CheckGivenExtents(std::string_view input, const std::vector<std::string>& extents) {
  for (const std::string& extent : extents) {
    if (IsExtent(extent)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the shape given to input `", Abseil(input), "`: saw the extent `", extent,
                     "`; expected a number, a name, an expression such as `n + 1`, or `?`"));
  }
  return absl::OkStatus();
}

absl::Status UnknownInput(std::string_view input, std::string_view purpose,
                          const std::vector<std::string_view>& known) {
  std::string near = DidYouMean(input, known);
  if (near.empty()) {
    near = absl::StrCat("; its inputs are `",
                        absl::StrJoin(std::vector<std::string>(known.begin(), known.end()), "`, `"), "`");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the model has no input `", Abseil(input), "` ", Abseil(purpose), near));
}

}  // namespace rvm::importing
