#include "devices/sim/sim_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "devices/sim/tile_program.h"
#include "devices/sim/tile_target.h"

namespace rvm::device {
namespace {

// State that a device and all that it made share.
struct Core {
  SimOptions options;
  DeviceInfo info;
  std::atomic<int64_t> used_bytes = 0;

  absl::Status Check(SimCall call) const { return options.fault ? options.fault(call) : absl::OkStatus(); }
  absl::Status Invalid(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("device ", info.id, " (", info.name, "): ", what));
  }
};

// Memory of the accelerator. Commands that are queued keep it.
struct Memory {
  // 0xcd, so that reading what was never written shows.
  Memory(std::shared_ptr<Core> of, std::unique_ptr<std::byte[]> elements, int64_t bytes)
      : core(std::move(of)), data(std::move(elements)), size(bytes) {
    std::memset(data.get(), 0xcd, static_cast<size_t>(size));
  }
  ~Memory() { core->used_bytes -= size; }
  std::shared_ptr<Core> core;
  std::unique_ptr<std::byte[]> data;
  int64_t size;
};

class SimBlock : public Block {
 public:
  explicit SimBlock(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  std::shared_ptr<Memory> memory_;
};

const std::shared_ptr<Memory>& MemoryOf(const Block& block) { return static_cast<const SimBlock&>(block).memory(); }

struct SimCode : Code {
  std::vector<TileProduct> products;  // by number of the function
};

// A copy to the accelerator, or a product.
struct Command {
  std::span<const std::byte> from;               // of a copy
  BoundTileProduct product;                      // null for a copy
  std::vector<std::shared_ptr<Memory>> tensors;  // of the product; of a copy, where it goes
};

double Now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Work runs on the thread of the host while it waits.
class SimStream : public Stream {
 public:
  SimStream(std::shared_ptr<Core> core, bool keeps_times) : core_(std::move(core)), keeps_times_(keeps_times) {}
  ~SimStream() override { RunFor(kForever).IgnoreError(); }

  absl::Status CopyIn(const Block& to, std::span<const std::byte> from) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kCopyIn));
    if (static_cast<int64_t>(from.size()) > MemoryOf(to)->size)
      return core_->Invalid("a copy is bigger than its block");
    queue_.push_back({from, {}, {MemoryOf(to)}});
    return absl::OkStatus();
  }

  absl::Status CopyOut(std::span<std::byte> to, const Block& from) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kCopyOut));
    RVM_RETURN_IF_ERROR(RunFor(kForever));
    if (static_cast<int64_t>(to.size()) > MemoryOf(from)->size)
      return core_->Invalid("a copy is bigger than its block");
    double began = Now();
    std::copy_n(MemoryOf(from)->data.get(), to.size(), to.begin());
    NoteTime(began);
    return absl::OkStatus();
  }

  absl::Status Launch(const Code& code, uint32_t function, std::span<const Argument> args, int64_t) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kLaunch));
    const TileProduct& product = static_cast<const SimCode&>(code).products[function];
    std::vector<int64_t> numbers;
    for (const Argument& arg : args) {
      bool is_number = arg.kind == Argument::Kind::kNumber;
      numbers.push_back(is_number ? static_cast<int64_t>(arg.number) : 0);
    }
    Command command;
    absl::StatusOr<BoundTileProduct> bound = BindTileProduct(product, numbers);
    if (!bound.ok()) return core_->Invalid(bound.status().message());
    command.product = *std::move(bound);
    if (NumTiles(command.product) > core_->options.most_tiles) {
      return core_->Invalid(absl::StrCat("`", product.name, "` has ", NumTiles(command.product),
                                         " tiles; expected at most ", core_->options.most_tiles));
    }
    for (size_t t = 0; t < product.tensors.size(); ++t) {
      size_t argument = product.tensors[t].argument;
      if (argument >= args.size() || args[argument].kind != Argument::Kind::kBlock || args[argument].block == nullptr) {
        return core_->Invalid(absl::StrCat("`", product.name, "`: argument ", argument, " is no tensor"));
      }
      if (args[argument].number != 0) {
        return core_->Invalid(absl::StrCat("`", product.name, "`: argument ", argument, " has an offset"));
      }
      const std::shared_ptr<Memory>& memory = command.tensors.emplace_back(MemoryOf(*args[argument].block));
      if (BytesOfTensor(command.product, t) > memory->size) {
        return core_->Invalid(absl::StrCat("`", product.name, "`: argument ", argument, " has ", memory->size,
                                           " bytes; expected ", BytesOfTensor(command.product, t)));
      }
    }
    if (std::find(command.tensors.begin(), command.tensors.end() - 1, command.tensors.back()) !=
        command.tensors.end() - 1) {
      return core_->Invalid(absl::StrCat("`", product.name, "` overwrites an argument"));
    }
    queue_.push_back(std::move(command));
    return absl::OkStatus();
  }

  absl::StatusOr<bool> WaitFor(std::chrono::nanoseconds time) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kWait));
    RVM_RETURN_IF_ERROR(RunFor(time));
    return queue_.empty();
  }

  absl::StatusOr<std::vector<WorkTime>> TakeTimes() override { return std::exchange(times_, {}); }

 private:
  absl::Status RunFor(std::chrono::nanoseconds time) {
    auto began = std::chrono::steady_clock::now();
    while (!queue_.empty()) {
      Command command = std::move(queue_.front());
      queue_.pop_front();
      RVM_RETURN_IF_ERROR(core_->Check(SimCall::kRun));
      double command_began = Now();
      std::vector<std::byte*> memory;
      for (const std::shared_ptr<Memory>& tensor : command.tensors) memory.push_back(tensor->data.get());
      if (command.product.product == nullptr) {
        std::copy(command.from.begin(), command.from.end(), memory[0]);
      } else {
        RunTileProduct(command.product, memory);
      }
      NoteTime(command_began);
      if (std::chrono::steady_clock::now() - began >= time) break;
    }
    return absl::OkStatus();
  }

  void NoteTime(double began) {
    if (keeps_times_) times_.push_back({began, Now()});
  }

  std::shared_ptr<Core> core_;
  bool keeps_times_;
  std::deque<Command> queue_;
  std::vector<WorkTime> times_;
};

