#include "compiler/driver/device_code.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/grid_launches.h"
#include "compiler/lowering/kernel_recipe.h"
#include "compiler/lowering/opencl_source.h"
#include "compiler/lowering/tile_product.h"
#include "kernels/codegen/ptx_compiler.h"
#include "kernels/schedule/schedule.h"

namespace rvm::driver {
namespace {

// Makes the code for one kind of device.
class CodeMaker {
 public:
  explicit CodeMaker(bytecode::EmittedProgram& program) : program_(program) {}
  virtual ~CodeMaker() = default;
  // Adds the code of kernel `number`. kUnimplemented, with the reason, if it must run on the host.
  virtual absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) = 0;
  // The code of all kernels that were added, and the features that it needs.
  virtual absl::Status Finish(DeviceCode& code) = 0;

 protected:
  bytecode::EmittedProgram& program_;
};

// What a kernel computes, position by position.
absl::StatusOr<schedule::Schedule> PlainSchedule(const schedule::Schedule& kernel, const schedule::Target& target) {
  return schedule::MakeSchedule(kernel.computation, kernel.constant_inputs, target);
}

class OpenClMaker : public CodeMaker {
 public:
  using CodeMaker::CodeMaker;

  absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) override {
    // The recipe from which the code is made, and its workspace.
    RVM_ASSIGN_OR_RETURN(schedule::Schedule plain, PlainSchedule(program_.kernels[number], schedule::Target{}));
    RVM_ASSIGN_OR_RETURN(lowering::PortableKernel portable, lowering::MakePortableKernel(plain));
    RVM_ASSIGN_OR_RETURN(lowering::OpenClKernel made,
                         lowering::MakeOpenClKernel(number, program_.executable.kernels[number], portable.recipe));
    uses_fp64_ |= made.uses_fp64;
    text_ += made.source;
    return DeviceCode::Kernel{KernelId(number), portable.workspace, made.launches};
  }

  absl::Status Finish(DeviceCode& code) override {
    if (uses_fp64_) code.features = "+fp64";
    text_.insert(0, lowering::OpenClPrelude(uses_fp64_));
    code.bytes.assign(text_.begin(), text_.end());
    return absl::OkStatus();
  }

 private:
  bool uses_fp64_ = false;
  std::string text_;
};

class PtxMaker : public CodeMaker {
 public:
  using CodeMaker::CodeMaker;

  absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) override {
    RVM_ASSIGN_OR_RETURN(schedule::Schedule plain,
                         PlainSchedule(program_.kernels[number], codegen::PtxCompiler::Target()));
    // The recipe has the numbers of arguments and threads; the code is made from the schedule.
    RVM_ASSIGN_OR_RETURN(lowering::PortableKernel portable, lowering::MakePortableKernel(plain));
    RVM_RETURN_IF_ERROR(lowering::GridLaunches(program_.executable.kernels[number], portable.recipe).status());
    RVM_RETURN_IF_ERROR(compiler_.Add(absl::StrCat("k", number), plain));
    return DeviceCode::Kernel{KernelId(number), portable.workspace, std::move(portable.grid_threads)};
  }

  absl::Status Finish(DeviceCode& code) override {
    code.features = codegen::PtxCompiler::kFeatures;
    RVM_ASSIGN_OR_RETURN(std::string text, compiler_.Finish());
    code.bytes.assign(text.begin(), text.end());
    return absl::OkStatus();
  }

 private:
  codegen::PtxCompiler compiler_;
};

class TileMaker : public CodeMaker {
 public:
  using CodeMaker::CodeMaker;

  absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) override {
    RVM_ASSIGN_OR_RETURN(std::string product, lowering::MakeTileProduct(number, program_.executable.kernels[number],
                                                                        *program_.origins[number].primitive));
    text_ += product;
    return DeviceCode::Kernel{KernelId(number), Dim(0), {Dim(1)}};
  }

  absl::Status Finish(DeviceCode& code) override {
    code.bytes.assign(text_.begin(), text_.end());
    return absl::OkStatus();
  }

 private:
  std::string text_;
};

std::unique_ptr<CodeMaker> MakerFor(const lowering::DeviceKind& kind, bytecode::EmittedProgram& program) {
  if (kind.target == lowering::kOpenClTarget) return std::make_unique<OpenClMaker>(program);
  if (kind.target == lowering::kPtxTarget) return std::make_unique<PtxMaker>(program);
  RVM_CHECK(kind.target == lowering::kTileTarget, "a kind of device that no code can be made for");
  return std::make_unique<TileMaker>(program);
}

}  // namespace

absl::Status AddDeviceCode(const lowering::DeviceKind& kind, bool is_required, bytecode::EmittedProgram& program) {
  Executable& executable = program.executable;
  DeviceCode code{.target = std::string(kind.target), .is_required = is_required};
  std::unique_ptr<CodeMaker> maker = MakerFor(kind, program);
  int64_t placed = 0, all = 0;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const bytecode::EmittedProgram::Origin& origin = program.origins[i];
    all += origin.num_operators;
    if (origin.device != kind.name) continue;
    absl::StatusOr<DeviceCode::Kernel> kernel = maker->Add(static_cast<uint32_t>(i));
    if (absl::IsUnimplemented(kernel.status())) {
      executable.metadata.emplace_back(absl::StrCat("device.", Abseil(kind.name), ".", executable.kernels[i].symbol),
                                       absl::StrCat("on the host: ", kernel.status().message()));
      continue;
    }
    RVM_RETURN_IF_ERROR(kernel.status());
    code.kernels.push_back(*std::move(kernel));
    placed += origin.num_operators;
  }
  executable.metadata.emplace_back(absl::StrCat("device.", Abseil(kind.name)),
                                   absl::StrCat(placed, " of ", all, " operators"));
  if (code.kernels.empty()) return absl::OkStatus();
  RVM_RETURN_IF_ERROR(maker->Finish(code));
  executable.device_codes.push_back(std::move(code));
  return absl::OkStatus();
}

}  // namespace rvm::driver
