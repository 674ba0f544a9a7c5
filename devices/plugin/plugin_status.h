// Statuses and messages of functions of accelerator libraries.
#ifndef RVM_DEVICES_PLUGIN_PLUGIN_STATUS_H_
#define RVM_DEVICES_PLUGIN_PLUGIN_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "include/relayvm/accelerator.h"

namespace rvm::device {

// The buffer that a function writes its message into.
class PluginMessage {
 public:
  char* buffer() { return buffer_; }

  // Returns the status of the function, whose message begins with `who`.
  absl::Status ToStatus(rvm_accelerator_status status, const std::string& who) {
    buffer_[sizeof(buffer_) - 1] = '\0';
    std::string text = absl::StrCat(who, ": ", buffer_[0] == '\0' ? "no reason is given" : buffer_);
    switch (status) {
      case RVM_ACCELERATOR_OK: return absl::OkStatus();
      case RVM_ACCELERATOR_UNSUPPORTED: return absl::UnimplementedError(buffer_);
      case RVM_ACCELERATOR_INVALID: return absl::InvalidArgumentError(text);
      case RVM_ACCELERATOR_NO_MEMORY: return absl::ResourceExhaustedError(text);
      case RVM_ACCELERATOR_FAILED: return absl::InternalError(text);
    }
    return absl::InternalError(absl::StrCat(text, " (status ", static_cast<int>(status), ")"));
  }

 private:
  char buffer_[RVM_ACCELERATOR_MESSAGE] = "";
};

}  // namespace rvm::device

#endif  // RVM_DEVICES_PLUGIN_PLUGIN_STATUS_H_
