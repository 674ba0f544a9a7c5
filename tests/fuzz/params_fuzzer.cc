// Any bytes as weights (.npz, .safetensors, .npy, .params): tensors or an error. A tensor written as .npy
// reads back equal.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/npy.h"
#include "compiler/driver/params.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::StatusOr<rvm::driver::ParamFile> file = rvm::driver::DecodeParams("fuzz.npy", {data, size});
  if (!file.ok()) return 0;
  for (const auto& [name, tensor] : file->tensors) {
    if (tensor.dtype() == rvm::kBFloat16) continue;  // written as float32
    absl::StatusOr<rvm::Literal> again = rvm::DecodeNpy(rvm::EncodeNpy(tensor));
    RVM_CHECK(again.ok() && *again == tensor, "a tensor does not survive .npy");
  }
  return 0;
}
