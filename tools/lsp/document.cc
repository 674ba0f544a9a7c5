#include "tools/lsp/document.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rvm::tools::lsp {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

Document::Document(std::string text, std::optional<int64_t> version, std::optional<std::string> folder)
    : version_(version), folder_(std::move(folder)) {
  Change(std::nullopt, std::move(text));
}

void Document::Change(const std::optional<Range>& range, std::string text) {
  if (range) {
    size_t begin = lines().OffsetOf(range->begin), end = std::max(begin, lines().OffsetOf(range->end));
    text_.replace(begin, end - begin, text);
  } else {
    text_ = std::move(text);
  }
  mark_size_ = text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  lines_.reset();
  analysis_.reset();
  is_published = false;
}

const LineIndex& Document::lines() {
  if (!lines_) lines_.emplace(text_);
  return *lines_;
}

const Analysis& Document::analysis() {
  if (analysis_ == nullptr) analysis_ = std::make_unique<const Analysis>(text_, folder_);
  return *analysis_;
}

size_t Document::OffsetOf(Position position) {
  size_t offset = lines().OffsetOf(position);
  return offset - std::min(offset, mark_size_);
}

Range Document::RangeOf(size_t begin, size_t end) {
  return {lines().PositionOf(begin + mark_size_), lines().PositionOf(end + mark_size_)};
}

void WritePosition(JsonWriter& out, Position position) {
  out.BeginObject().Field("line", position.line).Field("character", position.character).EndObject();
}

void WriteRange(JsonWriter& out, const Range& range) {
  out.BeginObject().Key("start");
  WritePosition(out, range.begin);
  out.Key("end");
  WritePosition(out, range.end);
  out.EndObject();
}

}  // namespace rvm::tools::lsp
