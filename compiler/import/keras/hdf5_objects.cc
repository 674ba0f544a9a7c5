// The superblock, object headers, groups and attributes of HDF5 files.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "compiler/import/keras/hdf5.h"
#include "compiler/import/keras/hdf5_cursor.h"

namespace rvm::hdf5 {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr uint64_t kMaxRank = 32;
constexpr int kMaxTreeDepth = 32;

// Types of messages in the headers of objects.
enum Message : uint16_t {
  kDataspace = 0x1,
  kLinkInfo = 0x2,
  kDatatype = 0x3,
  kLink = 0x6,
  kDataLayout = 0x8,
  kFilterPipeline = 0xb,
  kAttribute = 0xc,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

absl::StatusOr<ElementType> ReadType(Cursor c) {
  const uint64_t head = c.Number(4);
  ElementType type;
  type.size = static_cast<uint32_t>(c.Number(4));
  if (!c.ok() || type.size == 0) return Malformed("a type without a size");
  const int kind = head & 0xf;
  const uint64_t bits = head >> 8;
  auto number = [&](std::optional<DataType> dtype, std::string_view name) {
    const bool is_big = (bits & 1) != 0 && type.size > 1;
    if (dtype && !is_big) {
      type.kind = ElementType::Kind::kNumber;
      type.dtype = *dtype;
    } else {
      type.name = absl::StrCat(is_big ? "big-endian " : "", Abseil(name), " of ", type.size, " bytes");
    }
    return type;
  };
  if (kind == 0) {
    const bool is_signed = (bits & 8) != 0;
    std::optional<DataType> dtype;
    if (type.size == 1) dtype = is_signed ? kInt8 : kUInt8;
    if (type.size == 2) dtype = is_signed ? kInt16 : kUInt16;
    if (type.size == 4) dtype = is_signed ? kInt32 : kUInt32;
    if (type.size == 8) dtype = is_signed ? kInt64 : kUInt64;
    return number(dtype, "integers");
  }
  if (kind == 1) {
    c.Skip(5);
    const uint8_t exponent = c.Byte();
    c.Skip(1);
    const uint8_t mantissa = c.Byte();
    std::optional<DataType> dtype;
    if (type.size == 2 && exponent == 5 && mantissa == 10) dtype = kFloat16;
    if (type.size == 2 && exponent == 8 && mantissa == 7) dtype = kBFloat16;
    if (type.size == 4 && exponent == 8 && mantissa == 23) dtype = kFloat32;
    if (type.size == 8 && exponent == 11 && mantissa == 52) dtype = kFloat64;
    return number(dtype, "floats");
  }
  if (kind == 3) type.kind = ElementType::Kind::kText;
  if (kind == 5) type.kind = ElementType::Kind::kOpaque;
  // h5py writes bools as an enumeration of bytes.
  if (kind == 8 && type.size == 1) return number(kBool, "bools");
  if (kind == 9 && (bits & 0xf) == 1 && type.size == 16) type.kind = ElementType::Kind::kVariableText;
  if (type.kind == ElementType::Kind::kOther) type.name = absl::StrCat("elements of HDF5's class ", kind);
  return type;
}

absl::StatusOr<Shape> ReadShape(Cursor c) {
  const int version = c.Byte();
  const uint64_t rank = c.Byte();
  c.Skip(1);
  const int kind = c.Byte();  // in version 2: 0 scalar, 1 simple, 2 without elements
  if (version == 1) c.Skip(4);
  if (!c.ok() || version < 1 || version > 2 || rank > kMaxRank) return Malformed("a shape of an unknown form");
  Shape shape;
  for (uint64_t i = 0; i < rank; ++i) {
    const uint64_t extent = c.Number(8);
    if (!c.ok() || extent > (uint64_t{1} << 48)) return Malformed("a shape with an extent out of range");
    shape.push_back(static_cast<int64_t>(extent));
  }
  if (version == 2 && kind == 2) shape = {0};
  return shape;
}

absl::StatusOr<Attribute> ReadAttribute(Cursor c) {
  Attribute attribute;
  const int version = c.Byte(), flags = c.Byte();
  const uint64_t name_size = c.Number(2), type_size = c.Number(2), shape_size = c.Number(2);
  if (!c.ok() || version < 1 || version > 3) return Malformed("an attribute of an unknown version");
  if (version > 1 && (flags & 3) != 0) return NotRead("an attribute of a shared type");
  if (version == 3) c.Skip(1);
  auto take = [&](uint64_t size) { return c.Take(version == 1 ? (size + 7) / 8 * 8 : size); };
  attribute.name = Cursor(take(name_size)).Text();
  const Bytes type = take(type_size), shape = take(shape_size);
  if (!c.ok()) return Malformed("an attribute ends too early");
  RVM_ASSIGN_OR_RETURN(attribute.type, ReadType(Cursor(type)));
  RVM_ASSIGN_OR_RETURN(attribute.shape, ReadShape(Cursor(shape)));
  const std::optional<int64_t> count = NumElements(attribute.shape);
  uint64_t size = 0;
  if (!count || __builtin_mul_overflow(static_cast<uint64_t>(*count), attribute.type.size, &size)) {
    return Malformed("an attribute is too large");
  }
  attribute.data = c.Take(size);
  if (!c.ok()) return Malformed(absl::StrCat("the attribute `", attribute.name, "` ends too early"));
  return attribute;
}

absl::StatusOr<std::vector<Filter>> ReadFilters(Cursor c) {
  std::vector<Filter> filters;
  const int version = c.Byte(), count = c.Byte();
  if (version < 1 || version > 2) return Malformed("a list of filters of an unknown version");
  if (version == 1) c.Skip(6);
  for (int i = 0; i < count; ++i) {
    Filter filter;
    filter.id = static_cast<uint16_t>(c.Number(2));
    const uint64_t name_size = version == 1 || filter.id >= 256 ? c.Number(2) : 0;
    c.Skip(2);
    const uint64_t num_values = c.Number(2);
    c.Skip(version == 1 ? (name_size + 7) / 8 * 8 : name_size);
    for (uint64_t j = 0; j < num_values && c.ok(); ++j) filter.values.push_back(static_cast<uint32_t>(c.Number(4)));
    if (version == 1 && num_values % 2 == 1) c.Skip(4);
    if (!c.ok()) return Malformed("a list of filters ends too early");
    filters.push_back(std::move(filter));
  }
  return filters;
}

absl::StatusOr<Layout> ReadLayout(Bytes file, Cursor c) {
  Layout layout;
  const int version = c.Byte(), kind = c.Byte();
  if (version < 3 || version > 4) return NotRead(absl::StrCat("a layout of version ", version));
  if (kind == 0) {
    layout.kind = Layout::Kind::kContiguous;
    layout.data = c.Take(c.Number(2));
    layout.is_written = true;
  } else if (kind == 1) {
    layout.kind = Layout::Kind::kContiguous;
    const uint64_t address = c.Number(8), size = c.Number(8);
    if (c.ok() && address != kUndefined) {
      c = Cursor(file, address);
      layout.data = c.Take(size);
      layout.is_written = true;
    }
  } else if (kind == 2 && version == 3) {
    layout.kind = Layout::Kind::kChunked;
    const uint64_t rank = c.Byte();
    layout.tree = c.Number(8);
    layout.is_written = layout.tree != kUndefined;
    if (rank < 1 || rank > kMaxRank + 1) return Malformed("chunks of a rank out of range");
    for (uint64_t i = 0; i + 1 < rank; ++i) layout.chunk.push_back(static_cast<int64_t>(c.Number(4)));
  } else {
    return NotRead(absl::StrCat("a layout of version ", version, " and class ", kind));
  }
  if (!c.ok()) return Malformed("elements behind the end of the file");
  return layout;
}

// Reads one object: the messages of its header and, for a group, its tables of links.
class ObjectReader {
 public:
  ObjectReader(Bytes file, Object& object) : file_(file), object_(object), budget_(file.size()) {}

