// The messages of a client, read by a thread of their own, so that requests can be cancelled while others are answered.
#ifndef RVM_TOOLS_LSP_INBOX_H_
#define RVM_TOOLS_LSP_INBOX_H_

#include <condition_variable>
#include <deque>
#include <istream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"

namespace rvm::tools::lsp {

// Reads one message with its header. kOutOfRange at the end of the input; kInvalidArgument for a header without a
// length, behind which no further message can be found; kDataLoss if the input ends within a message.
absl::StatusOr<std::string> ReadFrame(std::istream& input);

// Returns the id of a request as JSON; "" for a notification.
std::string IdOf(const JsonValue& message);

class Inbox {
 public:
  // Reads `input` up to its end or to the notification `exit`.
  explicit Inbox(std::istream& input);
  ~Inbox();

  // Waits for the next message. An error if it is no JSON; nullopt at the end of the input.
  std::optional<absl::StatusOr<JsonValue>> Take();
  bool IsEmpty();
  // Forgets the request `id`, which was answered or is about to be; returns true if the client has cancelled it.
  bool Finish(const std::string& id);

 private:
  void Read(std::istream& input);
  void Add(absl::StatusOr<JsonValue> message);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::StatusOr<JsonValue>> messages_;
  std::set<std::string> open_;       // requests that were not answered
  std::set<std::string> cancelled_;  // those of open_ that were cancelled
  bool is_at_end_ = false;
  std::thread reader_;
};

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_INBOX_H_
