#include "compiler/import/file_bytes.h"

#include <cstddef>
#include <utility>

namespace rvm::importing {
namespace {

constexpr uintptr_t kAlignment = 64;

}  // namespace

Literal WrapElements(DataType dtype, Shape shape, FileBytes elements) {
  bool is_aligned = reinterpret_cast<uintptr_t>(elements.bytes.data()) % kAlignment == 0;
  if (elements.owner == nullptr || !is_aligned || shape.empty()) {
    return Literal::FromBytes(dtype, std::move(shape), std::as_bytes(elements.bytes));
  }
  int64_t size = static_cast<int64_t>(elements.bytes.size());
  return Literal(dtype, std::move(shape), Buffer::Borrow(elements.bytes.data(), size, std::move(elements.owner)));
}

}  // namespace rvm::importing
