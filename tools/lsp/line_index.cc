#include "tools/lsp/line_index.h"

#include <algorithm>

#include "base/utf8.h"

namespace rvm::tools::lsp {
namespace {

struct Character {
  size_t bytes;
  int64_t units;
};

// Returns the first character of `text`, which is not empty.
Character FirstOf(std::string_view text) {
  size_t bytes = std::max<size_t>(Utf8CharacterSize(text), 1);
  return {bytes, bytes == 4 ? 2 : 1};
}

}  // namespace

LineIndex::LineIndex(std::string_view text) : text_(text), line_begins_{0} {
  for (size_t i = 0; i < text.size(); ++i) {
    bool is_end = text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
    if (is_end) line_begins_.push_back(i + 1);
  }
}

size_t LineIndex::OffsetOf(Position position) const {
  if (position.line < 0) return 0;
  if (position.line >= static_cast<int64_t>(line_begins_.size())) return text_.size();
  size_t at = line_begins_[static_cast<size_t>(position.line)];
  int64_t units = 0;
  while (at < text_.size() && text_[at] != '\n' && text_[at] != '\r') {
    Character next = FirstOf(text_.substr(at));
    if (units + next.units > position.character) break;
    units += next.units;
    at += next.bytes;
  }
  return at;
}

Position LineIndex::PositionOf(size_t offset) const {
  offset = std::min(offset, text_.size());
  auto behind = std::upper_bound(line_begins_.begin(), line_begins_.end(), offset);
  int64_t units = 0;
  for (size_t at = *(behind - 1); at < offset;) {
    Character next = FirstOf(text_.substr(at));
    units += next.units;
    at += next.bytes;
  }
  return {behind - line_begins_.begin() - 1, units};
}

}  // namespace rvm::tools::lsp
