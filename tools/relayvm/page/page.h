// HTML pages that need no network: text, tables that sort and search, drawings, data for the script.
#ifndef RVM_TOOLS_RELAYVM_PAGE_PAGE_H_
#define RVM_TOOLS_RELAYVM_PAGE_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rvm::tools {

// A cell of a table: its text, and the number by which rows are sorted, if it is one.
struct Cell {
  std::string text;
  std::optional<double> number = std::nullopt;
  double bar = 0;          // from 0 to 1: a bar as long as that
  std::string style = "";  // "better", "worse"
};

Cell TextCell(std::string_view text);
Cell CountCell(int64_t count);
Cell BytesCell(int64_t bytes);
// Cells of values that are not finite are empty and are sorted as the least.
Cell TimeCell(double ns);
Cell ShareCell(double share);                        // from 0 to 1: "12.3%" and a bar
Cell RateCell(double per_second, const char* unit);  // "91.2 GFLOP/s"
// "0.85x" of a new value beside an old one, of which less is better.
Cell RatioCell(double now, double before);

class Table {
 public:
  struct Column {
    std::string name;
    bool is_number = true;
  };
  // `title` may be empty.
  Table(std::string title, std::vector<Column> columns);
  // `id`: of the row, for the script; may be empty.
  void Row(const std::vector<Cell>& cells, std::string_view id = "");
  std::string Html() const;

 private:
  std::string title_;
  std::vector<Column> columns_;
  std::string rows_;
};

class Page {
 public:
  explicit Page(std::string_view title);
  void Heading(std::string_view text);
  void Note(std::string_view text);
  void Preformatted(std::string_view text);
  // A text that is hidden until a click on `summary`.
  void Details(std::string_view summary, std::string_view text);
  void Add(const Table& table);
  // A drawing, with what stands before its root element cut off. `attributes`: of the element around it, `id="graph"`.
  void Drawing(std::string_view svg, std::string_view attributes = "");
  // The element on which the script draws the time line.
  void TimeLine();
  // Ends the page, with `json` as the data of the script.
  std::string Finish(std::string_view json);

 private:
  std::string html_;
};

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_PAGE_PAGE_H_
