#include "compiler/driver/result_error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::driver {
namespace {

struct Sums {
  double difference = 0, all = 0;
  int64_t rows = 0, other_rows = 0;
};

int64_t ArgmaxAt(const Literal& tensor, int64_t begin, int64_t count) {
  int64_t best = begin;
  for (int64_t i = begin; i < begin + count; ++i) {
    if (tensor.DoubleAt(i) > tensor.DoubleAt(best)) best = i;
  }
  return best;
}

void AddRows(const Literal& expected, const Literal& result, Sums& sums) {
  const int64_t width = expected.rank() == 0 ? 1 : expected.shape().back();
  for (int64_t i = 0; width > 0 && i < expected.num_elements(); i += width) {
    ++sums.rows;
    sums.other_rows += ArgmaxAt(expected, i, width) != ArgmaxAt(result, i, width);
  }
}

void AddFloats(const Literal& expected, const Literal& result, Sums& sums) {
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double a = expected.DoubleAt(i), b = result.DoubleAt(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) sums.all += a * a;
      continue;
    }
    sums.difference += (a - b) * (a - b);
    sums.all += a * a;
  }
}

// Adds what `metric` needs of the floats of the values; false if something else differs.
bool Compare(const Value& expected, const Value& result, ResultMetric metric, Sums& sums) {
  std::vector<std::pair<const Value*, const Value*>> stack = {{&expected, &result}};
  while (!stack.empty()) {
    auto [a, b] = stack.back();
    stack.pop_back();
    if (a->kind() != b->kind()) return false;
    if (a->kind() == ValueKind::kClosure) continue;
    if (a->kind() == ValueKind::kTensor) {
      const Literal &x = a->tensor(), &y = b->tensor();
      if (x.dtype() != y.dtype() || x.shape() != y.shape()) return false;
      if (x.dtype().is_float()) {
        metric == ResultMetric::kArgmax ? AddRows(x, y, sums) : AddFloats(x, y, sums);
      } else if (!(x == y)) {
        return false;
      }
      continue;
    }
    if (a->kind() == ValueKind::kAdt && a->name() != b->name()) return false;
    if (a->fields().size() != b->fields().size()) return false;
    for (size_t i = 0; i < a->fields().size(); ++i) stack.emplace_back(&a->fields()[i], &b->fields()[i]);
  }
  return true;
}

}  // namespace

absl::StatusOr<ResultMetric> ParseResultMetric(std::string_view text) {
  if (text == "norm") return ResultMetric::kNorm;
  if (text == "argmax") return ResultMetric::kArgmax;
  return absl::InvalidArgumentError(absl::StrCat("saw the metric `", Abseil(text), "`; expected norm or argmax"));
}

double ResultError(std::span<const Value> expected, std::span<const Value> results, ResultMetric metric) {
  Sums sums;
  double others = 0;
  for (size_t i = 0; i < expected.size(); ++i) others += Compare(expected[i], results[i], metric, sums) ? 0 : 1;
  double error = 0;
  if (metric == ResultMetric::kArgmax) {
    error = sums.rows == 0 ? 0 : static_cast<double>(sums.other_rows) / static_cast<double>(sums.rows);
  } else if (sums.difference != 0) {
    error = std::sqrt(sums.difference / sums.all);
  }
  if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
  return std::max(error, expected.empty() ? 0 : others / static_cast<double>(expected.size()));
}

}  // namespace rvm::driver
