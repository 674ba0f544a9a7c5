#include "compiler/import/stablehlo/module.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/literal.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "compiler/import/stablehlo/attributes.h"
#include "compiler/import/stablehlo/bytecode.h"

namespace rvm::stablehlo {
namespace {

constexpr std::string_view kMagic = "ML\xEFR";
constexpr uint64_t kMaxVersion = 6;
constexpr int kMaxRegionDepth = 100;
constexpr int32_t kUndefined = -1;

// Sections, by their numbers.
enum : size_t { kStrings, kDialects, kEntries, kEntryOffsets, kOperations, kProperties = 8, kNumSections };

// Parts of an operation, as bits of its mask. Successors are of blocks, which regions of StableHLO have but one of.
enum : uint8_t {
  kAttributes = 1,
  kResults = 2,
  kOperands = 4,
  kSuccessors = 8,
  kRegions = 16,
  kUses = 32,
  kHasProperties = 64
};

struct PropertyRow {
  std::string_view operation, names;
};
constexpr PropertyRow kPropertyRows[] = {
#define RVM_VHLO_PROPERTIES(operation, names) {operation, names},
#include "compiler/import/stablehlo/properties.def"
#undef RVM_VHLO_PROPERTIES
};

// "dot_general" of "dot_general_v2".
std::string_view WithoutVersion(std::string_view name) {
  const size_t at = name.rfind("_v");
  if (at == std::string_view::npos || at + 2 == name.size()) return name;
  const auto is_digit = [](unsigned char c) { return absl::ascii_isdigit(c); };
  return std::all_of(name.begin() + static_cast<ptrdiff_t>(at) + 2, name.end(), is_digit) ? name.substr(0, at) : name;
}

struct OperationName {
  std::string_view dialect, name;
  std::string_view properties;  // names of them
};

}  // namespace

class ModuleReader {
 public:
  ModuleReader(Bytes bytes, Module& module)
      : bytes_(bytes),
        module_(module),
        cursor_(bytes, 0, bytes.size(), &mistake_),
        attributes_(bytes, strings_, module.types_, module.attributes_, &mistake_) {
    sections_.assign(kNumSections, Cursor(bytes, 0, 0, &mistake_));
  }

  absl::Status Read() {
    ReadHeader();
    if (!cursor_.failed()) {
      ReadStrings(sections_[kStrings]);
      ReadDialects(sections_[kDialects]);
      attributes_.ReadEntries(sections_[kEntryOffsets], sections_[kEntries], dialects_);
      ReadProperties(sections_[kProperties]);
      Cursor operations = sections_[kOperations];
      module_.top_ = std::make_unique<Block>();
      ReadBlock(operations, *module_.top_, 0);
      FindFunctions();
    }
    if (mistake_.message.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("offset ", mistake_.offset, " of the bytecode",
                                                   producer_.empty() ? "" : absl::StrCat(" of ", producer_), ": ",
                                                   mistake_.message));
  }

 private:
  // ---- sections

  void ReadHeader() {
    cursor_.Take(kMagic.size());
    version_ = cursor_.Number();
    if (version_ > kMaxVersion) {
      cursor_.Fail(absl::StrCat("saw version ", version_, " of the bytecode; expected ", kMaxVersion, " or less"));
    }
    module_.producer_ = cursor_.Text();
    producer_ = std::string(module_.producer_.substr(0, 40));
    std::array<bool, kNumSections> has{};
    while (!cursor_.AtEnd()) {
      uint8_t id = 0;
      const Cursor section = cursor_.Section(id);
      if (id >= kNumSections) continue;
      has[id] = true;
      sections_[id] = section;
    }
    for (size_t id : {kStrings, kDialects, kEntries, kEntryOffsets, kOperations}) {
      if (!has[id]) cursor_.Fail(absl::StrCat("saw no section number ", id));
    }
  }

