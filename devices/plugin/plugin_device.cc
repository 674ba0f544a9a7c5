#include "devices/plugin/plugin_device.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "devices/plugin/plugin_status.h"

namespace rvm::device {
namespace {

class PluginBlock : public Block {
 public:
  PluginBlock(const rvm_accelerator& table, rvm_accelerator_block* block) : table_(table), block_(block) {}
  ~PluginBlock() override { table_.block_destroy(block_); }
  const rvm_accelerator_block* block() const { return block_; }

 private:
  const rvm_accelerator& table_;
  rvm_accelerator_block* block_;
};

const rvm_accelerator_block* BlockOf(const Block& block) { return static_cast<const PluginBlock&>(block).block(); }

class PluginCode : public Code {
 public:
  PluginCode(const rvm_accelerator& table, rvm_accelerator_loaded* loaded) : table_(table), loaded_(loaded) {}
  ~PluginCode() override { table_.code_unload(loaded_); }
  const rvm_accelerator_loaded* loaded() const { return loaded_; }

 private:
  const rvm_accelerator& table_;
  rvm_accelerator_loaded* loaded_;
};

class PluginStream : public Stream {
 public:
  PluginStream(const rvm_accelerator& table, rvm_accelerator_stream* stream, std::string who)
      : table_(table), stream_(stream), who_(std::move(who)) {}
  ~PluginStream() override { table_.stream_destroy(stream_); }

  absl::Status CopyIn(const Block& to, std::span<const std::byte> from) override {
    PluginMessage message;
    return message.ToStatus(table_.copy_in(stream_, BlockOf(to), from.data(), from.size(), message.buffer()), who_);
  }

  absl::Status CopyOut(std::span<std::byte> to, const Block& from) override {
    PluginMessage message;
    return message.ToStatus(table_.copy_out(stream_, to.data(), BlockOf(from), to.size(), message.buffer()), who_);
  }

  absl::Status Launch(const Code& code, uint32_t function, std::span<const Argument> args, int64_t) override {
    std::vector<rvm_accelerator_argument> arguments;
    for (const Argument& arg : args) {
      if (arg.kind == Argument::Kind::kBlock && arg.number != 0) {
        return absl::InvalidArgumentError(absl::StrCat(who_, ": an argument has an offset"));
      }
      bool has_block = arg.kind == Argument::Kind::kBlock && arg.block != nullptr;
      arguments.push_back({has_block ? BlockOf(*arg.block) : nullptr, arg.number});
    }
    PluginMessage message;
    rvm_accelerator_status status = table_.launch(stream_, static_cast<const PluginCode&>(code).loaded(), function,
                                                  arguments.data(), arguments.size(), message.buffer());
    return message.ToStatus(status, who_);
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time) override {
    PluginMessage message;
    uint32_t is_done = 0;
    RVM_RETURN_IF_ERROR(message.ToStatus(table_.wait(stream_, time.count(), &is_done, message.buffer()), who_));
    return is_done != 0;
  }

  absl::StatusOr<std::vector<WorkTime>> TakeTimes() override {
    PluginMessage message;
    const rvm_accelerator_time* times = nullptr;
    size_t count = 0;
    RVM_RETURN_IF_ERROR(message.ToStatus(table_.stream_times(stream_, &times, &count, message.buffer()), who_));
    std::vector<WorkTime> result;
    for (size_t i = 0; i < count; ++i) result.push_back({times[i].begin_ns, times[i].end_ns});
    return result;
  }

 private:
  const rvm_accelerator& table_;
  rvm_accelerator_stream* stream_;
  std::string who_;  // the device, for messages
};

class PluginDevice : public Device {
 public:
  PluginDevice(const rvm_accelerator& table, rvm_accelerator_device* device, DeviceInfo info)
      : table_(table), device_(device), info_(std::move(info)), who_(absl::StrCat("device ", info_.id)) {}

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<Block>> Allocate(int64_t bytes) override {
    PluginMessage message;
    rvm_accelerator_block* block = nullptr;
    RVM_RETURN_IF_ERROR(message.ToStatus(table_.block_create(device_, bytes, &block, message.buffer()), who_));
    return std::make_unique<PluginBlock>(table_, block);
  }

  absl::StatusOr<std::unique_ptr<Code>> Load(std::span<const uint8_t> code,
                                             std::span<const std::string> functions) override {
    std::vector<const char*> names;
    for (const std::string& name : functions) names.push_back(name.c_str());
    PluginMessage message;
    rvm_accelerator_loaded* loaded = nullptr;
    rvm_accelerator_status status =
        table_.code_load(device_, code.data(), code.size(), names.data(), names.size(), &loaded, message.buffer());
    RVM_RETURN_IF_ERROR(message.ToStatus(status, who_));
    return std::make_unique<PluginCode>(table_, loaded);
  }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool keeps_times) override {
    PluginMessage message;
    rvm_accelerator_stream* stream = nullptr;
    RVM_RETURN_IF_ERROR(
        message.ToStatus(table_.stream_create(device_, keeps_times ? 1 : 0, &stream, message.buffer()), who_));
    return std::make_unique<PluginStream>(table_, stream, who_);
  }

 private:
  const rvm_accelerator& table_;
  rvm_accelerator_device* device_;
  DeviceInfo info_;
  std::string who_;
};

absl::StatusOr<std::vector<std::shared_ptr<Device>>> OpenDevices(const rvm_accelerator& table) {
  PluginMessage message;
  uint32_t count = 0;
  absl::Status status = message.ToStatus(table.device_count(&count, message.buffer()), "its library");
  if (!status.ok()) return absl::UnavailableError(status.message());
  if (count == 0) return absl::UnavailableError("its library finds no device");
  std::vector<std::shared_ptr<Device>> devices;
  for (uint32_t number = 0; number < count; ++number) {
    PluginMessage of_device;
    std::string id = absl::StrCat(table.kind, ":", number);
    rvm_accelerator_device* device = nullptr;
    rvm_accelerator_info info = {};
    status = of_device.ToStatus(table.device_open(number, &device, &info, of_device.buffer()), id);
    if (!status.ok()) return absl::UnavailableError(status.message());
    auto text = [](const char* given) { return std::string(given == nullptr ? "" : given); };
    devices.push_back(std::make_shared<PluginDevice>(
        table, device, DeviceInfo{id, text(info.name), table.target, text(info.features), info.memory_bytes}));
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Device>>> PluginDevices(const rvm_accelerator& table) {
  // The devices that are open, by table.
  static std::mutex mutex;
  static auto* const opened = new absl::flat_hash_map<const rvm_accelerator*, std::vector<std::shared_ptr<Device>>>();
  std::lock_guard lock(mutex);
  auto found = opened->find(&table);
  if (found != opened->end()) return found->second;
  absl::StatusOr<std::vector<std::shared_ptr<Device>>> devices = OpenDevices(table);
  if (devices.ok()) (*opened)[&table] = *devices;
  return devices;
}

}  // namespace rvm::device
