#include "tools/lsp/server.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "tools/lsp/requests.h"

namespace rvm::tools::lsp {
namespace {

// Codes of errors, of JSON-RPC and of the protocol.
constexpr int64_t kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601, kInvalidParams = -32602;
constexpr int64_t kNotInitialized = -32002, kRequestFailed = -32803, kRequestCancelled = -32800;

constexpr std::string_view kCapabilities =
    R"({"textDocumentSync": {"openClose": true, "change": 2},
 "hoverProvider": true, "definitionProvider": true, "referencesProvider": true, "documentHighlightProvider": true,
 "documentSymbolProvider": true, "documentFormattingProvider": true, "renameProvider": {"prepareProvider": true},
 "completionProvider": {"triggerCharacters": ["%", "@", "."]},
 "signatureHelpProvider": {"triggerCharacters": ["(", ","], "retriggerCharacters": ["="]}})";

// The member `name`, and members of it for further names; null if one does not exist.
template <typename... Names>
const JsonValue* Member(const JsonValue* value, std::string_view name, Names... more) {
  const JsonValue* member = value == nullptr ? nullptr : value->Find(name);
  if constexpr (sizeof...(more) == 0) {
    return member;
  } else {
    return Member(member, more...);
  }
}

const std::string* StringOf(const JsonValue* value) { return value == nullptr ? nullptr : value->AsString(); }
const int64_t* IntOf(const JsonValue* value) { return value == nullptr ? nullptr : value->AsInt(); }
bool IsTrue(const JsonValue* value) { return value != nullptr && value->AsBool() != nullptr && *value->AsBool(); }

std::optional<Position> PositionOf(const JsonValue* value) {
  const int64_t *line = IntOf(Member(value, "line")), *character = IntOf(Member(value, "character"));
  if (line == nullptr || character == nullptr) return std::nullopt;
  return Position{*line, *character};
}

std::optional<Range> RangeOf(const JsonValue* value) {
  std::optional<Position> begin = PositionOf(Member(value, "start")), end = PositionOf(Member(value, "end"));
  if (!begin || !end) return std::nullopt;
  return Range{*begin, *end};
}

std::optional<int64_t> VersionOf(const JsonValue& params) {
  const int64_t* version = IntOf(Member(&params, "textDocument", "version"));
  return version == nullptr ? std::nullopt : std::optional<int64_t>(*version);
}

int64_t CodeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return kInvalidParams;
  return absl::IsUnimplemented(status) ? kMethodNotFound : kRequestFailed;
}