  absl::Status Read(uint64_t address) {
    Cursor c(file_, address);
    RVM_RETURN_IF_ERROR(Cursor(file_, address).Consume("OHDR") ? ReadNewHeader(c) : ReadOldHeader(c));
    for (size_t i = 0; i < more_.size(); ++i) {
      const Bytes block = more_[i];
      if (!Spend(block.size() + 1)) return Malformed("blocks of an object that overlap");
      RVM_RETURN_IF_ERROR(ReadMessages(block));
    }
    return absl::OkStatus();
  }

 private:
  // Bounds the bytes that are read, since damaged files may have cycles.
  bool Spend(uint64_t size) {
    if (size > budget_) return false;
    budget_ -= size;
    return true;
  }

  absl::Status ReadOldHeader(Cursor c) {
    const int version = c.Byte();
    c.Skip(7);
    const uint64_t size = c.Number(4);
    c.Skip(4);
    const Bytes block = c.Take(size);
    if (!c.ok() || version != 1) return Malformed("no object where one is expected");
    return ReadMessages(block);
  }

  absl::Status ReadNewHeader(Cursor c) {
    c.Skip(4);
    const int version = c.Byte(), flags = c.Byte();
    if (version != 2) return Malformed("an object of an unknown version");
    is_new_ = true;
    has_order_ = (flags & 4) != 0;
    if ((flags & 0x20) != 0) c.Skip(16);
    if ((flags & 0x10) != 0) c.Skip(4);
    const Bytes block = c.Take(c.Number(1 << (flags & 3)));
    if (!c.ok()) return Malformed("an object ends too early");
    return ReadMessages(block);
  }