  // The lengths of strings stand first, that of the last one first; then the strings, in order, each with a zero.
  void ReadStrings(Cursor cursor) {
    std::vector<uint64_t> sizes;
    for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) sizes.push_back(cursor.Number());
    for (size_t i = sizes.size(); i > 0 && !cursor.failed(); --i) {
      const Bytes bytes = cursor.Take(sizes[i - 1]);
      if (bytes.empty()) cursor.Fail("saw a string without its end");
      if (!bytes.empty()) strings_.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1);
    }
  }

  void ReadDialects(Cursor cursor) {
    for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
      uint64_t name = cursor.Number();
      const bool has_version = version_ >= 1 && (name & 1) != 0;
      if (version_ >= 1) name >>= 1;
      if (name >= strings_.size()) cursor.Fail(absl::StrCat("saw string number ", name, " of ", strings_.size()));
      if (cursor.failed()) return;
      dialects_.push_back(strings_[name]);
      uint8_t id = 0;
      if (has_version) cursor.Section(id);
    }
    if (version_ >= 4) cursor.Number();  // how many names follow
    while (!cursor.AtEnd()) {
      const uint64_t dialect = cursor.Index(dialects_.size(), "dialect");
      for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
        const uint64_t name = version_ >= 5 ? cursor.WithFlag().number : cursor.Number();
        if (name >= strings_.size()) cursor.Fail(absl::StrCat("saw string number ", name, " of ", strings_.size()));
        if (cursor.failed()) return;
        OperationName& operation = names_.emplace_back(dialects_[dialect], WithoutVersion(strings_[name]), "");
        for (const PropertyRow& row : kPropertyRows) {
          if (row.operation == strings_[name]) operation.properties = row.names;
        }
      }
    }
  }

  void ReadProperties(Cursor cursor) {
    if (cursor.rest() == 0) return;
    for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
      const uint64_t size = cursor.Number(), begin = cursor.offset();
      cursor.Take(size);
      if (!cursor.failed()) properties_.emplace_back(bytes_, begin, begin + size, &mistake_);
    }
  }

  // ---- operations. Values are numbered from the first one of the function around them.

  int32_t Define() {
    if (next_ < scope_.size()) return scope_[next_++] = module_.num_values_++;
    cursor_.Fail("a region has more values than it says");
    return 0;
  }

  void ReadUses(Cursor& cursor, uint64_t count) {
    for (uint64_t i = count > 1 ? cursor.Count() : 1; i > 0 && !cursor.failed(); --i) {
      if (count > 1) cursor.Number();
      for (uint64_t k = cursor.WithFlag().number; k > 0 && !cursor.failed(); --k) cursor.Number();
    }
  }

  void ReadBlock(Cursor& cursor, Block& block, int depth) {
    const auto [count, has_arguments] = cursor.WithFlag();
    if (count > cursor.rest()) cursor.Fail(absl::StrCat("saw a block of ", count, " operations"));
    if (has_arguments) {
      for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) ReadArgument(cursor, block);
      if (version_ >= 3 && cursor.Byte() != 0) ReadUses(cursor, block.arguments.size());
    }
    for (uint64_t i = 0; i < count && !cursor.failed(); ++i)
      ReadOperation(cursor, block.operations.emplace_back(), depth);
  }

  void ReadArgument(Cursor& cursor, Block& block) {
    bool has_location = true;
    block.types.push_back(version_ >= 4 ? attributes_.ReadTypeWithFlag(cursor, has_location)
                                        : attributes_.ReadType(cursor));
    block.locations.push_back(has_location ? attributes_.ReadAttribute(cursor)->text : "");
    block.arguments.push_back(Define());
  }

  void ReadOperation(Cursor& cursor, Operation& op, int depth) {
    op.offset = cursor.offset();
    const uint64_t name = cursor.Index(names_.size(), "operation name");
    const uint8_t mask = cursor.Byte();
    op.location = attributes_.ReadAttribute(cursor)->text;
    if (cursor.failed()) return;
    op.name = names_[name].name;
    if ((mask & kAttributes) != 0) op.dictionary = attributes_.ReadAttribute(cursor);
    if ((mask & kHasProperties) != 0) {
      const uint64_t index = cursor.Index(properties_.size(), "list of properties");
      if (!cursor.failed()) ReadPropertiesOf(op, names_[name], properties_[index]);
    }
    if ((mask & kResults) != 0) {
      for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
        op.types.push_back(attributes_.ReadType(cursor));
        op.results.push_back(Define());
      }
    }
    if ((mask & kOperands) != 0) {
      for (uint64_t i = cursor.Count(); i > 0 && !cursor.failed(); --i) {
        const uint64_t value = cursor.Index(scope_.size(), "value");
        if (cursor.failed()) return;
        op.operands.push_back(scope_[value]);
        if (scope_[value] == kUndefined)
          cursor.Fail(absl::StrCat("value number ", value, " is used before it is defined"));
      }
    }
    if ((mask & kSuccessors) != 0) cursor.Fail("saw an operation with successors; expected regions of one block");
    if ((mask & kUses) != 0) ReadUses(cursor, op.results.size());
    if ((mask & kRegions) != 0) ReadRegions(cursor, op, depth + 1);
  }

  void ReadPropertiesOf(Operation& op, const OperationName& name, Cursor cursor) {
    op.property_names = name.properties;
    op.has_unknown_properties = name.properties.empty() && !cursor.AtEnd();
    const auto count = name.properties.empty() ? 0 : 1 + std::ranges::count(name.properties, ',');
    for (ptrdiff_t i = 0; i < count && !cursor.AtEnd(); ++i) op.properties.push_back(attributes_.ReadAttribute(cursor));
  }

  void ReadRegions(Cursor& cursor, Operation& op, int depth) {
    if (depth > kMaxRegionDepth)
      return cursor.Fail(absl::StrCat("regions are nested more than ", kMaxRegionDepth, " deep"));
    auto [count, is_isolated] = cursor.WithFlag();
    if (count > cursor.rest()) return cursor.Fail(absl::StrCat("saw an operation of ", count, " regions"));
    // An operation that sees no values around it has its regions in a section of its own.
    uint8_t id = 0;
    Cursor section = is_isolated && version_ >= 2 ? cursor.Section(id) : cursor;
    std::vector<int32_t> outer;
    if (is_isolated) outer.swap(scope_);
    const size_t next = next_, size = scope_.size();
    for (; count > 0 && !cursor.failed(); --count) {
      WithStack([&] { ReadRegion(section, op.regions.emplace_back(), depth); });
      scope_.resize(size);
    }
    if (is_isolated) outer.swap(scope_);
    next_ = next;
    if (!is_isolated || version_ < 2) cursor = section;
  }

  void ReadRegion(Cursor& cursor, Block& block, int depth) {
    const uint64_t blocks = cursor.Number();
    if (blocks == 0 || cursor.failed()) return;
    if (blocks > 1) return cursor.Fail(absl::StrCat("saw a region of ", blocks, " blocks; expected 1"));
    const uint64_t values = cursor.Count();
    claimed_ += values;
    if (claimed_ > bytes_.size()) return cursor.Fail("saw more values than bytes");
    next_ = scope_.size();
    scope_.resize(scope_.size() + values, kUndefined);
    ReadBlock(cursor, block, depth);
  }

  void FindFunctions() {
    for (const Operation& top : module_.top_->operations) {
      for (const Block& region : top.regions) {
        for (const Operation& op : region.operations) {
          const Attribute* name = op.Find("sym_name");
          if (op.name != "func" || name == nullptr || op.regions.size() != 1) continue;
          module_.functions_.push_back(&op);
          module_.by_name_.emplace(name->text, &op);
        }
      }
    }
    if (module_.FindFunction("main") == nullptr) cursor_.Fail("saw no function `main`");
  }

  Bytes bytes_;
  Module& module_;
  Mistake mistake_;
  Cursor cursor_;
  uint64_t version_ = 0;
  std::string producer_;
  std::vector<Cursor> sections_;
  std::vector<std::string_view> strings_, dialects_;
  std::vector<OperationName> names_;
  std::vector<Cursor> properties_;
  AttributeReader attributes_;
  std::vector<int32_t> scope_;  // numbers of values by their numbers in the file
  size_t next_ = 0;             // the next value of the region, in `scope_`
  uint64_t claimed_ = 0;        // values of all regions, as they say
};

