// Reads HDF5 files in memory: groups, attributes and datasets as h5py writes them. No bytes are read outside of the
// file, and work and memory are bounded by its size.
//
// Superblocks 0 to 3; groups as symbol tables or link messages; contiguous, compact and chunked data, with the filters
// shuffle, deflate and Fletcher's checksum (not compared). Links and attributes in fractal heaps, which HDF5 makes for
// many of them with `libver="latest"`, and indices of chunks of version 4 are refused.
#ifndef RVM_COMPILER_IMPORT_KERAS_HDF5_H_
#define RVM_COMPILER_IMPORT_KERAS_HDF5_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"

namespace rvm::hdf5 {

using importing::Bytes;

struct ElementType {
  enum class Kind : uint8_t { kNumber, kText, kVariableText, kOpaque, kOther };
  Kind kind = Kind::kOther;
  DataType dtype = kFloat32;  // of kNumber
  uint32_t size = 0;          // in bytes
  std::string name;           // of kOther, for messages: "a compound type"
};

struct Attribute {
  std::string name;
  ElementType type;
  Shape shape;
  Bytes data;
};

struct Filter {
  uint16_t id;
  std::vector<uint32_t> values;
};

// Location of a dataset's elements.
struct Layout {
  enum class Kind : uint8_t { kNone, kContiguous, kChunked };
  Kind kind = Kind::kNone;
  Bytes data;               // of kContiguous
  bool is_written = false;  // false: the file has no elements
  uint64_t tree = 0;        // address of the B-tree of kChunked
  Shape chunk;              // extents of a chunk
};

// A group or a dataset.
struct Object {
  struct Link {
    std::string name;
    uint64_t address;
  };
  std::vector<Link> links;
  std::vector<Attribute> attributes;
  bool is_dataset = false;
  ElementType type;
  Shape shape;
  Layout layout;
  std::vector<Filter> filters;

  // Null if there is none.
  const Attribute* FindAttribute(std::string_view attribute) const;
};

class File {
 public:
  // The file's owner keeps literals alive that share its memory.
  static absl::StatusOr<File> Open(const importing::FileBytes& file);

  // Returns the object at a path of names separated by `/`, from the root on. kNotFound if there is none.
  absl::StatusOr<const Object*> Find(std::string_view path);
  // Returns true if there is an object at `path`; false also where the way there is damaged.
  bool Has(std::string_view path) { return Find(path).ok(); }
  // Returns the elements of a dataset. kUnimplemented: not numbers.
  absl::StatusOr<Literal> Tensor(const Object& dataset) const;
  // Returns the strings of an attribute, one or many.
  absl::StatusOr<std::vector<std::string>> Texts(const Attribute& attribute) const;

 private:
  explicit File(const importing::FileBytes& file) : file_(file) {}
  absl::Status ReadSuperblock();
  absl::StatusOr<const Object*> ObjectAt(uint64_t address);
  absl::StatusOr<std::string> HeapText(Bytes reference) const;
  // Returns the elements of a chunked dataset, `size` bytes.
  absl::StatusOr<std::vector<uint8_t>> Chunked(const Object& dataset, int64_t size) const;

  importing::FileBytes file_;
  uint64_t root_ = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Object>> objects_;  // by address, those that were read
};

}  // namespace rvm::hdf5

#endif  // RVM_COMPILER_IMPORT_KERAS_HDF5_H_
