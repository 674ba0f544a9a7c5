#include "compiler/quantize/weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/element.h"

namespace rvm::quantize {
namespace {

// The position of each element along the axis that has scales.
class Channels {
 public:
  Channels(const Shape& shape, int64_t axis) : extent_(shape[static_cast<size_t>(axis)]) {
    for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) inner_ *= shape[i];
  }
  int64_t extent() const { return extent_; }
  size_t Of(size_t element) const { return element / static_cast<size_t>(inner_) % static_cast<size_t>(extent_); }

 private:
  int64_t extent_, inner_ = 1;
};

DataType CodeType(Scheme scheme) {
  if (scheme == Scheme::kFloat16) return kFloat16;
  if (scheme == Scheme::kBfloat16 || scheme == Scheme::kW16A16) return kBFloat16;
  return RowOf(scheme).bits == 4 ? kUInt8 : kInt8;
}

std::optional<StoredWeight> AsFloats(const Literal& weight, DataType dtype) {
  Literal narrow = Narrowed(weight, dtype);
  for (int64_t i = 0; i < narrow.num_elements(); ++i) {
    if (!std::isfinite(narrow.DoubleAt(i))) return std::nullopt;
  }
  return StoredWeight{std::move(narrow), {}, 0};
}

// A scale that is a normal number, so that its inverse is finite.
float ScaleOf(double greatest, double codes) { return static_cast<float>(std::max(greatest / codes, 1e-30)); }

std::optional<StoredWeight> AsBytes(const Literal& weight, int64_t axis) {
  const Channels channels(weight.shape(), axis);
  std::span<const float> values = weight.values<float>();
  std::vector<float> scales(static_cast<size_t>(channels.extent()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return std::nullopt;
    float& greatest = scales[channels.Of(i)];
    greatest = std::max(greatest, std::abs(values[i]));
  }
  for (float& scale : scales) scale = ScaleOf(scale, kMaxCode);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(weight.num_elements());
  auto* codes = reinterpret_cast<int8_t*>(buffer->data());
  for (size_t i = 0; i < values.size(); ++i) {
    float code = std::nearbyint(values[i] / scales[channels.Of(i)]);
    codes[i] = static_cast<int8_t>(std::clamp<float>(code, -kMaxCode, kMaxCode));
  }
  return StoredWeight{Literal(kInt8, weight.shape(), std::move(buffer)),
                      Literal::FromValues<float>(kFloat32, {channels.extent()}, scales), 0};
}

// The element of the greatest magnitude gets the code 0, which is -8 steps: its sign decides that of the scale.
std::optional<StoredWeight> InGroups(const Literal& matrix, int64_t group) {
  const int64_t rows = matrix.shape()[0], depth = matrix.shape()[1];
  if (group < 2 || group % 2 != 0 || depth % group != 0) return std::nullopt;
  std::span<const float> values = matrix.values<float>();
  const auto width = static_cast<size_t>(group);
  std::vector<float> scales;
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(rows * depth / 2);
  auto* bytes = reinterpret_cast<uint8_t*>(buffer->data());
  for (size_t at = 0; at < values.size(); at += width) {
    std::span<const float> block = values.subspan(at, width);
    float extreme = 0;
    for (float value : block) {
      if (!std::isfinite(value)) return std::nullopt;
      if (std::abs(value) > std::abs(extreme)) extreme = value;
    }
    float scale = ScaleOf(std::abs(extreme), kZeroCode) * (extreme > 0 ? -1.0f : 1.0f);
    for (size_t i = 0; i < width; ++i) {
      float code = std::clamp(std::nearbyint(block[i] / scale) + kZeroCode, 0.0f, 15.0f);
      bytes[(at + i) / 2] |= static_cast<uint8_t>(static_cast<unsigned>(code) << (4 * ((at + i) % 2)));
    }
    scales.push_back(scale);
  }
  return StoredWeight{Literal(kUInt8, {rows, depth / 2}, std::move(buffer)),
                      Literal::FromValues<float>(kFloat32, {rows, depth / group}, scales), 0};
}

double RelativeError(std::span<const float> exact, std::span<const float> rounded) {
  double difference = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    double step = static_cast<double>(exact[i]) - rounded[i];
    difference += step * step;
    all += static_cast<double>(exact[i]) * exact[i];
  }
  return all == 0 ? 0 : std::sqrt(difference / all);
}

}  // namespace

int64_t StoredWeight::bytes(Scheme scheme) const {
  return codes.bytes() + (RowOf(scheme).bits <= 8 ? scales.bytes() : 0);
}

Literal Narrowed(const Literal& weight, DataType dtype) {
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(weight.num_elements() * dtype.bytes());
  std::span<const float> values = weight.values<float>();
  for (size_t i = 0; i < values.size(); ++i)
    StoreDouble(dtype, buffer->data() + i * static_cast<size_t>(dtype.bytes()), values[i]);
  return Literal(dtype, weight.shape(), std::move(buffer));
}

std::optional<StoredWeight> Store(const Site& site, Scheme scheme, int64_t group) {
  std::optional<StoredWeight> stored;
  if (RowOf(scheme).bits == 16) stored = AsFloats(site.weight, CodeType(scheme));
  if (RowOf(scheme).bits == 8) stored = AsBytes(site.weight, site.channel_axis);
  if (RowOf(scheme).bits == 4 && site.kind != SiteKind::kConvolution) stored = InGroups(site.weight, group);
  if (!stored) return std::nullopt;
  Literal restored = Restored(site, *stored, scheme);
  stored->error = RelativeError(site.weight.values<float>(), restored.values<float>());
  return stored;
}

Literal Restored(const Site& site, const StoredWeight& stored, Scheme scheme) {
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(site.weight.bytes());
  auto* values = reinterpret_cast<float*>(buffer->data());
  const auto count = static_cast<size_t>(site.weight.num_elements());
  if (RowOf(scheme).bits == 16) {
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(stored.codes.DoubleAt(static_cast<int64_t>(i)));
  } else if (RowOf(scheme).bits == 4) {
    std::span<const uint8_t> bytes = stored.codes.values<uint8_t>();
    std::span<const float> scales = stored.scales.values<float>();
    const size_t group = count / scales.size();
    for (size_t i = 0; i < count; ++i) {
      int code = (bytes[i / 2] >> (4 * (i % 2))) & 15;
      values[i] = static_cast<float>(code - kZeroCode) * scales[i / group];
    }
  } else {
    const Channels channels(site.weight.shape(), site.channel_axis);
    std::span<const int8_t> codes = stored.codes.values<int8_t>();
    std::span<const float> scales = stored.scales.values<float>();
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(codes[i]) * scales[channels.Of(i)];
  }
  return Literal(kFloat32, site.weight.shape(), std::move(buffer));
}

const StoredWeight* WeightStore::Find(const Site& site, Scheme scheme, int64_t group) {
  // Weights are the same, whatever they are multiplied by.
  if (scheme == Scheme::kW16A16) scheme = Scheme::kBfloat16;
  if (RowOf(scheme).bits == 8) scheme = Scheme::kW8;
  if (RowOf(scheme).bits == 4) scheme = Scheme::kW4;
  auto [found, added] =
      stored_.try_emplace({site.weight.data(), site.channel_axis, scheme, scheme == Scheme::kW4 ? group : 0});
  if (added) found->second = {site.weight, Store(site, scheme, group)};
  const std::optional<StoredWeight>& stored = found->second.stored;
  return stored ? &*stored : nullptr;
}

}  // namespace rvm::quantize
