// Renaming. A rename must not change what any name of the text refers to, which is found out by reading the changed
// text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "tools/lsp/requests.h"

namespace rvm::tools::lsp {
namespace {

using text::NameKind;
using text::NamePlace;

std::string_view TextOf(const Analysis& analysis, ir::Span span) {
  return analysis.text().substr(span.begin, span.end - span.begin);
}

// Returns the part of `span` behind the mark.
ir::Span WithoutMark(const Analysis& analysis, ir::Span span) {
  std::string_view text = TextOf(analysis, span);
  if (text.starts_with('%') || text.starts_with('@')) ++span.begin;
  return span;
}

absl::StatusOr<const NamePlace*> RenameablePlace(const Analysis& analysis, size_t offset) {
  const NamePlace* place = analysis.NameAt(offset);
  if (place == nullptr) return absl::FailedPreconditionError("there is no name here");
  if (place->kind == NameKind::kOperator) return absl::FailedPreconditionError("operators cannot be renamed");
  if (!analysis.IsHere(place->definition)) {
    return absl::FailedPreconditionError("names of the Prelude cannot be renamed");
  }
  return place;
}

bool IsName(std::string_view name, NameKind kind) {
  auto is_letter = [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  auto is_part = [&](char c) { return is_letter(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)); };
  bool is_marked = kind == NameKind::kVariable || kind == NameKind::kFunction;
  return !name.empty() && name != "_" && (is_marked || is_letter(name[0])) &&
         std::all_of(name.begin(), name.end(), is_part);
}

// For each place, in the order of the text, the index of the first place of the same name, and whether the text has
// errors: equal if each name of two texts refers to the same thing.
std::vector<size_t> Meaning(const Analysis& analysis) {
  std::vector<size_t> meaning = {static_cast<size_t>(analysis.diagnostics.errors())};
  absl::flat_hash_map<uint64_t, size_t> first;
  for (size_t i = 0; i < analysis.names.places.size(); ++i) {
    const NamePlace& place = analysis.names.places[i];
    bool is_here = analysis.IsHere(place.definition);
    uint64_t key = is_here ? place.definition.begin : (uint64_t{1} << 32) + i;  // others cannot be confused by a rename
    meaning.push_back(first.try_emplace(key, i).first->second);
  }
  return meaning;
}

}  // namespace

absl::StatusOr<std::string> PrepareRename(Document& document, size_t offset) {
  const Analysis& analysis = document.analysis();
  RVM_ASSIGN_OR_RETURN(const NamePlace* place, RenameablePlace(analysis, offset));
  ir::Span name = WithoutMark(analysis, place->span);
  JsonWriter out;
  out.BeginObject().Key("range");
  WriteRange(out, document.RangeOf(name));
  out.Field("placeholder", TextOf(analysis, name));
  return out.EndObject().TakeText();
}

absl::StatusOr<std::string> Rename(Document& document, std::string_view uri, size_t offset, std::string_view name) {
  const Analysis& analysis = document.analysis();
  RVM_ASSIGN_OR_RETURN(const NamePlace* place, RenameablePlace(analysis, offset));
  std::string_view new_name = name;
  char mark = place->kind == NameKind::kVariable ? '%' : place->kind == NameKind::kFunction ? '@' : '\0';
  if (mark != '\0' && new_name.starts_with(mark)) new_name.remove_prefix(1);
  if (!IsName(new_name, place->kind)) {
    return absl::FailedPreconditionError(
        absl::StrCat("saw `", Abseil(name), "`; expected a name of letters, digits and `_`"));
  }
  std::vector<const NamePlace*> places = analysis.PlacesOf(*place);
  std::string changed;
  size_t at = 0;
  JsonWriter out;
  out.BeginObject().Key("changes").BeginObject().Key(uri).BeginArray();
  for (const NamePlace* other : places) {
    ir::Span span = WithoutMark(analysis, other->span);
    absl::StrAppend(&changed, Abseil(analysis.text().substr(at, span.begin - at)), Abseil(new_name));
    at = span.end;
    out.BeginObject().Key("range");
    WriteRange(out, document.RangeOf(span));
    out.Field("newText", new_name).EndObject();
  }
  changed += analysis.text().substr(at);
  if (Meaning(Analysis(std::move(changed), document.folder())) != Meaning(analysis)) {
    return absl::FailedPreconditionError(
        absl::StrCat("`", Abseil(new_name), "` has another meaning at one of these places; expected an unused name"));
  }
  return out.EndArray().EndObject().EndObject().TakeText();
}

}  // namespace rvm::tools::lsp
