// The elements of HDF5's datasets and attributes.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/import/keras/hdf5.h"
#include "compiler/import/keras/hdf5_cursor.h"

namespace rvm::hdf5 {
namespace {

constexpr uint16_t kDeflate = 1, kShuffle = 2, kFletcher = 3;
constexpr int64_t kMaxRatio = 1100;  // by which deflate makes bytes fewer; its format allows 1032
constexpr int kMaxTreeDepth = 32;

absl::StatusOr<std::vector<uint8_t>> Inflate(Bytes bytes, size_t size) {
  std::vector<uint8_t> out(size);
  uLongf written = static_cast<uLongf>(size);
  // Not null, which zlib refuses, also for no bytes.
  uint8_t none = 0;
  const int result = uncompress(size == 0 ? &none : out.data(), &written, bytes.data(), bytes.size());
  if (result != Z_OK || written != size) return Malformed("a chunk that cannot be unpacked to its size");
  return out;
}

// Undoes the filter that stores the first bytes of all elements, then the second ones, and so on.
std::vector<uint8_t> Unshuffled(Bytes bytes, size_t element) {
  std::vector<uint8_t> out(bytes.begin(), bytes.end());
  const size_t count = bytes.size() / element;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < element; ++j) out[i * element + j] = bytes[j * count + i];
  }
  return out;
}

// One chunk as the B-tree lists it.
struct Chunk {
  Shape offset;
  uint32_t skipped_filters;
  Bytes stored;
};

// Returns the `size` bytes of a chunk, its filters undone, the last one first.
absl::StatusOr<std::vector<uint8_t>> Unfiltered(const Object& dataset, const Chunk& chunk, size_t size) {
  std::vector<uint8_t> bytes(chunk.stored.begin(), chunk.stored.end());
  for (size_t i = dataset.filters.size(); i-- > 0;) {
    const Filter& filter = dataset.filters[i];
    if (i < 32 && (chunk.skipped_filters >> i & 1) != 0) continue;
    if (filter.id == kDeflate) {
      // Checksums that were added before it was packed are behind the elements.
      const auto checksums = std::ranges::count(std::span(dataset.filters).first(i), kFletcher, &Filter::id);
      RVM_ASSIGN_OR_RETURN(bytes, Inflate(bytes, size + 4 * static_cast<size_t>(checksums)));
    } else if (filter.id == kShuffle) {
      bytes = Unshuffled(bytes, dataset.type.size);
    } else if (filter.id == kFletcher && bytes.size() >= 4) {
      bytes.resize(bytes.size() - 4);
    } else {
      return NotRead(absl::StrCat("the filter ", filter.id, " on a dataset"));
    }
  }
  if (bytes.size() != size) return Malformed("a chunk of another size than its extents");
  return bytes;
}

// Copies the part of a chunk that lies inside of the dataset.
void CopyChunk(const Object& dataset, const Chunk& chunk, Bytes bytes, std::vector<uint8_t>& out) {
  const Shape &extents = dataset.layout.chunk, &shape = dataset.shape;
  const size_t rank = shape.size(), last = rank - 1, element = dataset.type.size;
  const auto run = static_cast<size_t>(std::min(extents[last], shape[last] - chunk.offset[last])) * element;
  Shape at(rank, 0);
  for (size_t from = 0; from < bytes.size(); from += static_cast<size_t>(extents[last]) * element) {
    bool is_inside = true;
    int64_t to = 0;
    for (size_t i = 0; i < rank; ++i) {
      is_inside = is_inside && chunk.offset[i] + at[i] < shape[i];
      to = to * shape[i] + chunk.offset[i] + at[i];
    }
    if (is_inside) std::memcpy(&out[static_cast<size_t>(to) * element], &bytes[from], run);
    for (size_t i = last; i-- > 0 && ++at[i] == extents[i];) at[i] = 0;
  }
}

// Collects the chunks of a dataset.
class ChunkTree {
 public:
  ChunkTree(Bytes file, const Object& dataset, size_t limit) : file_(file), dataset_(dataset), limit_(limit) {}

  absl::Status Read(uint64_t address, int depth = 0) {
    Cursor c(file_, address);
    const bool is_tree = c.Consume("TREE") && c.Byte() == 1;
    const int level = c.Byte();
    const uint64_t count = c.Number(2);
    c.Skip(16);
    if (!is_tree || !c.ok() || depth > kMaxTreeDepth || ++nodes_ > file_.size() / 24) {
      return Malformed("a dataset without a table of chunks");
    }
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t size = c.Number(4);
      Chunk chunk{.skipped_filters = static_cast<uint32_t>(c.Number(4))};
      for (int64_t extent : dataset_.shape) {
        const uint64_t offset = c.Number(8);
        if (level == 0 && offset >= static_cast<uint64_t>(extent)) return Malformed("a chunk outside of its dataset");
        chunk.offset.push_back(static_cast<int64_t>(offset));
      }
      c.Skip(8);
      const uint64_t child = c.Number(8);
      if (!c.ok()) return Malformed("a table of chunks ends too early");
      if (level > 0) {
        RVM_RETURN_IF_ERROR(Read(child, depth + 1));
        continue;
      }
      Cursor stored(file_, child);
      chunk.stored = stored.Take(size);
      if (!stored.ok() || chunks_.size() >= limit_) return Malformed("chunks outside of the file, or too many");
      chunks_.push_back(std::move(chunk));
    }
    return absl::OkStatus();
  }
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  const Bytes file_;
  const Object& dataset_;
  const size_t limit_;
  size_t nodes_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace

