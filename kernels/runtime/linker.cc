#include "kernels/runtime/linker.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "kernels/runtime/imports.h"
#include "kernels/runtime/relocation.h"

namespace rvm::runtime {
namespace {

constexpr uint64_t kMaxImage = uint64_t{1} << 30;

enum Segment : uint8_t { kCode, kConstants, kData, kSegments };

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed kernel object: ", absl::string_view(what.data(), what.size())));
}

uint16_t MachineNumber(Architecture architecture) {
  switch (architecture) {
    case Architecture::kX86_64: return EM_X86_64;
    case Architecture::kAArch64: return EM_AARCH64;
  }
}

// Reads structures from the object, with bounds checks.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool Has(uint64_t offset, uint64_t size) const { return offset <= bytes_.size() && size <= bytes_.size() - offset; }
  template <typename T>
  std::optional<T> At(uint64_t offset) const {
    if (!Has(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  // A zero-terminated string inside [begin, begin + size).
  std::optional<std::string_view> Text(uint64_t begin, uint64_t size, uint64_t at) const {
    if (!Has(begin, size) || at >= size) return std::nullopt;
    const char* text = reinterpret_cast<const char*>(bytes_.data() + begin + at);
    const void* end = std::memchr(text, 0, size - at);
    if (end == nullptr) return std::nullopt;
    return std::string_view(text, static_cast<size_t>(static_cast<const char*>(end) - text));
  }
  const uint8_t* data() const { return bytes_.data(); }

 private:
  std::span<const uint8_t> bytes_;
};

struct Symbol {
  std::string_view name;
  bool defined = false;
  bool function = false;
  bool global = false;
  uint64_t section = 0, value = 0;
  uint64_t address = 0;  // set when the symbol has been placed
  uint64_t stub = 0;     // offset in the image of a jump and the address; 0: none yet
};

class Linker {
 public:
  Linker(std::span<const uint8_t> object, Architecture architecture, std::span<const Import> imports)
      : in_(object), architecture_(architecture), imports_(imports) {}

  absl::Status ReadHeader();
  absl::Status ReadSymbols();
  absl::Status Layout();
  absl::Status Load(LinkedImage& image);

 private:
  struct Section {
    Elf64_Shdr header;
    bool loaded = false;
    uint64_t offset = 0;  // in the image
  };

  absl::Status Place(Segment segment, uint64_t& end);
  absl::Status ResolveSymbols();
  absl::Status Relocate(const Section& relocations);
  absl::Status Apply(const Section& target, const Elf64_Rela& entry);
  uint64_t StubOf(Symbol& symbol);
  absl::Status Protect();

  Reader in_;
  Architecture architecture_;
  std::span<const Import> imports_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  uint64_t page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t segment_begin_[kSegments + 1] = {};
  uint64_t next_stub_ = 0, stubs_end_ = 0, bytes_ = 0;
  uint8_t* image_ = nullptr;
};

absl::Status Linker::ReadHeader() {
  std::optional<Elf64_Ehdr> header = in_.At<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return Malformed("not an ELF file");
  bool fits = header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
              header->e_type == ET_REL && header->e_machine == MachineNumber(architecture_) &&
              header->e_shentsize == sizeof(Elf64_Shdr);
  if (!fits) return Malformed(absl::StrCat("not a relocatable ", Abseil(InfoOf(architecture_).name), " object"));
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    uint64_t at = 0;
    if (__builtin_add_overflow(header->e_shoff, i * sizeof(Elf64_Shdr), &at))
      return Malformed("section headers out of bounds");
    std::optional<Elf64_Shdr> section = in_.At<Elf64_Shdr>(at);
    if (!section) return Malformed("section headers out of bounds");
    if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL &&
        !in_.Has(section->sh_offset, section->sh_size)) {
      return Malformed("a section is out of bounds");
    }
    sections_.push_back({*section});
  }
  return absl::OkStatus();
}

absl::Status Linker::ReadSymbols() {
  for (const Section& section : sections_) {
    const Elf64_Shdr& table = section.header;
    if (table.sh_type != SHT_SYMTAB) continue;
    if (!symbols_.empty()) return Malformed("two symbol tables");
    if (table.sh_link >= sections_.size()) return Malformed("a symbol table without names");
    const Elf64_Shdr& names = sections_[table.sh_link].header;
    if (names.sh_type != SHT_STRTAB) return Malformed("a symbol table without names");
    for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      std::optional<Elf64_Sym> entry = in_.At<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
      std::optional<std::string_view> name =
          entry ? in_.Text(names.sh_offset, names.sh_size, entry->st_name) : std::nullopt;
      if (!name) return Malformed("a symbol's name is out of bounds");
      Symbol symbol;
      symbol.name = *name;
      symbol.function = ELF64_ST_TYPE(entry->st_info) == STT_FUNC;
      symbol.global = ELF64_ST_BIND(entry->st_info) == STB_GLOBAL;
      symbol.section = entry->st_shndx;
      symbol.value = entry->st_value;
      symbol.defined = entry->st_shndx != SHN_UNDEF && entry->st_shndx < sections_.size();
      symbols_.push_back(symbol);
    }
  }
  return absl::OkStatus();
}

