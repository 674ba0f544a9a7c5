#include "compiler/import/torch/archive.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "compiler/import/torch/script.h"

namespace rvm::torch {
namespace {

struct ScalarTypeRow {
  int64_t number;
  std::string_view name;
  std::optional<DataType> dtype;
  std::optional<DataType> part = {};  // of complex numbers
};
constexpr ScalarTypeRow kScalarTypes[] = {
    {1, "uint8", kUInt8},
    {2, "int8", kInt8},
    {3, "int16", kInt16},
    {4, "int32", kInt32},
    {5, "int64", kInt64},
    {6, "float16", kFloat16},
    {7, "float32", kFloat32},
    {8, "float64", kFloat64},
    {9, "complex32", {}, kFloat16},
    {10, "complex64", {}, kFloat32},
    {11, "complex128", {}, kFloat64},
    {12, "bool", kBool},
    {13, "bfloat16", kBFloat16},
    {28, "uint16", kUInt16},
    {29, "float8_e4m3fn", kFloat8E4M3FN},
    {30, "float8_e5m2", {}},
    {31, "float8_e4m3fnuz", {}},
    {32, "float8_e5m2fnuz", {}},
    {33, "float8_e8m0fnu", {}},
    {34, "uint32", kUInt32},
    {35, "uint64", kUInt64},
};

const ScalarTypeRow* FindRow(int64_t number) {
  for (const ScalarTypeRow& row : kScalarTypes) {
    if (row.number == number) return &row;
  }
  return nullptr;
}

std::optional<Shape> NumbersOf(const std::vector<TensorMeta::Extent>& extents) {
  Shape shape;
  for (const TensorMeta::Extent& extent : extents) {
    if (!extent.number || *extent.number < 0) return std::nullopt;
    shape.push_back(*extent.number);
  }
  return shape;
}

// Returns the strides, in elements, of a dense tensor.
Shape DenseStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

bool IsDense(const Shape& shape, const Shape& strides) {
  Shape dense = DenseStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

// Returns the elements of a tensor with strides, one behind the other.
std::vector<uint8_t> Gathered(importing::Bytes storage, const Shape& shape, const Shape& strides, int64_t count,
                              size_t size) {
  std::vector<uint8_t> elements(static_cast<size_t>(count) * size);
  Shape at(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) place += at[axis] * strides[axis];
    std::memcpy(&elements[static_cast<size_t>(i) * size], &storage[static_cast<size_t>(place) * size], size);
    for (size_t axis = shape.size(); axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
  return elements;
}

// Returns the elements from `storage` on that a tensor of that shape and those strides reaches; nullopt: too many.
std::optional<int64_t> Reach(const Shape& shape, const Shape& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t more = 0;
    if (strides[i] < 0 || __builtin_mul_overflow(shape[i] - 1, strides[i], &more)) return std::nullopt;
    if (__builtin_add_overflow(last, more, &last)) return std::nullopt;
  }
  return last + 1;
}

}  // namespace

std::optional<DataType> ToDataType(int64_t scalar_type) {
  const ScalarTypeRow* row = FindRow(scalar_type);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::optional<DataType> ToPartDType(int64_t scalar_type) {
  const ScalarTypeRow* row = FindRow(scalar_type);
  return row == nullptr ? std::nullopt : row->part;
}

std::string ScalarTypeName(int64_t scalar_type) {
  const ScalarTypeRow* row = FindRow(scalar_type);
  return row == nullptr ? absl::StrCat("scalar type ", scalar_type) : std::string(row->name);
}

absl::StatusOr<JsonValue> Archive::ReadJson(const ZipEntry& entry) const {
  std::vector<uint8_t> storage;
  RVM_ASSIGN_OR_RETURN(importing::Bytes bytes, ReadZipEntry(entry, storage));
  absl::StatusOr<JsonValue> json = ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (json.ok()) return json;
  return absl::InvalidArgumentError(absl::StrCat("`", entry.name, "` in it: ", json.status().message()));
}

absl::Status Archive::ReadConfig(std::string_view folder, std::string_view suffix) {
  for (const auto& [path, entry] : entries_) {
    if (!path.starts_with(folder) || !path.ends_with(suffix)) continue;
    RVM_ASSIGN_OR_RETURN(JsonValue json, ReadJson(entry));
    const JsonValue* config = json.Find("config");
    const JsonValue::Object* tensors = config == nullptr ? nullptr : config->AsObject();
    if (tensors == nullptr) return absl::InvalidArgumentError(absl::StrCat("`", path, "` in it lists no tensors"));
    for (size_t i = 0; i < tensors->keys.size(); ++i) {
      const JsonValue& listed = tensors->values[i];
      const JsonValue *file = listed.Find("path_name"), *meta = listed.Find("tensor_meta");
      const JsonValue* pickled = listed.Find("use_pickle");
      Entry tensor;
      if (pickled != nullptr && pickled->AsBool() != nullptr) tensor.is_pickled = *pickled->AsBool();
      bool has_path = file != nullptr && file->AsString() != nullptr;
      if (!has_path) return absl::InvalidArgumentError(absl::StrCat("`", path, "` in it has no path for a tensor"));
      tensor.path = absl::StrCat(Abseil(folder), *file->AsString());
      if (meta != nullptr && !meta->is_null()) {
        RVM_ASSIGN_OR_RETURN(tensor.meta, ReadTensorMeta(*meta));
      }
      tensors_[tensors->keys[i]] = std::move(tensor);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Archive> Archive::Read(const importing::FileBytes& file, const importing::ImportOptions& options) {
  Archive archive;
  archive.file_ = file;
  RVM_ASSIGN_OR_RETURN(std::vector<ZipEntry> entries, ListZip(file.bytes));
  const ZipEntry* model = nullptr;
  int models = 0;
  for (const ZipEntry& entry : entries) {
    size_t slash = entry.name.find('/');
    std::string path = slash == std::string::npos ? entry.name : entry.name.substr(slash + 1);
    archive.entries_[path] = entry;
    if (!path.starts_with("models/") || !path.ends_with(".json")) continue;
    if (path == "models/model.json" || model == nullptr) model = &entry;
    ++models;
  }
  if (model == nullptr && archive.entries_.contains("data.pkl")) {
    RVM_ASSIGN_OR_RETURN(ScriptModel script, ReadScript(archive.entries_, options));
    for (auto& [name, tensor] : script.tensors) archive.tensors_[name] = {std::move(tensor.meta), tensor.path};
    archive.program_ = std::make_unique<Program>(std::move(script.program));
    archive.is_script_ = true;
    return archive;
  }
  if (model == nullptr) {
    return absl::InvalidArgumentError(
        "it has no `models/model.json` and no `data.pkl`; expected what torch.export.save of PyTorch 2.8 or newer, or "
        "torch.jit.save writes");
  }
  if (models > 1 && !model->name.ends_with("models/model.json")) {
    return absl::UnimplementedError("it has several programs; expected one");
  }
  RVM_ASSIGN_OR_RETURN(JsonValue json, archive.ReadJson(*model));
  RVM_ASSIGN_OR_RETURN(Program program, ReadProgram(json));
  archive.program_ = std::make_unique<Program>(std::move(program));
  RVM_RETURN_IF_ERROR(archive.ReadConfig("data/weights/", "_weights_config.json"));
  RVM_RETURN_IF_ERROR(archive.ReadConfig("data/constants/", "_constants_config.json"));
  return archive;
}

std::string Archive::PlaceOf(std::string_view name) const {
  auto found = tensors_.find(Abseil(name));
  if (found == tensors_.end()) return "";
  const TensorMeta& meta = found->second.meta;
  std::string place = absl::StrCat(found->second.path, " ", meta.scalar_type);
  for (const auto* extents : {&meta.sizes, &meta.strides}) {
    absl::StrAppend(&place, " of");
    for (const TensorMeta::Extent& extent : *extents) absl::StrAppend(&place, " ", extent.number.value_or(-1));
  }
  return absl::StrCat(place, " at ", meta.offset.number.value_or(0));
}

absl::StatusOr<Literal> Archive::Tensor(std::string_view name) const {
  auto found = tensors_.find(Abseil(name));
  if (found == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat("the file has no tensor `", Abseil(name), "`"));
  }
  const Entry& tensor = found->second;
  auto malformed = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor `", Abseil(name), "`: ", Abseil(what)));
  };
  if (tensor.is_pickled) {
    return absl::UnimplementedError(absl::StrCat("tensor `", Abseil(name), "` is pickled, not raw elements"));
  }
  const std::optional<DataType> part = ToPartDType(tensor.meta.scalar_type);
  const std::optional<DataType> dtype = part ? part : ToDataType(tensor.meta.scalar_type);
  if (!dtype) {
    return absl::UnimplementedError(absl::StrCat("tensor `", Abseil(name), "` is of dtype ",
                                                 ScalarTypeName(tensor.meta.scalar_type), ", which Relay has not"));
  }
  std::optional<Shape> shape = NumbersOf(tensor.meta.sizes), strides = NumbersOf(tensor.meta.strides);
  if (!shape || shape->size() > 64) return malformed("its shape is malformed");
  if (!strides || strides->size() != shape->size()) return malformed("its strides are malformed");
  int64_t offset = tensor.meta.offset.number.value_or(0);
  if (part) {
    for (int64_t& stride : *strides) {
      if (__builtin_mul_overflow(stride, 2, &stride)) return malformed("its strides are too large");
    }
    if (__builtin_mul_overflow(offset, 2, &offset)) return malformed("its offset is too large");
    shape->push_back(2);
    strides->push_back(1);
  }
  std::optional<int64_t> count = NumElements(*shape);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, dtype->bytes(), &bytes)) return malformed("it is too large");
  auto entry = entries_.find(tensor.path);
  if (entry == entries_.end()) return malformed(absl::StrCat("the file has no `", tensor.path, "`"));
  std::vector<uint8_t> unpacked;
  RVM_ASSIGN_OR_RETURN(importing::Bytes storage, ReadZipEntry(entry->second, unpacked));
  std::shared_ptr<const void> owner = unpacked.empty() ? file_.owner : nullptr;
  size_t size = static_cast<size_t>(dtype->bytes());
  std::optional<int64_t> reach = *count == 0 ? 0 : Reach(*shape, *strides);
  int64_t available = static_cast<int64_t>(storage.size() / size);
  if (!reach || offset < 0 || offset > available || *reach > available - offset) {
    return malformed(absl::StrCat("its elements lie behind the end of `", tensor.path, "`"));
  }
  storage = storage.subspan(static_cast<size_t>(offset) * size);
  std::vector<uint8_t> dense;
  if (!IsDense(*shape, *strides)) {
    // Strides of 0 repeat elements without end; what the file holds bounds what is repeated.
    if (*count > 64 * std::max<int64_t>(available, 1024)) return malformed("its strides repeat too many elements");
    dense = Gathered(storage, *shape, *strides, *count, size);
    storage = dense;
    owner = nullptr;
  }
  storage = storage.first(static_cast<size_t>(bytes));
  bool is_truth = dtype->is_bool();
  if (is_truth && std::any_of(storage.begin(), storage.end(), [](uint8_t byte) { return byte > 1; })) {
    return malformed("it has a bool that is neither 0 nor 1");
  }
  return importing::WrapElements(*dtype, *std::move(shape), {storage, std::move(owner)});
}

}  // namespace rvm::torch
