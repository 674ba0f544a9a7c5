#include "base/literal.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/element.h"
#include "base/huge_pages.h"

namespace rvm {
namespace {

constexpr size_t kAlignment = 64;

// Returns true for sizes that get a mapping of their own, in whole huge pages, whose pages are zeros when first
// touched.
bool IsBig(size_t bytes) { return bytes >= kHugePageBytes; }

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t Reserved(int64_t bytes) {
  size_t size = RoundUp(std::max<size_t>(static_cast<size_t>(bytes), 1), kAlignment);
  return IsBig(size) ? RoundUp(size, kHugePageBytes) : size;
}

// Aligned to a huge page; null without memory. REQUIRES: a multiple of kHugePageBytes.
std::byte* MapZeros(size_t bytes) {
  void* mapped = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  begin += before;
  munmap(begin + bytes, kHugePageBytes - before);
  return begin;
}

template <typename T>
T LoadAs(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <typename T>
void StoreAs(void* address, T value) {
  std::memcpy(address, &value, sizeof(T));
}

// Truncates toward zero and saturates; NaN gives 0.
template <typename T>
T SaturatingCast(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(int64_t bytes) {
  size_t reserved = Reserved(bytes);
  std::byte* data = nullptr;
  if (IsBig(reserved)) {
    // Without memory this is as for any other object of the host: the new_handler's.
    while ((data = MapZeros(reserved)) == nullptr) ::operator delete(::operator new(reserved));
    AskForHugePages(data, static_cast<size_t>(bytes));
  } else {
    data = static_cast<std::byte*>(::operator new(reserved, std::align_val_t(kAlignment)));
    std::memset(data, 0, reserved);
  }
  return std::shared_ptr<Buffer>(new Buffer(data, bytes, nullptr));
}

std::shared_ptr<Buffer> Buffer::Borrow(const void* data, int64_t bytes, std::shared_ptr<const void> owner) {
  RVM_CHECK(owner != nullptr, "a borrowed buffer needs an owner");
  // Never written: Literal hands out const pointers only.
  auto* address = static_cast<std::byte*>(const_cast<void*>(data));
  return std::shared_ptr<Buffer>(new Buffer(address, bytes, std::move(owner)));
}

Buffer::~Buffer() {
  if (owner_ != nullptr) return;
  size_t reserved = Reserved(bytes_);
  IsBig(reserved) ? static_cast<void>(munmap(data_, reserved)) : ::operator delete(data_, std::align_val_t(kAlignment));
}

Literal::Literal(DataType dtype, Shape shape, std::shared_ptr<const Buffer> buffer)
    : dtype_(dtype), shape_(std::move(shape)), buffer_(std::move(buffer)) {
  std::optional<int64_t> count = NumElements(shape_);
  RVM_CHECK(count.has_value() && IsStorable(dtype_), "a literal's shape overflows or its dtype is not storable");
  num_elements_ = *count;
  RVM_CHECK(bytes() <= buffer_->bytes(), "a literal's buffer is too small");
}

template <typename F>
Literal Literal::FromScalar(DataType dtype, F&& store) {
  RVM_CHECK(IsStorable(dtype) && dtype.bytes() <= int64_t{sizeof(scalar_)}, "a literal's dtype is not storable");
  Literal literal;
  literal.dtype_ = dtype;
  store(literal.scalar_);
  return literal;
}

Literal Literal::FromBytes(DataType dtype, Shape shape, std::span<const std::byte> bytes) {
  RVM_CHECK(!shape.empty() || static_cast<int64_t>(bytes.size()) == dtype.bytes(), "a scalar of so many bytes");
  if (shape.empty()) return FromScalar(dtype, [&](std::byte* to) { std::memcpy(to, bytes.data(), bytes.size()); });
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(static_cast<int64_t>(bytes.size()));
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return Literal(dtype, std::move(shape), std::move(buffer));
}

Literal Literal::Scalar(DataType dtype, double value) { return Full(dtype, {}, value); }

Literal Literal::ScalarInt(DataType dtype, int64_t value) {
  return FromScalar(dtype, [&](std::byte* to) { StoreInt(dtype, to, value); });
}

Literal Literal::Full(DataType dtype, Shape shape, double value) {
  if (shape.empty()) return FromScalar(dtype, [&](std::byte* to) { StoreDouble(dtype, to, value); });
  int64_t count = NumElements(shape).value_or(0);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(count * dtype.bytes());
  for (int64_t i = 0; i < count; ++i) StoreDouble(dtype, buffer->data() + i * dtype.bytes(), value);
  return Literal(dtype, std::move(shape), std::move(buffer));
}

double Literal::DoubleAt(int64_t index) const { return LoadDouble(dtype_, data() + index * dtype_.bytes()); }
int64_t Literal::IntAt(int64_t index) const { return LoadInt(dtype_, data() + index * dtype_.bytes()); }

bool Literal::operator==(const Literal& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ &&
         std::memcmp(data(), other.data(), static_cast<size_t>(bytes())) == 0;
}

double LoadDouble(DataType dtype, const void* address) {
  return WithElement(dtype, [&](auto element) {
    using E = decltype(element);
    E value = LoadAs<E>(address);
    if constexpr (std::is_arithmetic_v<E>) return static_cast<double>(value);
    return static_cast<double>(static_cast<LaneOf<E>>(value));
  });
}

int64_t LoadInt(DataType dtype, const void* address) {
  return WithElement(dtype, [&](auto element) {
    using E = decltype(element);
    auto value = static_cast<LaneOf<E>>(LoadAs<E>(address));
    if constexpr (std::is_integral_v<LaneOf<E>>) return value;
    return SaturatingCast<int64_t>(static_cast<double>(value));
  });
}

void StoreDouble(DataType dtype, void* address, double value) {
  WithElement(dtype, [&](auto element) {
    using E = decltype(element);
    if constexpr (std::is_same_v<E, Bool>) {
      StoreAs(address, Bool::From(value != 0));
    } else if constexpr (std::is_integral_v<E>) {
      StoreAs(address, SaturatingCast<E>(value));
    } else if constexpr (std::is_arithmetic_v<E>) {
      StoreAs(address, static_cast<E>(value));
    } else {
      StoreAs(address, E::From(static_cast<LaneOf<E>>(value)));
    }
  });
}

void StoreInt(DataType dtype, void* address, int64_t value) {
  WithElement(dtype, [&](auto element) {
    using E = decltype(element);
    if constexpr (std::is_same_v<E, Bool>) {
      StoreAs(address, Bool::From(value));
    } else if constexpr (std::is_integral_v<E>) {
      StoreAs(address, static_cast<E>(value));
    } else {
      StoreDouble(dtype, address, static_cast<double>(value));
    }
  });
}

}  // namespace rvm