class SimDevice : public Device {
 public:
  explicit SimDevice(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const DeviceInfo& info() const override { return core_->info; }

  absl::StatusOr<std::unique_ptr<Block>> Allocate(int64_t bytes) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kAllocate));
    int64_t used = core_->used_bytes.fetch_add(bytes);
    std::unique_ptr<std::byte[]> elements;
    if (used + bytes <= info().memory_bytes) {
      elements.reset(new (std::nothrow) std::byte[static_cast<size_t>(bytes)]);
    }
    if (elements == nullptr) {
      core_->used_bytes -= bytes;
      return absl::ResourceExhaustedError(absl::StrCat("device ", info().id, " (", info().name, ") has ",
                                                       info().memory_bytes, " bytes, of which ", used, " are in use"));
    }
    return std::make_unique<SimBlock>(std::make_shared<Memory>(core_, std::move(elements), bytes));
  }

  absl::StatusOr<std::unique_ptr<Code>> Load(std::span<const uint8_t> code,
                                             std::span<const std::string> functions) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kLoad));
    absl::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    absl::StatusOr<std::vector<TileProduct>> products = ParseTileProgram(text);
    if (!products.ok()) return core_->Invalid(products.status().message());
    auto loaded = std::make_unique<SimCode>();
    for (const std::string& name : functions) {
      auto found = std::find_if(products->begin(), products->end(), [&](const auto& p) { return p.name == name; });
      if (found == products->end()) return core_->Invalid(absl::StrCat("the code has no function `", name, "`"));
      loaded->products.push_back(*found);
    }
    return loaded;
  }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool keeps_times) override {
    RVM_RETURN_IF_ERROR(core_->Check(SimCall::kNewStream));
    return std::make_unique<SimStream>(core_, keeps_times);
  }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Device>>> SimDevices() {
  return std::vector<std::shared_ptr<Device>>{MakeSimDevice()};
}

std::shared_ptr<Device> MakeSimDevice(SimOptions options) {
  auto core = std::make_shared<Core>();
  core->info = {"sim:0", "simulated accelerator of int8 tiles", kTileTarget, "", options.memory_bytes};
  core->options = std::move(options);
  return std::make_shared<SimDevice>(std::move(core));
}

}  // namespace rvm::device