// Returns the folder of a file, "file:///home/me/model.relay"; nullopt for a text that is no file.
std::optional<std::string> FolderOf(std::string_view uri) {
  constexpr std::string_view kScheme = "file://";
  if (!uri.starts_with(kScheme)) return std::nullopt;
  std::string path;
  for (size_t i = kScheme.size(); i < uri.size(); ++i) {
    auto is_hex = [&](size_t at) {
      return at < uri.size() && absl::ascii_isxdigit(static_cast<unsigned char>(uri[at]));
    };
    if (uri[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      path.push_back(static_cast<char>(std::stoi(std::string(uri.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      path.push_back(uri[i]);
    }
  }
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

const Server::Method Server::kMethods[] = {
    {"shutdown", &Server::ShutDown},
    {"textDocument/hover", &Server::AnswerHover},
    {"textDocument/definition", &Server::AnswerDefinition},
    {"textDocument/references", &Server::AnswerReferences},
    {"textDocument/documentHighlight", &Server::AnswerHighlights},
    {"textDocument/documentSymbol", &Server::AnswerSymbols},
    {"textDocument/completion", &Server::AnswerCompletion},
    {"textDocument/signatureHelp", &Server::AnswerSignatureHelp},
    {"textDocument/formatting", &Server::AnswerFormatting},
    {"textDocument/prepareRename", &Server::AnswerPrepareRename},
    {"textDocument/rename", &Server::AnswerRename},
};

absl::Status Server::Run() {
  while (std::optional<absl::StatusOr<JsonValue>> message = inbox_.Take()) {
    if (!message->ok()) {
      SendError("null", kParseError, std::string(message->status().message()));
      continue;
    }
    const JsonValue nothing;
    const std::string* method = StringOf((*message)->Find("method"));
    const JsonValue* params = (*message)->Find("params");
    std::string id = IdOf(**message);
    // The server sends no requests, so that a message without a method is no answer to one.
    if (method == nullptr) {
      SendError("null", kInvalidRequest, "a message without a method");
    } else if (!id.empty()) {
      AnswerRequest(id, *method, params == nullptr ? nothing : *params);
    } else if (*method == "exit") {
      return phase_ == Phase::kShutDown ? absl::OkStatus()
                                        : absl::AbortedError("the client ended the server without `shutdown`");
    } else {
      HandleNotification(*method, params == nullptr ? nothing : *params);
    }
    // Changes that follow at once are read first.
    if (inbox_.IsEmpty()) PublishAll();
  }
  return absl::AbortedError("saw the end of the input; expected the notification `exit`");
}

void Server::AnswerRequest(const std::string& id, std::string_view method, const JsonValue& params) {
  if (inbox_.Finish(id)) return SendError(id, kRequestCancelled, "the request was cancelled");
  if (phase_ == Phase::kShutDown) return SendError(id, kInvalidRequest, "the server was shut down");
  bool initializes = method == "initialize";
  if (initializes != (phase_ == Phase::kNew)) {
    return initializes ? SendError(id, kInvalidRequest, "the server is initialized already")
                       : SendError(id, kNotInitialized, "the server is not initialized; expected `initialize`");
  }
  auto found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](const Method& m) { return m.name == method; });
  Result result = initializes ? Initialize(params)
                  : found != std::end(kMethods)
                      ? (this->*found->answer)(params)
                      : absl::UnimplementedError(absl::StrCat("no method `", Abseil(method), "`"));
  if (!result.ok()) return SendError(id, CodeOf(result.status()), std::string(result.status().message()));
  Send(absl::StrCat(R"({"jsonrpc": "2.0", "id": )", id, R"(, "result": )", *result, "}"));
}

void Server::HandleNotification(std::string_view method, const JsonValue& params) {
  if (phase_ != Phase::kRunning) return;
  if (method == "textDocument/didOpen") Open(params);
  if (method == "textDocument/didChange") Change(params);
  if (method == "textDocument/didClose") Close(params);
}

void Server::Open(const JsonValue& params) {
  const std::string* uri = StringOf(Member(&params, "textDocument", "uri"));
  const std::string* text = StringOf(Member(&params, "textDocument", "text"));
  if (uri == nullptr || text == nullptr) return;
  documents_.insert_or_assign(*uri, Document(*text, VersionOf(params), FolderOf(*uri)));
}

void Server::Change(const JsonValue& params) {
  absl::StatusOr<Document*> document = FindDocument(params);
  const JsonValue* changes = params.Find("contentChanges");
  if (!document.ok() || changes == nullptr || changes->AsArray() == nullptr) return;
  for (const JsonValue& change : *changes->AsArray()) {
    const std::string* text = StringOf(change.Find("text"));
    const JsonValue* range = change.Find("range");
    std::optional<Range> part = RangeOf(range);
    bool is_whole = range == nullptr || range->is_null();
    if (text != nullptr && (part || is_whole)) (*document)->Change(part, *text);
  }
  (*document)->set_version(VersionOf(params));
}

void Server::Close(const JsonValue& params) {
  const std::string* uri = StringOf(Member(&params, "textDocument", "uri"));
  if (uri == nullptr || documents_.erase(*uri) == 0) return;
  // The diagnostics of a closed text go away.
  JsonWriter out;
  out.BeginObject().Field("uri", *uri).Key("diagnostics").BeginArray().EndArray().EndObject();
  Send(absl::StrCat(R"({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": )", out.TakeText(),
                    "}"));
}

Server::Result Server::Initialize(const JsonValue& params) {
  phase_ = Phase::kRunning;
  has_related_ = IsTrue(Member(&params, "capabilities", "textDocument", "publishDiagnostics", "relatedInformation"));
  JsonWriter info;
  info.BeginObject().Field("name", "relayvm").Field("version", kVersion).EndObject();
  return absl::StrCat(R"({"capabilities": )", Abseil(kCapabilities), R"(, "serverInfo": )", info.TakeText(), "}");
}

Server::Result Server::ShutDown(const JsonValue&) {
  phase_ = Phase::kShutDown;
  return "null";
}

Server::Result Server::AnswerHover(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return Hover(place.document, place.offset);
}

Server::Result Server::AnswerDefinition(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return GoToDefinition(place.document, place.uri, place.offset);
}

Server::Result Server::AnswerReferences(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return References(place.document, place.uri, place.offset, IsTrue(Member(&params, "context", "includeDeclaration")));
}

Server::Result Server::AnswerHighlights(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return Highlights(place.document, place.offset);
}

Server::Result Server::AnswerSymbols(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Document * document, FindDocument(params));
  return DocumentSymbols(*document);
}

Server::Result Server::AnswerCompletion(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return Completions(place.document, place.offset);
}

Server::Result Server::AnswerSignatureHelp(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return SignatureHelp(place.document, place.offset);
}

Server::Result Server::AnswerFormatting(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Document * document, FindDocument(params));
  return Formatting(*document);
}

Server::Result Server::AnswerPrepareRename(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  return PrepareRename(place.document, place.offset);
}

Server::Result Server::AnswerRename(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Place place, FindPlace(params));
  const std::string* name = StringOf(params.Find("newName"));
  if (name == nullptr) return absl::InvalidArgumentError("the request has no `newName`");
  return Rename(place.document, place.uri, place.offset, *name);
}

absl::StatusOr<Document*> Server::FindDocument(const JsonValue& params) {
  const std::string* uri = StringOf(Member(&params, "textDocument", "uri"));
  if (uri == nullptr) return absl::InvalidArgumentError("the request has no `textDocument.uri`");
  auto found = documents_.find(*uri);
  if (found == documents_.end()) return absl::InvalidArgumentError(absl::StrCat("no open text is `", *uri, "`"));
  return &found->second;
}

absl::StatusOr<Server::Place> Server::FindPlace(const JsonValue& params) {
  RVM_ASSIGN_OR_RETURN(Document * document, FindDocument(params));
  std::optional<Position> position = PositionOf(params.Find("position"));
  if (!position) return absl::InvalidArgumentError("the request has no `position` with `line` and `character`");
  return Place{*document, *StringOf(Member(&params, "textDocument", "uri")), document->OffsetOf(*position)};
}

void Server::PublishAll() {
  for (auto& [uri, document] : documents_) {
    if (document.is_published) continue;
    document.is_published = true;
    Send(absl::StrCat(R"({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": )",
                      DiagnosticsOf(document, uri, has_related_), "}"));
  }
}

void Server::Send(std::string_view json) {
  output_ << "Content-Length: " << json.size() << "\r\n\r\n" << json;
  output_.flush();
}

void Server::SendError(std::string_view id, int64_t code, std::string_view message) {
  JsonWriter error;
  error.BeginObject().Field("code", code).Field("message", message).EndObject();
  Send(absl::StrCat(R"({"jsonrpc": "2.0", "id": )", Abseil(id), R"(, "error": )", error.TakeText(), "}"));
}

}  // namespace rvm::tools::lsp
