// Heap objects: what the pointer registers point to.
//
// Every object begins with 8 bytes: count, constructor tag, layout. A cell (tuple,
// constructor, closure, reference) continues with one 8-byte slot per field; a
// tensor with the header below. A constructor without fields is no object but
// an odd number in the register itself: tag << 1 | 1.
#ifndef RVM_VM_MEMORY_OBJECT_H_
#define RVM_VM_MEMORY_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/data_type.h"
#include "base/literal.h"

namespace rvm::vm {

// A register or a field: an integer, a float in the low bytes, or an Object*.
using Slot = uint64_t;

// Counts at or above this never change: constants, planned tensors, and objects with half a billion owners.
// The cycle collector uses the bits above while it runs.
inline constexpr uint32_t kImmortal = 0x20000000u;
// Layout 0 is the tensor; cell layout i of the executable is i + 1.
inline constexpr uint16_t kTensorLayout = 0;

struct Object {
  uint32_t count;
  uint16_t tag;
  uint16_t layout;

  Slot* fields() { return reinterpret_cast<Slot*>(this + 1); }
  const Slot* fields() const { return reinterpret_cast<const Slot*>(this + 1); }
};
static_assert(sizeof(Object) == 8);

enum class TensorStorage : uint8_t {
  kInline,    // the elements follow the header in the same block of `block_bytes`
  kBorrowed,  // the elements have an owner that outlives the tensor
  kView,      // the elements belong to `owner`, of which this tensor holds a count
  kDetached,  // the block was handed to a Value; nothing to free
  kOnDevice,  // the elements are on a device; on the host, too, unless `data` is null
};

struct Tensor {
  Object object;  // the tag is not 0 if the tensor waits for a kernel call
  DataType dtype;
  uint16_t rank;
  TensorStorage storage;
  bool inline_dims;  // `dims` points to the slots after the header, else into the linked program
  void* data;
  union {
    Object* owner;        // kView
    int64_t block_bytes;  // kInline
    void* on_device;      // kOnDevice: for the DeviceMemoryOwner
  };
  const int64_t* dims;

  int64_t* dims_after_header() { return reinterpret_cast<int64_t*>(this + 1); }
};
static_assert(sizeof(Tensor) == 40);

// Returns the tensor that has the elements of a view.
inline Tensor* RootOf(Tensor* tensor) {
  while (tensor->storage == TensorStorage::kView) tensor = reinterpret_cast<Tensor*>(tensor->owner);
  return tensor;
}

// Bytes of the elements.
inline int64_t ElementBytes(const Tensor& tensor) {
  int64_t bytes = tensor.dtype.bytes();
  for (uint16_t axis = 0; axis < tensor.rank; ++axis) bytes *= tensor.dims[axis];
  return bytes;
}

// Returns a copy of a tensor whose elements are on the host.
inline Literal CopyElements(const Tensor& tensor) {
  return Literal::FromBytes(tensor.dtype, Shape(tensor.dims, tensor.dims + tensor.rank),
                            {static_cast<const std::byte*>(tensor.data), static_cast<size_t>(ElementBytes(tensor))});
}

// Returns whether a tensor in a block of `block_bytes`, with its elements `header` bytes behind the beginning, has room
// for dims of its own and for so many bytes of elements.
inline bool FitsGrown(int64_t block_bytes, int64_t header, size_t rank, int64_t bytes) {
  return bytes <= block_bytes - header && static_cast<int64_t>(sizeof(Tensor) + rank * sizeof(int64_t)) <= header;
}
// Bytes for the elements of a tensor that had no room for `bytes`, and is likely to grow again: steps by a factor make
// appending cost what it appends.
inline int64_t GrownCapacity(int64_t bytes) { return bytes < int64_t{1} << 61 ? bytes + bytes / 2 : bytes; }

// How cells of one layout are made and freed.
struct HeapLayout {
  uint32_t bytes = 0;  // header and fields
  uint16_t tag = 0;
  uint16_t num_fields = 0;
  uint32_t function = 0;  // of a closure
  bool may_reach_cycle = false;
  bool is_tracked = false;  // a reference that may be part of a cycle: has a slot for the cycle collector
  std::vector<uint16_t> pointer_fields;
  std::vector<uint8_t> is_pointer;  // by field
};

inline bool IsImmediate(Slot slot) { return (slot & 1) != 0; }
inline Slot ImmediateOf(uint16_t tag) { return Slot{tag} << 1 | 1; }
inline Object* AsObject(Slot slot) { return reinterpret_cast<Object*>(slot); }
inline Tensor* AsTensor(Slot slot) { return reinterpret_cast<Tensor*>(slot); }
inline Slot AsSlot(const void* object) { return reinterpret_cast<Slot>(object); }
inline uint16_t TagOf(Slot slot) { return IsImmediate(slot) ? static_cast<uint16_t>(slot >> 1) : AsObject(slot)->tag; }

inline void Retain(Slot slot) {
  if (IsImmediate(slot)) return;
  Object* object = AsObject(slot);
  if (object->count < kImmortal) ++object->count;
}

}  // namespace rvm::vm

#endif  // RVM_VM_MEMORY_OBJECT_H_
