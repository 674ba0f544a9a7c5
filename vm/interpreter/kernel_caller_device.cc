// KernelCaller: calls of kernels that run on a device, and of others in programs that use one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/interpreter/dispatch.h"
#include "vm/interpreter/kernel_caller.h"
#include "vm/interpreter/scalar_cast.h"
#include "vm/limits/limit.h"

namespace rvm::vm {

bool KernelCaller::FetchToHost(Tensor* tensor) {
  if (tensor->data != nullptr) return true;
  if (pending_ != nullptr) return FetchPending(tensor);
  if (device_ == nullptr) return true;  // a tensor without elements
  absl::Status status = device_->FetchToHost(tensor);
  return status.ok() || Fail(std::move(status));
}

bool KernelCaller::FetchArgs(const Call& call, const Slot* r) {
  // The devices work while the host does; kernels of scalars take no time.
  auto is_scalar = [](const KernelInfo::TensorInfo& info) { return info.scalar; };
  if (device_ != nullptr &&
      (!std::ranges::all_of(call.kernel->params, is_scalar) || !std::ranges::all_of(call.kernel->results, is_scalar))) {
    if (absl::Status status = device_->Submit(); !status.ok()) return Fail(std::move(status));
  }
  for (uint32_t i = 0; i < call.num_args; ++i) {
    bool in_register = call.kernel->params[i].scalar && (call.args[i] & kConstantArg) == 0;
    if (!in_register && !FetchToHost(ArgTensor(call.args[i], r))) return false;
  }
  return true;
}

bool KernelCaller::FetchValues(const Call& call, const Slot* r) {
  for (const KernelInfo::ValueBind& value : call.kernel->values) {
    bool in_register = call.kernel->params[value.param].scalar && (call.args[value.param] & kConstantArg) == 0;
    if (!in_register && !FetchToHost(ArgTensor(call.args[value.param], r))) return false;
  }
  return true;
}

absl::Status KernelCaller::BindDeviceArgs(const Call& call, const Slot* r) {
  device_args_.clear();
  size_t lane = call.kernel->device->part;
  for (uint32_t i = 0; i < call.num_args; ++i) {
    const KernelInfo::TensorInfo& param = call.kernel->params[i];
    uint16_t arg = call.args[i];
    if (!param.scalar) {
      RVM_ASSIGN_OR_RETURN(const device::Block* block, device_->Fetch(ArgTensor(arg, r), lane));
      device_args_.push_back(device::Argument::Of(block));
    } else if ((arg & kConstantArg) == 0) {
      device_args_.push_back(device::Argument::Of(r[arg]));
    } else {
      device_args_.push_back(device::Argument::Of(LoadScalar(param.dtype, ArgTensor(arg, r)->data)));
    }
  }
  return absl::OkStatus();
}

absl::Status KernelCaller::MakeDeviceResult(const Call& call, size_t index, Slot* r) {
  const KernelInfo::TensorInfo& result = call.kernel->results[index];
  size_t lane = call.kernel->device->part;
  if (result.scalar) {
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<device::Block> block, device_->lane(lane).TakeBlock(sizeof(Slot)));
    device_args_.push_back(device::Argument::Of(block.get()));
    device_scalars_.push_back({index, std::move(block)});
    return absl::OkStatus();
  }
  Shape shape;
  int64_t bytes = result.dtype.bytes();
  bool empty = false, too_big = false;
  for (const DimProgram& program : result.programs) {
    std::optional<int64_t> extent = program.Evaluate(symbols_);
    if (!extent || *extent < 0) {
      NoSuchShape(call, index);
      return TakeError();
    }
    shape.push_back(*extent);
    empty |= *extent == 0;
    too_big |= __builtin_mul_overflow(bytes, *extent, &bytes);
  }
  bytes = empty ? 0 : too_big ? Heap::kUncountable : bytes;
  Tensor* tensor = heap_.NewTensor(result.dtype, {shape.data(), shape.size()}, 0, false);
  if (tensor == nullptr) return OutOfMemory();
  RVM_ASSIGN_OR_RETURN(const device::Block* block, device_->MakeResult(tensor, bytes, lane));
  device_args_.push_back(device::Argument::Of(block));
  r[call.dsts[index]] = AsSlot(tensor);
  return absl::OkStatus();
}

