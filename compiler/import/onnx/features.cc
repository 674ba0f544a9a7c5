// Transformers of features of ai.onnx.ml: scaling, imputation, encodings of categories.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/checks.h"
#include "compiler/import/onnx/scores.h"
#include "compiler/import/term.h"

namespace rvm::onnx::convert {
namespace {

using importing::Term;

// Returns whether `count` numbers are one for all features of `x`, or one for each of the last axis. A mistake if
// neither.
bool FitFeatures(NodeContext& c, Operand x, size_t count, std::string_view what) {
  if (count == 1) return true;
  const int64_t rank = c.RankOf(x);
  if (c.failed()) return false;
  const Dim features = rank == 0 ? Dim(1) : c.ExtentOf(x, -1);
  const bool fits = count > 0 && (rank == 1 || rank == 2) &&
                    (!features.is_const() || features.constant() == static_cast<int64_t>(count));
  if (!fits) {
    c.Fail(absl::StrCat(Abseil(what), " has ", count, " elements; expected 1, or one for each of ", features.ToString(),
                        " features of an input of rank 1 or 2"));
  }
  return fits;
}

Operands Scaler(NodeContext& c) {
  std::vector<float> scale = c.Floats("scale"), offset = c.Floats("offset");
  if (scale.empty()) scale.assign(std::max<size_t>(offset.size(), 1), 1);
  if (offset.empty()) offset.assign(scale.size(), 0);
  Operand x = c.In(0);
  if (c.failed() || !FitFeatures(c, x, scale.size(), "`scale`")) return {};
  if (offset.size() != scale.size()) return {c.Fail("`scale` and `offset` have different lengths")};
  x = c.Cast(x, c.DTypeOf(x) == kFloat64 ? kFloat64 : kFloat32);
  auto factors = [&](std::span<const float> values) {
    Operand vector = FloatVector(c, values, c.DTypeOf(x));
    return values.size() == 1 ? c.Scalar(vector) : vector;
  };
  return {c.Cast(c.Mul(c.Sub(x, factors(offset)), factors(scale)), kFloat32)};
}

Operands Normalizer(NodeContext& c) {
  const std::string norm = c.Text("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") return {c.Fail("`norm` is none of MAX, L1 and L2")};
  const Term x(c, c.Cast(c.In(0), kFloat32));
  const Term summed = norm == "MAX" ? x : norm == "L1" ? Abs(x) : x * x;
  Term size(c, c.Op(norm == "MAX" ? "max" : "sum", {summed},
                    {{"axis", ir::AttrValue::List{int64_t{-1}}}, {"keepdims", true}}));
  if (norm == "L2") size = Sqrt(size);
  return {x / Select(size == size.Like(0), 1, size)};
}

Operands Imputer(NodeContext& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  const DataType dtype = c.DTypeOf(x);
  if (!dtype.is_float()) {
    const std::vector<int64_t> values = c.Ints("imputed_value_int64s");
    if (!FitFeatures(c, x, values.size(), "`imputed_value_int64s`")) return {};
    Operand imputed = c.Cast(values.size() == 1 ? c.Integer(values[0]) : c.emit().Vector(values), dtype);
    Operand is_missing = c.Op("equal", {x, c.emit().Integer(c.Int("replaced_value_int64", 0), dtype)});
    return {c.Where(is_missing, imputed, x)};
  }
  const std::vector<float> values = c.Floats("imputed_value_floats");
  if (!FitFeatures(c, x, values.size(), "`imputed_value_floats`")) return {};
  Operand imputed = FloatVector(c, values, dtype);
  if (values.size() == 1) imputed = c.Scalar(imputed);
  const double replaced = c.Float("replaced_value_float", 0);
  return {c.Where(std::isnan(replaced) ? IsNan(x) : x == replaced, imputed, x)};
}

Operands Binarizer(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Cast(c.Op("greater", {x, c.Number(c.Float("threshold", 0), x)}), c.DTypeOf(x))};
}

Operands ArrayFeatureExtractor(NodeContext& c) {
  Operand x = c.In(0);
  Operand indices = importing::Flat(c, c.In(1));
  if (c.RankOf(x) == 1) x = c.Unsqueeze(x, {0});
  return {c.Op("take", {x, indices}, {{"axis", c.RankOf(x) - 1}})};
}

// ---- encodings of categories

constexpr std::string_view kStrings = "strings, which Relay has not; number the categories before the model is trained";

Operands RefuseStrings(NodeContext& c) { return {c.Unsupported(std::string(kStrings))}; }
Operands RefuseMaps(NodeContext& c) {
  return {c.Unsupported("maps, which Relay has not; give it a tensor of the values")};
}

// Returns the numbers that one of three attributes gives: `prefix` and "_int64s", "_floats" or "_tensor".
std::optional<Literal> Numbers(NodeContext& c, std::string_view prefix) {
  auto name = [&](std::string_view ending) { return absl::StrCat(Abseil(prefix), Abseil(ending)); };
  if (c.HasAttr(name("_strings"))) {
    c.Unsupported(std::string(kStrings));
    return std::nullopt;
  }
  const std::vector<int64_t> ints = c.Ints(name("_int64s"));
  const std::vector<float> floats = c.Floats(name("_floats"));
  if (!ints.empty()) return Literal::FromValues<int64_t>(kInt64, {static_cast<int64_t>(ints.size())}, ints);
  if (!floats.empty()) return Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(floats.size())}, floats);
  std::optional<Literal> tensor = c.TensorAttr(name("_tensor"));
  if (!tensor && !c.failed()) c.Fail(absl::StrCat("its ", Abseil(prefix), " are missing"));
  if (tensor && tensor->rank() != 1) c.Fail(absl::StrCat("`", name("_tensor"), "` is no vector"));
  return c.failed() ? std::nullopt : tensor;
}

