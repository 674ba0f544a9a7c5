#include "compiler/import/darknet/weights.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace rvm::darknet {

absl::StatusOr<Weights> Weights::Open(importing::FileBytes file) {
  constexpr size_t kVersionSize = 3 * sizeof(int32_t);
  int32_t version[3] = {};
  if (file.bytes.size() >= kVersionSize) std::memcpy(version, file.bytes.data(), kVersionSize);
  const int64_t major = version[0], minor = version[1];
  // Since version 0.2 the number of images has 8 bytes.
  const bool is_long = major * 10 + minor >= 2 && major < 1000 && minor < 1000;
  const size_t header = kVersionSize + (is_long ? sizeof(int64_t) : sizeof(int32_t));
  if (file.bytes.size() < header || major < 0 || minor < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the file of weights has ", file.bytes.size(), " bytes and version ",
                                                   major, ".", minor, "; expected the header of DarkNet's .weights"));
  }
  file.bytes = file.bytes.subspan(header);
  return Weights(std::move(file), major > 1000 || minor > 1000);
}

std::optional<Literal> Weights::Take(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  if (count > rest()) return std::nullopt;
  const size_t size = static_cast<size_t>(count) * sizeof(float);
  importing::FileBytes part = {file_.bytes.first(size), file_.owner};
  file_.bytes = file_.bytes.subspan(size);
  return importing::WrapElements(kFloat32, shape, std::move(part));
}

}  // namespace rvm::darknet
