// Statistics of the activations of a site, and the ranges that they suggest.
#ifndef RVM_COMPILER_QUANTIZE_OBSERVATIONS_H_
#define RVM_COMPILER_QUANTIZE_OBSERVATIONS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace rvm::quantize {

// Rule that chooses the magnitude that becomes the greatest code.
struct ObserverRule {
  enum class Kind : uint8_t {
    kMinMax,      // the greatest that was seen
    kPercentile,  // the least that so much of what was seen does not exceed
    kMse,         // that with the least squared error
    kEntropy,     // that whose codes have the distribution with the least relative entropy (Kullback-Leibler)
  } kind = Kind::kMse;
  double percentile = 99.99;
};
// Reads "minmax", "percentile=99.9", "mse" or "entropy".
absl::StatusOr<ObserverRule> ParseObserverRule(std::string_view text);

// A histogram of magnitudes whose range doubles where they exceed it.
class Observations {
 public:
  static constexpr size_t kBins = 2048;

  void Add(std::span<const float> values);

  int64_t count() const { return count_; }
  int64_t calls() const { return calls_; }
  double least() const { return least_; }
  double greatest() const { return greatest_; }
  double greatest_magnitude() const { return -least_ > greatest_ ? -least_ : greatest_; }
  // Returns true if a value was infinite or not a number.
  bool has_strange() const { return has_strange_; }
  // Share of the values beyond `magnitude`.
  double ShareBeyond(double magnitude) const;
  // Returns the magnitude by `rule`; 0 if nothing but zeros was seen.
  double Range(const ObserverRule& rule) const;
  // Bins and the width of one.
  std::span<const int64_t> bins() const { return bins_; }
  double width() const { return limit_ / static_cast<double>(kBins); }

 private:
  double Percentile(double percentile) const;
  double ByError() const;
  double ByEntropy() const;

  std::array<int64_t, kBins> bins_ = {};
  double limit_ = 0;  // end of the last bin
  int64_t count_ = 0, calls_ = 0;
  double least_ = 0, greatest_ = 0;
  bool has_strange_ = false;
};

}  // namespace rvm::quantize

#endif  // RVM_COMPILER_QUANTIZE_OBSERVATIONS_H_