// Returns the value of keys that are not listed, of the dtype of the listed values.
Operand Unlisted(NodeContext& c, DataType dtype) {
  std::optional<Literal> given = c.TensorAttr("default_tensor");
  if (given && given->num_elements() == 1) return c.Cast(c.Scalar(c.emit().Constant(*given)), dtype);
  if (dtype.is_float()) return c.emit().Number(c.Float("default_float", -0.0), dtype);
  return c.emit().Integer(c.Int("default_int64", -1), dtype);
}

// Keys in ascending order, of int64 or float64, by their numbers; the first of equal ones counts. NaN stands last.
template <typename T>
std::vector<int64_t> AscendingKeys(std::span<const T> keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  auto before = [&](int64_t a, int64_t b) {
    const T x = keys[static_cast<size_t>(a)], y = keys[static_cast<size_t>(b)];
    return x < y || (x == x && y != y);
  };
  std::ranges::stable_sort(order, before);
  return order;
}

template <typename T>
Operand Encoded(NodeContext& c, Operand x, std::span<const T> keys, Operand values, Operand otherwise) {
  constexpr DataType kKey = std::is_same_v<T, double> ? kFloat64 : kInt64;
  std::vector<int64_t> order = AscendingKeys(keys);
  std::vector<int64_t> nan;
  while (!order.empty() && keys[static_cast<size_t>(order.back())] != keys[static_cast<size_t>(order.back())]) {
    nan = {order.back()};
    order.pop_back();
  }
  const Term key(c, c.Cast(x, kKey));
  Operand y = c.BroadcastTo(otherwise, c.DimsOf(x));
  if (!order.empty()) {
    std::vector<T> sorted;
    for (int64_t at : order) sorted.push_back(keys[static_cast<size_t>(at)]);
    Operand list = c.emit().Constant(Literal::FromValues<T>(kKey, {static_cast<int64_t>(sorted.size())}, sorted));
    Operand place = c.Op("searchsorted", {list, key});
    auto at_place = [&](Operand vector) { return c.Op("take", {vector, place}, {{"axis", 0}, {"mode", "clip"}}); };
    Operand listed = c.Op("take", {values, c.emit().Vector(order)}, {{"axis", 0}});
    y = c.Where(key == Term(c, at_place(list)), at_place(listed), y);
  }
  if (!nan.empty()) y = c.Where(IsNan(key), c.Scalar(c.Op("take", {values, c.emit().Vector(nan)}, {{"axis", 0}})), y);
  return y;
}

