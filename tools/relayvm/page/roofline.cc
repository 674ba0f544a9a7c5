#include "tools/relayvm/page/roofline.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "tools/markup.h"

namespace rvm::tools {
namespace {

constexpr double kWidth = 760, kHeight = 360;          // of the drawing
constexpr double kLeft = 90, kTop = 16, kBottom = 40;  // margins
constexpr double kMinRadius = 3, kMaxRadius = 14;      // of circles

// A range of a logarithmic axis, from and to powers of ten.
struct Axis {
  double first = 0, last = 1;  // exponents
  double from = 0, to = 1;     // pixels

  double At(double value) const { return from + (std::log10(value) - first) / (last - first) * (to - from); }
};

class Drawing {
 public:
  Drawing(const MachinePeaks& peaks, const std::vector<RooflinePoint>& points) : peaks_(peaks), points_(points) {
    // The ridge of memory is in the picture, and so is the flat part of the roof.
    double least_x = peaks.flops / peaks.cache_bytes, most_x = peaks.flops / peaks.memory_bytes * 10;
    double least_y = peaks.flops / 100;
    for (const RooflinePoint& point : points) {
      least_x = std::min(least_x, Intensity(point));
      most_x = std::max(most_x, Intensity(point));
      least_y = std::min(least_y, Speed(point));
    }
    x_ = {std::floor(std::log10(least_x)), std::ceil(std::log10(most_x)), kLeft, kWidth - 10};
    y_ = {std::floor(std::log10(least_y)), std::ceil(std::log10(peaks.flops * 1.01)), kHeight - kBottom, kTop};
  }

  std::string Svg() {
    absl::StrAppendFormat(&text_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
                          "font-family=\"system-ui, sans-serif\" font-size=\"11\">\n",
                          kWidth, kHeight, kWidth, kHeight);
    for (double e = x_.first; e <= x_.last; ++e) {
      double x = x_.At(std::pow(10, e));
      Line(x, y_.from, x, y_.to, "#e9ecef");
      Text(x, kHeight - kBottom + 14, "middle", absl::StrFormat("%g", std::pow(10, e)));
    }
    for (double e = y_.first; e <= y_.last; ++e) {
      double y = y_.At(std::pow(10, e));
      Line(x_.from, y, x_.to, y, "#e9ecef");
      Text(kLeft - 6, y + 4, "end", RateText(std::pow(10, e), "FLOP/s"));
    }
    Text((x_.from + x_.to) / 2, kHeight - 8, "middle", "operations a byte of arguments and results");
    Roof(peaks_.cache_bytes, "cache", "#adb5bd");
    Roof(peaks_.memory_bytes, "memory", "#495057");
    for (const RooflinePoint& point : points_) Circle(point);
    return text_ + "</svg>\n";
  }

 private:
  static double Intensity(const RooflinePoint& point) { return point.operations / point.bytes; }
  static double Speed(const RooflinePoint& point) { return point.operations / point.ns * 1e9; }

  void Line(double x1, double y1, double x2, double y2, std::string_view color, double width = 1) {
    absl::StrAppendFormat(&text_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                          "stroke-width=\"%g\"/>\n",
                          x1, y1, x2, y2, std::string(color), width);
  }

  void Text(double x, double y, std::string_view anchor, std::string_view text) {
    absl::StrAppendFormat(&text_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#495057\">%s</text>\n", x, y,
                          std::string(anchor), EscapeMarkup(text));
  }

  void Roof(double bytes, std::string_view name, std::string_view color) {
    double ridge = peaks_.flops / bytes, first = std::max(std::pow(10, x_.first), std::pow(10, y_.first) / bytes);
    Line(x_.At(first), y_.At(first * bytes), x_.At(ridge), y_.At(peaks_.flops), color, 1.5);
    Line(x_.At(ridge), y_.At(peaks_.flops), x_.to, y_.At(peaks_.flops), color, 1.5);
    Text(x_.At(ridge) + 4, y_.At(peaks_.flops) - 5, "start",
         absl::StrCat(std::string(name), " ", RateText(bytes, "B/s")));
  }

  void Circle(const RooflinePoint& point) {
    double radius = std::max(kMinRadius, kMaxRadius * std::sqrt(std::clamp(point.share, 0.0, 1.0)));
    double roof = std::min(peaks_.flops, Intensity(point) * peaks_.memory_bytes);
    std::string title = absl::StrFormat(
        "%s: %s, %.2f operations a byte, %.0f%% of the roof of memory, %.1f%% of the time", point.name,
        RateText(Speed(point), "FLOP/s"), Intensity(point), 100 * Speed(point) / roof, 100 * point.share);
    absl::StrAppendFormat(&text_,
                          "<circle class=\"kernel\" id=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#0d6efd\" "
                          "fill-opacity=\"0.5\" stroke=\"#0a58ca\"><title>%s</title></circle>\n",
                          EscapeMarkup(point.id), x_.At(Intensity(point)), y_.At(Speed(point)), radius,
                          EscapeMarkup(title));
  }

  const MachinePeaks& peaks_;
  const std::vector<RooflinePoint>& points_;
  Axis x_, y_;
  std::string text_;
};

}  // namespace

std::string RooflineSvg(const MachinePeaks& peaks, const std::vector<RooflinePoint>& points) {
  std::vector<RooflinePoint> drawn;
  for (const RooflinePoint& point : points) {
    if (point.operations > 0 && point.bytes > 0 && point.ns > 0) drawn.push_back(point);
  }
  return drawn.empty() ? "" : Drawing(peaks, drawn).Svg();
}

}  // namespace rvm::tools
