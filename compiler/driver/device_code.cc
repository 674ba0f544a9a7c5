#include "compiler/driver/device_code.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "compiler/lowering/launch_shapes.h"
#include "compiler/lowering/matrix_product.h"
#include "compiler/lowering/opencl_source.h"
#include "compiler/lowering/symbol_numbers.h"
#include "compiler/ops/virtual_device.h"
#include "compiler/target/accelerator.h"
#include "compiler/target/composite.h"
#include "devices/device_kinds.h"
#include "kernels/codegen/ptx_compiler.h"
#include "kernels/loops/lower.h"
#include "kernels/loops/verify.h"
#include "kernels/schedule/block.h"
#include "kernels/schedule/schedule.h"
#include "serialization/device_contract.h"
#include "serialization/opencl_groups.h"

namespace rvm::driver {
namespace {

static_assert(schedule::kBlockThreads == device_contract::kPtxBlockThreads &&
                  schedule::kBlockThreads == device_contract::kGroupItems,
              "schedules divide work among the threads that the runtime launches");
static_assert(loops::kMaxSharedBytes == device_contract::kMaxSharedBytes, "blocks share memory that devices have");

// Makes the code for one kind of device.
class CodeMaker {
 public:
  explicit CodeMaker(bytecode::EmittedProgram& program) : program_(program) {}
  virtual ~CodeMaker() = default;
  // Adds the code of kernel `number`. kUnimplemented, with the reason, if it must run on the host.
  virtual absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) = 0;
  // The code of all kernels that were added, and the features that it needs.
  virtual absl::Status Finish(DeviceCode& code) = 0;
  // Returns whether some kernel does more than code of the same target for earlier devices can.
  virtual bool IsNeeded() const { return true; }

 protected:
  bytecode::EmittedProgram& program_;
};

// Returns the schedule of a kernel for a device, where results have memory of their own.
absl::StatusOr<schedule::Schedule> PlainSchedule(const schedule::Schedule& kernel, const schedule::Target& target) {
  RVM_ASSIGN_OR_RETURN(schedule::Schedule plain,
                       schedule::MakeSchedule(kernel.computation, kernel.constant_inputs, target));
  plain.reuses.clear();
  return plain;
}

class OpenClMaker : public CodeMaker {
 public:
  using CodeMaker::CodeMaker;

  absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) override {
    RVM_ASSIGN_OR_RETURN(schedule::Schedule plain, PlainSchedule(program_.kernels[number], loops::kTarget));
    const KernelDesc& desc = program_.executable.kernels[number];
    RVM_ASSIGN_OR_RETURN(lowering::LaunchShapes shapes, lowering::ShapesOfLaunches(desc, plain));
    std::vector<loops::Program> programs = loops::Lower(plain);
    for (const loops::Program& program : programs) RVM_RETURN_IF_ERROR(loops::Verify(program));
    RVM_ASSIGN_OR_RETURN(lowering::OpenClKernel made,
                         lowering::MakeOpenClKernel(desc, lowering::SymbolNumbers(plain), programs));
    uses_fp64_ |= made.uses_fp64;
    DeviceCode::Kernel kernel{KernelId(number), shapes.workspace, std::move(shapes.threads)};
    for (uint32_t i = 0; i < made.functions.size(); ++i) {
      lowering::OpenClFunction& function = made.functions[i];
      auto [it, added] = functions_.try_emplace(std::move(function.text), number, i);
      auto [of_kernel, of_launch] = it->second;
      if (added) {
        std::string declaration = lowering::OpenClDeclaration(device_contract::FunctionName(of_kernel, of_launch));
        absl::StrAppend(&text_, "\n// ", desc.name, "\n", declaration, it->first);
      }
      kernel.calls.push_back({KernelId(of_kernel), of_launch, std::move(function.arguments)});
    }
    return kernel;
  }

  absl::Status Finish(DeviceCode& code) override {
    if (uses_fp64_) absl::StrAppend(&code.features, device_contract::kFloat64Feature, ",");
    absl::StrAppend(&code.features, device_contract::kGroupsFeature);
    text_.insert(0, lowering::OpenClPrelude(uses_fp64_));
    code.bytes.assign(text_.begin(), text_.end());
    return absl::OkStatus();
  }

 private:
  bool uses_fp64_ = false;
  std::string text_;
  // By text: the kernel and its launch that a function is named after.
  absl::flat_hash_map<std::string, std::pair<uint32_t, uint32_t>> functions_;
};

