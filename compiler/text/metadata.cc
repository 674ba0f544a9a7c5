#include "compiler/text/metadata.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/text/base64.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;
constexpr int32_t kHostDevice = 1;
constexpr std::string_view kConstantKey = "relay.Constant";
constexpr std::string_view kShortConstantKey = "Constant";  // as the papers write it

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// Little-endian numbers, one after the other.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    if (bytes_.size() < sizeof(T)) {
      return absl::InvalidArgumentError(absl::StrCat("the tensor ends before its ", Abseil(what)));
    }
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

absl::StatusOr<DataType> DTypeOf(uint8_t code, uint8_t bits, uint16_t lanes) {
  constexpr std::string_view kCodes[] = {"int", "uint", "float", "", "bfloat"};
  std::string name = code < std::size(kCodes) ? absl::StrCat(Abseil(kCodes[code]), bits) : "";
  if (code == 1 && bits == 1) name = "bool";
  std::optional<DataType> dtype = ParseDataType(name);
  if (dtype && lanes == 1 && IsStorable(*dtype)) return *dtype;
  return absl::InvalidArgumentError(absl::StrCat("the tensor's dtype has code ", code, ", ", bits, " bits and ", lanes,
                                                 " lanes, which is none of ours"));
}

absl::Status ReadHeader(Reader& reader) {
  RVM_ASSIGN_OR_RETURN(uint64_t magic, reader.Read<uint64_t>("magic number"));
  if (magic != kTensorMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor starts with 0x", absl::Hex(magic), "; expected 0x", absl::Hex(kTensorMagic)));
  }
  RVM_ASSIGN_OR_RETURN(uint64_t reserved, reader.Read<uint64_t>("reserved word"));
  if (reserved != 0) return absl::InvalidArgumentError("the tensor's reserved word is not 0: a later format");
  RVM_ASSIGN_OR_RETURN(int32_t device, reader.Read<int32_t>("device"));
  RVM_RETURN_IF_ERROR(reader.Read<int32_t>("device").status());
  if (device == kHostDevice) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the tensor is of device type ", device, "; expected 1, the host"));
}

}  // namespace

absl::StatusOr<Literal> DecodeTensor(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RVM_RETURN_IF_ERROR(ReadHeader(reader));
  RVM_ASSIGN_OR_RETURN(int32_t rank, reader.Read<int32_t>("rank"));
  if (rank < 0 || rank > 32) return absl::InvalidArgumentError(absl::StrCat("the tensor has rank ", rank));
  RVM_ASSIGN_OR_RETURN(uint8_t code, reader.Read<uint8_t>("dtype"));
  RVM_ASSIGN_OR_RETURN(uint8_t bits, reader.Read<uint8_t>("dtype"));
  RVM_ASSIGN_OR_RETURN(uint16_t lanes, reader.Read<uint16_t>("dtype"));
  RVM_ASSIGN_OR_RETURN(DataType dtype, DTypeOf(code, bits, lanes));
  Shape shape;
  for (int32_t i = 0; i < rank; ++i) {
    RVM_ASSIGN_OR_RETURN(int64_t extent, reader.Read<int64_t>("extents"));
    if (extent < 0) return absl::InvalidArgumentError(absl::StrCat("the tensor has an extent ", extent));
    shape.push_back(extent);
  }
  RVM_ASSIGN_OR_RETURN(int64_t size, reader.Read<int64_t>("size"));
  std::optional<int64_t> count = NumElements(shape);
  if (!count || *count > size || size != *count * dtype.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("the tensor has ", size, " bytes of elements; its type `Tensor[",
                                                   ShapeToString(shape), ", ", dtype.ToString(), "]` needs others"));
  }
  if (static_cast<int64_t>(reader.rest().size()) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor says that it has ", size, " bytes of elements; ", reader.rest().size(), " follow"));
  }
  return Literal::FromBytes(dtype, std::move(shape), reader.rest());
}

