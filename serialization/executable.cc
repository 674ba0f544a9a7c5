#include "serialization/executable.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace rvm {
namespace {

// Types share their parts, so a small table can describe a type whose text is exponentially
// long; and a table that is not yet verified may have cycles.
constexpr size_t kLongestTypeText = 4096;

class TypePrinter {
 public:
  explicit TypePrinter(const Executable& executable) : executable_(executable) {}

  // Every level of nesting appends at least a character before it goes deeper,
  // so the limit on the text also bounds the recursion.
  void Print(TypeId id) {
    if (text_.size() > kLongestTypeText) return;
    if (id.value >= executable_.types.size()) {
      absl::StrAppend(&text_, "<no type ", id.value, ">");
      return;
    }
    const TypeDesc& type = executable_.types[id.value];
    switch (type.kind) {
      case TypeDescKind::kScalar: text_ += type.dtype.ToString(); return;
      case TypeDescKind::kTensor: PrintTensor(type); return;
      case TypeDescKind::kTuple:
        PrintList("(", type.fields);
        text_ += type.fields.size() == 1 ? ",)" : ")";
        return;
      case TypeDescKind::kAdt:
        if (type.adt.value < executable_.adts.size()) {
          text_ += executable_.adts[type.adt.value].name;
        } else {
          absl::StrAppend(&text_, "<no adt ", type.adt.value, ">");
        }
        return;
      case TypeDescKind::kClosure:
        PrintList("fn (", type.fields);
        text_ += ") -> ";
        Print(type.result);
        return;
      case TypeDescKind::kRef:
        PrintList("ref(", type.fields);
        text_ += ")";
        return;
      case TypeDescKind::kShell: absl::StrAppend(&text_, "shell(", type.dims.empty() ? 0 : type.dims[0], ")"); return;
    }
  }

  std::string Take() {
    if (text_.size() > kLongestTypeText) {
      text_.resize(kLongestTypeText);
      text_ += "...";
    }
    return std::move(text_);
  }

 private:
  void PrintTensor(const TypeDesc& type) {
    text_ += "Tensor[(";
    for (size_t i = 0; i < type.dims.size(); ++i) {
      if (i > 0) text_ += ", ";
      if (type.dims[i] == TypeDesc::kUnknownDim) {
        text_ += "?";
      } else {
        absl::StrAppend(&text_, type.dims[i]);
      }
    }
    absl::StrAppend(&text_, "), ", type.dtype.ToString(), "]");
  }

  void PrintList(std::string_view open, const std::vector<TypeId>& types) {
    text_ += open;
    for (size_t i = 0; i < types.size() && text_.size() <= kLongestTypeText; ++i) {
      if (i > 0) text_ += ", ";
      Print(types[i]);
    }
  }

  const Executable& executable_;
  std::string text_;
};

}  // namespace

bool IsTooLarge(DataType dtype, std::span<const int64_t> dims) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return false;
  int64_t bytes = dtype.bytes();
  for (int64_t dim : dims) {
    if (dim == TypeDesc::kUnknownDim) continue;
    if (dim > kMaxTensorBytes / bytes) return true;
    bytes *= dim;
  }
  return false;
}

std::vector<const DeviceProduct::Matrix*> DeviceProduct::matrices() const {
  std::vector<const Matrix*> all = {&a, &b, &d};
  for (const Matrix& addend : addends) all.push_back(&addend);
  return all;
}

Dims DeviceCall::dims() const {
  Dims dims;
  for (const Argument& argument : arguments) dims.push_back(argument.offset);
  return dims;
}

Dims DeviceProduct::dims() const {
  Dims all = {batches, rows, columns, depth};
  for (const Matrix* matrix : matrices()) {
    all.insert(all.end(), {matrix->offset, matrix->batch_stride, matrix->row_stride, matrix->column_stride});
  }
  return all;
}

bool KernelDesc::MayReuse(size_t result, size_t param) const {
  Reuse pair{static_cast<uint32_t>(result), static_cast<uint32_t>(param)};
  return std::binary_search(reuses.begin(), reuses.end(), pair) ||
         (std::binary_search(updates.begin(), updates.end(), pair) && results[result].dims == params[param].dims);
}

bool BatchVariant::IsShared(uint32_t param) const { return std::binary_search(shared.begin(), shared.end(), param); }

const BatchVariant::Arranged* BatchVariant::FindArranged(uint32_t param) const {
  auto found = std::ranges::find(arranged, param, &Arranged::param);
  return found == arranged.end() ? nullptr : &*found;
}

const Entry* Executable::FindEntry(std::string_view name) const {
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string_view Executable::FindMetadata(std::string_view key) const {
  auto found = std::lower_bound(metadata.begin(), metadata.end(), key,
                                [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != metadata.end() && found->first == key ? std::string_view(found->second) : std::string_view();
}

std::vector<std::string> NamedExtents(const Executable& executable, const Entry& entry, size_t param) {
  if (param >= entry.param_names.size()) return {};
  std::string_view shape = executable.FindMetadata(absl::StrCat("shape.", entry.name, ".", entry.param_names[param]));
  if (shape.size() < 2 || shape.front() != '(' || shape.back() != ')') return {};
  return absl::StrSplit(std::string(shape.substr(1, shape.size() - 2)), ", ");
}

absl::Status MentionNewerFormat(const absl::Status& status, uint16_t minor) {
  if (minor <= format::kMinor) return status;
  return absl::UnimplementedError(absl::StrCat(status.message(), "; the file is of format ", format::kMajor, ".", minor,
                                               ", newer than this program's ", format::kMajor, ".", format::kMinor,
                                               ": use a newer program"));
}

std::string TypeToString(const Executable& executable, TypeId type) {
  TypePrinter printer(executable);
  printer.Print(type);
  return printer.Take();
}

bool IsAssignable(const Executable& executable, TypeId from, TypeId to) {
  if (from == to) return true;
  const TypeDesc& a = executable.types[from.value];
  const TypeDesc& b = executable.types[to.value];
  if (a.kind != TypeDescKind::kTensor || b.kind != TypeDescKind::kTensor) return false;
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) return false;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (b.dims[i] != TypeDesc::kUnknownDim && b.dims[i] != a.dims[i]) return false;
  }
  return true;
}

}  // namespace rvm
