#include "tools/relayvm/page/page.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/abseil.h"
#include "base/units.h"
#include "tools/markup.h"
#include "tools/relayvm/page/assets.h"

namespace rvm::tools {

Cell TextCell(std::string_view text) { return {.text = std::string(text)}; }

Cell CountCell(int64_t count) { return {.text = absl::StrCat(count), .number = static_cast<double>(count)}; }

Cell BytesCell(int64_t bytes) { return {.text = BytesText(bytes), .number = static_cast<double>(bytes)}; }

Cell TimeCell(double ns) { return {.text = std::isfinite(ns) ? DurationText(ns) : "", .number = ns}; }

Cell ShareCell(double share) {
  if (!std::isfinite(share)) return {.text = "", .number = share};
  return {.text = absl::StrFormat("%.1f%%", 100 * share), .number = share, .bar = std::clamp(share, 0.0, 1.0)};
}

Cell RateCell(double per_second, const char* unit) {
  bool is_known = std::isfinite(per_second) && per_second > 0;
  return {.text = is_known ? RateText(per_second, unit) : "", .number = per_second};
}

Cell RatioCell(double now, double before) {
  double ratio = now / before;
  if (!std::isfinite(ratio)) return {.text = "", .number = ratio};
  constexpr double kNoise = 0.03;
  std::string style = ratio > 1 + kNoise ? "worse" : ratio < 1 - kNoise ? "better" : "";
  return {.text = absl::StrFormat("%.2fx", ratio), .number = ratio, .style = std::move(style)};
}

Table::Table(std::string title, std::vector<Column> columns) : title_(std::move(title)), columns_(std::move(columns)) {}

void Table::Row(const std::vector<Cell>& cells, std::string_view id) {
  absl::StrAppend(&rows_, "<tr");
  if (!id.empty()) absl::StrAppend(&rows_, " id=\"", EscapeMarkup(id), "\"");
  absl::StrAppend(&rows_, ">");
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    absl::StrAppend(&rows_, "<td class=\"", i < columns_.size() && columns_[i].is_number ? "number" : "name",
                    cell.style.empty() ? "" : " ", cell.style, "\"");
    if (cell.number) absl::StrAppendFormat(&rows_, " data-value=\"%.9g\"", *cell.number);
    absl::StrAppend(&rows_, ">", EscapeMarkup(cell.text));
    if (cell.bar > 0) {
      absl::StrAppendFormat(&rows_, "<span class=\"bar\" style=\"width:%.0fpx\"></span>", std::ceil(100 * cell.bar));
    }
    absl::StrAppend(&rows_, "</td>");
  }
  absl::StrAppend(&rows_, "</tr>\n");
}

std::string Table::Html() const {
  std::string html = "<table class=\"sortable\">";
  if (!title_.empty()) absl::StrAppend(&html, "<caption>", EscapeMarkup(title_), "</caption>");
  absl::StrAppend(&html, "<thead><tr>");
  for (const Column& column : columns_) {
    absl::StrAppend(&html, column.is_number ? "<th class=\"number\">" : "<th>", EscapeMarkup(column.name), "</th>");
  }
  return absl::StrCat(html, "</tr></thead>\n<tbody>\n", rows_, "</tbody></table>\n");
}

Page::Page(std::string_view title) : html_(PageHead(title, PageStyle())) {}

void Page::Heading(std::string_view text) { absl::StrAppend(&html_, "<h2>", EscapeMarkup(text), "</h2>\n"); }

void Page::Note(std::string_view text) { absl::StrAppend(&html_, "<p class=\"note\">", EscapeMarkup(text), "</p>\n"); }

void Page::Preformatted(std::string_view text) { absl::StrAppend(&html_, "<pre>", EscapeMarkup(text), "</pre>\n"); }

void Page::Details(std::string_view summary, std::string_view text) {
  absl::StrAppend(&html_, "<details><summary>", EscapeMarkup(summary), "</summary>\n<pre>", EscapeMarkup(text),
                  "</pre></details>\n");
}

void Page::Add(const Table& table) { absl::StrAppend(&html_, "<div>", table.Html(), "</div>\n"); }

void Page::Drawing(std::string_view svg, std::string_view attributes) {
  size_t root = svg.find("<svg");
  if (root == std::string_view::npos) return;
  absl::StrAppend(&html_, "<div ", attributes.empty() ? "class=\"wide\"" : Abseil(attributes), ">",
                  Abseil(svg.substr(root)), "</div>\n");
}

void Page::TimeLine() {
  absl::StrAppend(
      &html_,
      "<canvas id=\"timeline\"></canvas>\n<p class=\"note\" id=\"timeline-label\">The wheel zooms, dragging "
      "moves, a double click shows all.</p>\n");
}

std::string Page::Finish(std::string_view json) {
  // The same in HTML and XML: no markup in the data, and the script between marks that are a comment to it.
  std::string data = absl::StrReplaceAll(Abseil(json), {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
  return absl::StrCat(html_, "<script type=\"application/json\" id=\"data\">", data, "</script>\n<script>//<![CDATA[\n",
                      Abseil(PageScript()), "//]]></script>\n</body>\n</html>\n");
}

}  // namespace rvm::tools
