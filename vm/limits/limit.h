// Errors that end a run beside those of the program itself: limits of the machine and failures of devices. The status
// tells them apart.
#ifndef RVM_VM_LIMITS_LIMIT_H_
#define RVM_VM_LIMITS_LIMIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rvm::vm {

enum class Limit : uint8_t { kMemory, kStack, kFuel, kTime };

// kDeadlineExceeded for kTime, otherwise kResourceExhausted. The status carries the limit, so that a caller can say how
// to change it.
absl::Status LimitReached(Limit limit, std::string_view message);
// Returns the limit that LimitReached put into `status`; nullopt for all other errors.
std::optional<Limit> ReachedLimit(const absl::Status& status);
// Marks an error as one of a device that failed or is lost.
absl::Status DeviceFailure(absl::Status status);
bool IsDeviceFailure(const absl::Status& status);

// The same error with another message.
absl::Status WithMessage(const absl::Status& status, std::string_view message);

// "64 KiB", "512 MiB", "8 GiB" if that is exact, otherwise "1000 bytes".
std::string BytesText(int64_t bytes);

}  // namespace rvm::vm

#endif  // RVM_VM_LIMITS_LIMIT_H_
