// Code for devices changed a little.
#ifndef RVM_TESTS_FUZZ_DEVICE_MUTATOR_H_
#define RVM_TESTS_FUZZ_DEVICE_MUTATOR_H_

#include <cstdint>
#include <vector>

#include "serialization/executable.h"
#include "tests/fuzz/dice.h"

namespace rvm::fuzz {

// One to four changes: of targets, features, kernels with their launches and workspaces, of words and numbers of the
// code, and of its bytes: flipped, taken out, doubled, swapped with those of another device.
void MutateDeviceCodes(Executable& executable, Dice& dice);

// One change of some bytes: flipped, overwritten, taken out, put in, exchanged.
void MutateSomeBytes(std::vector<uint8_t>& bytes, Dice& dice);

}  // namespace rvm::fuzz

#endif  // RVM_TESTS_FUZZ_DEVICE_MUTATOR_H_