absl::StatusOr<Metadata> Metadata::Parse(std::string_view json) {
  Metadata metadata;
  RVM_ASSIGN_OR_RETURN(metadata.root_, ParseJson(json));
  const JsonValue* nodes = metadata.root_.Find("nodes");
  if (nodes == nullptr || nodes->AsArray() == nullptr) return absl::InvalidArgumentError("it has no list `nodes`");
  const JsonValue* map = metadata.Node(metadata.root_.Find("root"));
  if (map == nullptr) return absl::InvalidArgumentError("its `root` is no index of a node");
  const JsonValue *keys = map->Find("keys"), *data = map->Find("data");
  bool is_map = keys != nullptr && keys->AsArray() != nullptr && data != nullptr && data->AsArray() != nullptr &&
                keys->AsArray()->size() == data->AsArray()->size();
  if (!is_map) return absl::InvalidArgumentError("its root is no map with as many `keys` as `data`");
  return metadata;
}

const JsonValue* Metadata::Node(const JsonValue* value) const {
  if (value == nullptr) return nullptr;
  int64_t index = -1;
  if (const int64_t* number = value->AsInt()) index = *number;
  const std::string* text = value->AsString();
  if (text != nullptr && !absl::SimpleAtoi(*text, &index)) return nullptr;
  const JsonValue::Array& nodes = *root_.Find("nodes")->AsArray();
  return index < 0 || index >= static_cast<int64_t>(nodes.size()) ? nullptr : &nodes[static_cast<size_t>(index)];
}

std::optional<Literal> Metadata::Constant(std::string_view key, int64_t index, ir::Span span,
                                          diagnostics::Diagnostics& diagnostics) const {
  std::string shown = absl::StrCat("meta[", Abseil(key), "][", index, "]");
  auto fail = [&](DiagnosticKind kind, std::string message) {
    diagnostics.Error(span, kind, absl::StrCat("`", shown, "`: ", message));
    return std::nullopt;
  };
  const JsonValue* map = Node(root_.Find("root"));
  const JsonValue* array = nullptr;
  std::vector<std::string_view> known;
  const JsonValue::Array& keys = *map->Find("keys")->AsArray();
  if (key == kShortConstantKey) key = kConstantKey;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string* name = keys[i].AsString();
    if (name != nullptr) known.push_back(*name);
    if (name != nullptr && *name == key) array = Node(&(*map->Find("data")->AsArray())[i]);
  }
  if (array == nullptr || key != kConstantKey) {
    std::string_view near = NearestName(key, known);
    return fail(DiagnosticKind::kUnknownMetadata,
                array != nullptr
                    ? "entries of this kind are no values; expected `relay.Constant`"
                    : absl::StrCat("the metadata section has no such key",
                                   near.empty() ? "" : absl::StrCat("; did you mean `", Abseil(near), "`?")));
  }
  const JsonValue* entries = array->Find("data");
  if (entries == nullptr || entries->AsArray() == nullptr) {
    return fail(DiagnosticKind::kBadMetadata, "the node of this key is no array of nodes");
  }
  size_t count = entries->AsArray()->size();
  if (index < 0 || static_cast<size_t>(index) >= count) {
    return fail(DiagnosticKind::kMetadataIndexOutOfRange,
                absl::StrCat("the metadata section has ", count, count == 1 ? " constant" : " constants"));
  }
  const JsonValue* node = Node(&(*entries->AsArray())[static_cast<size_t>(index)]);
  const JsonValue* attrs = node == nullptr ? nullptr : node->Find("attrs");
  const JsonValue* at = attrs == nullptr ? nullptr : attrs->Find("data");
  const JsonValue* tensors = root_.Find("b64ndarrays");
  uint64_t tensor = 0;
  bool is_tensor = at != nullptr && at->AsString() != nullptr && absl::SimpleAtoi(*at->AsString(), &tensor) &&
                   tensors != nullptr && tensors->AsArray() != nullptr && tensor < tensors->AsArray()->size() &&
                   (*tensors->AsArray())[tensor].AsString() != nullptr;
  if (!is_tensor) return fail(DiagnosticKind::kBadMetadata, "its node names no tensor of `b64ndarrays`");
  absl::StatusOr<std::vector<std::byte>> bytes = DecodeBase64(*(*tensors->AsArray())[tensor].AsString());
  absl::StatusOr<Literal> literal = bytes.ok() ? DecodeTensor(*bytes) : bytes.status();
  if (literal.ok()) return *std::move(literal);
  return fail(DiagnosticKind::kBadMetadataTensor, std::string(literal.status().message()));
}

}  // namespace rvm::text
