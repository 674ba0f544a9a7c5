#include "vm/values/value_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/element.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"

namespace rvm::vm {
namespace {

// Returns the dtype that a literal's suffix names; none for an unknown suffix.
std::optional<DataType> DTypeOfSuffix(std::string_view suffix) {
  std::optional<DataType> dtype = TakeLiteralSuffix(suffix);
  return suffix.empty() ? dtype : std::nullopt;
}

class Reader {
 public:
  Reader(const Executable& executable, std::string_view text) : executable_(executable), text_(text) {}

  absl::StatusOr<Value> ReadAll(TypeId type) {
    RVM_ASSIGN_OR_RETURN(Value value, Read(type));
    SkipSpace();
    if (at_ != text_.size()) return Unexpected("the end");
    return value;
  }

  absl::StatusOr<std::vector<Value>> ReadSequence(std::span<const TypeId> types) {
    std::vector<Value> values;
    for (TypeId type : types) {
      absl::StatusOr<Value> value = Read(type);
      if (!value.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("value ", values.size() + 1, " of ", types.size(), ", ", value.status().message()));
      }
      values.push_back(*std::move(value));
      Take(',');
    }
    SkipSpace();
    if (at_ != text_.size()) return Unexpected(absl::StrCat("the end: there are ", types.size(), " parameters"));
    return values;
  }

 private:
  // Nesting in the text is nesting here, however deep.
  absl::StatusOr<Value> Read(TypeId type) {
    return WithStack([&] { return ReadOnThisStack(type); });
  }

  absl::StatusOr<Value> ReadOnThisStack(TypeId id) {
    const TypeDesc& type = executable_.types[id.value];
    switch (type.kind) {
      case TypeDescKind::kScalar: {
        std::vector<std::byte> bytes;
        RVM_RETURN_IF_ERROR(ReadScalar(type.dtype, bytes));
        return Value::Tensor(Literal::FromBytes(type.dtype, {}, bytes));
      }
      case TypeDescKind::kTensor: return ReadTensor(id, type);
      case TypeDescKind::kTuple: {
        RVM_ASSIGN_OR_RETURN(std::vector<Value> fields, ReadFields(id, type.fields));
        return Value::Tuple(std::move(fields));
      }
      case TypeDescKind::kRef: {
        SkipSpace();
        if (ReadWord() != "ref") return Unexpected(TypeToString(executable_, id));
        RVM_ASSIGN_OR_RETURN(std::vector<Value> fields, ReadFields(id, type.fields));
        return Value::Ref(std::move(fields[0]));
      }
      case TypeDescKind::kAdt: return ReadAdt(id, executable_.adts[type.adt.value]);
      case TypeDescKind::kShell:
      case TypeDescKind::kClosure: return Fail("a function cannot be written as a value");
    }
    RVM_UNREACHABLE("a type of no kind");
  }

  // "(a, b)"; one more comma may follow the last field.
  absl::StatusOr<std::vector<Value>> ReadFields(TypeId whole, const std::vector<TypeId>& types) {
    if (!Take('('))
      return Unexpected(types.empty() ? "`()`" : absl::StrCat("`(` of ", TypeToString(executable_, whole)));
    std::vector<Value> fields;
    for (TypeId type : types) {
      if (!fields.empty() && !Take(',')) return Unexpected("`,`");
      RVM_ASSIGN_OR_RETURN(Value field, Read(type));
      fields.push_back(std::move(field));
    }
    if (!fields.empty()) Take(',');
    if (!Take(')')) return Unexpected(absl::StrCat("`)`: there are ", types.size(), " fields"));
    return fields;
  }

