#include "tools/relayvm/file_sizes.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/abseil.h"
#include "base/dim.h"
#include "serialization/decoder.h"
#include "tools/relayvm/executable_text.h"

namespace rvm::tools {
namespace {

using Row = SizeTable::Row;

// Adds a table of `rows`, largest first; then the remainder of `whole` bytes, if known, under its name.
void AddTable(std::vector<SizeTable>& tables, std::string title, std::vector<Row> rows, int64_t whole = 0,
              std::string_view rest = "") {
  if (rows.empty()) return;
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  int64_t sum = 0;
  for (const Row& row : rows) sum += row.bytes;
  if (whole > sum) rows.push_back({std::string(rest), whole - sum});
  tables.push_back({std::move(title), std::move(rows), std::max(whole, sum)});
}

// Copies the structure at `offset` of `bytes`; false if it exceeds them.
template <typename T>
bool ReadAt(std::span<const uint8_t> bytes, uint64_t offset, T& value) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return true;
}

// Bytes of code per symbol, from the object's own unverified tables. Entries that cannot be read are skipped.
std::map<std::string, int64_t> FunctionSizes(std::span<const uint8_t> object) {
  std::map<std::string, int64_t> sizes;
  Elf64_Ehdr header;
  if (!ReadAt(object, 0, header) || header.e_shentsize != sizeof(Elf64_Shdr)) return sizes;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr symbols, strings;
    if (!ReadAt(object, header.e_shoff + i * sizeof(Elf64_Shdr), symbols) || symbols.sh_type != SHT_SYMTAB) continue;
    if (!ReadAt(object, header.e_shoff + uint64_t{symbols.sh_link} * sizeof(Elf64_Shdr), strings)) continue;
    Elf64_Sym symbol;
    for (uint64_t at = 0; at < symbols.sh_size && ReadAt(object, symbols.sh_offset + at, symbol);
         at += sizeof(symbol)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      std::string name;
      char c = 0;
      for (uint64_t s = strings.sh_offset + symbol.st_name; ReadAt(object, s, c) && c != 0; ++s) name += c;
      // A kernel's parts are functions `SYMBOL.0`, `SYMBOL.1`, and so on.
      sizes[name.substr(0, name.find('.'))] += static_cast<int64_t>(symbol.st_size);
    }
  }
  return sizes;
}

std::string TensorText(DataType dtype, const Shape& shape) {
  return absl::StrCat(ShapeToString(shape), " ", dtype.ToString());
}

}  // namespace

std::vector<SizeTable> FileSizes(std::span<const uint8_t> file, const Executable& executable) {
  std::vector<Row> sections, functions, constants;
  for (const SectionInfo& section : ListSections(file)) {
    std::string name = section.is_known ? section.name : absl::StrCat(section.name, " (unknown, skipped)");
    sections.push_back({std::move(name), static_cast<int64_t>(section.bytes)});
  }
  for (const FunctionDesc& function : executable.functions) {
    functions.push_back({absl::StrCat("@", function.name), static_cast<int64_t>(function.code.size() * 2)});
  }
  for (size_t i = 0; i < executable.constants.size(); ++i) {
    const Literal& constant = executable.constants[i];
    std::string_view weight = WeightName(executable, i);
    constants.push_back({absl::StrCat(i, "  ", TensorText(constant.dtype(), constant.shape()),
                                      weight.empty() ? "" : "  ", Abseil(weight)),
                         constant.bytes()});
  }
  std::vector<SizeTable> tables;
  AddTable(tables, "sections", sections, static_cast<int64_t>(file.size()), "header, section table, padding");
  AddTable(tables, "code of functions", functions);
  AddTable(tables, "constants", constants);
  for (const CodeObject& object : executable.code_objects) {
    std::map<std::string, int64_t> sizes = FunctionSizes(object.bytes);
    std::map<std::string, int64_t> kernels;  // by symbol: several kernels may share one
    for (const KernelDesc& kernel : executable.kernels) kernels[kernel.symbol] = sizes[kernel.symbol];
    std::vector<Row> rows;
    for (const auto& [symbol, bytes] : kernels) rows.push_back({symbol, bytes});
    AddTable(tables, absl::StrCat("kernels for ", object.target, " (", object.triple, ")"), rows,
             static_cast<int64_t>(object.bytes.size()), "other code, constants and tables of the object");
  }
  for (const ControlCode& code : executable.control_codes) {
    std::vector<Row> rows;
    for (size_t f = 0; f < code.functions.size(); ++f) {
      rows.push_back({absl::StrCat("@", executable.functions[f].name), int64_t{code.functions[f].size}});
    }
    AddTable(tables, absl::StrCat("functions for ", code.target, " (", code.triple, ")"), rows,
             static_cast<int64_t>(code.bytes.size()), "stubs of entries, tables of the object");
  }
  return tables;
}

std::string FileSizesText(std::span<const uint8_t> file, const Executable& executable) {
  std::string text;
  for (const SizeTable& table : FileSizes(file, executable)) {
    absl::StrAppend(&text, table.title, "\n");
    for (const Row& row : table.rows) {
      double share = table.bytes > 0 ? 100.0 * static_cast<double>(row.bytes) / static_cast<double>(table.bytes) : 0;
      absl::StrAppendFormat(&text, "%14d %5.1f%%  %s\n", row.bytes, share, row.name);
    }
  }
  return text;
}

}  // namespace rvm::tools
