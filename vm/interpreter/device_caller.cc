#include "vm/interpreter/device_caller.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "vm/interpreter/scalar_cast.h"

namespace rvm::vm {

absl::Status DeviceCaller::BindArgs(const KernelCall& call, const Slot* r) {
  args_.clear();
  size_t lane = call.kernel->device->part;
  for (uint32_t i = 0; i < call.num_args; ++i) {
    const KernelInfo::TensorInfo& param = call.kernel->params[i];
    uint16_t arg = call.args[i];
    if (!param.scalar) {
      RVM_ASSIGN_OR_RETURN(const device::Block* block, tensors_.Fetch(constants_.ArgTensor(arg, r), lane));
      args_.push_back(device::Argument::Of(block));
    } else if ((arg & kConstantArg) == 0) {
      args_.push_back(device::Argument::Of(r[arg]));
    } else {
      args_.push_back(device::Argument::Of(LoadScalar(param.dtype, constants_.ArgTensor(arg, r)->data)));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceCaller::MakeResult(const KernelCall& call, size_t index, std::span<const int64_t> symbols, Slot* r) {
  const KernelInfo::TensorInfo& result = call.kernel->results[index];
  size_t lane = call.kernel->device->part;
  if (result.scalar) {
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Block> block, tensors_.lane(lane).TakeBlock(sizeof(Slot)));
    args_.push_back(device::Argument::Of(block.get()));
    scalar_results_.push_back({index, std::move(block)});
    return absl::OkStatus();
  }
  ResultShape shape;
  if (!shape.Evaluate(result, symbols)) return ShapeError(*call.kernel, index, symbols);
  Tensor* tensor = heap_.NewTensor(result.dtype, shape.extents(), 0, false);
  if (tensor == nullptr) return OutOfMemory(heap_, control_);
  RVM_ASSIGN_OR_RETURN(const device::Block* block, tensors_.MakeResult(tensor, shape.bytes, lane));
  args_.push_back(device::Argument::Of(block));
  r[call.dsts[index]] = AsSlot(tensor);
  return absl::OkStatus();
}

absl::Status DeviceCaller::LaunchAll(const KernelCall& call, std::span<const int64_t> symbols) {
  const DeviceKernel& kernel = *call.kernel->device;
  DeviceLane& lane = tensors_.lane(kernel.part);
  int64_t bytes = WorkspaceBytes(kernel.workspace, symbols);
  std::unique_ptr<device::Block> workspace;
  if (bytes != 0) {
    RVM_ASSIGN_OR_RETURN(workspace, lane.TakeBlock(bytes));
  }
  absl::Status status = LaunchWith(call, symbols, workspace.get());
  if (workspace != nullptr) lane.GiveBlock(std::move(workspace), bytes);
  return status;
}

absl::Status DeviceCaller::LaunchWith(const KernelCall& call, std::span<const int64_t> symbols,
                                      const device::Block* workspace) {
  const DeviceKernel& kernel = *call.kernel->device;
  DeviceLane& lane = tensors_.lane(kernel.part);
  args_.push_back(device::Argument::Of(workspace));
  for (uint32_t s = 0; s < call.kernel->desc->num_symbols; ++s) {
    args_.push_back(device::Argument::Of(static_cast<uint64_t>(symbols[s])));
  }
  args_.push_back(device::Argument::Of(uint64_t{0}));
  bool is_multiplied = false;  // the launch before, by the library
  for (uint32_t i = 0; i < kernel.launches.size(); ++i) {
    bool runs = is_multiplied || !std::ranges::binary_search(kernel.tails, i);
    is_multiplied = false;
    if (!runs) continue;
    // The tensors of a call fit into memory, so a product can overflow only if one of its factors is 0.
    const DeviceLaunch& launch = kernel.launches[i];
    int64_t items = launch.items.Evaluate(symbols).value_or(0);
    if (items <= 0) continue;
    RVM_ASSIGN_OR_RETURN(is_multiplied, Multiply(kernel, i, symbols));
    if (!is_multiplied) RVM_RETURN_IF_ERROR(lane.Launch(launch.function, ArgsOf(launch, symbols), items));
  }
  return absl::OkStatus();
}

std::span<const device::Argument> DeviceCaller::ArgsOf(const DeviceLaunch& launch, std::span<const int64_t> symbols) {
  if (launch.passes_all) return std::span(args_).first(args_.size() - 1);  // all but the number 0
  launch_args_.clear();
  for (const DeviceLaunch::Argument& arg : launch.args) {
    device::Argument passed = args_[arg.argument];
    // Tensors fit into memory, and so do offsets into the workspace that holds them.
    if (passed.kind == device::Argument::Kind::kNumber || passed.block != nullptr) {
      passed.number += static_cast<uint64_t>(arg.offset.Evaluate(symbols).value_or(0));
    }
    launch_args_.push_back(passed);
  }
  return launch_args_;
}

absl::StatusOr<bool> DeviceCaller::Multiply(const DeviceKernel& kernel, size_t launch,
                                            std::span<const int64_t> symbols) {
  if (launch >= kernel.products.size() || !kernel.products[launch]) return false;
  const ProductProgram& program = *kernel.products[launch];
  device::ProductSize size = program.SizeOf(symbols);
  if (!device::PrefersLibrary(size)) return false;
  std::optional<device::Product> product = program.Bind(symbols, args_);
  return product ? tensors_.lane(kernel.part).Multiply(*product, device::WorkspaceBytes(size)) : false;
}

absl::Status DeviceCaller::Call(const KernelCall& call, std::span<const int64_t> symbols, std::span<Slot> scalars,
                                Slot* r) {
  RVM_RETURN_IF_ERROR(BindArgs(call, r));
  scalar_results_.clear();
  absl::Status status;
  for (size_t i = 0; i < call.kernel->results.size() && status.ok(); ++i) status = MakeResult(call, i, symbols, r);
  if (status.ok()) {
    if (profiler_ != nullptr) profiler_->BeginKernel(symbols.data());
    status = LaunchAll(call, symbols);
    if (profiler_ != nullptr) profiler_->EndKernel(/*is_alone=*/true);
  }
  DeviceLane& lane = tensors_.lane(call.kernel->device->part);
  for (auto& [index, block] : scalar_results_) {
    auto bytes = static_cast<size_t>(call.kernel->results[index].dtype.bytes());
    if (status.ok()) status = lane.Read(*block, {reinterpret_cast<std::byte*>(&scalars[index]), bytes});
    lane.GiveBlock(std::move(block), sizeof(Slot));
  }
  RVM_RETURN_IF_ERROR(status);
  return control_.Poll();
}

}  // namespace rvm::vm
