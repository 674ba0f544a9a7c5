#include "tools/relayvm/safetensors_writer.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/element.h"

namespace rvm::tools {
namespace {

std::string_view DTypeName(DataType dtype) { return FindDataType(dtype)->safetensors; }

}  // namespace

absl::Status WriteSafetensors(const std::map<std::string, Literal, std::less<>>& tensors, const std::string& path) {
  std::string header = "{";
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    absl::StrAppend(&header, header.size() == 1 ? "" : ",", "\"", name, "\":{\"dtype\":\"",
                    Abseil(DTypeName(tensor.dtype())), "\",\"shape\":[", absl::StrJoin(tensor.shape(), ","),
                    "],\"data_offsets\":[", offset, ",", offset + tensor.bytes(), "]}");
    offset += tensor.bytes();
  }
  header += "}";
  while (header.size() % 8 != 0) header += " ";
  // Written piece by piece, beside the old file until all is there.
  std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  for (size_t i = 0; i < 8; ++i) file.put(static_cast<char>(header.size() >> (8 * i)));
  file << header;
  for (const auto& [name, tensor] : tensors) file.write(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
  file.close();
  if (file && std::rename(part.c_str(), path.c_str()) == 0) return absl::OkStatus();
  std::remove(part.c_str());
  return absl::UnavailableError(absl::StrCat("cannot write `", path, "`"));
}

}  // namespace rvm::tools