  absl::Status ReadMessages(Bytes block) {
    Cursor c(block);
    const uint64_t head = is_new_ ? (has_order_ ? 6 : 4) : 8;
    while (c.remaining() >= head) {
      const auto type = static_cast<uint16_t>(c.Number(is_new_ ? 1 : 2));
      const uint64_t size = c.Number(2);
      const int flags = c.Byte();
      c.Skip(is_new_ ? (has_order_ ? 2 : 0) : 3);
      const Bytes data = c.Take(size);
      if (!c.ok()) return Malformed("a message of an object ends too early");
      RVM_RETURN_IF_ERROR(ReadMessage(type, flags, data));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMessage(uint16_t type, int flags, Bytes data) {
    Cursor c(data);
    const bool is_shared = (flags & 2) != 0;
    if (is_shared && (type == kDataspace || type == kDatatype || type == kFilterPipeline || type == kAttribute)) {
      return NotRead("a shared message");
    }
    if (type == kDataspace) {
      RVM_ASSIGN_OR_RETURN(object_.shape, ReadShape(c));
    } else if (type == kDatatype) {
      RVM_ASSIGN_OR_RETURN(object_.type, ReadType(c));
    } else if (type == kDataLayout) {
      RVM_ASSIGN_OR_RETURN(object_.layout, ReadLayout(file_, c));
      object_.is_dataset = true;
    } else if (type == kFilterPipeline) {
      RVM_ASSIGN_OR_RETURN(object_.filters, ReadFilters(c));
    } else if (type == kAttribute) {
      RVM_ASSIGN_OR_RETURN(Attribute attribute, ReadAttribute(c));
      object_.attributes.push_back(std::move(attribute));
    } else if (type == kLink) {
      return ReadLink(c);
    } else if (type == kLinkInfo || type == kAttributeInfo) {
      return ReadInfo(type, c);
    } else if (type == kSymbolTable) {
      return ReadSymbolTable(c);
    } else if (type == kContinuation) {
      return ReadContinuation(c);
    }
    return absl::OkStatus();
  }

  absl::Status ReadContinuation(Cursor c) {
    const uint64_t address = c.Number(8), size = c.Number(8);
    Cursor block(file_, address);
    Bytes bytes = block.Take(size);
    if (!c.ok() || !block.ok() || (is_new_ && size < 8)) return Malformed("a block of an object outside of the file");
    if (is_new_) bytes = bytes.subspan(4, bytes.size() - 8);  // between the signature and the checksum
    more_.push_back(bytes);
    return absl::OkStatus();
  }

  absl::Status ReadLink(Cursor c) {
    const int version = c.Byte(), flags = c.Byte();
    const int type = (flags & 8) != 0 ? c.Byte() : 0;
    if ((flags & 4) != 0) c.Skip(8);
    if ((flags & 0x10) != 0) c.Skip(1);
    const Bytes name = c.Take(c.Number(1 << (flags & 3)));
    if (!c.ok() || version != 1) return Malformed("a link of an unknown version");
    if (type != 0) return absl::OkStatus();  // soft and external links are not followed
    object_.links.push_back({std::string(name.begin(), name.end()), c.Number(8)});
    return c.ok() ? absl::OkStatus() : Malformed("a link ends too early");
  }

  // Refuses links or attributes that stand in a heap of their own.
  absl::Status ReadInfo(uint16_t type, Cursor c) {
    c.Skip(1);
    const int flags = c.Byte();
    if ((flags & 1) != 0) c.Skip(type == kLinkInfo ? 8 : 2);
    const uint64_t heap = c.Number(8);
    if (!c.ok()) return Malformed("a message of an object ends too early");
    if (heap == kUndefined) return absl::OkStatus();
    return NotRead(type == kLinkInfo ? "a group whose links stand in a fractal heap" : "attributes in a fractal heap");
  }

  absl::Status ReadSymbolTable(Cursor c) {
    const uint64_t tree = c.Number(8);
    Cursor heap(file_, c.Number(8));
    const bool is_heap = heap.Consume("HEAP");
    heap.Skip(4);
    const uint64_t size = heap.Number(8);
    heap.Skip(8);
    Cursor names(file_, heap.Number(8));
    const Bytes texts = names.Take(size);
    if (!is_heap || !c.ok() || !heap.ok() || !names.ok()) return Malformed("a group without names");
    return ReadTree(tree, texts, 0);
  }

  absl::Status ReadTree(uint64_t address, Bytes names, int depth) {
    Cursor c(file_, address);
    if (Cursor(file_, address).Consume("SNOD")) return ReadSymbols(c, names);
    const bool is_tree = c.Consume("TREE") && c.Byte() == 0;
    c.Skip(1);
    const uint64_t count = c.Number(2);
    c.Skip(16);
    if (!is_tree || !c.ok() || depth > kMaxTreeDepth) return Malformed("a group without a table of links");
    if (!Spend(24 + 16 * count)) return Malformed("tables of links that overlap");
    for (uint64_t i = 0; i < count; ++i) {
      c.Skip(8);
      const uint64_t child = c.Number(8);
      if (!c.ok()) return Malformed("a table of links ends too early");
      RVM_RETURN_IF_ERROR(ReadTree(child, names, depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSymbols(Cursor c, Bytes names) {
    c.Skip(6);
    const uint64_t count = c.Number(2);
    if (!Spend(8 + 40 * count)) return Malformed("tables of links that overlap");
    for (uint64_t i = 0; i < count; ++i) {
      Cursor name(names, c.Number(8));
      const uint64_t address = c.Number(8);
      const uint64_t kind = c.Number(4);
      c.Skip(20);
      if (kind == 2) continue;  // a soft link
      std::string text = name.Text();
      if (!c.ok() || !name.ok() || !Spend(text.size())) return Malformed("a link without a name");
      object_.links.push_back({std::move(text), address});
    }
    return absl::OkStatus();
  }

  const Bytes file_;
  Object& object_;
  uint64_t budget_;
  std::vector<Bytes> more_;  // blocks of messages behind the first one
  bool is_new_ = false, has_order_ = false;
};

}  // namespace

const Attribute* Object::FindAttribute(std::string_view attribute) const {
  for (const Attribute& one : attributes) {
    if (one.name == attribute) return &one;
  }
  return nullptr;
}

absl::Status File::ReadSuperblock() {
  Cursor c(file_.bytes);
  if (!c.Consume(kSignature)) return absl::InvalidArgumentError("it is no HDF5 file");
  const int version = c.Byte();
  if (version > 3) return NotRead(absl::StrCat("a superblock of version ", version));
  if (version < 2) c.Skip(4);
  const int offset_size = c.Byte(), length_size = c.Byte();
  if (offset_size != 8 || length_size != 8) return NotRead("addresses of other than 8 bytes");
  if (version < 2) {
    c.Skip(version == 0 ? 9 : 13);
    if (c.Number(8) != 0) return NotRead("a base address");
    c.Skip(32);
  } else {
    c.Skip(1);
    if (c.Number(8) != 0) return NotRead("a base address");
    c.Skip(16);
  }
  root_ = c.Number(8);
  return c.ok() ? absl::OkStatus() : Malformed("it ends within its first block");
}

absl::StatusOr<File> File::Open(const importing::FileBytes& file) {
  File opened(file);
  RVM_RETURN_IF_ERROR(opened.ReadSuperblock());
  RVM_RETURN_IF_ERROR(opened.Find("").status());
  return opened;
}

absl::StatusOr<const Object*> File::ObjectAt(uint64_t address) {
  std::unique_ptr<Object>& object = objects_[address];
  if (object != nullptr) return object.get();
  auto read = std::make_unique<Object>();
  RVM_RETURN_IF_ERROR(ObjectReader(file_.bytes, *read).Read(address));
  object = std::move(read);
  return object.get();
}

absl::StatusOr<const Object*> File::Find(std::string_view path) {
  RVM_ASSIGN_OR_RETURN(const Object* object, ObjectAt(root_));
  for (absl::string_view name : absl::StrSplit(Abseil(path), '/', absl::SkipEmpty())) {
    const Object::Link* found = nullptr;
    for (const Object::Link& link : object->links) {
      if (link.name == name) found = &link;
    }
    if (found == nullptr) {
      return absl::NotFoundError(absl::StrCat("its HDF5 data have no `", Abseil(path), "`"));
    }
    RVM_ASSIGN_OR_RETURN(object, ObjectAt(found->address));
  }
  return object;
}

}  // namespace rvm::hdf5
