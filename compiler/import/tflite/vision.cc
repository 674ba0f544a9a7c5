// Detection: non-maximum suppression, and what TFLite_Detection_PostProcess makes of boxes and scores.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/checks.h"
#include "compiler/import/tflite/flexbuffer.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

// Numbers of the best boxes of (1, boxes, 4), and how many there are; 0 stands behind them.
struct Selected {
  Operand numbers, count;  // int64: (limit), and a scalar
};
Selected Suppress(NodeContext& c, Operand boxes, Operand scores, int64_t limit, Operand overlap, Operand least) {
  Operand found = c.Op("vision.all_class_non_max_suppression",
                       {boxes, c.Unsqueeze(c.Unsqueeze(scores, {0}), {0}), c.Integer(limit), overlap, least});
  Operand rows = c.emit().Field(found, 0), count = c.Scalar(c.emit().Field(found, 1));
  // At least `limit` rows.
  Operand padded = c.Op("nn.pad", {rows, c.Number(0, rows)},
                        {{"pad_width", ir::AttrValue::List{ir::IntList({{0, limit}}), ir::IntList({{0, 0}})}}});
  Operand numbers = c.Squeeze(c.SliceAxis(c.SliceAxis(padded, 0, 0, limit), 1, 2, 3), {1});
  Operand is_found = c.Op("less", {c.Iota(limit), count});
  return {c.Where(is_found, numbers, c.Number(0, numbers)), count};
}

// Returns the next number above or below a float32.
double Next(float x, bool is_up) {
  const float most = std::numeric_limits<float>::infinity();
  return static_cast<double>(std::nextafter(x, is_up ? most : -most));
}

constexpr int64_t kMaxDetections = 1 << 20;

Operands NonMaxSuppression(NodeContext& c) {
  const bool is_soft = c.row().variant == "soft";
  Operand boxes = c.In(0), scores = c.In(1);
  const int64_t limit = c.Int(2, "greatest number of boxes");
  Operand overlap = c.In(3), least = c.In(4);
  if (c.failed()) return {};
  if (limit < 1 || limit > kMaxDetections) return {c.Unsupported(absl::StrCat("a number of ", limit, " boxes"))};
  if (is_soft) {
    Operand sigma = c.In(5);
    if (c.failed()) return {};
    if (!sigma->constant || sigma->constant->num_elements() != 1 || sigma->constant->DoubleAt(0) != 0) {
      return {c.Unsupported("scores that overlap makes smaller (a sigma other than 0)")};
    }
  }
  const Selected selected = Suppress(c, c.Unsqueeze(boxes, {0}), scores, limit, c.Scalar(overlap), c.Scalar(least));
  Operand numbers = c.Cast(selected.numbers, kInt32), count = c.Cast(selected.count, kInt32);
  if (!is_soft) return {numbers, count};
  Operand is_found = c.Op("less", {c.Iota(limit), selected.count});
  Operand best = c.Op("take", {scores, selected.numbers}, {{"axis", 0}});
  return {numbers, c.Where(is_found, best, c.Number(0, best)), count};
}

// ---- TFLite_Detection_PostProcess

struct Detection {
  int64_t limit = 0, per_class = 0, classes = 0;
  bool by_class = false;
  float least = 0, overlap = 0;
  double scales[4] = {1, 1, 1, 1};  // of y, x, height, width
};

