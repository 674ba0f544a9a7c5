// Any bytes as the JSON of a graph of MXNet and, behind the first byte that is 0, its weights: a message, or a program
// that prints, and types or says why not.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "compiler/import/mxnet/import.h"
#include "tests/fuzz/check_imported.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  const mxnet::Bytes bytes(data, size);
  const size_t end = static_cast<size_t>(std::ranges::find(bytes, 0) - bytes.begin());
  const importing::FileBytes weights = {bytes.subspan(std::min(end + 1, size)), nullptr};
  mxnet::ImportOptions options;
  options.files = [&](std::string_view) { return weights; };
  CheckImported(mxnet::Import(bytes.first(end), options));
  return 0;
}
