#include "base/npy.h"

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/element.h"
#include "base/status_macros.h"

namespace rvm {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 32;
constexpr size_t kHeaderAlignment = 64;

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed .npy: ", Abseil(what)));
}

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// Reads the header's dictionary: `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  absl::StatusOr<Header> Read() {
    Header header;
    if (!Accept("{")) return Malformed("the header is no dictionary");
    while (!Accept("}")) {
      std::optional<std::string> key = String();
      if (!key || !Accept(":")) return Malformed("the header's dictionary has no key where one belongs");
      RVM_RETURN_IF_ERROR(ReadEntry(*key, header));
      if (!Accept(",") && !Ahead("}")) return Malformed("the header's entries need a comma between them");
    }
    Skip();
    if (!text_.empty()) return Malformed("text after the header's dictionary");
    if (!header.descr || !header.fortran_order || !header.shape)
      return Malformed("the header needs `descr`, `fortran_order` and `shape`");
    return header;
  }

 private:
  absl::Status ReadEntry(const std::string& key, Header& header) {
    if (key == "descr" && !header.descr) {
      if (Ahead("[")) return absl::UnimplementedError("the .npy holds structures; expected numbers");
      header.descr = String();
      if (!header.descr) return Malformed("`descr` is no string");
    } else if (key == "fortran_order" && !header.fortran_order) {
      if (Accept("True"))
        header.fortran_order = true;
      else if (Accept("False"))
        header.fortran_order = false;
      else
        return Malformed("`fortran_order` is neither True nor False");
    } else if (key == "shape" && !header.shape) {
      return ReadShape(header.shape.emplace());
    } else {
      return Malformed(absl::StrCat("the header's entry `", key, "` is unknown or there twice"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadShape(Shape& shape) {
    if (!Accept("(")) return Malformed("`shape` is no tuple");
    while (!Accept(")")) {
      Skip();
      int64_t extent = 0;
      auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) return Malformed("`shape` needs extents of at most 63 bits");
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      if (shape.size() == kMaxRank) return Malformed("`shape` has more than 32 extents");
      shape.push_back(extent);
      if (!Accept(",") && !Ahead(")")) return Malformed("`shape` needs commas between its extents");
    }
    return absl::OkStatus();
  }

  void Skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool Ahead(std::string_view token) {
    Skip();
    return text_.starts_with(token);
  }
  bool Accept(std::string_view token) {
    if (!Ahead(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string> String() {
    Skip();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string result(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return result;
  }

  std::string_view text_;
};

// "<f4" -> float32. The first character is the byte order.
absl::StatusOr<DataType> ParseDescr(std::string_view descr) {
  std::string_view element = descr.empty() ? descr : descr.substr(1);
  for (const DataTypeInfo& row : DataTypeTable()) {
    if (row.npy.empty() || row.npy != element) continue;
    if (descr[0] == '<' || descr[0] == '=' || (descr[0] == '|' && row.dtype.bytes() == 1)) return row.dtype;
    if (descr[0] == '>' && row.dtype.bytes() == 1) return row.dtype;
    if (descr[0] == '>') {
      return absl::UnimplementedError(absl::StrCat("the .npy is big-endian (`", Abseil(descr),
                                                   "`); expected little-endian: convert it with `x.astype('<",
                                                   Abseil(element), "')`"));
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("the .npy has dtype `", Abseil(descr), "`; expected bool, an integer, or a float of 16 to 64 bits"));
}

// Element i of the Fortran order goes to its row-major place.
void CopyFortranOrder(const Shape& shape, int64_t width, const uint8_t* from, std::byte* to) {
  Shape strides(shape.size());
  int64_t count = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = count;
    count *= shape[axis];
  }
  Shape index(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + offset * width, from + i * width, static_cast<size_t>(width));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<Literal> DecodeNpy(std::span<const uint8_t> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) return Malformed("it does not begin with \\x93NUMPY");
  if (text.size() < 8) return Malformed("it ends in the header");
  int major = bytes[6];
  if (major < 1 || major > 3) {
    return absl::UnimplementedError(absl::StrCat("the .npy has format version ", major, "; expected 1, 2 or 3"));
  }
  size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() < 8 + length_bytes) return Malformed("it ends in the header");
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | bytes[8 + i];
  text.remove_prefix(8 + length_bytes);
  if (length > text.size()) return Malformed("it ends in the header");
  RVM_ASSIGN_OR_RETURN(Header header, HeaderReader(text.substr(0, length)).Read());
  RVM_ASSIGN_OR_RETURN(DataType dtype, ParseDescr(*header.descr));
  text.remove_prefix(length);
  std::optional<int64_t> count = NumElements(*header.shape);
  int64_t available = static_cast<int64_t>(text.size());
  if (!count || *count > available / dtype.bytes() || *count * dtype.bytes() != available) {
    return Malformed(absl::StrCat("it holds ", available, " bytes of elements, which is not ",
                                  ShapeToString(*header.shape), " of ", dtype.ToString()));
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(available);
  if (*header.fortran_order && header.shape->size() > 1) {
    CopyFortranOrder(*header.shape, dtype.bytes(), reinterpret_cast<const uint8_t*>(text.data()), buffer->data());
  } else if (available > 0) {
    std::memcpy(buffer->data(), text.data(), text.size());
  }
  if (dtype.is_bool()) {
    for (int64_t i = 0; i < available; ++i) buffer->data()[i] = std::byte{buffer->data()[i] != std::byte{0}};
  }
  return Literal(dtype, *std::move(header.shape), std::move(buffer));
}

std::vector<uint8_t> EncodeNpy(const Literal& tensor) {
  DataType dtype = FindDataType(tensor.dtype())->npy.empty() ? kFloat32 : tensor.dtype();
  std::string header = absl::StrCat("{'descr': '", dtype.bytes() == 1 ? "|" : "<", Abseil(FindDataType(dtype)->npy),
                                    "', 'fortran_order': False, 'shape': (");
  for (int64_t extent : tensor.shape()) absl::StrAppend(&header, extent, ", ");
  if (tensor.rank() > 1) header.resize(header.size() - 2);
  if (tensor.rank() == 1) header.resize(header.size() - 1);
  header += "), }";
  size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  header += '\n';
  std::vector<uint8_t> out(kMagic.begin(), kMagic.end());
  out.insert(out.end(), {1, 0, static_cast<uint8_t>(header.size()), static_cast<uint8_t>(header.size() >> 8)});
  out.insert(out.end(), header.begin(), header.end());
  size_t begin = out.size();
  out.resize(begin + static_cast<size_t>(tensor.num_elements() * dtype.bytes()));
  if (dtype == tensor.dtype()) {
    if (tensor.bytes() > 0) std::memcpy(out.data() + begin, tensor.data(), static_cast<size_t>(tensor.bytes()));
    return out;
  }
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    StoreDouble(dtype, out.data() + begin + static_cast<size_t>(i * dtype.bytes()), tensor.DoubleAt(i));
  }
  return out;
}

}  // namespace rvm