class PtxMaker : public CodeMaker {
 public:
  PtxMaker(bytecode::EmittedProgram& program, const codegen::PtxTarget& target)
      : CodeMaker(program), target_(target), compiler_(target) {}

  absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) override {
    RVM_ASSIGN_OR_RETURN(schedule::Schedule plain, PlainSchedule(program_.kernels[number], target_.ScheduleTarget()));
    lowering::AddTails(plain);
    RVM_ASSIGN_OR_RETURN(lowering::LaunchShapes shapes,
                         lowering::ShapesOfLaunches(program_.executable.kernels[number], plain));
    RVM_ASSIGN_OR_RETURN(std::vector<codegen::PtxLaunch> launches, compiler_.Add(absl::StrCat("k", number), plain));
    for (const schedule::LoopNest& nest : plain.nests) {
      is_needed_ |= nest.block_tile && nest.block_tile->mma && nest.block_tile->mma->capability == target_.capability;
    }
    return DeviceCode::Kernel{KernelId(number), shapes.workspace, std::move(shapes.threads),
                              lowering::FindProducts(plain), CallsOf(number, launches, lowering::SymbolNumbers(plain))};
  }

  absl::Status Finish(DeviceCode& code) override {
    code.features = target_.Features();
    RVM_ASSIGN_OR_RETURN(std::string text, compiler_.Finish());
    code.bytes.assign(text.begin(), text.end());
    return absl::OkStatus();
  }

  bool IsNeeded() const override { return is_needed_; }

 private:
  std::vector<DeviceCall> CallsOf(uint32_t number, std::span<const codegen::PtxLaunch> launches,
                                  const lowering::SymbolNumbers& symbols) {
    std::vector<DeviceCall> calls;
    for (const codegen::PtxLaunch& launch : launches) {
      if (launch.function == functions_.size()) functions_.emplace_back(number, calls.size());
      auto [kernel, of_launch] = functions_[launch.function];
      DeviceCall& call = calls.emplace_back();
      call.kernel = KernelId(kernel);
      call.launch = static_cast<uint32_t>(of_launch);
      for (const codegen::PtxLaunch::Argument& argument : launch.arguments) {
        call.arguments.push_back({static_cast<uint32_t>(argument.number), symbols.Numbered(argument.offset)});
      }
    }
    return calls;
  }

  std::vector<std::pair<uint32_t, size_t>> functions_;  // the kernel and its launch that each is named after
  codegen::PtxTarget target_;
  codegen::PtxCompiler compiler_;
  bool is_needed_ = false;
};

class AcceleratorMaker : public CodeMaker {
 public:
  AcceleratorMaker(bytecode::EmittedProgram& program, const target::Accelerator& accelerator)
      : CodeMaker(program), accelerator_(accelerator), code_(accelerator.NewCode()) {}

  absl::StatusOr<DeviceCode::Kernel> Add(uint32_t number) override {
    std::optional<target::Composite> composite = target::CompositeOfKernel(
        accelerator_.patterns(), *program_.origins[number].primitive, program_.executable.kernels[number]);
    if (!composite) return absl::UnimplementedError("its operators fit no pattern of the device");
    RVM_RETURN_IF_ERROR(code_->Add(number, *composite));
    return DeviceCode::Kernel{KernelId(number), Dim(0), {Dim(1)}};
  }

  absl::Status Finish(DeviceCode& code) override {
    RVM_ASSIGN_OR_RETURN(code.bytes, code_->Finish());
    return absl::OkStatus();
  }

 private:
  const target::Accelerator& accelerator_;
  std::unique_ptr<target::AcceleratorCode> code_;
};

using Makers = std::vector<std::unique_ptr<CodeMaker>>;

Makers MakePtx(bytecode::EmittedProgram& program, std::span<const codegen::PtxTarget> targets) {
  Makers makers;
  for (const codegen::PtxTarget& target : targets) makers.push_back(std::make_unique<PtxMaker>(program, target));
  return makers;
}

Makers MakeOpenCl(bytecode::EmittedProgram& program, std::span<const codegen::PtxTarget> /*ptx*/) {
  Makers makers;
  makers.push_back(std::make_unique<OpenClMaker>(program));
  return makers;
}

struct TargetMakers {
  std::string_view target;
  // Returns a maker for each code of the target, in the order in which a device is looked for.
  Makers (*make)(bytecode::EmittedProgram& program, std::span<const codegen::PtxTarget> ptx);
};