std::optional<Detection> ReadDetection(NodeContext& c) {
  const std::optional<NumberMap> map = ReadNumberMap(c.node().custom);
  if (!map) {
    c.Fail("its options are no map");
    return std::nullopt;
  }
  auto number = [&](std::string_view key, double otherwise) {
    auto found = map->find(key);
    return found == map->end() ? otherwise : found->second;
  };
  auto integer = [&](std::string_view key, double otherwise) {
    const double value = number(key, otherwise);
    if (value >= 0 && value <= static_cast<double>(kMaxDetections)) return static_cast<int64_t>(value);
    c.Fail(absl::StrCat("its `", Abseil(key), "` is ", value));
    return int64_t{0};
  };
  Detection detection{.limit = integer("max_detections", 0),
                      .per_class = integer("detections_per_class", 100),
                      .classes = integer("num_classes", 0),
                      .by_class = number("use_regular_nms", 0) != 0,
                      .least = static_cast<float>(number("nms_score_threshold", 0)),
                      .overlap = static_cast<float>(number("nms_iou_threshold", 0))};
  constexpr std::string_view kScales[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
  for (size_t i = 0; i < 4; ++i) {
    detection.scales[i] = number(kScales[i], 0);
    if (!(detection.scales[i] > 0)) c.Fail(absl::StrCat("its `", Abseil(kScales[i]), "` is not above 0"));
  }
  if (detection.limit < 1 || detection.classes < 1) c.Fail("it has no detections or no classes");
  if (!detection.by_class && integer("max_classes_per_detection", 1) != 1) {
    c.Unsupported("several classes of a detection");
  }
  return c.failed() ? std::nullopt : std::optional(detection);
}

// Two corners of the boxes that are encoded relative to anchors: centres and the logarithms of sizes.
Operand DecodedBoxes(NodeContext& c, Operand encoded, Operand anchors, const double (&scales)[4]) {
  auto part = [&](Operand x, int64_t i) { return c.SliceAxis(x, c.RankOf(x) - 1, i, i + 1); };
  Operand begins[2], ends[2];
  for (int64_t i = 0; i < 2; ++i) {
    auto scaled = [&](int64_t field) { return c.Div(part(encoded, field), c.Number(scales[field], encoded)); };
    Operand size = part(anchors, i + 2);
    Operand centre = c.Add(c.Mul(scaled(i), size), part(anchors, i));
    Operand half = c.Mul(c.Mul(c.Number(0.5, encoded), c.Op("exp", {scaled(i + 2)})), size);
    begins[i] = c.Sub(centre, half);
    ends[i] = c.Add(centre, half);
  }
  return c.Concatenate({begins[0], begins[1], ends[0], ends[1]}, 2);
}

Operands DetectionPostProcess(NodeContext& c) {
  Operand encoded = c.In(0), scores = c.In(1), anchors = c.In(2);
  if (c.failed()) return {};
  const std::optional<Detection> detection = ReadDetection(c);
  if (!detection) return {};
  if (c.RankOf(encoded) != 3 || c.RankOf(scores) != 3 || c.RankOf(anchors) != 2) {
    return {c.Fail("its boxes, scores or anchors have another rank")};
  }
  const auto all_classes = importing::KnownExtent(c, scores, 2, "scores");
  if (!all_classes) return {};
  if (*all_classes < detection->classes) return {c.Fail("it has fewer scores than classes")};
  Operand boxes = DecodedBoxes(c, c.SliceAxis(encoded, 2, 0, 4), anchors, detection->scales);
  if (detection->by_class) {
    Operand found = c.Op("vision.regular_non_max_suppression", {boxes, scores},
                         {{"max_detections_per_class", detection->per_class},
                          {"max_detections", detection->limit},
                          {"num_classes", detection->classes},
                          {"iou_threshold", static_cast<double>(detection->overlap)},
                          {"score_threshold", static_cast<double>(detection->least)}});
    Operands results;
    for (uint32_t i = 0; i < 4; ++i) results.push_back(c.emit().Field(found, i));
    return results;
  }
  // A box has the class of its greatest score alone. The first class may be the background.
  scores = c.Squeeze(c.SliceAxis(scores, 2, *all_classes - detection->classes, *all_classes), {0});
  Operand best = c.Op("max", {scores}, {{"axis", ir::IntList({{1}})}});
  Operand classes = c.Op("argmax", {scores}, {{"axis", ir::IntList({{1}})}});
  // Here boxes stay whose overlap is the threshold, and whose score is.
  const Selected selected =
      Suppress(c, boxes, best, detection->limit, c.emit().Number(Next(detection->overlap, true), kFloat32),
               c.emit().Number(Next(detection->least, false), kFloat32));
  Operand is_found = c.Op("less", {c.Iota(detection->limit), selected.count});
  auto read = [&](Operand x, Operand found) {
    Operand values = c.Op("take", {x, selected.numbers}, {{"axis", 0}});
    return c.Unsqueeze(c.Where(found, values, c.Number(0, values)), {0});
  };
  return {read(c.Squeeze(boxes, {0}), c.Unsqueeze(is_found, {1})), read(c.Cast(classes, kFloat32), is_found),
          read(best, is_found), c.Reshape(c.Cast(selected.count, kFloat32), {1})};
}

constexpr OperatorRow kRows[] = {
    {"CUSTOM.TFLite_Detection_PostProcess", DetectionPostProcess},
    {"NON_MAX_SUPPRESSION_V4", NonMaxSuppression},
    {"NON_MAX_SUPPRESSION_V5", NonMaxSuppression, "soft"},
};

}  // namespace

std::span<const OperatorRow> VisionOperators() { return kRows; }

}  // namespace rvm::tflite
