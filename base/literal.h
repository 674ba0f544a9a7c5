// Literal: an immutable tensor in host memory, row-major and contiguous.
#ifndef RVM_BASE_LITERAL_H_
#define RVM_BASE_LITERAL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/data_type.h"
#include "base/dim.h"

namespace rvm {

// Reference-counted memory aligned to 64 bytes. It may also point into memory that `owner` keeps alive, such as a
// mapped file.
class Buffer {
 public:
  // Zero-filled.
  static std::shared_ptr<Buffer> Allocate(int64_t bytes);
  static std::shared_ptr<Buffer> Borrow(const void* data, int64_t bytes, std::shared_ptr<const void> owner);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Buffer(std::byte* data, int64_t bytes, std::shared_ptr<const void> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  std::byte* data_;
  int64_t bytes_;
  std::shared_ptr<const void> owner_;
};

class Literal {
 public:
  // A rank-0 int32 zero.
  Literal() = default;
  // REQUIRES: IsStorable(dtype); the buffer holds at least the elements.
  Literal(DataType dtype, Shape shape, std::shared_ptr<const Buffer> buffer);
  // Copies `bytes`, which must be exactly the elements.
  static Literal FromBytes(DataType dtype, Shape shape, std::span<const std::byte> bytes);
  // `T` must be the C++ type of `dtype` (bool and uint8: uint8_t; half types: uint16_t).
  template <typename T>
  static Literal FromValues(DataType dtype, Shape shape, std::span<const T> values) {
    return FromBytes(dtype, std::move(shape), std::as_bytes(values));
  }
  static Literal Scalar(DataType dtype, double value);      // converts, rounds to nearest
  static Literal ScalarInt(DataType dtype, int64_t value);  // exact; wraps to the width
  // Every element `value`.
  static Literal Full(DataType dtype, Shape shape, double value);

  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t num_elements() const { return num_elements_; }
  int64_t bytes() const { return num_elements_ * dtype_.bytes(); }
  // Valid while the literal or a copy of it exists; for a scalar, while this literal exists.
  const std::byte* data() const { return buffer_ == nullptr ? scalar_ : buffer_->data(); }
  template <typename T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(data()), static_cast<size_t>(num_elements_)};
  }
  // Element `index` in row-major order, converted. Integers up to 64 bits are
  // exact through IntAt; uint64 above 2^63 wraps.
  double DoubleAt(int64_t index) const;
  int64_t IntAt(int64_t index) const;

  // Same dtype, shape and bytes.
  bool operator==(const Literal& other) const;

 private:
  // `store` writes the element.
  template <typename F>
  static Literal FromScalar(DataType dtype, F&& store);

  DataType dtype_ = kInt32;
  Shape shape_;
  int64_t num_elements_ = 1;
  std::shared_ptr<const Buffer> buffer_;  // null: a scalar, stored in scalar_
  alignas(8) std::byte scalar_[8] = {};
};

// Reads or writes one element of `dtype` at `address`; the writers convert.
double LoadDouble(DataType dtype, const void* address);
int64_t LoadInt(DataType dtype, const void* address);
void StoreDouble(DataType dtype, void* address, double value);
void StoreInt(DataType dtype, void* address, int64_t value);

}  // namespace rvm

#endif  // RVM_BASE_LITERAL_H_