// Kinds whose code is made from schedules.
constexpr TargetMakers kMakers[] = {
    {device_contract::kPtxTarget, MakePtx},
    {device_contract::kOpenClTarget, MakeOpenCl},
};

Makers MakersFor(const target::DeviceKind& kind, std::span<const codegen::PtxTarget> ptx,
                 bytecode::EmittedProgram& program) {
  if (kind.accelerator != nullptr) {
    Makers makers;
    makers.push_back(std::make_unique<AcceleratorMaker>(program, *kind.accelerator));
    return makers;
  }
  for (const TargetMakers& row : kMakers) {
    if (row.target == kind.target) return row.make(program, ptx);
  }
  RVM_UNREACHABLE("a kind of device that no code can be made for");
}

// The code for one kind of device, as it grows.
struct GrowingCode {
  DeviceCode code;
  std::unique_ptr<CodeMaker> maker;
};

std::vector<GrowingCode> BeginCodes(const target::DeviceKind& kind, std::span<const codegen::PtxTarget> ptx,
                                    bool is_required, bytecode::EmittedProgram& program) {
  std::vector<GrowingCode> codes;
  for (const target::DeviceKind* one : target::MembersOf(kind)) {
    for (std::unique_ptr<CodeMaker>& maker : MakersFor(*one, ptx, program)) {
      codes.push_back({{.target = std::string(one->target), .is_required = is_required}, std::move(maker)});
    }
  }
  return codes;
}

// Adds the code of a kernel to each of them. kUnimplemented, with the reason, if it must run on the host.
absl::Status AddKernel(uint32_t number, std::vector<GrowingCode>& codes) {
  std::vector<DeviceCode::Kernel> kernels;
  for (GrowingCode& growing : codes) {
    RVM_ASSIGN_OR_RETURN(DeviceCode::Kernel kernel, growing.maker->Add(number));
    kernels.push_back(std::move(kernel));
  }
  for (size_t i = 0; i < codes.size(); ++i) codes[i].code.kernels.push_back(std::move(kernels[i]));
  return absl::OkStatus();
}

// The code of the kernels on one device.
absl::Status AddCodeOfPlace(const target::DeviceKind& kind, std::span<const codegen::PtxTarget> ptx,
                            const std::string& place, bool is_required, bytecode::EmittedProgram& program) {
  Executable& executable = program.executable;
  std::vector<GrowingCode> codes = BeginCodes(kind, ptx, is_required, program);
  int64_t placed = 0, all = 0;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const bytecode::EmittedProgram::Origin& origin = program.origins[i];
    all += origin.num_operators;
    if (origin.device != place) continue;
    absl::Status status = AddKernel(static_cast<uint32_t>(i), codes);
    if (absl::IsUnimplemented(status)) {
      executable.metadata.emplace_back(absl::StrCat("device.", place, ".", executable.kernels[i].symbol),
                                       absl::StrCat("on the host: ", status.message()));
      continue;
    }
    RVM_RETURN_IF_ERROR(status);
    placed += origin.num_operators;
  }
  executable.metadata.emplace_back(absl::StrCat("device.", place), absl::StrCat(placed, " of ", all, " operators"));
  for (size_t i = 0; i < codes.size(); ++i) {
    GrowingCode& growing = codes[i];
    bool has_earlier = i + 1 < codes.size() && codes[i + 1].code.target == growing.code.target;
    if (growing.code.kernels.empty() || (has_earlier && !growing.maker->IsNeeded())) continue;
    RVM_RETURN_IF_ERROR(growing.maker->Finish(growing.code));
    executable.device_codes.push_back(std::move(growing.code));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddDeviceCode(const target::DeviceKind& kind, std::span<const codegen::PtxTarget> ptx, bool is_required,
                           bytecode::EmittedProgram& program) {
  absl::btree_map<size_t, std::string> places = {{0, target::PlaceName(kind, 0)}};  // by number
  for (const bytecode::EmittedProgram::Origin& origin : program.origins) {
    if (target::KindOfPlace(origin.device) != &kind) continue;
    places.try_emplace(ops::NumberOfVirtualDevice(origin.device), origin.device);
  }
  for (const auto& [number, place] : places) {
    RVM_RETURN_IF_ERROR(AddCodeOfPlace(kind, ptx, place, is_required, program));
  }
  return absl::OkStatus();
}

}  // namespace rvm::driver
