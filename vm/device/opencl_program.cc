#include "vm/device/opencl_program.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "vm/device/binary_cache.h"

namespace rvm::device::opencl {
namespace {

constexpr char kOptions[] = "-cl-std=CL1.2";

std::string PlatformText(const Core& core, uint32_t what) {
  std::optional<Platform> platform = DeviceNumber<Platform>(*core.cl, core.device, kDevicePlatform);
  if (!platform) return "";
  return TextOf([&](size_t room, char* text, size_t* size) {
    return core.cl->GetPlatformInfo(*platform, what, room, text, size);
  });
}

BinaryCache::Key KeyOf(const Core& core, std::string_view text) {
  std::string platform = PlatformText(core, kPlatformName), platform_version = PlatformText(core, kPlatformVersion);
  std::string name = DeviceText(*core.cl, core.device, kDeviceName);
  std::string version = DeviceText(*core.cl, core.device, kDeviceVersion);
  std::string driver = DeviceText(*core.cl, core.device, kDriverVersion);
  std::string_view parts[] = {"opencl", platform, platform_version, name, version, driver, kOptions, text};
  return BinaryCache::KeyOf(parts);
}

std::string BuildLog(const Core& core, Program program) {
  constexpr size_t kShown = 4000;
  return TextOf([&](size_t room, char* text, size_t* size) {
           return core.cl->GetProgramBuildInfo(program, core.device, kProgramBuildLog, room, text, size);
         })
      .substr(0, kShown);
}

// Null if the driver does not accept the binary.
std::shared_ptr<const BuiltProgram> FromBinary(const std::shared_ptr<Core>& core, std::span<const uint8_t> binary) {
  const uint8_t* bytes = binary.data();
  size_t size = binary.size();
  Error status = 0, error = 0;
  Program program = core->cl->CreateProgramWithBinary(core->context, 1, &core->device, &size, &bytes, &status, &error);
  if (error != 0) return nullptr;
  auto built = std::make_shared<BuiltProgram>(core, program);
  if (status != 0) return nullptr;
  return core->cl->BuildProgram(program, 1, &core->device, kOptions, nullptr, nullptr) == 0 ? built : nullptr;
}

absl::StatusOr<std::shared_ptr<const BuiltProgram>> FromText(const std::shared_ptr<Core>& core, std::string_view text) {
  const char* begin = text.data();
  size_t length = text.size();
  Error error = 0;
  Program program = core->cl->CreateProgramWithSource(core->context, 1, &begin, &length, &error);
  RVM_RETURN_IF_ERROR(core->Check(error, "CreateProgramWithSource"));
  auto built = std::make_shared<const BuiltProgram>(core, program);
  error = core->cl->BuildProgram(program, 1, &core->device, kOptions, nullptr, nullptr);
  if (error == kBuildProgramFailure) {
    return absl::InvalidArgumentError(absl::StrCat("device ", core->info.id, " (", core->info.name,
                                                   ") does not accept the code for it:\n", BuildLog(*core, program)));
  }
  RVM_RETURN_IF_ERROR(core->Check(error, "BuildProgram"));
  return built;
}

// Empty if the driver has none.
std::vector<uint8_t> BinaryOf(const Core& core, Program program) {
  size_t size = 0;
  if (core.cl->GetProgramInfo(program, kProgramBinarySizes, sizeof(size), &size, nullptr) != 0) return {};
  std::vector<uint8_t> binary(size);
  uint8_t* bytes = binary.data();
  if (size == 0 || core.cl->GetProgramInfo(program, kProgramBinaries, sizeof(bytes), &bytes, nullptr) != 0) return {};
  return binary;
}

}  // namespace

absl::StatusOr<ProgramOf> BuildProgram(const std::shared_ptr<Core>& core, std::string_view text) {
  BinaryCache::Key key = KeyOf(*core, text);
  // Threads that load one executable at a time build it once.
  std::lock_guard<std::mutex> lock(core->mutex);
  std::erase_if(core->programs, [](const auto& program) { return program.second.expired(); });
  std::weak_ptr<const BuiltProgram>& known = core->programs[key];
  if (std::shared_ptr<const BuiltProgram> shared = known.lock(); shared != nullptr) return ProgramOf{shared, "shared"};
  BinaryCache cache(BinaryCache::DirectoryOf("opencl"));
  if (std::optional<std::vector<uint8_t>> binary = cache.Find(key)) {
    std::shared_ptr<const BuiltProgram> cached = FromBinary(core, *binary);
    if (cached != nullptr) {
      known = cached;
      return ProgramOf{cached, "from the cache"};
    }
  }
  RVM_ASSIGN_OR_RETURN(std::shared_ptr<const BuiltProgram> built, FromText(core, text));
  cache.Keep(key, BinaryOf(*core, built->program()));
  known = built;
  return ProgramOf{built, "compiled"};
}

}  // namespace rvm::device::opencl