absl::Status Linker::Place(Segment segment, uint64_t& end) {
  segment_begin_[segment] = end;
  for (Section& section : sections_) {
    const Elf64_Shdr& header = section.header;
    bool has_memory =
        (header.sh_flags & SHF_ALLOC) != 0 && (header.sh_type == SHT_PROGBITS || header.sh_type == SHT_NOBITS);
    Segment own = (header.sh_flags & SHF_EXECINSTR) != 0 ? kCode
                  : (header.sh_flags & SHF_WRITE) != 0   ? kData
                                                         : kConstants;
    if (!has_memory || own != segment) continue;
    uint64_t align = header.sh_addralign == 0 ? 1 : header.sh_addralign;
    if ((align & (align - 1)) != 0 || align > page_) return Malformed("an alignment is not a power of two");
    if (header.sh_size > kMaxImage) return Malformed("a section is too large");
    end = (end + align - 1) & ~(align - 1);
    section.offset = end;
    section.loaded = true;
    end += header.sh_size;
    if (end > kMaxImage) return Malformed("the sections are too large");
  }
  return absl::OkStatus();
}

absl::Status Linker::Layout() {
  uint64_t end = 0;
  for (Segment segment : {kCode, kConstants, kData}) {
    RVM_RETURN_IF_ERROR(Place(segment, end));
    if (segment == kCode) {
      // Every symbol may need a stub: a jump for calls, whose address word also serves as its
      // entry in a global offset table.
      end = (end + kStubBytes - 1) & ~(kStubBytes - 1);
      next_stub_ = end;
      end += kStubBytes * symbols_.size();
      stubs_end_ = end;
    }
    end = (end + page_ - 1) & ~(page_ - 1);
    if (end > kMaxImage) return Malformed("the sections are too large");
  }
  segment_begin_[kSegments] = end;
  bytes_ = end;
  if (bytes_ == 0) return Malformed("it has no code");
  return absl::OkStatus();
}

absl::Status Linker::ResolveSymbols() {
  for (Symbol& symbol : symbols_) {
    if (symbol.defined) {
      const Section& section = sections_[symbol.section];
      if (!section.loaded) continue;
      if (symbol.value > section.header.sh_size) return Malformed("a symbol is outside its section");
      symbol.address = reinterpret_cast<uint64_t>(image_) + section.offset + symbol.value;
    } else if (symbol.section == SHN_UNDEF && !symbol.name.empty()) {
      const void* import = FindImport(symbol.name, imports_);
      if (import == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("kernel object needs `", Abseil(symbol.name), "`, which kernels may not call"));
      }
      symbol.address = reinterpret_cast<uint64_t>(import);
    }
  }
  return absl::OkStatus();
}

uint64_t Linker::StubOf(Symbol& symbol) {
  if (symbol.stub == 0) {
    symbol.stub = next_stub_;
    next_stub_ += kStubBytes;
    std::array<uint8_t, kStubAddress> jump = StubJump(architecture_);
    std::memcpy(image_ + symbol.stub, jump.data(), jump.size());
    std::memcpy(image_ + symbol.stub + kStubAddress, &symbol.address, sizeof(symbol.address));
  }
  return reinterpret_cast<uint64_t>(image_) + symbol.stub;
}