absl::StatusOr<std::vector<uint8_t>> File::Chunked(const Object& dataset, int64_t size) const {
  const Shape &extents = dataset.layout.chunk, &shape = dataset.shape;
  if (extents.size() != shape.size() || shape.empty()) return Malformed("chunks of another rank than their dataset");
  int64_t chunk_size = dataset.type.size, padded = dataset.type.size, count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (extents[i] < 1) return Malformed("a chunk without elements");
    const int64_t along = shape[i] / extents[i] + (shape[i] % extents[i] != 0 ? 1 : 0);
    if (__builtin_mul_overflow(chunk_size, extents[i], &chunk_size) || __builtin_mul_overflow(count, along, &count)) {
      return Malformed("a dataset that is too large");
    }
  }
  if (__builtin_mul_overflow(chunk_size, count, &padded) ||
      padded / kMaxRatio > static_cast<int64_t>(file_.bytes.size())) {
    return Malformed("a dataset that is larger than the file can hold");
  }
  ChunkTree tree(file_.bytes, dataset, static_cast<size_t>(count));
  RVM_RETURN_IF_ERROR(tree.Read(dataset.layout.tree));
  if (static_cast<int64_t>(tree.chunks().size()) != count) return Malformed("chunks of a dataset are missing");
  std::vector<uint8_t> out(static_cast<size_t>(size));
  for (const Chunk& chunk : tree.chunks()) {
    RVM_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, Unfiltered(dataset, chunk, static_cast<size_t>(chunk_size)));
    CopyChunk(dataset, chunk, bytes, out);
  }
  return out;
}

absl::StatusOr<Literal> File::Tensor(const Object& dataset) const {
  if (!dataset.is_dataset) return Malformed("a group where a dataset is expected");
  ElementType type = dataset.type;
  // NumPy has no bfloat16: h5py writes two opaque bytes, and Keras says what they are.
  if (type.kind == ElementType::Kind::kOpaque && type.size == 2) {
    const Attribute* dtype = dataset.FindAttribute("dtype");
    absl::StatusOr<std::vector<std::string>> names = dtype == nullptr ? std::vector<std::string>() : Texts(*dtype);
    if (names.ok() && *names == std::vector<std::string>{"bfloat16"}) {
      type.kind = ElementType::Kind::kNumber;
      type.dtype = kBFloat16;
    }
  }
  if (type.kind != ElementType::Kind::kNumber) {
    return NotRead(type.name.empty() ? "a dataset of strings or bytes" : type.name);
  }
  const std::optional<int64_t> count = NumElements(dataset.shape);
  int64_t size = 0;
  if (!count || __builtin_mul_overflow(*count, int64_t{type.size}, &size)) return Malformed("a dataset is too large");
  std::vector<uint8_t> chunked;
  importing::FileBytes elements = {dataset.layout.data, file_.owner};
  if (size > 0 && !dataset.layout.is_written) return Malformed("a dataset whose elements were never written");
  if (size > 0 && dataset.layout.kind == Layout::Kind::kChunked) {
    RVM_ASSIGN_OR_RETURN(chunked, Chunked(dataset, size));
    elements = {chunked, nullptr};
  }
  if (static_cast<int64_t>(elements.bytes.size()) < size) return Malformed("a dataset with too few elements");
  elements.bytes = elements.bytes.first(static_cast<size_t>(size));
  if (type.dtype.is_bool() && std::ranges::any_of(elements.bytes, [](uint8_t byte) { return byte > 1; })) {
    return Malformed("a bool that is neither 0 nor 1");
  }
  return importing::WrapElements(type.dtype, dataset.shape, std::move(elements));
}

absl::StatusOr<std::string> File::HeapText(Bytes reference) const {
  Cursor c(reference);
  const uint64_t size = c.Number(4), address = c.Number(8), wanted = c.Number(4);
  if (size == 0) return "";
  Cursor heap(file_.bytes, address);
  const bool is_heap = heap.Consume("GCOL");
  heap.Skip(4);
  const uint64_t heap_size = heap.Number(8);
  if (!is_heap || !heap.ok() || heap_size < 16) return Malformed("a string without a heap");
  Cursor objects(heap.Take(heap_size - 16));
  while (objects.remaining() >= 16) {
    const uint64_t index = objects.Number(2);
    objects.Skip(6);
    const uint64_t length = objects.Number(8);
    if (index == 0) break;  // what is free
    const Bytes bytes = objects.Take(length);
    if (!objects.ok()) break;
    objects.Skip(std::min((8 - length % 8) % 8, objects.remaining()));
    if (index != wanted) continue;
    if (size > bytes.size()) break;
    return std::string(bytes.begin(), bytes.begin() + static_cast<int64_t>(size));
  }
  return Malformed("a string that its heap does not have");
}

absl::StatusOr<std::vector<std::string>> File::Texts(const Attribute& attribute) const {
  std::vector<std::string> texts;
  const size_t size = attribute.type.size;
  const bool is_fixed = attribute.type.kind == ElementType::Kind::kText;
  if (!is_fixed && attribute.type.kind != ElementType::Kind::kVariableText) {
    // An empty list has the dtype of floats.
    if (attribute.data.empty()) return texts;
    return Malformed(absl::StrCat("the attribute `", attribute.name, "` is no string"));
  }
  for (size_t at = 0; at + size <= attribute.data.size(); at += size) {
    const Bytes element = attribute.data.subspan(at, size);
    if (is_fixed) {
      texts.emplace_back(element.begin(), std::find(element.begin(), element.end(), 0));
    } else {
      RVM_ASSIGN_OR_RETURN(std::string text, HeapText(element));
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

}  // namespace rvm::hdf5
