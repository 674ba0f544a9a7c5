// Bytes changed as libFuzzer changes them. In a binary without libFuzzer they stay as they are.
#ifndef RVM_TESTS_FUZZ_MUTATE_H_
#define RVM_TESTS_FUZZ_MUTATE_H_

#include <cstddef>
#include <cstdint>

namespace rvm::fuzz {

// Gives the new size, at most `max_size`.
size_t MutateBytes(uint8_t* data, size_t size, size_t max_size);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_MUTATE_H_
