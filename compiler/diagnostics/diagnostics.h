// Diagnostics: what is wrong with a program, said to the person who wrote it.
//
// A stage emits as many as it finds and then returns one status ("3 errors").
// Wording (docs/diagnostics.md): lower case, no full stop, names and types in
// backticks, what was seen before what was expected.
#ifndef RVM_COMPILER_DIAGNOSTICS_DIAGNOSTICS_H_
#define RVM_COMPILER_DIAGNOSTICS_DIAGNOSTICS_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/span.h"

namespace rvm::diagnostics {

enum class DiagnosticKind : uint16_t {
#define RVM_DIAGNOSTIC(Name, ...) k##Name,
#include "compiler/diagnostics/diagnostic_kind.def"
};

// In the order of the table.
std::span<const DiagnosticKind> AllDiagnosticKinds();
// "an operand of another dtype than the operator takes".
std::string_view DiagnosticSummary(DiagnosticKind kind);
// Returns a program that causes it; empty where the table has none.
std::string_view DiagnosticExample(DiagnosticKind kind);
// "DTypeMismatch".
std::string_view DiagnosticName(DiagnosticKind kind);
// "dtype-mismatch", as messages end.
std::string DiagnosticTag(DiagnosticKind kind);

// A remark says what the compiler could not make faster; nothing is wrong with the program.
enum class Severity : uint8_t { kError, kWarning, kRemark };
// "error".
std::string_view SeverityName(Severity severity);

struct Note {
  ir::Span span;  // may be invalid: then only the message is shown
  std::string message;
};

struct Diagnostic {
  DiagnosticKind kind;
  Severity severity;
  ir::Span span;
  std::string message;
  std::vector<Note> notes;

  Diagnostic& AddNote(ir::Span at, std::string text) {
    notes.push_back({at, std::move(text)});
    return *this;
  }
};

// Targets of spans: texts, and origins, which are places outside of our texts.
class SourceMap {
 public:
  // Returns the id for spans (1, 2, ...). `name` is a path or "<argument>".
  uint32_t Add(std::string name, std::string text);
  // Returns the span of what an importer made from `origin`, "node `MatMul_3` of model.onnx". Messages and backtraces
  // show that in place of a line and a column.
  ir::Span AddOrigin(std::string origin);
  // Marks the text of `source` from `offset` up to the next mark as coming from `origin`; "" ends a mark. Marks are
  // made in the order of the text; one before the last is ignored, as happens if a text is read twice.
  void MarkOrigin(uint32_t source, uint32_t offset, std::string origin);
  // Returns the span of the origin that `span` is marked with; `span` itself if there is none.
  ir::Span Resolve(ir::Span span) const;
  std::string_view name(uint32_t source) const;
  std::string_view text(uint32_t source) const;
  struct Position {
    uint32_t line;    // from 1
    uint32_t column;  // from 1, in characters (UTF-8); 0 of an origin
  };
  // O(log lines), and the length of the line.
  Position Locate(uint32_t source, uint32_t offset) const;
  // "model.relay:3:7", or the origin it is from or marked with. REQUIRES: a valid span.
  std::string PlaceText(ir::Span span) const;

 private:
  struct Source {
    std::string name;
    std::string text;
    std::vector<uint32_t> line_starts;  // none: an origin
    struct Mark {
      uint32_t offset;
      ir::Span origin;  // invalid: none
    };
    std::vector<Mark> marks;  // by offset
  };
  std::deque<Source> sources_;
};

// Collects. Not thread-safe.
class Diagnostics {
 public:
  explicit Diagnostics(SourceMap* sources) : sources_(sources) {}

  // Returns the diagnostic so that notes can be added: valid until the next Emit.
  Diagnostic& Error(ir::Span span, DiagnosticKind kind, std::string message);
  Diagnostic& Warning(ir::Span span, DiagnosticKind kind, std::string message);
  // Null unless KeepRemarks was called, or if the place has a remark of this kind already.
  Diagnostic* Remark(ir::Span span, DiagnosticKind kind, std::string message);
  void KeepRemarks() { keeps_remarks_ = true; }

  int errors() const { return errors_; }
  bool ok() const { return errors_ == 0; }
  const std::vector<Diagnostic>& all() const { return all_; }
  SourceMap& sources() const { return *sources_; }
  // OK, or kInvalidArgument "3 errors".
  absl::Status ToStatus() const;

  // `model.relay:3:7: error: ... [type-mismatch]`, the source line, a caret line, notes;
  // at most `max_errors` (then a count of the rest); ordered by position within a source.
  std::string Render(int max_errors = 20) const;

 private:
  SourceMap* sources_;
  std::vector<Diagnostic> all_;
  int errors_ = 0;
  bool keeps_remarks_ = false;
};

}  // namespace rvm::diagnostics

#endif  // RVM_COMPILER_DIAGNOSTICS_DIAGNOSTICS_H_
