// Compiles scheduled kernels to PTX, the assembly text that drivers of NVIDIA's GPUs translate. No LLVM types here, and
// nothing of NVIDIA's is needed to compile.
#ifndef RVM_KERNELS_CODEGEN_PTX_COMPILER_H_
#define RVM_KERNELS_CODEGEN_PTX_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/schedule/schedule.h"

namespace rvm::codegen {

// NVIDIA's GPUs of a compute capability and later.
struct PtxTarget {
  int64_t capability = 75;  // 75 or 80: text of PTX 6.5 or 7.0
  bool has_tf32 = false;    // products of float32 may be rounded to TF32, which takes 80

  // Returns the features that a device must have to run the code: "+sm_75".
  std::string Features() const;
  // Returns the target that schedules are made for.
  schedule::Target ScheduleTarget() const;
};

// `sm_75`, `sm_80` or `sm_80+tf32`. nullopt for text that does not begin with `sm_`; kInvalidArgument for others.
absl::StatusOr<std::optional<PtxTarget>> ParsePtxTarget(std::string_view text);
// Returns the targets of a compilation that names none; the latest first.
std::vector<PtxTarget> DefaultPtxTargets();

// How a launch of a kernel calls a function.
struct PtxLaunch {
  struct Argument {
    size_t number;  // of the kernel's inputs, then its outputs, the workspace, and the symbols
    Dim offset;     // in the workspace, in bytes; 0 for others
  };
  size_t function = 0;  // by first use of all that were added
  std::vector<Argument> arguments;
};

// PTX for a target. Each of schedule::Launches of a kernel runs one function (`.entry`), whose threads
// are the positions of its nest, or work together in blocks of schedule::kBlockThreads (`.reqntid`), as the form of the
// nest says; or blocks run several nests, row by row. Threads and blocks stride over the grid, so that any number of
// blocks may be launched, of a one-dimensional grid.
//
// Launches that do the same with other tensors share a function, as those of the layers of a network: its parameters
// are the tensors that it accesses (the bits of the element, for an input of rank 0) and the symbols that it reads, 8
// bytes each.
//
// Mathematics is that of the CPU (kernels/codegen/llvm/math.h): division and square roots are rounded to nearest,
// products and sums contracted to fused ones.
class PtxCompiler {
 public:
  explicit PtxCompiler(const PtxTarget& target);
  ~PtxCompiler();
  PtxCompiler(const PtxCompiler&) = delete;

  // Adds functions for the launches of a schedule that was made for the target; one that no launch before had is called
  // "<name>_<number of the launch>". Returns kUnimplemented, with the reason, for kernels that have no such code;
  // nothing is added then. REQUIRES: no nest sorts, or computes an element from those before; no output reuses an
  // input.
  absl::StatusOr<std::vector<PtxLaunch>> Add(const std::string& name, const schedule::Schedule& schedule);
  // Returns the text of all functions. Deterministic. Once, as the last call.
  absl::StatusOr<std::string> Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_PTX_COMPILER_H_