absl::Status KernelCaller::LaunchAll(const Call& call) {
  const DeviceKernel& kernel = *call.kernel->device;
  DeviceLane& lane = device_->lane(kernel.part);
  int64_t bytes = WorkspaceBytes(kernel.workspace, symbols_);
  std::unique_ptr<device::Block> workspace;
  if (bytes != 0) {
    RVM_ASSIGN_OR_RETURN(workspace, lane.TakeBlock(bytes));
  }
  absl::Status status = LaunchWith(call, workspace.get());
  if (workspace != nullptr) lane.GiveBlock(std::move(workspace), bytes);
  return status;
}

absl::Status KernelCaller::LaunchWith(const Call& call, const device::Block* workspace) {
  const DeviceKernel& kernel = *call.kernel->device;
  DeviceLane& lane = device_->lane(kernel.part);
  device_args_.push_back(device::Argument::Of(workspace));
  for (uint32_t s = 0; s < call.kernel->desc->num_symbols; ++s) {
    device_args_.push_back(device::Argument::Of(static_cast<uint64_t>(symbols_[s])));
  }
  device_args_.push_back(device::Argument::Of(uint64_t{0}));
  bool is_multiplied = false;  // the launch before, by the library
  for (uint32_t i = 0; i < kernel.launches.size(); ++i) {
    bool runs = is_multiplied || !std::ranges::binary_search(kernel.tails, i);
    is_multiplied = false;
    if (!runs) continue;
    // The tensors of a call fit into memory, so a product can overflow only if one of its factors is 0.
    const DeviceLaunch& launch = kernel.launches[i];
    int64_t items = launch.items.Evaluate(symbols_).value_or(0);
    if (items <= 0) continue;
    RVM_ASSIGN_OR_RETURN(is_multiplied, Multiply(kernel, i));
    if (!is_multiplied) RVM_RETURN_IF_ERROR(lane.Launch(launch.function, ArgsOf(launch), items));
  }
  return absl::OkStatus();
}

std::span<const device::Argument> KernelCaller::ArgsOf(const DeviceLaunch& launch) {
  if (launch.passes_all) return std::span(device_args_).first(device_args_.size() - 1);  // all but the number 0
  launch_args_.clear();
  for (const DeviceLaunch::Argument& arg : launch.args) {
    device::Argument passed = device_args_[arg.argument];
    // Tensors fit into memory, and so do offsets into the workspace that holds them.
    if (passed.kind == device::Argument::Kind::kNumber || passed.block != nullptr) {
      passed.number += static_cast<uint64_t>(arg.offset.Evaluate(symbols_).value_or(0));
    }
    launch_args_.push_back(passed);
  }
  return launch_args_;
}

absl::StatusOr<bool> KernelCaller::Multiply(const DeviceKernel& kernel, size_t launch) {
  if (launch >= kernel.products.size() || !kernel.products[launch]) return false;
  const ProductProgram& program = *kernel.products[launch];
  device::ProductSize size = program.SizeOf(symbols_);
  if (!device::PrefersLibrary(size)) return false;
  std::optional<device::Product> product = program.Bind(symbols_, device_args_);
  return product ? device_->lane(kernel.part).Multiply(*product, device::WorkspaceBytes(size)) : false;
}

absl::Status KernelCaller::RunOnDevice(const Call& call, Slot* r) {
  RVM_RETURN_IF_ERROR(BindDeviceArgs(call, r));
  NoteMoved(call.args, call.num_args, r);
  device_scalars_.clear();
  absl::Status status;
  for (size_t i = 0; i < call.kernel->results.size() && status.ok(); ++i) status = MakeDeviceResult(call, i, r);
  if (status.ok()) {
    if (profiler_ != nullptr) profiler_->BeginKernel(symbols_.data());
    status = LaunchAll(call);
    if (profiler_ != nullptr) profiler_->EndKernel(/*is_alone=*/true);
  }
  DeviceLane& lane = device_->lane(call.kernel->device->part);
  for (auto& [index, block] : device_scalars_) {
    auto bytes = static_cast<size_t>(call.kernel->results[index].dtype.bytes());
    if (status.ok()) status = lane.Read(*block, {reinterpret_cast<std::byte*>(&scalars_[index]), bytes});
    lane.GiveBlock(std::move(block), sizeof(Slot));
  }
  RVM_RETURN_IF_ERROR(status);
  return control_.Poll();
}

const uint16_t* KernelCaller::CallOnDevice(const Call& call, Slot* r) {
  absl::Status status = RunOnDevice(call, r);
  if (!status.ok()) {
    error_ = WithMessage(status, absl::StrCat("kernel `", call.kernel->desc->name, "`: ", status.message()));
    return nullptr;
  }
  if (num_moved_ > 0) DropMoved();
  if (call.kernel->has_scalars) StoreScalars(call, r);
  return call.args + call.num_args;
}

}  // namespace rvm::vm
