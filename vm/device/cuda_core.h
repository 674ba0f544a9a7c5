// A CUDA device, as all that is made of it shares it, its memory and its code.
#ifndef RVM_VM_DEVICE_CUDA_CORE_H_
#define RVM_VM_DEVICE_CUDA_CORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialization/device_contract.h"
#include "vm/device/cuda_api.h"
#include "vm/device/device.h"

namespace rvm::device::cuda {

using device_contract::kPtxBlockThreads;

// Any thread.
struct Core {
  Core(const Api* api, DeviceId id, DeviceInfo of) : cu(api), device(id), info(std::move(of)) {}
  ~Core() {
    if (context != nullptr) cu->PrimaryCtxRelease(device);
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // `what`: the function that gave `result`, without its "cu".
  absl::Status Check(Result result, const char* what) const;

  const Api* const cu;
  const DeviceId device;
  const DeviceInfo info;
  Context context = nullptr;  // once the device was used
  // A fault of a kernel ends the context: every later call fails, whoever makes it.
  mutable std::atomic<bool> is_lost = false;
};

// Makes the context current for a scope; the thread keeps the one of its own, if it has one.
class Entered {
 public:
  explicit Entered(const Core& core) : core_(core) { pushed_ = core.cu->CtxPushCurrent(core.context) == 0; }
  ~Entered() {
    Context popped = nullptr;
    if (pushed_) core_.cu->CtxPopCurrent(&popped);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const Core& core_;
  bool pushed_;
};

class CudaBlock : public Block {
 public:
  CudaBlock(std::shared_ptr<const Core> core, Address address, int64_t bytes)
      : core_(std::move(core)), address_(address), bytes_(bytes) {}
  // Waits for all work: some may use the memory. The VM keeps freed blocks in its pool, so that this is rare.
  ~CudaBlock() override {
    Entered entered(*core_);
    core_->cu->CtxSynchronize();
    core_->cu->MemFree(address_);
  }
  Address address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Core> core_;
  Address address_;
  int64_t bytes_;
};

inline Address AddressOf(const Block& block) { return static_cast<const CudaBlock&>(block).address(); }

class CudaCode : public Code {
 public:
  CudaCode(std::shared_ptr<const Core> core, Module module) : core_(std::move(core)), module_(module) {}
  ~CudaCode() override {
    Entered entered(*core_);
    core_->cu->ModuleUnload(module_);
  }
  struct Entry {
    Function function;
    std::vector<size_t> unused;  // parameters
  };
  std::vector<Entry> entries;

 private:
  std::shared_ptr<const Core> core_;
  Module module_;
};

}  // namespace rvm::device::cuda

#endif  // RVM_VM_DEVICE_CUDA_CORE_H_