// ---- the module

absl::StatusOr<Module> Module::Read(Bytes bytes) {
  if (!IsBytecode(bytes)) return absl::InvalidArgumentError("no MLIR bytecode: it does not begin with `ML\\xefR`");
  Module module;
  RVM_RETURN_IF_ERROR(ModuleReader(bytes, module).Read());
  return module;
}

const Operation* Module::FindFunction(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const Attribute* Attribute::Find(std::string_view key) const {
  for (size_t i = 0; i + 1 < elements.size() && kind == Kind::kDictionary; i += 2) {
    if (elements[i]->text == key) return elements[i + 1];
  }
  return nullptr;
}

const Attribute* Operation::Find(std::string_view wanted) const {
  std::string_view rest = property_names;
  for (const Attribute* property : properties) {
    const size_t end = rest.find(',');
    if (rest.substr(0, end) == wanted) return property;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return dictionary == nullptr ? nullptr : dictionary->Find(wanted);
}

bool IsBytecode(Bytes bytes) {
  return bytes.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                                                     [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

std::optional<std::vector<int64_t>> IntegersOf(const Attribute& attribute) {
  std::vector<int64_t> values;
  if (attribute.kind == Attribute::Kind::kInteger) return std::vector<int64_t>{attribute.integer};
  if (attribute.kind == Attribute::Kind::kArray) {
    for (const Attribute* element : attribute.elements) {
      if (element->kind != Attribute::Kind::kInteger) return std::nullopt;
      values.push_back(element->integer);
    }
    return values;
  }
  if (attribute.kind != Attribute::Kind::kTensor || attribute.type->kind != Type::Kind::kTensor) return std::nullopt;
  if (IsSplat(attribute)) {
    const std::optional<Literal> one = LiteralOf(attribute, true);
    constexpr int64_t kMaxSplat = 1024;
    const std::optional<int64_t> count = CountElements(*attribute.type);
    if (!one || one->dtype().is_float() || *count > kMaxSplat) return std::nullopt;
    return std::vector<int64_t>(static_cast<size_t>(*count), one->IntAt(0));
  }
  const std::optional<Literal> literal = LiteralOf(attribute);
  if (!literal || literal->dtype().is_float()) return std::nullopt;
  for (int64_t i = 0; i < literal->num_elements(); ++i) values.push_back(literal->IntAt(i));
  return values;
}

// ---- tensors

namespace {

// The elements of bools are bits, or bytes in old artifacts; one byte with all bits set or none is a splat.
void CopyBools(Bytes data, int64_t count, std::byte* to) {
  const bool is_packed =
      static_cast<int64_t>(data.size()) == (count + 7) / 8 && static_cast<int64_t>(data.size()) != count;
  const bool is_one = data.size() == 1 && (!is_packed || data[0] == 0xff || data[0] == 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool is_set = is_one ? data[0] != 0 : is_packed ? ((data[at / 8] >> (at % 8)) & 1) != 0 : data[at] != 0;
    to[i] = static_cast<std::byte>(is_set);
  }
}

}  // namespace

std::optional<int64_t> CountElements(const Type& type) {
  int64_t count = 1;
  for (int64_t extent : type.shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

bool IsSplat(const Attribute& tensor) {
  const std::optional<int64_t> count = CountElements(*tensor.type);
  if (!count || *count <= 1) return false;
  if (tensor.type->dtype == kBool)
    return tensor.data.size() == 1 && (*count > 8 || tensor.data[0] == 0xff || tensor.data[0] == 0);
  if (!tensor.type->dtype) return false;
  return static_cast<int64_t>(tensor.data.size()) == tensor.type->dtype->bytes() * (tensor.type->is_complex ? 2 : 1);
}

std::optional<Literal> LiteralOf(const Attribute& tensor, bool is_splat) {
  const Type& type = *tensor.type;
  const std::optional<int64_t> count = is_splat ? 1 : CountElements(type);
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  if (!count || !type.dtype || *count > kMaxElements || tensor.data.empty() != (*count == 0)) return std::nullopt;
  Shape shape(type.shape.begin(), type.shape.end());
  if (is_splat) shape.clear();
  const auto size = static_cast<int64_t>(tensor.data.size());
  if (type.dtype == kBool) {
    if (size != 1 && size != *count && size != (*count + 7) / 8) return std::nullopt;
    if (size == 1 && *count > 8 && !is_splat) return std::nullopt;
    auto buffer = Buffer::Allocate(*count);
    CopyBools(tensor.data, *count, buffer->data());
    return Literal(kBool, std::move(shape), std::move(buffer));
  }
  if (type.is_complex) shape.push_back(2);
  if (size != *count * type.dtype->bytes() * (type.is_complex ? 2 : 1)) return std::nullopt;
  return Literal::FromBytes(*type.dtype, std::move(shape), std::as_bytes(tensor.data));
}

}  // namespace rvm::stablehlo
