// Programs of an OpenCL device: built by its driver, or from the binary of an earlier build.
#ifndef RVM_VM_DEVICE_OPENCL_PROGRAM_H_
#define RVM_VM_DEVICE_OPENCL_PROGRAM_H_

#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "vm/device/opencl_api.h"
#include "vm/device/opencl_core.h"

namespace rvm::device::opencl {

// Immutable; any thread.
class BuiltProgram {
 public:
  BuiltProgram(std::shared_ptr<const Core> core, Program program) : core_(std::move(core)), program_(program) {}
  ~BuiltProgram() { core_->cl->ReleaseProgram(program_); }
  BuiltProgram(const BuiltProgram&) = delete;
  BuiltProgram& operator=(const BuiltProgram&) = delete;

  Program program() const { return program_; }

 private:
  std::shared_ptr<const Core> core_;
  Program program_;
};

struct ProgramOf {
  std::shared_ptr<const BuiltProgram> program;
  std::string_view origin;  // of Code
};

// Returns the program of the text: one that is in use in this process, one from the cache (BinaryCache), or a new one,
// whose binary goes there. kInvalidArgument with the driver's messages if it does not accept the text. REQUIRES:
// core->Open().
absl::StatusOr<ProgramOf> BuildProgram(const std::shared_ptr<Core>& core, std::string_view text);

}  // namespace rvm::device::opencl

#endif  // RVM_VM_DEVICE_OPENCL_PROGRAM_H_
