// The properties of a machine that schedules depend on.
#ifndef RVM_KERNELS_SCHEDULE_TARGET_H_
#define RVM_KERNELS_SCHEDULE_TARGET_H_

#include <algorithm>
#include <cstdint>

#include "base/data_type.h"

namespace rvm::schedule {

struct Target {
  bool has_vectors = false;     // false: nests are interpreted element by element (portable executables)
  bool has_updates = false;     // a result may begin as a copy of an argument, which calls of the kernel make
  bool has_blocks = false;      // a GPU: blocks of threads that share memory
  int64_t tensor_cores = 0;     // those of a compute capability of NVIDIA's GPUs, 75 or 80; 0: none
  bool rounds_to_tf32 = false;  // tensor cores multiply elements of float32, rounded to 10 bits of fraction
  int64_t vector_bits = 128;
  int64_t vector_registers = 16;
  bool has_masks = false;             // masked vector loads and stores
  bool has_streamed_stores = false;   // vector stores that bypass the caches
  bool has_half_conversions = false;  // between float16 and float32
  bool has_pair_products = false;     // an instruction adds two products of int16 in each lane of int32
  bool has_byte_products = false;     // and one adds four of an unsigned and a signed byte
  bool has_byte_matrices = false;     // and one adds a product of bytes, 16x64 by 64x16
  bool has_bfloat_matrices = false;   // one adds a product of bfloat16, 16x32 by 32x16
  bool has_signed_fours = false;      // one adds four products of signed bytes in each lane of int32
  bool has_narrow_pairs = false;      // one adds two products of an unsigned and a signed byte in each lane of int16
  // The least work, in additions, for which a nest runs on several threads, and the least share of a thread.
  int64_t parallel_work = 200'000;
  int64_t parallel_grain = 50'000;

  // AVX-512 stores with a mask as fast as without one; AVX takes up to 12 cycles.
  bool masks_are_fast() const { return has_masks && vector_bits >= 512; }
  int64_t Lanes(DataType dtype) const { return vector_bits / dtype.bits; }
};

// Returns the target whose code either machine can run: executables for several machines share schedules, and with them
// workspace and the layout of packed constants.
inline Target Common(const Target& a, const Target& b) {
  return {.has_vectors = a.has_vectors && b.has_vectors,
          .has_updates = a.has_updates && b.has_updates,
          .has_blocks = a.has_blocks && b.has_blocks,
          .tensor_cores = std::min(a.tensor_cores, b.tensor_cores),
          .rounds_to_tf32 = a.rounds_to_tf32 && b.rounds_to_tf32,
          .vector_bits = std::min(a.vector_bits, b.vector_bits),
          .vector_registers = std::min(a.vector_registers, b.vector_registers),
          .has_masks = a.has_masks && b.has_masks,
          .has_streamed_stores = a.has_streamed_stores && b.has_streamed_stores,
          .has_half_conversions = a.has_half_conversions && b.has_half_conversions,
          .has_pair_products = a.has_pair_products && b.has_pair_products,
          .has_byte_products = a.has_byte_products && b.has_byte_products,
          .has_byte_matrices = a.has_byte_matrices && b.has_byte_matrices,
          .has_bfloat_matrices = a.has_bfloat_matrices && b.has_bfloat_matrices,
          .has_signed_fours = a.has_signed_fours && b.has_signed_fours,
          .has_narrow_pairs = a.has_narrow_pairs && b.has_narrow_pairs,
          .parallel_work = std::max(a.parallel_work, b.parallel_work),
          .parallel_grain = std::max(a.parallel_grain, b.parallel_grain)};
}

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_TARGET_H_
