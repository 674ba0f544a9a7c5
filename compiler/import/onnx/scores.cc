#include "compiler/import/onnx/scores.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/term.h"

namespace rvm::onnx::convert {

using importing::Term;

std::optional<PostTransform> ReadPostTransform(NodeContext& c) {
  constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::string name = c.Text("post_transform", "NONE");
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<PostTransform>(i);
  }
  c.Fail(absl::StrCat("`post_transform` is ", name, "; expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT"));
  return std::nullopt;
}

Operand Probit(NodeContext& c, Operand x) {
  Term y = Term(c, x) * 2 - 1;
  Term log = ((y.Like(1) - y) * (y + 1)).Apply("log");
  Term v = log * 0.5 + 2 / (3.14159 * 0.147);
  Term root = ((v * v - log * (1 / 0.147)).Apply("sqrt") - v).Apply("sqrt") * 1.41421356;
  return c.Where(c.Op("less", {y, y.Like(0)}), root * -1, root);
}

namespace {

// A softmax over the scores that are not zero; those that are keep about zero.
Operand SoftmaxZero(NodeContext& c, Operand scores) {
  ir::Attrs over = {{"axis", ir::AttrValue::List{int64_t{-1}}}, {"keepdims", true}};
  Term x(c, scores), greatest(c, c.Op("max", {scores}, over));
  Operand counts = c.Op("greater", {x.Apply("abs"), x.Like(0.0000001)});
  Term shares = (x - greatest).Apply("exp");
  Term sum(c, c.Op("sum", {c.Where(counts, shares, x.Like(0))}, over));
  return Term(c, c.Where(counts, shares, x * (greatest * -1).Apply("exp"))) / sum;
}

}  // namespace

Operand Transformed(NodeContext& c, Operand scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::kNone: return scores;
    case PostTransform::kSoftmax: return c.Op("nn.softmax", {scores}, {{"axis", -1}});
    case PostTransform::kLogistic: return c.Op("sigmoid", {scores});
    case PostTransform::kSoftmaxZero: return SoftmaxZero(c, scores);
    case PostTransform::kProbit: return Probit(c, scores);
  }
  return scores;
}

Operand BinaryScores(NodeContext& c, Operand score, PostTransform transform, SecondClass second) {
  const Term s(c, score);
  if (second == SecondClass::kNone) return transform == PostTransform::kProbit ? Probit(c, s) : score;
  if (transform == PostTransform::kProbit) {
    return c.Unsupported("PROBIT of one score of two classes, for which ONNX says no second score");
  }
  if (transform == PostTransform::kLogistic) return c.Op("sigmoid", {c.Concatenate({s * -1, s}, 1)});
  return c.Concatenate({second == SecondClass::kComplement ? s.Like(1) - s : s * -1, s}, 1);
}

Operand FloatRows(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return x;
  if (!c.DTypeOf(x).is_float()) x = c.Cast(x, kFloat32);
  if (c.RankOf(x) == 1) x = c.Unsqueeze(x, {0});
  return c.RankOf(x) == 2 ? x : c.Fail(absl::StrCat("its input has rank ", c.RankOf(x), "; expected 1 or 2"));
}

std::optional<std::vector<int64_t>> ClassLabels(NodeContext& c, std::string_view ints, std::string_view strings) {
  std::vector<int64_t> labels = c.Ints(ints);
  if (!c.Texts(strings).empty()) {
    c.Unsupported("labels that are strings, which Relay has not; number the classes before the model is trained");
    return std::nullopt;
  }
  if (labels.empty()) {
    c.Fail(absl::StrCat("`", Abseil(ints), "` is missing"));
    return std::nullopt;
  }
  return labels;
}

Operand BestLabels(NodeContext& c, Operand scores, std::span<const int64_t> labels) {
  Operand best = c.Op("argmax", {scores}, {{"axis", ir::AttrValue::List{int64_t{1}}}});
  return c.Op("take", {c.emit().Vector(labels), best}, {{"axis", 0}});
}

Operand LabelsIf(NodeContext& c, Operand is_positive, int64_t positive, int64_t negative) {
  return c.Where(is_positive, c.Integer(positive), c.Integer(negative));
}

Operand FloatVector(NodeContext& c, std::span<const float> values, DataType dtype) {
  Shape shape = {static_cast<int64_t>(values.size())};
  return c.Cast(c.emit().Constant(Literal::FromValues<float>(kFloat32, std::move(shape), values)), dtype);
}

Operand Products(NodeContext& c, Operand rows, std::span<const float> coefficients, int64_t count,
                 std::string_view what) {
  const Dim features = c.ExtentOf(rows, 1);
  const auto size = static_cast<int64_t>(coefficients.size());
  const bool fits = count > 0 && size > 0 && size % count == 0;
  if (!fits || (features.is_const() && features.constant() != size / count)) {
    return c.Fail(absl::StrCat("it has ", size, " ", Abseil(what), " for ", count, " rows of ", features.ToString(),
                               " features"));
  }
  Operand matrix = c.emit().Constant(Literal::FromValues<float>(kFloat32, {count, size / count}, coefficients));
  return c.Op("nn.dense", {rows, matrix});
}

}  // namespace rvm::onnx::convert
