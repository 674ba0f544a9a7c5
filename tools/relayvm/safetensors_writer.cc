#include "tools/relayvm/safetensors_writer.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rvm::tools {
namespace {

std::string DTypeName(DataType dtype) {
  if (dtype.is_bool()) return "BOOL";
  if (dtype == kBFloat16) return "BF16";
  return absl::StrCat(dtype.is_float() ? "F" : dtype.is_uint() ? "U" : "I", dtype.bits);
}

}  // namespace

absl::Status WriteSafetensors(const std::map<std::string, Literal, std::less<>>& tensors, const std::string& path) {
  std::string header = "{";
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    absl::StrAppend(&header, header.size() == 1 ? "" : ",", "\"", name, "\":{\"dtype\":\"", DTypeName(tensor.dtype()),
                    "\",\"shape\":[", absl::StrJoin(tensor.shape(), ","), "],\"data_offsets\":[", offset, ",",
                    offset + tensor.bytes(), "]}");
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
