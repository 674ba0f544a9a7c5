// Compiles scheduled kernels to PTX, the assembly text that drivers of NVIDIA's GPUs translate. No LLVM types here, and
// nothing of NVIDIA's is needed to compile.
#ifndef RVM_KERNELS_CODEGEN_PTX_COMPILER_H_
#define RVM_KERNELS_CODEGEN_PTX_COMPILER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/schedule/schedule.h"

namespace rvm::codegen {

// PTX 6.4 for compute capability 7.5 and later. Each nest of a kernel becomes one function (`.entry`), whose threads
// are the positions of the nest, or work together in blocks of schedule::kBlockThreads (`.reqntid`), as the form of the
// nest says. Threads and blocks stride over the grid, so that any number of blocks may be launched, of a
// one-dimensional grid.
//
// Parameters of each function are, 8 bytes each and in this order: the addresses of the kernel's inputs (the bits of
// the element, for one of rank 0) and outputs, of the workspace, and the symbols.
//
// Mathematics is that of the CPU (kernels/codegen/llvm/math.h): division and square roots are rounded to nearest,
// products and sums contracted to fused ones.
class PtxCompiler {
 public:
  PtxCompiler();
  ~PtxCompiler();
  PtxCompiler(const PtxCompiler&) = delete;

  // Adds functions "<name>_0", "<name>_1", ... for the nests of a schedule that was made for Target(). Returns
  // kUnimplemented, with the reason, for kernels that have no such code; nothing is added then.
  // REQUIRES: no nest sorts, or computes an element from those before.
  absl::Status Add(const std::string& name, const schedule::Schedule& schedule);
  // The text of all functions. Deterministic. Once, as the last call.
  absl::StatusOr<std::string> Finish();

  // What a device must have to run the code.
  static constexpr char kFeatures[] = "+sm_75";
  // What schedules are made for.
  static schedule::Target Target() { return {.has_blocks = true, .has_half_conversions = true}; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_PTX_COMPILER_H_
