// The inputs of a model, and what the options of the user say about them: constant values and other extents.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/import/frame/expression.h"
#include "compiler/import/frame/frame.h"

namespace rvm::importing {
namespace {

bool IsNumber(std::string_view text) {
  auto is_digit = [](unsigned char c) { return absl::ascii_isdigit(c); };
  return !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), is_digit);
}

// Returns the extent that `text` is as an expression; nullopt for a number or a name alone.
std::optional<Dim> ToExtent(std::string_view text, const DimOfName& dim_of) {
  std::optional<Expression> expression = ParseExpression(text, Syntax::kExtent);
  return expression && !expression->operands.empty() ? ToDim(*expression, dim_of) : std::nullopt;
}

bool IsExtent(std::string_view text) {
  if (text == "?" || IsNumber(text)) return true;
  if (text.empty()) return false;
  if (ToExtent(text, [](std::string_view) { return std::optional(Dim::Any()); })) return true;
  if (absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) return false;
  // Names of models need not be identifiers.
  auto is_part = [](unsigned char c) { return absl::ascii_isgraph(c) && c != ',' && c != '?'; };
  return text[0] != '-' && text[0] != '+' && std::all_of(text.begin(), text.end(), is_part);
}

// Converts a value that was given to an input to the input's type: numbers to its dtype, a scalar to one element of any
// rank. kInvalidArgument where a number changes by that, but for the rounding of floats, and for another shape.
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

// Returns the error for an input that the model does not have; it lists those that it has. `purpose` says why the input
// was named: "to freeze".
absl::Status UnknownInput(std::string_view input, std::string_view purpose, std::span<const Frame::Input> known) {
  std::vector<std::string_view> names;
  for (const Frame::Input& one : known) names.push_back(one.name);
  std::string near = DidYouMean(input, names);
  if (near.empty()) {
    near = absl::StrCat("; its inputs are `",
                        absl::StrJoin(std::vector<std::string>(names.begin(), names.end()), "`, `"), "`");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the model has no input `", Abseil(input), "` ", Abseil(purpose), near));
}

}  // namespace

absl::Status Frame::CheckGivenInputs(std::span<const Input> inputs) const {
  auto find = [&](std::string_view name) {
    return std::ranges::find_if(inputs, [&](const Input& input) { return input.name == name; });
  };
  for (const auto& [name, extents] : options_.shapes) {
    const auto input = find(name);
    if (input == inputs.end()) return UnknownInput(name, "to give a shape", inputs);
    for (const std::string& extent : extents) {
      if (IsExtent(extent)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the shape given to input `", name, "`: saw the extent `", extent,
                                                     "`; expected a number, a name, an expression such as `n + 1`, ",
                                                     "or `?`"));
    }
    // Several entries may have inputs of that name.
    for (const Input& one : inputs) {
      if (one.name != name || one.rank.value_or(extents.size()) == extents.size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("input `", name, "` has rank ", *one.rank, "; the shape given to it has rank ", extents.size()));
    }
  }
  for (const auto& [name, value] : options_.frozen) {
    if (find(name) == inputs.end()) return UnknownInput(name, "to freeze", inputs);
  }
  return absl::OkStatus();
}

absl::StatusOr<Operand> Frame::FrozenInput(std::string_view name, std::optional<DataType> dtype,
                                           const std::optional<Dims>& dims) {
  auto given = options_.frozen.find(name);
  if (given == options_.frozen.end()) return nullptr;
  Literal value = given->second;
  if (dims) {
    RVM_ASSIGN_OR_RETURN(value, FitGivenValue(name, given->second, dtype.value_or(value.dtype()), *dims));
  }
  return emit_.Constant(std::move(value), std::string(name));
}

const std::string* Frame::GivenExtent(std::string_view input, size_t axis) const {
  auto shape = options_.shapes.find(input);
  return shape != options_.shapes.end() && axis < shape->second.size() ? &shape->second[axis] : nullptr;
}

Dim Frame::InputExtent(std::string_view input, size_t axis, std::string_view text) {
  if (const std::string* given = GivenExtent(input, axis)) text = *given;
  if (options_.all_extents_unknown || text.empty() || text == "?" || text[0] == '-') return Dim::Any();
  if (IsNumber(text)) return Dim(std::stoll(std::string(text)));
  std::optional<Dim> dim = ExtentOfExpression(text);
  return dim ? *dim : NamedExtent(text);
}

void Frame::NoteExtentNames(std::string_view input, std::span<const std::string_view> names) {
  if (auto given = options_.shapes.find(input); given != options_.shapes.end()) {
    extent_names_.insert(given->second.begin(), given->second.end());
  } else {
    for (std::string_view name : names) extent_names_.emplace(name);
  }
}

void Frame::FixExtent(std::string_view name, std::string_view text) {
  if (!name.empty() && IsNumber(text)) extents_.try_emplace(std::string(name), Dim(std::stoll(std::string(text))));
}

Dim Frame::NamedExtent(std::string_view name) {
  auto [it, is_new] = extents_.try_emplace(std::string(name));
  if (is_new) {
    auto earlier = earlier_extents_.find(it->first);
    it->second = earlier == earlier_extents_.end() ? emit_.NameDim(name) : emit_.NameAgain(earlier->second);
  }
  return it->second;
}

std::optional<Dim> Frame::ExtentOfExpression(std::string_view text) {
  return ToExtent(text, [&](std::string_view name) {
    return IsExtentName(name) ? std::optional(NamedExtent(name)) : std::nullopt;
  });
}

}  // namespace rvm::importing