Operands LabelEncoder(NodeContext& c) {
  if (c.HasAttr("classes_strings")) return RefuseStrings(c);
  const std::optional<Literal> keys = Numbers(c, "keys"), values = Numbers(c, "values");
  Operand x = c.In(0);
  if (c.failed()) return {};
  const int64_t count = keys->num_elements();
  if (count != values->num_elements() || count == 0) {
    return {c.Fail(absl::StrCat("it has ", count, " keys and ", values->num_elements(), " values"))};
  }
  Operand otherwise = Unlisted(c, values->dtype()), list = c.emit().Constant(*values);
  if (keys->dtype().is_float() || c.DTypeOf(x).is_float()) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(keys->DoubleAt(i));
    return {Encoded<double>(c, x, numbers, list, otherwise)};
  }
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(keys->IntAt(i));
  return {Encoded<int64_t>(c, x, numbers, list, otherwise)};
}

Operands OneHotEncoder(NodeContext& c) {
  if (c.HasAttr("cats_strings")) return RefuseStrings(c);
  const std::vector<int64_t> categories = c.Ints("cats_int64s");
  if (categories.empty()) return {c.Fail("`cats_int64s` is missing")};
  Operand x = c.Cast(c.In(0), kInt64);
  if (c.failed()) return {};
  Operand is_one = c.Op("equal", {c.Unsqueeze(x, {c.RankOf(x)}), c.emit().Vector(categories)});
  Operand y = c.Cast(is_one, kFloat32);
  if (c.Int("zeros", 1) != 0) return {y};
  Operand listed = c.Cast(c.Op("all", {c.Op("any", {is_one}, {{"axis", ir::AttrValue::List{int64_t{-1}}}})}), kInt64);
  return {CheckAtLeast(c, y, listed, c.Integer(1), "the input in `cats_int64s` (1: all of it), and 1")};
}

// Rows of several inputs side by side, each cut or filled with zeros to its size.
Operands FeatureVectorizer(NodeContext& c) {
  const std::vector<int64_t> sizes = c.Ints("inputdimensions");
  Operands parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    Operand x = c.Cast(c.In(i), kFloat32);
    if (c.failed()) return {};
    if (c.RankOf(x) == 1) x = c.Unsqueeze(x, {0});
    if (c.RankOf(x) != 2) return {c.Fail(absl::StrCat("input ", i, " has rank ", c.RankOf(x), "; expected 1 or 2"))};
    const std::optional<int64_t> columns = i < sizes.size() ? importing::KnownExtent(c, x, 1, "input") : std::nullopt;
    if (c.failed()) return {};
    if (columns && *columns > sizes[i]) x = c.SliceAxis(x, 1, 0, sizes[i]);
    if (columns && *columns < sizes[i]) {
      Operand zeros = c.BroadcastTo(c.emit().Number(0, kFloat32), {c.ExtentOf(x, 0), sizes[i] - *columns});
      x = c.Concatenate({x, zeros}, 1);
    }
    parts.push_back(x);
  }
  if (parts.empty()) return {c.Fail("it has no inputs")};
  return {c.Concatenate(std::move(parts), 1)};
}

// The maps of labels to scores are the rows of scores.
Operands ZipMap(NodeContext& c) { return {c.In(0)}; }

constexpr OperatorRow kRows[] = {
    {"ai.onnx.ml.ArrayFeatureExtractor", ArrayFeatureExtractor},
    {"ai.onnx.ml.Binarizer", Binarizer},
    {"ai.onnx.ml.CastMap", RefuseMaps},
    {"ai.onnx.ml.CategoryMapper", RefuseStrings},
    {"ai.onnx.ml.DictVectorizer", RefuseMaps},
    {"ai.onnx.ml.FeatureVectorizer", FeatureVectorizer},
    {"ai.onnx.ml.Imputer", Imputer},
    {"ai.onnx.ml.LabelEncoder", LabelEncoder},
    {"ai.onnx.ml.Normalizer", Normalizer},
    {"ai.onnx.ml.OneHotEncoder", OneHotEncoder},
    {"ai.onnx.ml.Scaler", Scaler},
    {"ai.onnx.ml.ZipMap", ZipMap},
};

}  // namespace

std::span<const OperatorRow> FeatureOperators() { return kRows; }

}  // namespace rvm::onnx::convert
