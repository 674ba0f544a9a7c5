#include "tests/fuzz/mutate.h"

extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace rvm::fuzz {

size_t MutateBytes(uint8_t* data, size_t size, size_t max_size) {
  return LLVMFuzzerMutate == nullptr ? size : LLVMFuzzerMutate(data, size, max_size);
}

}  // namespace rvm::fuzz
