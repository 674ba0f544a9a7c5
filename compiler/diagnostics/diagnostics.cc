#include "compiler/diagnostics/diagnostics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"

namespace rvm::diagnostics {
namespace {

struct Row {
  std::string_view name;
  std::string_view summary;
  std::string_view example;
};
constexpr std::array kRows = {
#define RVM_DIAGNOSTIC(Name, summary, ...) Row{#Name, summary, "" __VA_ARGS__},
#include "compiler/diagnostics/diagnostic_kind.def"
};
constexpr std::array kKinds = {
#define RVM_DIAGNOSTIC(Name, ...) DiagnosticKind::k##Name,
#include "compiler/diagnostics/diagnostic_kind.def"
};

const Row& RowOf(DiagnosticKind kind) { return kRows[static_cast<size_t>(kind)]; }

bool IsInsideCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }  // of UTF-8

std::string_view Abbreviate(std::string_view line) { return line.substr(0, 160); }

// The line of `span` with carets under it.
void AppendExcerpt(const SourceMap& sources, ir::Span span, std::string& out) {
  if (!span.valid() || sources.Locate(span.source, span.begin).column == 0) return;
  std::string_view text = sources.text(span.source);
  uint32_t begin = std::min<uint32_t>(span.begin, static_cast<uint32_t>(text.size()));
  size_t line_begin = begin == 0 ? std::string_view::npos : text.rfind('\n', begin - 1);
  line_begin = line_begin == std::string_view::npos ? 0 : line_begin + 1;
  size_t line_end = std::min(text.find('\n', begin), text.size());
  std::string_view line = Abbreviate(text.substr(line_begin, line_end - line_begin));
  std::string shown, carets;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    size_t offset = line_begin + i;
    bool marked = offset >= begin && (offset < span.end || offset == begin);
    if (c == '\t') {
      shown += "  ";
      carets += marked ? "^^" : "  ";
      continue;
    }
    if (c == '\r') continue;
    shown += c;
    if (IsInsideCharacter(c)) continue;
    carets += marked ? '^' : ' ';
  }
  if (begin >= line_begin + line.size()) carets += '^';
  carets.erase(carets.find_last_not_of(' ') + 1);
  absl::StrAppend(&out, "  ", shown, "\n  ", carets, "\n");
}

void AppendPlace(const SourceMap& sources, ir::Span span, std::string& out) {
  if (!span.valid()) return;
  absl::StrAppend(&out, sources.PlaceText(span), ": ");
}

}  // namespace

std::span<const DiagnosticKind> AllDiagnosticKinds() { return kKinds; }
std::string_view DiagnosticName(DiagnosticKind kind) { return RowOf(kind).name; }
std::string_view DiagnosticSummary(DiagnosticKind kind) { return RowOf(kind).summary; }
std::string_view DiagnosticExample(DiagnosticKind kind) { return RowOf(kind).example; }

std::string DiagnosticTag(DiagnosticKind kind) {
  std::string text;
  bool after_upper = true;  // "DType" is one word
  for (char c : DiagnosticName(kind)) {
    bool is_upper = absl::ascii_isupper(static_cast<unsigned char>(c));
    if (is_upper && !after_upper) text += '-';
    text += absl::ascii_tolower(static_cast<unsigned char>(c));
    after_upper = is_upper;
  }
  return text;
}

uint32_t SourceMap::Add(std::string name, std::string text) {
  // Some editors begin a file with a byte order mark.
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; text.starts_with(kMark)) text.erase(0, kMark.size());
  std::vector<uint32_t> starts = {0};
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') starts.push_back(static_cast<uint32_t>(i + 1));
  }
  sources_.push_back({std::move(name), std::move(text), std::move(starts), {}});
  return static_cast<uint32_t>(sources_.size());
}

ir::Span SourceMap::AddOrigin(std::string origin) {
  sources_.push_back({std::move(origin), "", {}, {}});
  return {static_cast<uint32_t>(sources_.size()), 0, 0};
}

void SourceMap::MarkOrigin(uint32_t source, uint32_t offset, std::string origin) {
  std::vector<Source::Mark>& marks = sources_[source - 1].marks;
  if (!marks.empty() && offset <= marks.back().offset) return;
  marks.push_back({offset, origin.empty() ? ir::Span() : AddOrigin(std::move(origin))});
}

