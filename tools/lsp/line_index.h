// Positions of the Language Server Protocol: a line and a column in UTF-16 code units, both from 0.
#ifndef RVM_TOOLS_LSP_LINE_INDEX_H_
#define RVM_TOOLS_LSP_LINE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rvm::tools::lsp {

struct Position {
  int64_t line = 0;
  int64_t character = 0;
  bool operator==(const Position&) const = default;
};

// Converts between positions and byte offsets. Lines end with "\n", "\r\n" or "\r". A byte that is no UTF-8 counts as
// one unit.
class LineIndex {
 public:
  // `text` must outlive the index.
  explicit LineIndex(std::string_view text);

  // Returns the offset of `position`. Positions behind the end of a line or of the text are moved to that end; one
  // inside a surrogate pair is moved before it.
  size_t OffsetOf(Position position) const;
  Position PositionOf(size_t offset) const;
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  std::vector<size_t> line_begins_;
};

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_LINE_INDEX_H_
