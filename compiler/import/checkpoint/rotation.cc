#include "compiler/import/checkpoint/rotation.h"

#include <cmath>
#include <numbers>

namespace rvm::checkpoint {
namespace {

// Long waves are stretched by the factor, short ones stay, those between are mixed.
double Llama3(const Rotation& rotation, double frequency) {
  const double length = 2 * std::numbers::pi / frequency;
  if (length < rotation.original_length / rotation.high_factor) return frequency;
  if (length > rotation.original_length / rotation.low_factor) return frequency / rotation.factor;
  const double share =
      (rotation.original_length / length - rotation.low_factor) / (rotation.high_factor - rotation.low_factor);
  return (1 - share) * frequency / rotation.factor + share * frequency;
}

}  // namespace

std::string RotationKinds() { return "`default`, `linear` or `llama3`"; }

bool IsRotationKind(std::string_view kind) { return kind == "default" || kind == "linear" || kind == "llama3"; }

std::vector<float> Frequencies(const Rotation& rotation, int64_t head_size) {
  std::vector<float> result;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    double frequency = std::pow(rotation.base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
    if (rotation.kind == "linear") frequency /= rotation.factor;
    if (rotation.kind == "llama3") frequency = Llama3(rotation, frequency);
    result.push_back(static_cast<float>(frequency));
  }
  return result;
}

}  // namespace rvm::checkpoint