ir::Span SourceMap::Resolve(ir::Span span) const {
  if (!span.valid()) return span;
  const std::vector<Source::Mark>& marks = sources_[span.source - 1].marks;
  auto after = std::upper_bound(marks.begin(), marks.end(), span.begin,
                                [](uint32_t offset, const Source::Mark& mark) { return offset < mark.offset; });
  return after == marks.begin() || !std::prev(after)->origin.valid() ? span : std::prev(after)->origin;
}

std::string_view SourceMap::name(uint32_t source) const { return sources_[source - 1].name; }
std::string_view SourceMap::text(uint32_t source) const { return sources_[source - 1].text; }

SourceMap::Position SourceMap::Locate(uint32_t source, uint32_t offset) const {
  const std::vector<uint32_t>& starts = sources_[source - 1].line_starts;
  if (starts.empty()) return {1, 0};
  auto it = std::upper_bound(starts.begin(), starts.end(), offset);
  uint32_t line = static_cast<uint32_t>(it - starts.begin());
  std::string_view text = sources_[source - 1].text;
  std::string_view before = text.substr(starts[line - 1], std::min<size_t>(offset, text.size()) - starts[line - 1]);
  auto characters = before.size() - static_cast<size_t>(std::count_if(before.begin(), before.end(), IsInsideCharacter));
  return {line, static_cast<uint32_t>(characters) + 1};
}

std::string SourceMap::PlaceText(ir::Span span) const {
  span = Resolve(span);
  Position at = Locate(span.source, span.begin);
  const std::string& name = sources_[span.source - 1].name;
  return at.column == 0 ? name : absl::StrCat(name, ":", at.line, ":", at.column);
}

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kRemark: return "remark";
  }
  RVM_UNREACHABLE("no such severity");
}

Diagnostic& Diagnostics::Error(ir::Span span, DiagnosticKind kind, std::string message) {
  ++errors_;
  return all_.emplace_back(Diagnostic{kind, Severity::kError, span, std::move(message), {}});
}

Diagnostic& Diagnostics::Warning(ir::Span span, DiagnosticKind kind, std::string message) {
  return all_.emplace_back(Diagnostic{kind, Severity::kWarning, span, std::move(message), {}});
}

Diagnostic* Diagnostics::Remark(ir::Span span, DiagnosticKind kind, std::string message) {
  if (!keeps_remarks_) return nullptr;
  bool is_known = std::any_of(all_.begin(), all_.end(), [&](const Diagnostic& other) {
    return other.kind == kind && other.span.source == span.source && other.span.begin == span.begin;
  });
  if (is_known) return nullptr;
  return &all_.emplace_back(Diagnostic{kind, Severity::kRemark, span, std::move(message), {}});
}

absl::Status Diagnostics::ToStatus() const {
  if (ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(errors_, errors_ == 1 ? " error" : " errors"));
}

std::string Diagnostics::Render(int max_errors) const {
  std::vector<const Diagnostic*> ordered;
  for (const Diagnostic& diagnostic : all_) ordered.push_back(&diagnostic);
  std::stable_sort(ordered.begin(), ordered.end(), [](const Diagnostic* a, const Diagnostic* b) {
    return std::pair(a->span.source, a->span.begin) < std::pair(b->span.source, b->span.begin);
  });
  std::string out;
  int shown = 0;
  for (const Diagnostic* diagnostic : ordered) {
    if (shown++ == max_errors) {
      absl::StrAppend(&out, "... and ", ordered.size() - static_cast<size_t>(max_errors), " more\n");
      break;
    }
    AppendPlace(*sources_, diagnostic->span, out);
    absl::StrAppend(&out, Abseil(SeverityName(diagnostic->severity)), ": ", diagnostic->message, " [",
                    DiagnosticTag(diagnostic->kind), "]\n");
    AppendExcerpt(*sources_, diagnostic->span, out);
    for (const Note& note : diagnostic->notes) {
      AppendPlace(*sources_, note.span, out);
      absl::StrAppend(&out, "note: ", note.message, "\n");
      AppendExcerpt(*sources_, note.span, out);
    }
  }
  return out;
}

}  // namespace rvm::diagnostics
