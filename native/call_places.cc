#include "native/call_places.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/abi/machine_abi.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/raw_ostream.h"

namespace rvm::native {
namespace {

absl::Status Unreadable(llvm::Error error) {
  return absl::InternalError(absl::StrCat("internal error: the compiler made an object that cannot be read: ",
                                          llvm::toString(std::move(error))));
}

llvm::MemoryBufferRef BufferOf(std::span<const uint8_t> object) {
  return {llvm::StringRef(reinterpret_cast<const char*>(object.data()), object.size()), "control"};
}

// A row of the line table: code from `address` on, up to the next row, belongs to `line`; 0: to none.
struct Row {
  uint64_t address;
  uint32_t line;
};

}  // namespace

absl::StatusOr<std::vector<ControlCode::Function>> ReadCallPlaces(std::span<const uint8_t> object, size_t functions) {
  auto file = llvm::object::ObjectFile::createObjectFile(BufferOf(object));
  if (!file) return Unreadable(file.takeError());
  std::unique_ptr<llvm::DWARFContext> dwarf = llvm::DWARFContext::create(**file);
  std::vector<Row> rows;
  for (const auto& unit : dwarf->compile_units()) {
    const llvm::DWARFDebugLine::LineTable* table = dwarf->getLineTableForUnit(unit.get());
    if (table == nullptr) continue;
    for (const llvm::DWARFDebugLine::Row& row : table->Rows) {
      rows.push_back({row.Address.Address, row.EndSequence ? 0 : row.Line});
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.address < b.address; });
  std::vector<ControlCode::Function> result(functions);
  for (const llvm::object::ELFSymbolRef symbol : llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    llvm::Expected<uint64_t> value = symbol.getValue();
    if (!name) return Unreadable(name.takeError());
    if (!value) return Unreadable(value.takeError());
    uint32_t index = 0;
    if (!name->consume_front(RVM_FUNCTION_SYMBOL) || !llvm::to_integer(*name, index, 10) || index >= functions)
      continue;
    ControlCode::Function& function = result[index];
    function.size = static_cast<uint32_t>(symbol.getSize());
    auto row = std::lower_bound(rows.begin(), rows.end(), *value,
                                [](const Row& r, uint64_t address) { return r.address < address; });
    for (; row != rows.end() && row->address < *value + function.size; ++row) {
      auto offset = static_cast<uint32_t>(row->address - *value);
      // The last row at an address counts.
      if (!function.places.empty() && function.places.back().offset == offset) function.places.pop_back();
      bool is_news = function.places.empty() ? row->line != 0 : function.places.back().line != row->line;
      if (is_news) function.places.push_back({offset, row->line});
    }
  }
  return result;
}

absl::StatusOr<std::vector<uint8_t>> StripPlaces(std::span<const uint8_t> object) {
  auto file = llvm::object::ObjectFile::createObjectFile(BufferOf(object));
  if (!file) return Unreadable(file.takeError());
  llvm::objcopy::ConfigManager config;
  config.Common.StripDebug = true;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **file, stream)) {
    return Unreadable(std::move(error));
  }
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

}  // namespace rvm::native