  absl::StatusOr<Value> ReadAdt(TypeId id, const AdtDesc& adt) {
    SkipSpace();
    std::string_view name = adt.name;
    // The Prelude's list is called so beside a `List` of the program's own.
    if (constexpr std::string_view kPrefix = "prelude."; name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (Peek() == '[' && (name == "List" || name.starts_with("List["))) return ReadList(id, adt);
    size_t start = at_;
    std::string word(ReadWord());
    for (const AdtDesc::Constructor& constructor : adt.constructors) {
      if (constructor.name != word) continue;
      std::vector<Value> fields;
      if (!constructor.fields.empty() || Peek() == '(') {
        RVM_ASSIGN_OR_RETURN(fields, ReadFields(id, constructor.fields));
      }
      return Value::Adt(std::move(word), std::move(fields));
    }
    std::string names;
    for (const auto& c : adt.constructors) absl::StrAppend(&names, names.empty() ? "`" : ", `", c.name, "`");
    at_ = start;
    return Unexpected(absl::StrCat("a constructor of ", adt.name, ": ", names));
  }

  // "[a, b]" as Cons(a, Cons(b, Nil)), whatever the two constructors are called.
  absl::StatusOr<Value> ReadList(TypeId id, const AdtDesc& adt) {
    const AdtDesc::Constructor* cons = nullptr;
    const AdtDesc::Constructor* nil = nullptr;
    for (const AdtDesc::Constructor& c : adt.constructors) {
      if (c.fields.empty()) nil = &c;
      if (c.fields.size() == 2 && c.fields[1] == id) cons = &c;
    }
    if (cons == nullptr || nil == nullptr) return Fail(absl::StrCat(adt.name, " has no list form"));
    std::vector<Value> items;
    Take('[');
    while (!Take(']')) {
      if (!items.empty() && !Take(',')) return Unexpected("`,` or `]`");
      RVM_ASSIGN_OR_RETURN(Value item, Read(cons->fields[0]));
      items.push_back(std::move(item));
    }
    Value list = Value::Adt(nil->name, {});
    while (!items.empty()) {
      list = Value::Adt(cons->name, {std::move(items.back()), std::move(list)});
      items.pop_back();
    }
    return list;
  }

  absl::StatusOr<Value> ReadTensor(TypeId id, const TypeDesc& type) {
    size_t start = at_;
    std::vector<std::byte> bytes;
    // -1 until the first list on an axis has ended.
    Shape shape(type.dims.size(), -1);
    SkipSpace();
    RVM_RETURN_IF_ERROR(!shape.empty() && Peek() == 'C' ? ReadEmpty(type.dtype, shape)
                                                        : ReadNested(type.dtype, 0, shape, bytes));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      int64_t known = type.dims[axis];
      // Below an empty list the text says nothing of the extents.
      if (shape[axis] < 0) shape[axis] = known == TypeDesc::kUnknownDim ? 0 : known;
      if (known != TypeDesc::kUnknownDim && shape[axis] != known) {
        at_ = start;
        return Fail(absl::StrCat("saw the shape ", ShapeToString(shape), "; expected ", TypeToString(executable_, id)));
      }
    }
    return Value::Tensor(Literal::FromBytes(type.dtype, std::move(shape), bytes));
  }

  // `Constant([], (0, 3), float32)`: a list without elements does not show the extents within.
  absl::Status ReadEmpty(DataType dtype, Shape& shape) {
    if (ReadWord() != "Constant" || !Take('(') || !Take('[') || !Take(']') || !Take(',') || !Take('(')) {
      return Unexpected("a list, or `Constant([], (`");
    }
    bool is_empty = false;
    int64_t others = dtype.bytes();
    for (int64_t& extent : shape) {
      std::vector<std::byte> number;
      RVM_RETURN_IF_ERROR(ReadScalar(kInt64, number));
      extent = LoadInt(kInt64, number.data());
      is_empty = is_empty || extent == 0;
      bool fits = extent >= 0 && !__builtin_mul_overflow(others, std::max<int64_t>(extent, 1), &others);
      if (!fits) return Fail(absl::StrCat("an extent cannot be ", extent));
      Take(',');
    }
    if (!Take(')') || !Take(',')) return Unexpected("`)` and `,`");
    SkipSpace();
    if (ReadWord() != dtype.ToString() || !Take(')')) return Unexpected(absl::StrCat("`", dtype.ToString(), ")`"));
    return is_empty ? absl::OkStatus() : Fail(absl::StrCat("saw `[]` of the shape ", ShapeToString(shape)));
  }

  // Depth is the rank, which the type bounds.
  absl::Status ReadNested(DataType dtype, size_t axis, Shape& shape, std::vector<std::byte>& bytes) {
    if (axis == shape.size()) return ReadScalar(dtype, bytes);
    if (!Take('[')) return Unexpected("`[`");
    int64_t count = 0;
    while (!Take(']')) {
      if (count > 0 && !Take(',')) return Unexpected("`,` or `]`");
      RVM_RETURN_IF_ERROR(ReadNested(dtype, axis + 1, shape, bytes));
      ++count;
    }
    if (shape[axis] >= 0 && shape[axis] != count) {
      return Fail(absl::StrCat("this list has ", count, " elements; the one before it has ", shape[axis]));
    }
    shape[axis] = count;
    return absl::OkStatus();
  }

  // One number or truth value, appended as an element of `dtype`.
  absl::Status ReadScalar(DataType dtype, std::vector<std::byte>& bytes) {
    SkipSpace();
    size_t start = at_;
    bytes.resize(bytes.size() + static_cast<size_t>(dtype.bytes()));
    void* element = bytes.data() + bytes.size() - dtype.bytes();
    std::string_view word = ReadNumber();
    auto unexpected = [&] {
      at_ = start;
      return Unexpected(dtype.is_bool() ? "`True` or `False`" : dtype.ToString());
    };
    if (dtype.is_bool()) {
      bool yes = word == "True" || word == "true";
      if (!yes && word != "False" && word != "false") return unexpected();
      StoreInt(dtype, element, yes);
      return absl::OkStatus();
    }
    const char* end = word.data() + word.size();
    const char* after = word.data();
    bool in_range = true;
    if (dtype.is_float()) {
      in_range = StoreFloat(dtype, element, word, after);
    } else if (dtype.is_uint()) {
      in_range = StoreInteger<uint64_t>(dtype, element, word, after);
    } else {
      in_range = StoreInteger<int64_t>(dtype, element, word, after);
    }
    if (after == word.data()) return unexpected();
    std::string_view suffix(after, static_cast<size_t>(end - after));
    if (!suffix.empty() && DTypeOfSuffix(suffix) != dtype) return unexpected();
    if (!in_range) {
      at_ = start;
      return Fail(absl::StrCat("`", std::string(word), "` is out of the range of ", dtype.ToString()));
    }
    return absl::OkStatus();
  }

