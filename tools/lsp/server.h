// The language server: answers the messages of one client.
#ifndef RVM_TOOLS_LSP_SERVER_H_
#define RVM_TOOLS_LSP_SERVER_H_

#include <cstdint>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "tools/lsp/document.h"
#include "tools/lsp/inbox.h"

namespace rvm::tools::lsp {

class Server {
 public:
  Server(std::istream& input, std::ostream& output) : inbox_(input), output_(output) {}

  // Serves up to the notification `exit`. An error if the client did not ask for a shutdown before.
  absl::Status Run();

 private:
  enum class Phase : uint8_t { kNew, kRunning, kShutDown };
  // The JSON of a result.
  using Result = absl::StatusOr<std::string>;
  struct Method {
    std::string_view name;
    Result (Server::*answer)(const JsonValue& params);
  };
  struct Place {
    Document& document;
    std::string uri;
    size_t offset;
  };

  static const Method kMethods[];

  void AnswerRequest(const std::string& id, std::string_view method, const JsonValue& params);
  void HandleNotification(std::string_view method, const JsonValue& params);
  void Open(const JsonValue& params);
  void Change(const JsonValue& params);
  void Close(const JsonValue& params);

  Result Initialize(const JsonValue& params);
  Result ShutDown(const JsonValue& params);
  Result AnswerHover(const JsonValue& params);
  Result AnswerDefinition(const JsonValue& params);
  Result AnswerReferences(const JsonValue& params);
  Result AnswerHighlights(const JsonValue& params);
  Result AnswerSymbols(const JsonValue& params);
  Result AnswerCompletion(const JsonValue& params);
  Result AnswerSignatureHelp(const JsonValue& params);
  Result AnswerFormatting(const JsonValue& params);
  Result AnswerPrepareRename(const JsonValue& params);
  Result AnswerRename(const JsonValue& params);

  absl::StatusOr<Document*> FindDocument(const JsonValue& params);
  absl::StatusOr<Place> FindPlace(const JsonValue& params);
  // Sends the diagnostics of the texts that changed.
  void PublishAll();
  void Send(std::string_view json);
  void SendError(std::string_view id, int64_t code, std::string_view message);

  Inbox inbox_;
  std::ostream& output_;
  Phase phase_ = Phase::kNew;
  bool has_related_ = false;                   // the client shows related places of diagnostics
  std::map<std::string, Document> documents_;  // by URI
};

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_SERVER_H_
