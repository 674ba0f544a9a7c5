#include "compiler/quantize/observations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "compiler/quantize/weights.h"

namespace rvm::quantize {
namespace {

constexpr std::string_view kPercentileName = "percentile=";
// Thresholds that are tried, and the least of them as a part of the greatest magnitude.
constexpr int kThresholds = 64;
constexpr double kMinThreshold = 0.1;
// Codes of one sign.
constexpr size_t kCodes = kMaxCode + 1;

}  // namespace

absl::StatusOr<ObserverRule> ParseObserverRule(std::string_view text) {
  using Kind = ObserverRule::Kind;
  if (text == "minmax") return ObserverRule{Kind::kMinMax};
  if (text == "mse") return ObserverRule{Kind::kMse};
  if (text == "entropy") return ObserverRule{Kind::kEntropy};
  double percentile = 0;
  if (text.starts_with(kPercentileName) && absl::SimpleAtod(Abseil(text.substr(kPercentileName.size())), &percentile) &&
      percentile > 0 && percentile <= 100) {
    return ObserverRule{Kind::kPercentile, percentile};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "saw the observer `", Abseil(text), "`; expected minmax, mse, entropy or percentile=P, as percentile=99.9"));
}

void Observations::Add(std::span<const float> values) {
  ++calls_;
  double least = least_, greatest = greatest_;
  for (float value : values) {
    if (!std::isfinite(value)) {
      has_strange_ = true;
      continue;
    }
    least = std::min<double>(least, value);
    greatest = std::max<double>(greatest, value);
  }
  least_ = least;
  greatest_ = greatest;
  const double magnitude = greatest_magnitude();
  if (limit_ == 0 && magnitude > 0) {
    // Earlier values were zeros, which are in the first bin of any width.
    limit_ = magnitude;
  }
  while (limit_ < magnitude) {
    for (size_t i = 0; i < kBins / 2; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0);
    limit_ *= 2;
  }
  const double scale = limit_ == 0 ? 0 : static_cast<double>(kBins) / limit_;
  for (float value : values) {
    if (!std::isfinite(value)) continue;
    ++bins_[std::min(static_cast<size_t>(std::abs(value) * scale), kBins - 1)];
    ++count_;
  }
}

double Observations::ShareBeyond(double magnitude) const {
  if (count_ == 0 || limit_ == 0) return 0;
  int64_t beyond = 0;
  for (size_t i = 0; i < kBins; ++i) {
    if (static_cast<double>(i) * width() >= magnitude) beyond += bins_[i];
  }
  return static_cast<double>(beyond) / static_cast<double>(count_);
}

double Observations::Range(const ObserverRule& rule) const {
  if (greatest_magnitude() == 0) return 0;
  switch (rule.kind) {
    case ObserverRule::Kind::kMinMax: return greatest_magnitude();
    case ObserverRule::Kind::kPercentile: return Percentile(rule.percentile);
    case ObserverRule::Kind::kMse: return ByError();
    case ObserverRule::Kind::kEntropy: return ByEntropy();
  }
  RVM_UNREACHABLE("no such rule");
}

double Observations::Percentile(double percentile) const {
  const double wanted = percentile / 100 * static_cast<double>(count_);
  int64_t seen = 0;
  for (size_t i = 0; i < kBins; ++i) {
    seen += bins_[i];
    if (static_cast<double>(seen) >= wanted) {
      return std::min(greatest_magnitude(), static_cast<double>(i + 1) * width());
    }
  }
  return greatest_magnitude();
}

// The values of a bin are taken to be in its middle. Those inside of the range are off by a step^2/12 in the mean,
// those outside by their distance to it.
double Observations::ByError() const {
  double best = greatest_magnitude(), least = std::numeric_limits<double>::max();
  for (int i = kThresholds; i >= 1; --i) {
    const double part = kMinThreshold + (1 - kMinThreshold) * i / kThresholds;
    const double threshold = part * greatest_magnitude(), step = threshold / kMaxCode;
    double error = 0;
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double value = (static_cast<double>(bin) + 0.5) * width(), beyond = std::max(0.0, value - threshold);
      // A value below half a step becomes zero.
      const double inside = value < step / 2 ? value * value : step * step / 12;
      error += static_cast<double>(bins_[bin]) * (beyond > 0 ? beyond * beyond : inside);
    }
    if (error < least) {
      least = error;
      best = threshold;
    }
  }
  return best;
}

// Returns the relative entropy of the histogram, clipped at a bin, to the same with the bins of each code made even.
double Observations::ByEntropy() const {
  double best = greatest_magnitude(), least = std::numeric_limits<double>::max();
  const double all = static_cast<double>(count_);
  for (size_t end = kCodes; end <= kBins; end += kCodes / 8) {
    const double beyond =
        static_cast<double>(std::accumulate(bins_.begin() + static_cast<int64_t>(end), bins_.end(), int64_t{0}));
    double entropy = 0;
    for (size_t code = 0; code < kCodes; ++code) {
      const size_t first = code * end / kCodes, last = (code + 1) * end / kCodes;
      double sum = 0;
      int64_t filled = 0;
      for (size_t i = first; i < last; ++i) {
        sum += static_cast<double>(bins_[i]);
        filled += bins_[i] > 0 ? 1 : 0;
      }
      for (size_t i = first; i < last; ++i) {
        double exact = static_cast<double>(bins_[i]) + (i + 1 == end ? beyond : 0);
        if (exact == 0) continue;
        // A bin that only has what was clipped has no share of its own.
        double even = bins_[i] > 0 ? sum / static_cast<double>(filled) : 0.5;
        entropy += exact / all * std::log(exact / even);
      }
    }
    if (entropy < least) {
      least = entropy;
      best = std::min(greatest_magnitude(), static_cast<double>(end) * width());
    }
  }
  return best;
}

}  // namespace rvm::quantize