  // `after`: where the number ends. False if it does not fit.
  template <typename T>
  static bool StoreInteger(DataType dtype, void* element, std::string_view word, const char*& after) {
    T value = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    after = end;
    if (error != std::errc()) return false;
    StoreInt(dtype, element, static_cast<int64_t>(value));
    return static_cast<T>(LoadInt(dtype, element)) == value;
  }

  static bool StoreFloat(DataType dtype, void* element, std::string_view word, const char*& after) {
    // from_chars would also take "infinity" and "nan(...)", but the suffix decides where these end.
    bool negative = word.starts_with("-");
    std::string_view magnitude = word.substr(negative ? 1 : 0);
    double value = 0;
    if (magnitude.starts_with("inf") || magnitude.starts_with("nan")) {
      value = magnitude[0] == 'i' ? std::numeric_limits<double>::infinity() : std::nan("");
      value = negative ? -value : value;
      after = magnitude.data() + 3;
    } else if (dtype.bits == 64) {
      auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      after = end;
      if (error != std::errc()) return false;
    } else {
      // One rounding, from the decimal text to float32.
      float narrow = 0;
      auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), narrow);
      after = end;
      if (error != std::errc()) return false;
      value = narrow;
    }
    StoreDouble(dtype, element, value);
    return true;
  }

  void SkipSpace() {
    while (at_ < text_.size()) {
      std::string_view rest = text_.substr(at_);
      if (std::isspace(static_cast<unsigned char>(rest[0]))) {
        ++at_;
      } else if (rest.starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (rest.starts_with("/*") && rest.find("*/", 2) != std::string_view::npos) {
        at_ += rest.find("*/", 2) + 2;
      } else {
        return;
      }
    }
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    SkipSpace();
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string_view ReadWord() {
    size_t start = at_;
    while (std::isalnum(static_cast<unsigned char>(Peek())) || Peek() == '_') ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string_view ReadNumber() {
    size_t start = at_;
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      bool sign = (c == '-' || c == '+') && (at_ == start || text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && !sign) break;
    }
    return text_.substr(start, at_ - start);
  }

  absl::Status Unexpected(const std::string& expected) {
    SkipSpace();
    if (at_ == text_.size()) {
      // The place of a missing value is behind the last one, not on an empty line below it.
      while (at_ > 0 && std::isspace(static_cast<unsigned char>(text_[at_ - 1]))) --at_;
      return Fail(absl::StrCat("saw the end; expected ", expected));
    }
    size_t end = at_;
    while (end < text_.size() && std::isalnum(static_cast<unsigned char>(text_[end]))) ++end;
    std::string saw(text_.substr(at_, std::max<size_t>(1, end - at_)));
    return Fail(absl::StrCat("saw `", saw, "`; expected ", expected));
  }

  // The line around the place, with a caret under it.
  absl::Status Fail(const std::string& what) const {
    constexpr size_t kAround = 40;
    std::string_view before = text_.substr(0, at_);
    size_t line_begin = before.rfind('\n') + 1;  // 0 if there is none
    size_t begin = std::max(line_begin, at_ > kAround ? at_ - kAround : 0);
    std::string excerpt(text_.substr(begin, std::min(text_.find('\n', at_), begin + 2 * kAround) - begin));
    std::replace(excerpt.begin(), excerpt.end(), '\t', ' ');
    int64_t line = 1 + std::count(before.begin(), before.end(), '\n');
    std::string place = text_.find('\n') < text_.size() - 1 ? absl::StrCat("line ", line, ", ") : "";
    return absl::InvalidArgumentError(absl::StrCat("at ", place, "column ", at_ - line_begin + 1, ": ", what, "\n  ",
                                                   excerpt, "\n  ", std::string(at_ - begin, ' '), "^"));
  }

  const Executable& executable_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<Value> ParseValueText(const Executable& executable, TypeId type, std::string_view text) {
  return Reader(executable, text).ReadAll(type);
}

absl::StatusOr<std::vector<Value>> ParseValueTexts(const Executable& executable, std::span<const TypeId> types,
                                                   std::string_view text) {
  return Reader(executable, text).ReadSequence(types);
}

}  // namespace rvm::vm
