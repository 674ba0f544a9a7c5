#include "tools/lsp/inbox.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/json_writer.h"

namespace rvm::tools::lsp {
namespace {

constexpr int64_t kMaxMessage = int64_t{1} << 30;
constexpr size_t kMaxHeader = 4096;

// Reads a line that ends with "\r\n" or "\n"; false at the end of the input or if the line is too long.
bool ReadLine(std::istream& input, std::string& line) {
  line.clear();
  for (int c = input.get(); c != std::istream::traits_type::eof(); c = input.get()) {
    if (c == '\n') {
      if (line.ends_with('\r')) line.pop_back();
      return true;
    }
    if (line.size() == kMaxHeader) return false;
    line += static_cast<char>(c);
  }
  return false;
}

std::string_view MethodOf(const JsonValue& message) {
  const JsonValue* method = message.Find("method");
  return method != nullptr && method->AsString() != nullptr ? std::string_view(*method->AsString()) : "";
}

// Returns the text of an id; "" if it is neither an integer nor a string.
std::string IdText(const JsonValue* id) {
  if (id == nullptr) return "";
  if (const int64_t* number = id->AsInt()) return absl::StrCat(*number);
  if (id->AsString() == nullptr) return "";
  std::string text = JsonWriter().String(*id->AsString()).TakeText();
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadFrame(std::istream& input) {
  int64_t length = -1;
  bool has_header = false;
  std::string line;
  while (true) {
    if (!ReadLine(input, line)) {
      if (!has_header && line.empty()) return absl::OutOfRangeError("the end of the input");
      return absl::InvalidArgumentError("a header without an end; expected `Content-Length: N` and an empty line");
    }
    if (line.empty()) break;
    has_header = true;
    constexpr std::string_view kLength = "content-length:";
    if (!absl::StartsWithIgnoreCase(line, absl::string_view(kLength.data(), kLength.size()))) continue;
    if (!absl::SimpleAtoi(absl::string_view(line).substr(kLength.size()), &length)) length = -1;
  }
  if (length < 0 || length > kMaxMessage) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header without a usable length; expected `Content-Length: N` with N up to ", kMaxMessage));
  }
  std::string text(static_cast<size_t>(length), '\0');
  input.read(text.data(), length);
  if (input.gcount() != length) return absl::DataLossError("the input ends within a message");
  return text;
}

std::string IdOf(const JsonValue& message) { return MethodOf(message).empty() ? "" : IdText(message.Find("id")); }

Inbox::Inbox(std::istream& input) : reader_([this, &input] { Read(input); }) {}

Inbox::~Inbox() { reader_.join(); }

void Inbox::Add(absl::StatusOr<JsonValue> message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (message.ok()) {
    if (std::string id = IdOf(*message); !id.empty()) open_.insert(std::move(id));
    if (MethodOf(*message) == "$/cancelRequest") {
      const JsonValue* params = message->Find("params");
      std::string id = params == nullptr ? "" : IdText(params->Find("id"));
      if (open_.contains(id)) cancelled_.insert(std::move(id));
    }
  }
  messages_.push_back(std::move(message));
  changed_.notify_one();
}

void Inbox::Read(std::istream& input) {
  while (true) {
    absl::StatusOr<std::string> text = ReadFrame(input);
    if (!text.ok()) {
      if (!absl::IsOutOfRange(text.status())) Add(text.status());
      break;
    }
    absl::StatusOr<JsonValue> message = ParseJson(*text);
    bool is_last = message.ok() && MethodOf(*message) == "exit";
    Add(std::move(message));
    if (is_last) break;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  is_at_end_ = true;
  changed_.notify_one();
}

std::optional<absl::StatusOr<JsonValue>> Inbox::Take() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !messages_.empty() || is_at_end_; });
  if (messages_.empty()) return std::nullopt;
  absl::StatusOr<JsonValue> message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

bool Inbox::IsEmpty() {
  std::lock_guard<std::mutex> lock(mutex_);
  return messages_.empty();
}

bool Inbox::Finish(const std::string& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  open_.erase(id);
  return cancelled_.erase(id) > 0;
}

}  // namespace rvm::tools::lsp
