// The memory of devices, taken and given as DeviceTensors and KernelCaller do.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "vm/device/block_bytes.h"
#include "vm/forecast/path.h"

namespace rvm::vm::forecast {
namespace {

constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxBytes = int64_t{1} << 60;  // of all blocks; no device has as much

}  // namespace

int64_t ElementBytes(std::span<const int64_t> shape, DataType dtype) {
  int64_t bytes = dtype.bytes();
  bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (int64_t extent : shape) {
    if (!is_empty && __builtin_mul_overflow(bytes, extent, &bytes)) return kTooMany;
  }
  return is_empty ? 0 : bytes;
}

ShadowObject* Path::RootOf(Shadow tensor) {
  ShadowObject* object = Object(tensor);
  while (object != nullptr && object->is_view) object = Object(object->owner);
  return object;
}

bool Path::TakeBlock(size_t lane, int64_t bytes) {
  ShadowLane& memory = lanes_[lane];
  if (bytes < 0 || bytes > kMaxBytes - memory.reserved_bytes) return false;
  int64_t size = device::BlockBytes(bytes);
  auto found = memory.free.find(size);
  if (found == memory.free.end()) {
    memory.reserved_bytes += size;
  } else if (--found->second == 0) {
    memory.free.erase(found);
  }
  memory.used_bytes += size;
  DeviceForecast& forecast = survey_->forecast.devices[lane];
  forecast.peak_bytes = std::max(forecast.peak_bytes, memory.used_bytes);
  forecast.reserved_bytes = std::max(forecast.reserved_bytes, memory.reserved_bytes);
  return true;
}

void Path::KeepBlock(size_t lane, int64_t bytes) {
  int64_t size = device::BlockBytes(bytes);
  ShadowLane& memory = lanes_[lane];
  if (!memory.free.try_emplace(size, 1).second) return;
  memory.reserved_bytes += size;
  int64_t& most = survey_->forecast.devices[lane].reserved_bytes;
  most = std::max(most, memory.reserved_bytes);
}

void Path::GiveBlock(size_t lane, int64_t bytes) {
  int64_t size = device::BlockBytes(bytes);
  lanes_[lane].used_bytes -= size;
  ++lanes_[lane].free[size];
}

bool Path::FetchToHost(ShadowObject& tensor) {
  if (tensor.on_host) return true;
  if (tensor.element_bytes > kMaxBytes - copied_bytes_) return false;
  tensor.on_host = true;
  tensor.copied_bytes = std::max<int64_t>(tensor.element_bytes, 64);
  copied_bytes_ += tensor.copied_bytes;
  survey_->forecast.copied_bytes = std::max(survey_->forecast.copied_bytes, copied_bytes_);
  return true;
}

bool Path::FetchToHost(Shadow tensor) {
  ShadowObject* root = RootOf(tensor);
  // No tensor that is data was made by a device.
  return root == nullptr || FetchToHost(*root);
}

bool Path::Fetch(Shadow tensor, size_t lane) {
  ShadowObject* root = RootOf(tensor);
  if (root == nullptr) return Unbounded("data decides which tensors are copied to a device");
  if (root->lanes.empty()) root->lanes.resize(lanes_.size());
  if (root->lanes[lane]) return true;
  if (!FetchToHost(*root) || !TakeBlock(lane, root->element_bytes)) return false;
  root->lanes[lane] = true;
  return true;
}

bool Path::FetchArgs(const KernelInfo& kernel, const Operand& args) {
  auto tensor_of = [&](uint32_t i) {
    uint16_t arg = args.u16(i);
    return (arg & kConstantArg) != 0 ? Constant(arg & ~kConstantArg) : reg(arg & ~kMovedArg);
  };
  for (uint32_t i = 0; i < args.count; ++i) {
    if (kernel.params[i].scalar) continue;
    bool goes_on = kernel.device != nullptr ? Fetch(tensor_of(i), kernel.device->part) : FetchToHost(tensor_of(i));
    if (!goes_on) return false;
  }
  for (const KernelInfo::ValueBind& value : kernel.values) {
    if (!kernel.params[value.param].scalar && !FetchToHost(tensor_of(value.param))) return false;
  }
  return true;
}

bool Path::MakeDeviceResult(const KernelInfo& kernel, ShadowObject& tensor) {
  tensor.on_host = false;
  tensor.lanes.resize(lanes_.size());
  tensor.lanes[kernel.device->part] = true;
  return TakeBlock(kernel.device->part, tensor.element_bytes);
}

bool Path::TakeForLaunch(const KernelInfo& kernel, std::span<const int64_t> symbols) {
  size_t lane = kernel.device->part;
  std::vector<int64_t> taken;
  for (const KernelInfo::TensorInfo& result : kernel.results) {
    if (result.scalar) taken.push_back(sizeof(Slot));
  }
  std::optional<int64_t> workspace = kernel.device->workspace.Evaluate(symbols);
  if (!workspace) return false;
  if (*workspace != 0) taken.push_back(*workspace);
  for (int64_t bytes : taken) {
    if (!TakeBlock(lane, bytes)) return false;
  }
  for (const std::optional<ProductProgram>& product : kernel.device->products) {
    device::ProductSize size = product ? product->SizeOf(symbols) : device::ProductSize();
    if (device::PrefersLibrary(size)) KeepBlock(lane, device::WorkspaceBytes(size));
  }
  for (int64_t bytes : taken) GiveBlock(lane, bytes);
  return true;
}

void Path::ReleaseElements(const ShadowObject& tensor) {
  copied_bytes_ -= tensor.copied_bytes;
  for (size_t lane = 0; lane < tensor.lanes.size(); ++lane) {
    if (tensor.lanes[lane]) GiveBlock(lane, tensor.element_bytes);
  }
}

}  // namespace rvm::vm::forecast
