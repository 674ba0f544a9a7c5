// An open text of the client, with its analysis.
#ifndef RVM_TOOLS_LSP_DOCUMENT_H_
#define RVM_TOOLS_LSP_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/json_writer.h"
#include "compiler/ir/span.h"
#include "tools/lsp/analysis.h"
#include "tools/lsp/line_index.h"

namespace rvm::tools::lsp {

struct Range {
  Position begin;
  Position end;
};

class Document {
 public:
  // `folder`: of the text's file, for its imports.
  Document(std::string text, std::optional<int64_t> version, std::optional<std::string> folder = std::nullopt);

  // Replaces the part in `range`, or the whole text.
  void Change(const std::optional<Range>& range, std::string text);
  void set_version(std::optional<int64_t> version) { version_ = version; }
  std::optional<int64_t> version() const { return version_; }
  const std::string& text() const { return text_; }
  const std::optional<std::string>& folder() const { return folder_; }

  // Analyses the text unless that was done since it changed.
  const Analysis& analysis();
  bool is_analysed() const { return analysis_ != nullptr; }
  // Whether the diagnostics of this text were sent to the client.
  bool is_published = false;

  // Offsets and spans are those of the analysis, which leaves out a byte order mark.
  size_t OffsetOf(Position position);
  Range RangeOf(size_t begin, size_t end);
  Range RangeOf(ir::Span span) { return RangeOf(span.begin, span.end); }

 private:
  const LineIndex& lines();

  std::string text_;
  std::optional<int64_t> version_;
  std::optional<std::string> folder_;
  size_t mark_size_ = 0;  // of the byte order mark
  std::optional<LineIndex> lines_;
  std::unique_ptr<const Analysis> analysis_;
};

void WritePosition(JsonWriter& out, Position position);
void WriteRange(JsonWriter& out, const Range& range);

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_DOCUMENT_H_
