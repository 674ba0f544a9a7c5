#include "kernels/codegen/check_imports.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace rvm::codegen {
namespace {

constexpr std::string_view kImports[] = {
#define RVM_IMPORT(symbol, type) #symbol,
#include "kernels/abi/imports.def"
#undef RVM_IMPORT
};

absl::Status Unreadable(llvm::Error error) {
  return absl::InternalError(
      absl::StrCat("internal error: the compiler made an object that cannot be read: ", toString(std::move(error))));
}

}  // namespace

absl::Status CheckImports(std::span<const uint8_t> object, std::span<const std::string_view> more) {
  llvm::StringRef bytes(reinterpret_cast<const char*>(object.data()), object.size());
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernels"));
  if (!file) return Unreadable(file.takeError());
  std::string unknown;
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    if (!flags) return Unreadable(flags.takeError());
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) == 0) continue;
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!name) return Unreadable(name.takeError());
    auto is_listed = [&](std::span<const std::string_view> list) {
      return std::find(list.begin(), list.end(), std::string_view(*name)) != list.end();
    };
    if (name->empty() || is_listed(kImports) || is_listed(more)) continue;
    absl::StrAppend(&unknown, unknown.empty() ? "" : ", ", "`", std::string(*name), "`");
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("internal error: the compiler made machine code that calls ", unknown,
                                          ", which the loader does not provide"));
}

}  // namespace rvm::codegen