absl::Status Linker::Apply(const Section& target, const Elf64_Rela& entry) {
  uint64_t number = ELF64_R_SYM(entry.r_info);
  const auto type_number = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
  const RelocationType* type = FindRelocationType(architecture_, type_number);
  if (type == nullptr) return Malformed(absl::StrCat("a relocation of unknown type ", type_number));
  if (type->value == Value::kNothing) return absl::OkStatus();
  if (number >= symbols_.size()) return Malformed("a relocation of an unknown symbol");
  if (entry.r_offset > target.header.sh_size || FieldBytes(type->field) > target.header.sh_size - entry.r_offset) {
    return Malformed("a relocation is out of bounds");
  }
  Symbol& symbol = symbols_[number];
  if (symbol.address == 0) return Malformed("a relocation of a symbol without address");
  uint64_t to = symbol.address;
  switch (type->referent) {
    case Referent::kSymbol: break;
    case Referent::kFunction:
      if (!symbol.defined) to = StubOf(symbol);
      break;
    case Referent::kGotEntry: to = StubOf(symbol) + kStubAddress; break;
  }
  uint8_t* place = image_ + target.offset + entry.r_offset;
  return ApplyRelocation(*type, place, reinterpret_cast<uint64_t>(place), to + static_cast<uint64_t>(entry.r_addend));
}

absl::Status Linker::Relocate(const Section& relocations) {
  const Elf64_Shdr& header = relocations.header;
  if (header.sh_info >= sections_.size()) return Malformed("relocations of an unknown section");
  const Section& target = sections_[header.sh_info];
  if (!target.loaded || target.header.sh_type == SHT_NOBITS) return absl::OkStatus();
  for (uint64_t i = 0; i < header.sh_size / sizeof(Elf64_Rela); ++i) {
    std::optional<Elf64_Rela> entry = in_.At<Elf64_Rela>(header.sh_offset + i * sizeof(Elf64_Rela));
    if (!entry) return Malformed("relocations out of bounds");
    RVM_RETURN_IF_ERROR(Apply(target, *entry));
  }
  return absl::OkStatus();
}

absl::Status Linker::Protect() {
  constexpr int kProtection[kSegments] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
  for (int segment = 0; segment < kSegments; ++segment) {
    uint64_t begin = segment_begin_[segment], end = segment_begin_[segment + 1];
    if (begin < end && mprotect(image_ + begin, end - begin, kProtection[segment]) != 0) {
      return absl::ResourceExhaustedError("cannot protect the memory of kernels");
    }
  }
  return absl::OkStatus();
}

absl::Status Linker::Load(LinkedImage& image) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return absl::ResourceExhaustedError("no memory for kernels");
  image.bytes = image_ = static_cast<uint8_t*>(memory);
  image.size = bytes_;
  for (const Section& section : sections_) {
    if (section.loaded && section.header.sh_type == SHT_PROGBITS && section.header.sh_size > 0) {
      std::memcpy(image_ + section.offset, in_.data() + section.header.sh_offset, section.header.sh_size);
    }
  }
  RVM_RETURN_IF_ERROR(ResolveSymbols());
  for (const Section& section : sections_) {
    if (section.header.sh_type == SHT_RELA) RVM_RETURN_IF_ERROR(Relocate(section));
  }
  // Not every CPU sees in its instruction cache what was written as data.
  auto* code = reinterpret_cast<char*>(image_);
  __builtin___clear_cache(code + segment_begin_[kCode], code + stubs_end_);
  for (const Symbol& symbol : symbols_) {
    if (!symbol.defined || !symbol.function || !symbol.global || symbol.address == 0) continue;
    image.functions.try_emplace(std::string(symbol.name), symbol.address);
  }
  return Protect();
}

}  // namespace

LinkedImage::~LinkedImage() {
  if (bytes != nullptr) munmap(bytes, size);
}

absl::StatusOr<std::unique_ptr<LinkedImage>> LinkObject(std::span<const uint8_t> object, Architecture architecture,
                                                        std::span<const Import> imports) {
  Linker linker(object, architecture, imports);
  RVM_RETURN_IF_ERROR(linker.ReadHeader());
  RVM_RETURN_IF_ERROR(linker.ReadSymbols());
  RVM_RETURN_IF_ERROR(linker.Layout());
  auto image = std::make_unique<LinkedImage>();
  RVM_RETURN_IF_ERROR(linker.Load(*image));
  return image;
}

}  // namespace rvm::runtime
