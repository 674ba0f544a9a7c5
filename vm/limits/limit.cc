#include "vm/limits/limit.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rvm::vm {
namespace {

constexpr absl::string_view kPayload = "relayvm.limit";
constexpr absl::string_view kDevicePayload = "relayvm.device";

absl::Cord PayloadOf(Limit limit) {
  std::string text = std::to_string(static_cast<int>(limit));
  return absl::Cord(absl::string_view(text));
}

}  // namespace

absl::Status LimitReached(Limit limit, std::string_view message) {
  absl::StatusCode code =
      limit == Limit::kTime ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kResourceExhausted;
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  status.SetPayload(kPayload, PayloadOf(limit));
  return status;
}

std::optional<Limit> ReachedLimit(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  for (Limit limit : {Limit::kMemory, Limit::kStack, Limit::kFuel, Limit::kTime}) {
    if (*payload == PayloadOf(limit)) return limit;
  }
  return std::nullopt;
}

absl::Status DeviceFailure(absl::Status status) {
  if (!status.ok()) status.SetPayload(kDevicePayload, absl::Cord());
  return status;
}

bool IsDeviceFailure(const absl::Status& status) { return status.GetPayload(kDevicePayload).has_value(); }

absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), absl::string_view(message.data(), message.size()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { result.SetPayload(type, payload); });
  return result;
}

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

}  // namespace rvm::vm
